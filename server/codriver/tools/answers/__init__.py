"""Create the content of answers: text within size limits, fields that are new to the reader, and notes.

Notes describe how a REPL's code compares with its files and with other callers' code.
"""
