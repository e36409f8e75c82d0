"""Comparison of a REPL's code with its files and with what others sent, and the notes that come of it."""
