"""A capped entity store and the Datalog that queries it, without I/O."""
