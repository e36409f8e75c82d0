"""The person behind a client is asked once whether the project's own interpreter may run; only one exact word means
yes.
"""

import json
import subprocess
import sys
from pathlib import Path

import anyio
import forked
import pytest
from live_server import RELAY, WAIT_S, environ
from mcp import StdioServerParameters
from mcp.client import Client
from mcp.client.stdio import stdio_client
from mcp_types import ElicitResult
from needs import expect_clients

CLIENTS = Path(__file__).parent
SDKS = ("sdk1", "sdk2")


OWN = Path("workspace", ".venv", "bin", "python")


@pytest.fixture
def project(tmp_path):
    """Create an untrusted project whose interpreter records that it ran; return how to start its client."""
    workspace, own = tmp_path / "workspace", tmp_path / OWN
    own.parent.mkdir(parents=True)
    own.write_text(f'#!/bin/sh\ntouch {tmp_path}/ran\nexec {sys.executable} "$@"\n')
    own.chmod(0o700)
    port_file = workspace / ".calva" / "mcp-server" / "port"
    yield ["env", "CODRIVER_MCP_SOCKET_SERVER_PORT=0", sys.executable, RELAY, str(port_file), "--start"]
    forked.run(["stop", "--workspace", str(workspace)], env=environ(tmp_path), timeout=WAIT_S)


@pytest.fixture
def run_client(tmp_path, project):
    """Run a client of an SDK in such a project that gives this answer, and return what it saw."""
    env = environ(tmp_path) | {"HOME": str(tmp_path), "CODRIVER_DURATIONS": "question_s=0.3"}

    def run(sdk, how):
        python = CLIENTS / ".venv" / sdk / "bin" / "python"
        if not python.exists():
            expect_clients(f"make tests/clients/.venv/{sdk} and install tests/clients/{sdk}.txt there")
        names = ("PATH", "HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "CODRIVER_EVENT_LOOP")
        if how == "never":
            names += ("CODRIVER_DURATIONS",)
        given = [f"{name}={env[name]}" for name in names]
        command = [python, CLIENTS / "elicitation_client.py", how, "env", *given, *project[1:]]
        done = subprocess.run(
            command, cwd=tmp_path, env=env, check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=2 * WAIT_S,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        return json.loads(done.stdout)

    return run


@pytest.mark.parametrize("sdk", SDKS)
def test_only_an_exact_yes_runs_the_projects_interpreter_and_the_answer_is_not_saved(tmp_path, run_client, sdk):
    seen = run_client(sdk, "yes")
    (question,) = seen["asked"]
    assert str(tmp_path / OWN) in question["message"]
    (choice,) = question["requestedSchema"]["properties"].values()
    assert choice["enum"] == ["no", "this once"]
    assert "default" not in choice
    assert question["requestedSchema"]["required"] == ["answer"]
    assert seen["said"] == [f"the user of mcp lets {tmp_path / OWN} run here, until this server ends"]
    assert (tmp_path / "ran").exists()
    assert not list(tmp_path.glob("**/accepted.json"))


# The first generation of the SDK reads nothing more while its human thinks.
@pytest.mark.parametrize(
    ("sdk", "how"), [("sdk1", "no"), *(("sdk2", how) for how in ("cancel", "decline", "empty", "other", "never"))]
)
def test_any_answer_other_than_yes_is_treated_as_no(tmp_path, run_client, sdk, how):
    seen = run_client(sdk, how)
    assert len(seen["asked"]) == 1
    assert seen["then"] == seen["first"]
    assert seen["said"] == [f"the user of mcp does not let {tmp_path / OWN} run here"]
    assert not (tmp_path / "ran").exists()


@pytest.mark.anyio
@pytest.mark.parametrize("choice", ["this once", "no"])
async def test_without_a_handshake_the_user_is_asked_when_the_agent_restarts_the_repl(tmp_path, project, choice):
    messages = []

    async def elicit(_context, params):
        messages.append(params.message)
        return ElicitResult(action="accept", content={"answer": choice})

    where = {"code": "import sys; sys.flags.isolated", "timeoutMs": WAIT_S * 1000}
    transport = stdio_client(StdioServerParameters(command=project[0], args=project[1:], env=environ(tmp_path)))
    with anyio.fail_after(2 * WAIT_S):
        async with Client(transport, elicitation_callback=elicit) as client:
            assert (await client.call_tool("evaluate_code", where)).structured_content["result"] == "1"
            assert not messages
            for _ in range(2):
                await client.call_tool("restart_repl", {})
            after = await client.call_tool("evaluate_code", where)
    assert len(messages) == 1
    assert str(tmp_path / OWN) in messages[0]
    assert after.structured_content["result"] == ("0" if choice == "this once" else "1")
    assert (tmp_path / "ran").exists() == (choice == "this once")
