"""Serving in the worker: its start, its ops and their threads, and the streams of user code."""
