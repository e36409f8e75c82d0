"""Serving in the worker, of its own process or of a running application: start, ops, threads, streams of user code."""
