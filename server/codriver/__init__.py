"""Codriver: an MCP server that gives AI agents live REPLs, without an editor."""

__version__ = "0.1.0"
