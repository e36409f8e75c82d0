"""The network side: admission and listener, outboxes with back-pressure, and how clients find a server."""
