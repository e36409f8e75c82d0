"""Set up a workspace: recognize its project, configure MCP clients, and diagnose problems."""
