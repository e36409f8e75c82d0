"""The SDK's own server with its stdio transport, one per connection to a socket, for comparison in benchmarks.

It prints its port. Its tool `list_sessions` answers like codriver without sessions.
"""

import io
import json
import socket
import sys

import anyio
from mcp import types
from mcp.server import Server
from mcp.server.stdio import stdio_server

ANSWER = {"ok": True, "sessions": [], "count": 0}


async def list_tools(_context, _params):
    schema = {"type": "object", "properties": {}}
    return types.ListToolsResult(tools=[types.Tool(name="list_sessions", description="REPLs", input_schema=schema)])


async def call_tool(_context, _params):
    text = types.TextContent(type="text", text=json.dumps(ANSWER))
    return types.CallToolResult(content=[text], structured_content=ANSWER)


async def serve(raw):
    stdin = anyio.wrap_file(io.TextIOWrapper(raw.makefile("rb"), encoding="utf-8"))
    stdout = anyio.wrap_file(io.TextIOWrapper(raw.makefile("wb"), encoding="utf-8"))
    server = Server("peer", version="1", on_list_tools=list_tools, on_call_tool=call_tool)
    try:
        async with stdio_server(stdin, stdout) as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())
    except* OSError:
        pass  # the client hung up with an answer on its way


async def main():
    # Each connection holds a thread that waits for its next line.
    anyio.to_thread.current_default_thread_limiter().total_tokens = 400
    listener = socket.create_server(("127.0.0.1", 0))
    sys.stdout.write(f"{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    async with anyio.create_task_group() as tasks:
        while True:
            raw, _ = await anyio.to_thread.run_sync(listener.accept)
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            tasks.start_soon(serve, raw)


if __name__ == "__main__":
    anyio.run(main)
