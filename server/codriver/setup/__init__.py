"""Sets a workspace up: finds out what the project is, and writes the entry of each MCP client into its own file."""
