"""Callers' actions: submit code, load files, run tests, and edit files."""
