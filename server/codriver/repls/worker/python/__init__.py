"""Run, reload and inspect Python code: modules, names, drift, recorded calls, and answers in a kernel."""
