"""Completion, log messages and tasks, as the Python and TypeScript SDKs use them over the relay."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from live_server import RELAY, until
from mcp import StdioServerParameters
from mcp.client import Client
from mcp.client.extension import ClientExtension, ResultClaim
from mcp.client.stdio import stdio_client
from mcp_types import CallToolResult, GetTaskRequestParams, Request, Result
from needs import node

NODE = Path(__file__).parents[1] / "node"


@pytest.fixture(scope="module")
def live(live):
    with live.client() as first:
        until(lambda: "complete_symbol" in first.tools(), "the REPL")
    return live


def relay(live):
    return ["-I", "-S", RELAY, str(live.port_file)]


class CreatedTask(Result):
    result_type: Literal["task"]
    task_id: str


class CurrentTask(Result):
    status: str
    result: dict[str, Any] | None = None


class GetTask(Request[GetTaskRequestParams, Literal["tasks/get"]]):
    method: Literal["tasks/get"] = "tasks/get"
    params: GetTaskRequestParams


class Tasks(ClientExtension):
    """The tasks extension, as a host adds it to the SDK."""

    identifier = "io.modelcontextprotocol/tasks"

    def __init__(self):
        self.seen = []

    def claims(self):
        return (ResultClaim(result_type="task", model=CreatedTask, resolve=self.resolve),)

    async def resolve(self, created, context):
        while True:
            requested = GetTask(params=GetTaskRequestParams(task_id=created.task_id))
            task = await context.session.send_request(requested, CurrentTask)
            self.seen.append(task.status)
            if task.result is not None:
                return CallToolResult.model_validate(task.result)
            await anyio.sleep(0.1)


@pytest.mark.anyio
async def test_the_python_sdk_receives_log_messages_and_the_progress_of_a_task(live):
    text, tasks = [], Tasks()

    async def listen(params):
        text.append((params.level, params.data))

    transport = stdio_client(StdioServerParameters(command=sys.executable, args=relay(live)))
    with anyio.fail_after(60):
        async with Client(transport, logging_callback=listen, log_level="info", extensions=[tasks]) as client:
            code = {"code": "import time; time.sleep(2.5); 6 * 7"}
            answer = await client.call_tool("evaluate_code", code)
            assert answer.structured_content["result"] == "42"
            assert (tasks.seen[0], tasks.seen[-1]) == ("working", "completed")
            await client.call_tool("restart_repl", {})
            await client.list_prompts()
            assert [level for level, data in text if "restarting REPL py" in data] == ["info"]


def test_the_typescript_sdk_receives_log_messages_and_the_progress_of_a_task(live):
    command = [node("@modelcontextprotocol/sdk"), str(NODE / "sdk-v1-optional.mjs"), sys.executable, *relay(live)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    output = json.loads(done.stdout)
    assert set(output.pop("able")) == {"evaluate_code", "load_file", "run_tests"}
    assert output == {
        "begun": "working",
        "asked": True,
        "answer": "('Ada', '36')",
        "listed": ["completed"],
        "restart": True,
    }
