"""The contract of an adapter: its operations, values and refusals, the same for every protocol."""
