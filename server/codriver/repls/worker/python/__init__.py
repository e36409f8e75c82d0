"""Python in the worker: code and loads in modules, drift, names, recorded calls, and the answers within a kernel."""
