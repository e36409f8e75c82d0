"""Networking: the listener and admission, outboxes with back-pressure, and how clients find a server."""
