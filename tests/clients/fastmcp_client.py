"""Prints what FastMCP's client sees of the MCP server that the arguments run."""

import asyncio
import json
import sys

from fastmcp import Client
from fastmcp.client.transports import StdioTransport


async def main():
    async with Client(StdioTransport(sys.argv[1], sys.argv[2:])) as client:
        tools = await client.list_tools()
        answer = await client.call_tool("evaluate_code", {"code": "6 * 7"})
        failed = await client.call_tool("evaluate_code", {"code": "1 / 0"}, raise_on_error=False)
        skill = await client.read_resource("skill://live-repl/SKILL.md")
    seen = {
        "tools": [tool.name for tool in tools],
        "result": answer.structured_content["result"],
        "failed": failed.is_error,
        "skill": skill[0].text,
    }
    json.dump(seen, sys.stdout)


asyncio.run(main())
