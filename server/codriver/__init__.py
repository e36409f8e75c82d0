"""Codriver: a live REPL within reach of AI agents, with no editor in between."""

__version__ = "0.1.0"
