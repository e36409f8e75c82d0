"""The MCP server: usual requests of clients are answered here, and all others are passed to the SDK, in `sdk`."""
