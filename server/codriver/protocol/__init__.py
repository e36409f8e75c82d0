"""The MCP server: the everyday requests of clients are answered here, and all others go on to the SDK, in `sdk`."""
