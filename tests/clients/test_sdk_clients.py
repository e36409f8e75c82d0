"""Real MCP clients over the relay: the Python SDK in both protocol eras, and the TypeScript SDK."""

import json
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from live_server import RELAY
from mcp import StdioServerParameters
from mcp.client import Client
from mcp.client.stdio import stdio_client
from needs import node

NODE = Path(__file__).parents[1] / "node"


def relay(live):
    return ["-I", "-S", RELAY, str(live.port_file)]


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_python_sdk_can_use_tools_and_resources(live, mode):
    transport = stdio_client(StdioServerParameters(command=sys.executable, args=relay(live)))
    with anyio.fail_after(60):
        async with Client(transport, mode=mode) as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            assert names[:2] == ["evaluate_code", "load_file"]
            answer = await client.call_tool("evaluate_code", {"code": "print('hé')\n6 * 7"})
            assert (answer.structured_content["result"], answer.structured_content["stdout"]) == ("42", "hé\n")
            refused = await client.call_tool("evaluate_code", {"code": "1 / 0"})
            assert refused.is_error
            resources = [str(resource.uri) for resource in (await client.list_resources()).resources]
            assert "codriver://log" in resources
            assert "skill://live-repl/SKILL.md" in resources


@pytest.mark.parametrize("script", ["sdk-v1.mjs", "sdk-v2.mjs"])
def test_the_typescript_sdk_lists_and_calls_tools(live, script):
    command = [node("@modelcontextprotocol/sdk"), str(NODE / script), sys.executable, *relay(live)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"first": "evaluate_code", "result": "42", "isError": True}
