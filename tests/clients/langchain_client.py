"""Print what an agent gets from LangChain's tools for the MCP server that the arguments run."""

import asyncio
import json
import sys

from langchain_mcp_adapters.client import MultiServerMCPClient


async def main():
    client = MultiServerMCPClient({"codriver": {"transport": "stdio", "command": sys.argv[1], "args": sys.argv[2:]}})
    tools = {tool.name: tool for tool in await client.get_tools()}

    async def evaluate(code):
        requested = {"type": "tool_call", "id": "1", "name": "evaluate_code", "args": {"code": code}}
        return (await tools["evaluate_code"].ainvoke(requested)).content[0]["text"]

    (skill,) = await client.get_resources("codriver", uris=["skill://live-repl/SKILL.md"])
    seen = {
        "tools": list(tools),
        "result": json.loads(await evaluate("6 * 7"))["result"],
        "failed": json.loads(await evaluate("1 / 0"))["ok"] is False,
        "skill": skill.as_string(),
    }
    json.dump(seen, sys.stdout)


asyncio.run(main())
