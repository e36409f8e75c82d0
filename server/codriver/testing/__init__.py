"""Run the tests of Python projects, with a new process for each run.

`runs` defines what to run, the events during a run, and the report. `plain_process` starts a run as a new process that
looks like `python -m pytest` to the tests. The code that runs in that process is in `programs`.
"""
