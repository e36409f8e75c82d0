"""The adapter for Jupyter kernels: messages, channels, kernel, evaluator, adapter.

Nothing of `jupyter_client` or `websockets` is imported before a kernel is started, or reached by its server.
"""
