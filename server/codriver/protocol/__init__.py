"""The MCP server: what clients ask for every day is answered here, and what is left goes on to the SDK, in `sdk`."""
