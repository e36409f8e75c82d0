"""Programs of Python for hy-nrepl: mends of its server, and the names that it has no op for."""
