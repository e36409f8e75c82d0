"""Texts of answers, within their budgets and without facts that their readers know, and their notes.

A note tells how a REPL's code compares with its files, and with code of other callers.
"""
