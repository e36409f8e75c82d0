"""The foundations of the worker: connections, jobs, printing, errors, and the dialect interface."""
