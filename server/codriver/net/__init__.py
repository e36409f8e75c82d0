"""The network side: who may come in, how bytes leave, and how a server is found by its clients."""
