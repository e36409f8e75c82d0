"""Run, reload and inspect Python code: modules, names, drift, recorded calls, and requests to a kernel."""
