"""`codriver eval`, `load`, `call`, `tools`: one-shot use for scripts and CI.

Exit status: 0 ok, 1 the evaluation failed, 2 wrong usage, 3 no server, 4 timed out.
"""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

import click

from codriver import oneshot
from codriver.commands.options import json_option, workspace_option

if TYPE_CHECKING:
    from pathlib import Path

FAILED, TIMED_OUT = 1, 4

start_option = click.option("--start", is_flag=True, help="Start a server if none runs.")
session_option = click.option("--session", "-s", help="The REPL session, when there are several.")
timeout_option = click.option("--timeout", type=click.FloatRange(1, 600), default=25.0, help="Seconds to wait (25).")


@click.command("eval")
@click.argument("code")
@click.option("--namespace", "-n", help="Namespace (Python: module) to evaluate in.")
@session_option
@timeout_option
@start_option
@workspace_option
@json_option
def eval_command(  # one argument an option
    *,
    code: str,
    namespace: str | None,
    session: str | None,
    timeout: float,
    start: bool,
    workspace: Path,
    as_json: bool,
) -> None:
    """Evaluate CODE (- reads it from standard input) and print its output and its result."""
    arguments: dict[str, Any] = {
        "code": sys.stdin.read() if code == "-" else code,
        "timeoutMs": int(timeout * 1000),
        "who": "codriver-cli",
    }
    if namespace:
        arguments["namespace"] = namespace
    _evaluate("evaluate_code", arguments, session, workspace, start=start, as_json=as_json)


@click.command("load")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, resolve_path=True))
@session_option
@timeout_option
@start_option
@workspace_option
@json_option
def load_command(
    *, file: str, session: str | None, timeout: float, start: bool, workspace: Path, as_json: bool
) -> None:
    """Load FILE into the REPL."""
    arguments = {"filePath": file, "timeoutMs": int(timeout * 1000), "who": "codriver-cli"}
    _evaluate("load_file", arguments, session, workspace, start=start, as_json=as_json)


@click.command("call")
@click.argument("tool")
@click.argument("arguments", default="{}", metavar="[JSON]")
@start_option
@workspace_option
def call_command(*, tool: str, arguments: str, start: bool, workspace: Path) -> None:
    """Call TOOL with arguments as a JSON object, and print its answer as JSON."""
    try:
        given = json.loads(arguments)
    except ValueError as error:
        raise click.UsageError(f"the arguments are not JSON: {error}") from error
    if not isinstance(given, dict):
        raise click.UsageError("the arguments must be a JSON object, such as '{\"limit\": 5}'")
    with _connect(workspace.resolve(), start=start) as connection:
        answer = connection.call(tool, given)
    click.echo(json.dumps(answer, indent=2, ensure_ascii=False))
    sys.exit(0 if answer.get("ok") else FAILED)


@click.command("tools")
@start_option
@workspace_option
@json_option
def tools_command(*, start: bool, workspace: Path, as_json: bool) -> None:
    """List the tools on offer now."""
    with _connect(workspace.resolve(), start=start) as connection:
        tools = connection.request("tools/list", {})["tools"]
    if as_json:
        click.echo(json.dumps(tools, indent=2))
        return
    for tool in tools:
        click.echo(f"{tool['name']:22} {tool['description']}")


def _connect(workspace: Path, *, start: bool) -> oneshot.Connection:
    """The server of the workspace, started where there is none if `--start` or the settings say so."""
    try:
        return oneshot.connect(workspace, start=start)
    except oneshot.NoServerError:
        from codriver.settings import load  # noqa: PLC0415  # a running server is reached without it

        if start or not load(workspace, environ=os.environ).settings.auto_start_mcp_server:
            raise
    return oneshot.connect(workspace, start=True)


def _evaluate(
    tool: str, arguments: dict[str, Any], session: str | None, workspace: Path, *, start: bool, as_json: bool
) -> None:
    if session:
        arguments["replSessionKey"] = session
    with _connect(workspace.resolve(), start=start) as connection:
        answer = connection.call(tool, arguments)
    if as_json:
        click.echo(json.dumps(answer, indent=2, ensure_ascii=False))
    else:
        _print(answer)
    if answer.get("status") in ("running", "queued", "needs-input") or answer.get("reason") == "timed-out":
        sys.exit(TIMED_OUT)
    sys.exit(0 if answer.get("ok") else FAILED)


def _print(answer: dict[str, Any]) -> None:
    """Output as the program printed it, results on standard output, everything else on standard error."""
    click.echo(answer.get("stdout", ""), nl=False)
    click.echo(answer.get("stderr", ""), nl=False, err=True)
    for value in answer.get("values") or ([answer["result"]] if "result" in answer else []):
        click.echo(value)
    if answer.get("status") == "done" and answer.get("ok"):
        return
    error = answer.get("error") or {}
    if "message" in error and not answer.get("stderr"):
        click.echo(f"{error.get('class', 'error')}: {error['message']}", err=True)
    for line in [answer.get("message"), answer.get("hint"), *answer.get("notes", [])]:
        if line:
            click.echo(line, err=True)
