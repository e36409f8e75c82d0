"""The contract of an adapter: the operations, values and errors that are the same for every protocol."""
