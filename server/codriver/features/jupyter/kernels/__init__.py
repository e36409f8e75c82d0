"""The adapter for Jupyter kernels. `jupyter_adapter` combines its parts.

`messages` and `channel` define what all transports share. `connection_files`, `kernelspecs`, `workspace_kernels` and
`named_kernels` find kernels. `zmq_channel` and `server_channel` connect to them, over ZeroMQ or through a Jupyter
Server. `kernel` sends requests, `evaluator` runs code, and `kernel_introspection` answers queries.

`jupyter_client` is imported only to start or shut down a kernel, and `websockets` only to connect to a Jupyter Server.
"""
