"""The contract for adapters: the operations, values and errors that are the same for every protocol."""
