"""The adapter for Jupyter kernels; `jupyter_adapter` puts its parts together.

The parts, each of which may import the parts before it: `messages`; kernels found and named, by `connection_files`; the
channel to a kernel, over ZeroMQ or by its Jupyter Server; `kernel`, and all that runs in it; the questions to a kernel.

`jupyter_client` and `websockets` are imported only when a kernel is started, or reached by its server.
"""
