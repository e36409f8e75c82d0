"""The MCP server: the only rooms that know the SDK."""
