"""The basics of the worker: connections, jobs, printing, error reports, and the interface of a dialect."""
