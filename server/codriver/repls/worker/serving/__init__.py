"""The server of the worker, in its own process or a running application: start, ops, threads, and standard streams."""
