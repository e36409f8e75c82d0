"""REPL connections: the contract of an adapter, nREPL, discovery, supervised processes."""
