"""Actions of callers: submit code, load files, run tests, and edit files."""
