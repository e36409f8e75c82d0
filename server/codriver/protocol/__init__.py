"""The MCP server, which answers common requests itself and passes all others to the MCP SDK."""
