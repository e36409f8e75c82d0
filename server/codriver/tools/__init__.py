"""The MCP tools, with a module for each, and the parts that they share."""
