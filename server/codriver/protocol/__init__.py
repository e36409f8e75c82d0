"""The MCP server: the only room that knows the SDK."""
