"""Datalog: a capped entity store and its query language, without I/O."""
