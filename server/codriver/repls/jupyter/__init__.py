"""The adapter for Jupyter kernels: over ZMQ, and over the WebSocket of a Jupyter Server."""
