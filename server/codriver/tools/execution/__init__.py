"""Execute what callers request: submit code, load files, run tests, and edit files."""
