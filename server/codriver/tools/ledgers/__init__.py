"""Ledgers for the life of one server: the code and files that each caller sent and wrote, and its news told."""
