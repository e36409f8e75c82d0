"""Run tests of Python projects, each run in a process of its own.

`runs` defines what to run, the events during a run, and the report. `plain_process` starts a run as a new process,
which to the tests is `python -m pytest`. The code that runs in that process is in `programs`.
"""
