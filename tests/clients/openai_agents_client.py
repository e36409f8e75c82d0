"""Print what the OpenAI agents SDK makes of the MCP server that the arguments run, with tools in strict form too."""

import asyncio
import json
import sys

from agents import Agent, RunContextWrapper
from agents.mcp import MCPServerStdio, MCPUtil


async def main():
    params = {"command": sys.argv[1], "args": sys.argv[2:]}
    async with MCPServerStdio(params, cache_tools_list=True, client_session_timeout_seconds=60) as server:
        tools = await MCPUtil.get_function_tools(
            server, convert_schemas_to_strict=True, run_context=RunContextWrapper(None), agent=Agent(name="tester")
        )
        answer = await server.call_tool("evaluate_code", {"code": "6 * 7"})
        failed = await server.call_tool("evaluate_code", {"code": "1 / 0"})
        skill = await server.read_resource("skill://live-repl/SKILL.md")
    seen = {
        "tools": [tool.name for tool in tools if tool.strict_json_schema],
        "result": answer.structured_content["result"],
        "failed": failed.is_error,
        "skill": skill.contents[0].text,
    }
    json.dump(seen, sys.stdout)


asyncio.run(main())
