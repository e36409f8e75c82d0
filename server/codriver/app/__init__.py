"""The life of one server, and what it is built of."""
