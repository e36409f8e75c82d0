"""Ledgers for the life of one server: what each caller sent and wrote, and what each was told."""
