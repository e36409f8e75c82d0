"""Print what FastMCP's client sees of the MCP server that the arguments run."""

import asyncio
import json
import sys

from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from fastmcp.skills import SkillsClientExtension


async def main():
    extensions = [SkillsClientExtension()]
    async with Client(StdioTransport(sys.argv[1], sys.argv[2:]), extensions=extensions) as client:
        tools = await client.list_tools()
        answer = await client.call_tool("evaluate_code", {"code": "6 * 7"})
        failed = await client.call_tool("evaluate_code", {"code": "1 / 0"}, raise_on_error=False)
        skills = await client.list_skills()
        skill = await client.read_resource(skills[0].uri)
    seen = {
        "tools": [tool.name for tool in tools],
        "result": answer.structured_content["result"],
        "failed": failed.is_error,
        "skill": skill[0].text,
        "digests": [resource.digest for resource in skills[0].resources if resource.uri == skills[0].uri],
    }
    json.dump(seen, sys.stdout)


asyncio.run(main())
