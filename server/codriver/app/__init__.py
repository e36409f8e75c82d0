"""Start, connect and shut down the parts of a server."""
