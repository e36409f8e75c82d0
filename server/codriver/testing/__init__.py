"""Test runs of Python projects, each in a process of its own.

`runs` has the values: what to run, what happens while it runs, and the report. `plain_process` starts a run as a plain
new process, which to the tests is `python -m pytest`. The code that runs in that process is in `programs`.
"""
