"""One adapter for each agent framework: how it starts an MCP server over stdio, lists the tools and calls one.

An adapter is an asynchronous context manager that takes a command and yields an object with `list()`, which returns the
names of the tools, and `call(name, arguments)`, which returns whatever the framework passes to its agent. Each adapter
imports its framework itself, because each framework has its own environment.
"""

import asyncio
import json
import os
from contextlib import asynccontextmanager
from types import SimpleNamespace

START_S = 120
"""A framework that has a limit of its own for the start gets this one: a cold server with its REPL takes seconds."""


@asynccontextmanager
async def fastmcp(command):
    from fastmcp import Client
    from fastmcp.client.transports import StdioTransport

    transport = StdioTransport(command[0], command[1:], env=dict(os.environ))
    async with Client(transport, init_timeout=START_S) as client:

        async def listed():
            return [tool.name for tool in await client.list_tools()]

        async def call(name, arguments):
            return await client.call_tool(name, arguments, raise_on_error=False)

        yield SimpleNamespace(list=listed, call=call)


@asynccontextmanager
async def pydantic_ai(command):
    from fastmcp.client.transports import StdioTransport
    from pydantic_ai.mcp import MCPToolset

    transport = StdioTransport(command[0], command[1:], env=dict(os.environ))
    async with MCPToolset(transport, init_timeout=START_S) as server:

        async def listed():
            return [tool.name for tool in await server.list_tools()]

        async def call(name, arguments):
            return await server.direct_call_tool(name, arguments)

        yield SimpleNamespace(list=listed, call=call)


@asynccontextmanager
async def openai_agents(command):
    from agents import Agent, RunContextWrapper
    from agents.mcp import MCPServerStdio, MCPUtil

    params = {"command": command[0], "args": command[1:], "env": dict(os.environ)}
    async with MCPServerStdio(params, client_session_timeout_seconds=START_S) as server:

        async def listed():
            tools = await MCPUtil.get_function_tools(
                server, convert_schemas_to_strict=True, run_context=RunContextWrapper(None), agent=Agent(name="tester")
            )
            return [tool.name for tool in tools]

        yield SimpleNamespace(list=listed, call=server.call_tool)


@asynccontextmanager
async def langchain(command):
    from langchain_mcp_adapters.client import MultiServerMCPClient
    from langchain_mcp_adapters.tools import load_mcp_tools

    entry = {"transport": "stdio", "command": command[0], "args": command[1:], "env": dict(os.environ)}
    async with MultiServerMCPClient({"codriver": entry}).session("codriver") as session:
        tools = {tool.name: tool for tool in await load_mcp_tools(session)}

        async def listed():
            return list(tools)

        async def call(name, arguments):
            return await tools[name].ainvoke({"type": "tool_call", "id": "1", "name": name, "args": arguments})

        yield SimpleNamespace(list=listed, call=call)


@asynccontextmanager
async def smolagents(command):
    from mcp import StdioServerParameters
    from smolagents import MCPClient

    params = StdioServerParameters(command=command[0], args=command[1:], env=dict(os.environ))
    client = await asyncio.to_thread(MCPClient, params, {"connect_timeout": START_S}, structured_output=True)
    tools = {tool.name: tool for tool in client.get_tools()}

    async def listed():
        return list(tools)

    async def call(name, arguments):
        return await asyncio.to_thread(lambda: tools[name](**arguments))

    try:
        yield SimpleNamespace(list=listed, call=call)
    finally:
        client.disconnect()


@asynccontextmanager
async def agent_framework(command):
    from agent_framework import MCPStdioTool

    # By default it passes on only structuredContent, and so no images.
    message = {"tool_result_content": "content_first"}
    async with MCPStdioTool("codriver", command[0], args=command[1:], env=dict(os.environ), **message) as tool:

        async def listed():
            return [function.name for function in tool.functions]

        async def call(name, arguments):
            return await tool.call_tool(name, **arguments)

        yield SimpleNamespace(list=listed, call=call)


@asynccontextmanager
async def strands(command):
    from mcp import StdioServerParameters, stdio_client
    from strands.tools.mcp import MCPClient

    params = StdioServerParameters(command=command[0], args=command[1:], env=dict(os.environ))
    client = MCPClient(lambda: stdio_client(params), startup_timeout=START_S)
    await asyncio.to_thread(client.start)

    async def listed():
        return [tool.tool_name for tool in await asyncio.to_thread(client.list_tools_sync)]

    async def call(name, arguments):
        return await client.call_tool_async("1", name, arguments)

    try:
        yield SimpleNamespace(list=listed, call=call)
    finally:
        client.stop(None, None, None)


@asynccontextmanager
async def mcp_use(command):
    from mcp_use import MCPClient

    entry = {"command": command[0], "args": command[1:], "env": dict(os.environ)}
    client = MCPClient.from_dict({"mcpServers": {"codriver": entry}})
    session = await client.create_session("codriver")

    async def listed():
        return [tool.name for tool in await session.list_tools()]

    try:
        yield SimpleNamespace(list=listed, call=session.call_tool)
    finally:
        await client.close_all_sessions()


@asynccontextmanager
async def llama_index(command):
    from llama_index.tools.mcp import BasicMCPClient, McpToolSpec

    client = BasicMCPClient(command[0], args=command[1:], env=dict(os.environ), timeout=START_S)
    tools = {tool.metadata.name: tool for tool in await McpToolSpec(client).to_tool_list_async()}

    async def listed():
        return list(tools)

    async def call(name, arguments):
        return await tools[name].acall(**arguments)

    yield SimpleNamespace(list=listed, call=call)


@asynccontextmanager
async def autogen(command):
    from autogen_ext.tools.mcp import McpWorkbench, StdioServerParams

    params = StdioServerParams(command=command[0], args=command[1:], env=dict(os.environ), read_timeout_seconds=START_S)
    async with McpWorkbench(params) as workbench:

        async def listed():
            return [tool["name"] for tool in await workbench.list_tools()]

        yield SimpleNamespace(list=listed, call=workbench.call_tool)


@asynccontextmanager
async def agno(command):
    from agno.tools.mcp import MCPTools
    from mcp import StdioServerParameters

    params = StdioServerParameters(command=command[0], args=command[1:], env=dict(os.environ))
    async with MCPTools(server_params=params, timeout_seconds=START_S) as tools:

        async def listed():
            return list(tools.functions)

        async def call(name, arguments):
            return await tools.functions[name].entrypoint(**arguments)

        yield SimpleNamespace(list=listed, call=call)


@asynccontextmanager
async def haystack(command):
    from haystack_integrations.tools.mcp import MCPToolset, StdioServerInfo

    info = StdioServerInfo(command=command[0], args=command[1:], env=dict(os.environ))
    toolset = await asyncio.to_thread(
        lambda: MCPToolset(server_info=info, connection_timeout=START_S, invocation_timeout=START_S)
    )
    warm = getattr(toolset, "warm_up", None)
    if warm is not None:
        await asyncio.to_thread(warm)
    tools = {tool.name: tool for tool in toolset.tools}

    async def listed():
        return list(tools)

    async def call(name, arguments):
        return await asyncio.to_thread(lambda: tools[name].invoke(**arguments))

    try:
        yield SimpleNamespace(list=listed, call=call)
    finally:
        toolset.close()


@asynccontextmanager
async def dspy(command):
    from dspy import Tool
    from mcp import ClientSession, StdioServerParameters, stdio_client

    params = StdioServerParameters(command=command[0], args=command[1:], env=dict(os.environ))
    async with stdio_client(params) as (reading, writing), ClientSession(reading, writing) as session:
        await session.initialize()
        tools = {tool.name: Tool.from_mcp_tool(session, tool) for tool in (await session.list_tools()).tools}

        async def listed():
            return list(tools)

        async def call(name, arguments):
            return await tools[name].acall(**arguments)

        yield SimpleNamespace(list=listed, call=call)


@asynccontextmanager
async def google_adk(command):
    from google.adk.tools.mcp_tool import McpToolset, StdioConnectionParams
    from mcp import StdioServerParameters

    params = StdioServerParameters(command=command[0], args=command[1:], env=dict(os.environ))
    toolset = McpToolset(connection_params=StdioConnectionParams(server_params=params, timeout=START_S))
    tools = {tool.name: tool for tool in await toolset.get_tools()}

    async def listed():
        return list(tools)

    async def call(name, arguments):
        return await tools[name].run_async(args=arguments, tool_context=None)

    try:
        yield SimpleNamespace(list=listed, call=call)
    finally:
        await toolset.close()


@asynccontextmanager
async def semantic_kernel(command):
    from semantic_kernel.connectors.mcp import MCPStdioPlugin

    async with MCPStdioPlugin("codriver", command[0], args=command[1:], env=dict(os.environ)) as plugin:

        async def listed():
            return [tool.name for tool in (await plugin.session.list_tools()).tools]

        async def call(name, arguments):
            return await plugin.call_tool(name, **arguments)

        yield SimpleNamespace(list=listed, call=call)


@asynccontextmanager
async def crewai(command):
    from crewai.mcp.client import MCPClient
    from crewai.mcp.transports.stdio import StdioTransport

    transport = StdioTransport(command=command[0], args=command[1:], env=dict(os.environ))
    async with MCPClient(transport, connect_timeout=START_S, discovery_timeout=START_S) as client:

        async def listed():
            return [tool["name"] for tool in await client.list_tools()]

        yield SimpleNamespace(list=listed, call=client.call_tool)


@asynccontextmanager
async def crewai_adapter(command):
    from crewai_tools import MCPServerAdapter
    from mcp import StdioServerParameters

    params = StdioServerParameters(command=command[0], args=command[1:], env=dict(os.environ))
    adapter = await asyncio.to_thread(MCPServerAdapter, params, connect_timeout=START_S)
    tools = {tool.name: tool for tool in adapter.tools}

    async def listed():
        return list(tools)

    async def call(name, arguments):
        return await asyncio.to_thread(lambda: tools[name].run(**arguments))

    try:
        yield SimpleNamespace(list=listed, call=call)
    finally:
        adapter.stop()


def text_of(result):
    """Return everything in a result as one text, with only the beginning of each image."""
    if isinstance(result, bytes):
        import base64

        return base64.b64encode(result).decode()
    if isinstance(result, str | int | float | None):
        return str(result)
    if isinstance(result, dict):
        return " ".join(map(text_of, [*result, *result.values()]))
    if isinstance(result, list | tuple | set):
        return " ".join(map(text_of, result))
    if hasattr(result, "model_dump"):
        return text_of(result.model_dump(mode="python"))
    if type(result).__module__.startswith("PIL"):
        return "image iVBORw0KGgo"
    if hasattr(result, "__dict__") and vars(result):
        return text_of({**vars(result), "repr": repr(result)[:1000]})
    try:
        return json.dumps(result)
    except TypeError:
        return repr(result)
