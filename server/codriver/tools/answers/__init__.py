"""Content of answers: text within size limits, fields that the reader does not know yet, and notes.

Notes describe how a REPL's code compares with its files and with the code of other callers.
"""
