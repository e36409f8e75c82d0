"""The channel to a kernel over ZeroMQ: sockets, signed messages, and inboxes within bounds."""
