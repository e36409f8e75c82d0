"""`codriver demo`: a demonstration that needs no setup, in a temporary directory."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import click

from codriver.commands.terminal import Styled, echo
from codriver.errors import StartError, install_command
from codriver.files.codriver_paths import port_file
from codriver.net.relay_install import shipped_relay_directory
from codriver_relay.starter import CLIENT_PYTHONPATH_VARIABLE, server_environment

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from mcp import ClientSession

SERVER_TIMEOUT_S = 30.0
"""Maximum time for the server to start and to stop."""
EVALUATION_TIMEOUT_MS = 180_000
"""Maximum time for one evaluation. The first start of Basilisp compiles its core, about 20 s on a fast machine."""

PYTHON_CODE = "import statistics\nstatistics.mean([3, 5, 10])"
"""Python code that the demonstration evaluates."""
LISP_CODE = '(defn greet [who] (str "Hello, " who "!"))\n(map greet ["agent" "human"])'
"""Lisp code that the demonstration evaluates."""


class DemoFailedError(StartError):
    """Raised when a step of the demonstration fails."""


@click.command("demo", short_help="Demonstrate Codriver without any setup.")
def demo_command() -> None:
    """Demonstrate Codriver with a server, its REPLs, and a real MCP client that evaluates code through the relay."""
    steps = {"python": ("py", PYTHON_CODE), "lisp": ("lpy", LISP_CODE)}
    if find_spec("basilisp"):
        echo("(the first start of the Lisp compiles its core, which takes about 20 seconds)", err=True)
    else:
        del steps["lisp"]
        echo(f"(Python only: {install_command('lisp')} adds the Lisp REPL)", err=True)
    with (
        tempfile.TemporaryDirectory(prefix="codriver-demo-") as directory,
        _running_server(Path(directory), steps) as file,
    ):
        anyio.run(_evaluate_steps, file, list(steps.values()))


@contextlib.contextmanager
def _running_server(workspace: Path, repls: Iterable[str]) -> Iterator[Path]:
    """Run a server with the given REPLs while the context is active, and yield the path of its port file."""
    command = [sys.executable, "-P", "-m", "codriver", "serve", "--workspace", str(workspace), "--port", "0"]
    command += [word for repl in repls for word in ("--repl", repl)]
    echo(Styled(f"$ codriver {' '.join(command[4:])}", bold=True))
    file = port_file(workspace)
    # The server does not belong to the current directory.
    variables = {
        name: value for name, value in server_environment(str(Path.cwd())).items() if name != CLIENT_PYTHONPATH_VARIABLE
    }
    directories = {"XDG_CONFIG_HOME": str(workspace / "config"), "XDG_STATE_HOME": str(workspace / "state")}
    # The SDK warns when an unlisted tool is called, and the default toolset does not list the one for the log.
    environ = {**variables, **directories, "CODRIVER_TOOLSET": "full"}
    with subprocess.Popen(  # noqa: S603  # runs Codriver itself
        command, stdin=subprocess.DEVNULL, env=environ
    ) as process:
        try:
            deadline = time.monotonic() + SERVER_TIMEOUT_S
            while not file.exists():
                if process.poll() is not None or time.monotonic() > deadline:
                    raise DemoFailedError("the server did not start. Its output is above")
                time.sleep(0.02)
            yield file
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(SERVER_TIMEOUT_S)


async def _evaluate_steps(file: Path, steps: Sequence[tuple[str, str]]) -> None:
    """Connect a client through the relay, and evaluate the code of each step in its session.

    Raises:
        DemoFailedError: a step failed.
    """
    from mcp import ClientSession, StdioServerParameters  # noqa: PLC0415  # takes half a second to import
    from mcp.client.stdio import stdio_client  # noqa: PLC0415  # as above

    relay = ["-I", "-S", str(shipped_relay_directory() / "__main__.py"), str(file)]
    echo(Styled("$ codriver-relay <port file>    # what an MCP client starts", bold=True))
    parameters = StdioServerParameters(command=sys.executable, args=relay)
    failure: DemoFailedError | None = None
    async with stdio_client(parameters, sys.stderr) as (read, write), ClientSession(read, write) as session:
        try:
            await _show(session, steps)
        except DemoFailedError as error:
            failure = error
    # Raised outside, because the client would wrap the error in an exception group.
    if failure is not None:
        raise failure


async def _show(session: ClientSession, steps: Sequence[tuple[str, str]]) -> None:
    about = await session.initialize()
    echo(f"connected to {about.server_info.name} {about.server_info.version}")
    for key, code in steps:
        await _evaluate(session, key, code)
    answer = await _call(session, "repl_output_log", {"category": ["evaluatedCode", "evaluationResults"]})
    echo(Styled("\nthe output log, as any client can query it:", bold=True))
    who = ""
    for entry in answer["result"]:  # an entry only has its caller if it differs from the previous one
        who = entry.get("who", who)
        text = " ⏎ ".join(entry["text"].splitlines())
        echo(f"  {entry['line']:>3}  {who:10} {entry['category']:18} {text}")


async def _evaluate(session: ClientSession, key: str, code: str) -> None:
    echo(Styled(f"\nevaluate_code in {key}:", bold=True))
    echo("  " + code.replace("\n", "\n  "))
    arguments = {"code": code, "replSessionKey": key, "who": "demo", "timeoutMs": EVALUATION_TIMEOUT_MS}
    answer = await _call(session, "evaluate_code", arguments)
    if "result" not in answer:
        raise DemoFailedError(
            f"the evaluation in {key} is still {answer['status']} after {EVALUATION_TIMEOUT_MS / 1000:g} s"
        )
    echo(Styled(f"=> {answer['result']}", fg="green"))


async def _call(session: ClientSession, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    answer = await session.call_tool(tool, arguments)
    found = answer.structured_content
    if isinstance(found, dict) and found.get("ok"):
        return found
    raise DemoFailedError(f"{tool} failed: {_error_message(found)}")


def _error_message(found: object) -> str:
    """Return the message of a refusal, or of an error that the code raised."""
    given: dict[str, Any] = found if isinstance(found, dict) else {}
    if error := given.get("error"):
        return f"{error['class']}: {error['message']}"
    return "; ".join(filter(None, (given.get("message"), given.get("hint")))) or f"the server returned {found}"
