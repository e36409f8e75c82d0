"""The stdio relay: what an MCP client starts to reach a running Codriver server."""
