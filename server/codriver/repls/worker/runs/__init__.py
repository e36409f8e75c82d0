"""Runs in the worker: the calls that one made, recorded."""
