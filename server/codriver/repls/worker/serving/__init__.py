"""The worker's nREPL server, in its own process or in a running application."""
