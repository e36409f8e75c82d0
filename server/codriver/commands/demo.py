"""`codriver demo`: the main job from end to end, in a folder of its own, with nothing set up before."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import click

import codriver_relay
from codriver.commands.terminal import Styled, say
from codriver.errors import StartError
from codriver.files.paths import port_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp import ClientSession

START_S = 30.0
LISP_MS = 180_000
"""The first start of the Lisp compiles its core, which takes about 20 s on a fast machine."""

PYTHON = "import statistics\nstatistics.mean([3, 5, 10])"
LISP = '(defn greet [who] (str "Hello, " who "!"))\n(map greet ["agent" "human"])'


class DemoFailedError(StartError):
    """The demonstration did not show what it should."""


@click.command("demo", short_help="Show Codriver at work, with nothing set up.")
def demo_command() -> None:
    """Show Codriver at work: a server, two REPLs of its own, and a real MCP client that evaluates through the relay."""
    say("(the very first start of the Lisp compiles its core, which takes about 20 seconds)", err=True)
    with tempfile.TemporaryDirectory(prefix="codriver-demo-") as folder, _server(Path(folder)) as file:
        anyio.run(_play, file)


@contextlib.contextmanager
def _server(workspace: Path) -> Iterator[Path]:
    """A server with a Python and a Lisp REPL, for as long as the context lasts; its port file."""
    command = [sys.executable, "-m", "codriver", "serve", "--workspace", str(workspace), "--port", "0"]
    say(Styled(f"$ codriver {' '.join(command[3:])} --repl python --repl lisp", bold=True))
    file = port_file(workspace)
    environ = {**os.environ, "XDG_CONFIG_HOME": str(workspace / "config"), "XDG_STATE_HOME": str(workspace / "state")}
    with subprocess.Popen(  # noqa: S603  # our own interpreter with our own module
        [*command, "--repl", "python", "--repl", "lisp"], stdin=subprocess.DEVNULL, env=environ
    ) as process:
        try:
            deadline = time.monotonic() + START_S
            while not file.exists():
                if process.poll() is not None or time.monotonic() > deadline:
                    raise DemoFailedError("the server did not come up: what it printed above says why")
                time.sleep(0.02)
            yield file
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(START_S)


async def _play(file: Path) -> None:
    """Connect a client through the relay and evaluate."""
    from mcp import ClientSession, StdioServerParameters  # noqa: PLC0415  # it takes half a second to import
    from mcp.client.stdio import stdio_client  # noqa: PLC0415  # as above

    relay = ["-I", "-S", str(codriver_relay.__file__), str(file)]
    say(Styled("$ codriver-relay <port file>    # what an MCP client starts", bold=True))
    parameters = StdioServerParameters(command=sys.executable, args=relay)
    async with stdio_client(parameters) as (read, write), ClientSession(read, write) as session:
        about = await session.initialize()
        # Which tools there are shows when every REPL has come up, and the Lisp takes its time.
        say(f"connected to {about.server_info.name} {about.server_info.version}")
        await _evaluate(session, "py", PYTHON)
        await _evaluate(session, "lpy", LISP)
        answer = await _call(session, "repl_output_log", {"category": ["evaluatedCode", "evaluationResults"]})
        say(Styled("\nthe output log, as any client can query it:", bold=True))
        for entry in answer["result"]:
            text = " ⏎ ".join(entry["text"].splitlines())
            say(f"  {entry['line']:>3}  {entry.get('who', ''):10} {entry['category']:18} {text}")


async def _evaluate(session: ClientSession, key: str, code: str) -> None:
    say(Styled(f"\nevaluate_code in {key}:", bold=True))
    say("  " + code.replace("\n", "\n  "))
    arguments = {"code": code, "replSessionKey": key, "who": "demo", "timeoutMs": LISP_MS}
    answer = await _call(session, "evaluate_code", arguments)
    say(Styled(f"=> {answer['result']}", fg="green"))


async def _call(session: ClientSession, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    answer = await session.call_tool(tool, arguments)
    found = answer.structured_content
    if not isinstance(found, dict) or not found.get("ok"):
        raise DemoFailedError(f"{tool} answered {found}")
    return found
