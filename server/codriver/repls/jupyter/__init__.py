"""The adapter for Jupyter kernels, whose parts are put together by `jupyter_adapter`.

The parts, of which each may import from those before it: `messages`; kernels found and named, by `connection_files`;
the channel to a kernel, over ZeroMQ or by its Jupyter Server; `kernel`, and all that runs in it; the questions to it.

Nothing of `jupyter_client` or `websockets` is imported before a kernel is started, or reached by its server.
"""
