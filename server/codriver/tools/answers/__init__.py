"""Texts of answers, within their budgets and without what their readers know, and the notes that come with them.

A note tells how a REPL's code compares with its files, and with what other callers sent.
"""
