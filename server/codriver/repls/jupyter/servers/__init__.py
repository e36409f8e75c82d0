"""The channel to a kernel of a Jupyter Server: its REST calls, its WebSocket and frames."""
