"""Datalog without I/O: a store of entities with limited size, and a query language for it."""
