"""The MCP server: the only room that knows the SDK."""

from codriver.protocol.deferred_packages import defer

defer("mcp", "mcp.server")
