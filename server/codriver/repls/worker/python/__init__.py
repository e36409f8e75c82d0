"""The Python dialect of the worker, which runs, reloads and inspects Python code."""
