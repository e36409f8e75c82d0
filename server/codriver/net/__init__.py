"""Networking: the listener, admission of connections, queues of outgoing messages, and how clients find a server."""
