"""The MCP tools: one manifest, one gate, one file a tool family."""
