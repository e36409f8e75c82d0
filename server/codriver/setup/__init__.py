"""The setup of a workspace: recognizing its project, configuring MCP clients, and checking the result."""
