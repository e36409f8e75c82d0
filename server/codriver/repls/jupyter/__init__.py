"""The adapter for Jupyter kernels: messages, channels, kernel, evaluator, adapter.

Nothing of `jupyter_client`, `zmq` or `websockets` is imported before a kernel is connected to.
"""
