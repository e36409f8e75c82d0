"""The adapter for Jupyter kernels, whose parts are put together by the modules at the door.

The parts, of which each may import from those before it: `messages`, `finding`, `zeromq`, `servers`, `running`,
`questions`.

Nothing of `jupyter_client` or `websockets` is imported before a kernel is started, or reached by its server.
"""
