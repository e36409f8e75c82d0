"""The worker's nREPL server, in a process of its own or in a running application."""
