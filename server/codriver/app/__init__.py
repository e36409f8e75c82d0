"""The lifecycle of one server, and the wiring of its parts."""
