"""The life of one server, and the parts that it is built of."""
