"""Set-up of a workspace: recognises the project, and writes the entry of each MCP client into the client's own file."""
