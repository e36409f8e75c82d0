"""Python in the worker: code and loads in modules, drift, names, and the answers within a kernel."""
