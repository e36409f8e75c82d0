"""Run tests of Python projects, each run in a new process.

`runs` defines what to run, the events during a run, and the report. `plain_process` starts a run as a new process that
looks like `python -m pytest` to the tests. The code that runs in that process is in `programs`.
"""
