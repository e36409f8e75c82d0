"""Setup of a workspace: recognizing its project, configuring MCP clients, and diagnosing problems."""
