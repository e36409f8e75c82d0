"""`codriver eval`, `load`, `call`, `tools` and `drift`: single calls for scripts and CI.

Exit status: 0 success, 1 the evaluation failed, 2 wrong usage (including an unknown tool or wrong arguments), 3 no
server, 4 timed out, 6 no REPL, 7 the workspace is not accepted. `codriver test` also uses 5 for no tests. For `drift`,
0 means that the loaded code equals the files, and 1 that it differs or cannot be compared.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path  # for the annotation alone, and loaded already
from typing import TYPE_CHECKING, Any

import click

from codriver.commands.followed_calls import UNANSWERED_INPUT_STATUS, FollowedEvaluation
from codriver.commands.options import (
    IMAGE_MARK_PREFIX,
    Number,
    WholeNumberRange,
    complete_session,
    complete_tool,
    json_option,
    quiet_option,
    workspace_option,
)
from codriver.commands.terminal import (
    UNFINISHED_STATUSES,
    convert_field_errors,
    echo,
    echo_json,
    terminal_columns,
    waiting_line,
)
from codriver.errors import CodriverError
from codriver.log.control_characters import escape_controls, escape_to_one_line
from codriver.net import client

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


FAILED, WRONG_USAGE, TIMED_OUT, NO_TESTS, NO_REPL, NOT_ACCEPTED = 1, 2, 4, 5, 6, 7
"""Exit statuses of the commands that call tools."""
REPL_DEPENDENT_REASONS = frozenset({"capability-missing", "no-repl"})
"""Reasons for refusals that may no longer apply once another REPL is connected."""
STATUS_BY_REASON = {"no-repl": NO_REPL, "no-tests": NO_TESTS, "not-accepted": NOT_ACCEPTED}
"""Exit statuses for reasons of refusals."""
HINTS_BY_REASON = {
    "no-tests": "pass a file, folder, module or namespace that contains tests, as in `codriver test tests`. In a "
    "Lisp, load the file first with `codriver load FILE`",
    "unknown-namespace": "correct the name, or load the file that defines it with `codriver load FILE`",
    "no-repl": "`codriver status` shows the state of the REPLs, and `codriver doctor` suggests how to start one",
}
"""Hints by the reason of a refusal. They name commands, whereas the server's hints name tools for agents."""
RUNNING_MESSAGE = "the evaluation is running. Press Ctrl-C to interrupt it"
STARTING_PHASES = frozenset({"starting", "connecting"})
"""The phases of a REPL during which an evaluation waits for it to connect."""
UNFINISHED_TOOLS = ("get_evaluation", "send_input", "interrupt_evaluation")
"""Tools that the server mentions in notes about an unfinished evaluation.

The command replaces these notes with notes that mention commands.
"""

start_option = click.option("--start", is_flag=True, help="Start a server if none is running.")
session_option = click.option(
    "--session",
    "-s",
    metavar="KEY",
    shell_complete=complete_session,
    help="The REPL session to use if there are several. `codriver status` lists them.",
)
length_option = click.option(
    "--max-length",
    type=WholeNumberRange(1, 100_000),
    metavar="COUNT",
    help="Maximum number of elements to print per collection. Default: no limit, or 100000 in a Lisp.",
)
quiet = quiet_option("Print only the output and the values.")
timeout_option = click.option(
    "--timeout",
    type=Number(1, 600),
    default=25.0,
    metavar="SECONDS",
    help="How long to wait for the result, from 1 to 600 (default: 25). The evaluation continues after that.",
)

EXIT_STATUS_HELP = (
    "Exit status: 0 ok, 1 failed, 2 wrong usage, 3 no server, 4 timed out, 5 no tests, 6 no REPL, "
    "7 the workspace is not accepted."
)


@click.command("eval", short_help="Evaluate CODE and print its output and result.", epilog=EXIT_STATUS_HELP)
@click.argument("code")
@click.option("--namespace", "-n", help="The namespace (in Python, the module) to evaluate in.")
@session_option
@length_option
@timeout_option
@start_option
@workspace_option
@quiet
@json_option
def eval_command(  # noqa: PLR0913  # one parameter per option
    *,
    code: str,
    namespace: str | None,
    session: str | None,
    max_length: int | None,
    timeout: float,
    start: bool,
    workspace: Path,
    is_quiet: bool,
    as_json: bool,
) -> None:
    """Evaluate CODE in the running REPL and print its output and its result.

    If CODE is -, the code is read from standard input. Its output is written to standard output and standard error as
    it is produced, followed by the value of each top-level form.
    """
    arguments: dict[str, Any] = {
        "code": sys.stdin.read() if code == "-" else code,
        "timeoutMs": int(timeout * 1000),
        "who": "codriver-cli",
        "maxImages": 0,
    }
    if namespace:
        arguments["namespace"] = namespace
    if max_length:
        arguments["maxLength"] = max_length
    _evaluate("evaluate_code", arguments, session, workspace, start=start, as_json=as_json, is_quiet=is_quiet)


@click.command("load", short_help="Load FILE into the REPL.", epilog=EXIT_STATUS_HELP)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, resolve_path=True))
@session_option
@length_option
@timeout_option
@start_option
@workspace_option
@quiet
@json_option
def load_command(  # one parameter per option
    *,
    file: str,
    session: str | None,
    max_length: int | None,
    timeout: float,
    start: bool,
    workspace: Path,
    is_quiet: bool,
    as_json: bool,
) -> None:
    """Load FILE into the REPL, so that its definitions take effect."""
    arguments: dict[str, Any] = {"filePath": file, "timeoutMs": int(timeout * 1000), "who": "codriver-cli"}
    if max_length:
        arguments["maxLength"] = max_length
    _evaluate("load_file", arguments, session, workspace, start=start, as_json=as_json, is_quiet=is_quiet)


@click.command("call", short_help="Call a tool as an agent would.", epilog=EXIT_STATUS_HELP)
@click.argument("tool", shell_complete=complete_tool)
@click.argument("arguments", default="{}", metavar="[JSON]")
@start_option
@workspace_option
@click.option("--json", "as_json", is_flag=True, help="Print the answer on one line.")
def call_command(*, tool: str, arguments: str, start: bool, workspace: Path, as_json: bool) -> None:
    """Call TOOL as an agent would, with its arguments as a JSON object, and print its answer as JSON.

    If JSON is -, the arguments are read from standard input. `codriver tools --json` shows every tool with its
    arguments.
    """
    given = read_arguments(arguments)
    with connect_to_server(workspace.resolve(), start=start) as connection:
        answer = call_tool(connection, tool, given, as_json=as_json)
    sys.exit(exit_status(answer))


def read_arguments(text: str) -> dict[str, Any]:
    """Parse a JSON object. If `text` is `-`, it is read from standard input.

    Raises:
        click.UsageError: the text is not a JSON object.
    """
    try:
        given = json.loads(sys.stdin.read() if text == "-" else text)
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"the arguments are not valid JSON: {error}") from error
    if not isinstance(given, dict):
        raise click.UsageError("the arguments must be a JSON object, such as '{\"limit\": 5}'")
    return given


def call_tool(connection: client.Connection, tool: str, given: dict[str, Any], *, as_json: bool) -> dict[str, Any]:
    """Call a tool, print its answer, and return it.

    Raises:
        click.UsageError: there is no such tool.
    """
    try:
        answer, images = connection.call_with_images(tool, given)
    except client.CallError as error:
        if not error.is_refusal:
            raise
        raise click.UsageError(f"{error}. `codriver tools --json` shows every tool with its arguments") from error
    echo_json(answer, indent=None if as_json else 2)
    _print_image_commands(images, str(answer.get("evaluationId") or ""))
    return answer


@click.command("tools")
@start_option
@workspace_option
@json_option
def tools_command(*, start: bool, workspace: Path, as_json: bool) -> None:
    """List the tools that are currently available."""
    with connect_to_server(workspace.resolve(), start=start) as connection:
        answer = connection.request("tools/list", {})
    with convert_field_errors("tools/list"):
        tools = answer["tools"]
        described = [(f"{escape_to_one_line(tool['name']):22} ", str(tool["description"])) for tool in tools]
    if as_json:
        echo_json(tools, indent=2)
        return
    for indent, text in described:
        if sys.stdout.isatty():
            echo(click.wrap_text(escape_controls(text), terminal_columns(), indent, " " * len(indent)))
        else:  # one line per tool, for grep
            echo(indent + text)


def connect_to_server(workspace: Path, *, start: bool) -> client.Connection:
    """Connect to the server of a workspace.

    If none is running, one is started if `start` is true or the settings allow it.
    """
    try:
        with waiting_line(lambda: f"starting a server for {workspace}" if start else ""):
            return client.connect(workspace, start=start)
    except client.NoServerError:
        from codriver.app.workspace_settings import load_workspace_settings  # noqa: PLC0415  # not needed if a server is running

        if start or not load_workspace_settings(workspace, environ=os.environ).settings.auto_start_mcp_server:
            raise
    with waiting_line(lambda: f"starting a server for {workspace}"):
        return client.connect(workspace, start=True, is_explicit=False)


def _evaluate(
    tool: str,
    arguments: dict[str, Any],
    session: str | None,
    workspace: Path,
    *,
    start: bool,
    as_json: bool,
    is_quiet: bool,
) -> None:
    if session:
        arguments["replSessionKey"] = session
    connection_in_use, first = click.get_current_context().obj or (None, None)
    if isinstance(first, BaseException):
        raise first
    with connection_in_use or connect_to_server(workspace.resolve(), start=start) as connection:
        printed = {"stdout": 0, "stderr": 0}
        answer = _answer(connection, tool, arguments, workspace.resolve(), printed if not as_json else None, first)
        if answer.get("reason") in REPL_DEPENDENT_REASONS or _never_had_repl(answer):
            answer = explain_missing_repl(answer, list_repls(connection), workspace.resolve())
        if as_json:
            echo_json(answer, indent=2)
        else:
            _print(answer, workspace, printed, is_quiet=is_quiet)
    sys.exit(exit_status(answer))


def _answer(
    connection: client.Connection,
    tool: str,
    arguments: dict[str, Any],
    workspace: Path,
    printed: dict[str, int] | None,
    first: dict[str, Any] | None,
) -> dict[str, Any]:
    """Call a tool that evaluates, and return its answer.

    If `printed` is given, output is printed as it is received, and `printed` counts the printed characters by stream.
    `first` is the answer to a call that was made earlier.
    """
    with waiting_line(lambda: describe_starting_repls(workspace) or RUNNING_MESSAGE) as waiting:
        if printed is None:
            return connection.call(tool, arguments)
        timeout_s = arguments["timeoutMs"] / 1000
        running = FollowedEvaluation(connection, timeout_s, lambda: repl_phases(connection), waiting, printed)
        return running.await_answer(tool, arguments, first)


def list_repls(connection: client.Connection) -> list[dict[str, Any]]:
    """Return the server's description of each REPL that it knows, including those that are not connected."""
    with convert_field_errors("server_health"):
        return [{"phase": row["phase"], **row} for row in connection.call("server_health", {})["repls"]]


def no_repl_message(workspace: Path) -> str:
    """Explain that no REPL is running in a workspace, and how to start one for its project."""
    from codriver.app.workspace_settings import load_workspace_settings  # noqa: PLC0415  # only needed here
    from codriver.repls.launch.projects import find_projects  # noqa: PLC0415  # as above
    from codriver.settings.layers import SettingsError  # noqa: PLC0415  # as above

    try:
        configured = load_workspace_settings(workspace, environ=os.environ).settings.repl
    except SettingsError:  # reported by `codriver config check`
        configured = ()
    project = next(iter(find_projects(workspace)), None)
    why = "no REPL is connected, because none is running in this workspace. The server starts one on its own only for"
    found = "start an nREPL in the workspace, which the server finds within a second"
    if configured and "none" not in configured:
        why = f"no REPL is connected. repl = {list(configured)} is started together with the server, and only if no"
        return f"{why} nREPL is running then. Run `codriver stop`, so that the next server starts it, or {found}"
    if project is None:
        named = "Put repl = ['python'] (or 'lisp', 'clojure', …) in codriver.toml"
        return f"{why} Python, Basilisp, or a directory without sources in another language. {named}, or {found}"
    named = f"Run `codriver init`, which writes repl = ['{project.repl}'] to codriver.toml"
    return f"{why} Python and Basilisp projects. This is {project.kind} ({project.evidence}). {named}, or {found}"


def _never_had_repl(answer: dict[str, Any]) -> bool:
    """Return whether an evaluation waited for a REPL that could not be started, so that its code was never sent."""
    return answer.get("reason") == "repl-disconnected" and answer.get("generation") == 0


def explain_missing_repl(answer: dict[str, Any], repls: list[dict[str, Any]], workspace: Path) -> dict[str, Any]:
    """Adapt a refusal for lack of a REPL to the command line, with a message about what is missing.

    This may be the user's acceptance of the workspace. If a REPL is connected, the answer is returned unchanged.
    """
    waiting = [row for row in repls if row.get("awaitsAcceptance")]
    others = {key: value for key, value in answer.items() if key != "error"}
    if any(row["phase"] == "stopped" or answer.get("capability") == "test" for row in waiting):
        return {**others, "reason": "not-accepted", "message": _not_accepted(workspace), "hint": ""}
    if any(row["phase"] == "connected" for row in repls):
        return answer
    gone = "; ".join(f"{row['key']}: {row.get('note') or row['phase']}" for row in repls)
    message = f"no REPL is connected: {gone}" if repls else no_repl_message(workspace)
    return {**others, "reason": "no-repl", "message": message, "hint": HINTS_BY_REASON["no-repl"] if repls else ""}


def _not_accepted(workspace: Path) -> str:
    from codriver.settings import acceptance_records  # noqa: PLC0415  # only needed here

    lapsed = acceptance_records.environment_acceptance(workspace).lapsed
    why = "you have not accepted this workspace" if lapsed is None else f"your acceptance has lapsed ({lapsed})"
    command = acceptance_records.accept_command(workspace)
    return (
        f"nothing was run, because {why} and the command would run the project's code. Review the project, then run "
        f"`{command}`"
    )


def repl_phases(connection: client.Connection) -> dict[str, bool]:
    """Return, for each phase that a REPL is in, whether a REPL in this phase has a note with the reason."""
    found: dict[str, bool] = {}
    for row in list_repls(connection):
        found[row["phase"]] = found.get(row["phase"], False) or bool(row.get("note"))
    return found


def exit_status(answer: dict[str, Any]) -> int:
    """Return the exit status of the command for an answer."""
    if answer.get("status") in {*UNFINISHED_STATUSES, UNANSWERED_INPUT_STATUS} or answer.get("reason") == "timed-out":
        return TIMED_OUT
    if answer.get("reason") == "bad-arguments":
        return WRONG_USAGE
    if answer.get("reason") in STATUS_BY_REASON:
        return STATUS_BY_REASON[answer["reason"]]
    return 0 if answer.get("ok") else FAILED


def describe_starting_repls(workspace: Path) -> str:
    """Describe the progress of REPLs that are starting. Return an empty string if there are none."""
    try:
        with client.connect(workspace, name="codriver-progress") as connection, convert_field_errors("server_health"):
            rows = connection.call("server_health", {})["repls"]
            coming = [
                f"{row['key']}: {row.get('note') or row['phase']}" for row in rows if row["phase"] in STARTING_PHASES
            ]
    except (CodriverError, OSError):
        return ""
    return escape_to_one_line(f"waiting for the REPL {'; '.join(coming)}") if coming else ""


def _print(answer: dict[str, Any], workspace: Path, printed: dict[str, int], *, is_quiet: bool = False) -> None:
    """Print output and results as the evaluated program would, and everything else to standard error.

    `printed` contains the number of characters of each stream that were already printed.
    """
    with convert_field_errors("the evaluation"):
        values = [str(value) for value in answer.get("values") or ([answer["result"]] if "result" in answer else [])]
        values = [_with_image_commands(value, answer) for value in values]
        is_done = answer.get("status") == "done" and answer.get("ok")
        is_on = answer.get("status") in {*UNFINISHED_STATUSES, UNANSWERED_INPUT_STATUS}
        lines = _unfinished_notes(answer, workspace) if is_on else explain_missing_result(answer)
        words = list(() if is_quiet and is_done else _finished_notes(answer) if is_done else lines)
        if not (words or is_done or answer.get("stderr")):
            raise ValueError("the answer contains neither a result nor a reason for its absence")
    echo(str(answer.get("stdout", ""))[printed["stdout"] :], end="")
    echo(str(answer.get("stderr", ""))[printed["stderr"] :], end="", err=True)
    for value in values:
        if value != "None":  # Python's own prompt leaves None out, too
            echo(value)
    for line in words:
        echo(line, err=True, hang=2)


def _with_image_commands(value: str, answer: dict[str, Any]) -> str:
    """Replace the image markers in a value with commands that save the images."""
    if IMAGE_MARK_PREFIX not in value:
        return value
    from codriver.core.images import replace_marks  # noqa: PLC0415  # rarely needed

    return replace_marks(value, lambda facts: f"<<{facts.description}: codriver image {answer['evaluationId']}>>")


def _print_image_commands(images: Sequence[tuple[str, str]], evaluation: str) -> None:
    """Print a line for each image in an answer, with the command that saves it."""
    if not images:
        return
    from codriver.core.images import parse_image  # noqa: PLC0415  # rarely needed

    command = f": codriver image {evaluation} saves it" if evaluation else ""
    for kind, data in images:
        echo(
            escape_to_one_line(f"the answer includes an image, {parse_image(kind, data).description}{command}"),
            err=True,
        )


def _finished_notes(answer: dict[str, Any]) -> Iterator[str]:
    """Yield the notes about a finished evaluation. Hints for agents are replaced by hints for the command line."""
    for note in answer.get("notes", ()):
        yield (
            f"{note.partition(';')[0]}. Use --max-length to print more or fewer elements"
            if note.startswith("cut")
            else note
        )


def _unfinished_notes(answer: dict[str, Any], workspace: Path) -> Iterator[str]:
    """Yield notes about an unfinished evaluation. They name commands instead of tools."""
    from codriver.systems.programs import quote_command_line  # noqa: PLC0415  # most evaluations finish

    name, status, notes = answer["evaluationId"], answer["status"], answer.get("notes", ())
    workspace_option = [] if workspace.resolve() == Path.cwd() else ["--workspace", str(workspace)]

    def command(tool: str, **arguments: object) -> str:
        given = json.dumps({"evaluationId": name, **arguments}, ensure_ascii=False)
        return quote_command_line(["codriver", "call", tool, given, *workspace_option])

    yield from (note for note in notes if status == "queued" or not any(tool in note for tool in UNFINISHED_TOOLS))
    if status == UNANSWERED_INPUT_STATUS:
        yield f"evaluation {name} was interrupted because it reads standard input, which is not a terminal"
        return
    yield f"evaluation {name} is {status}; to wait for its result: {command('get_evaluation', waitMs=25_000)}"
    yield f"to interrupt the evaluation: {command('interrupt_evaluation')}"


def explain_missing_result(answer: dict[str, Any]) -> Iterator[str]:
    """Yield lines that explain why there is no result. Hints for agents are replaced by hints for the command line."""
    error = answer.get("error") or {}
    message = answer.get("message") or ""
    if "message" in error and not answer.get("stderr") and error["message"] not in message:
        yield f"{error.get('class', 'error')}: {error['message']}"
    if answer.get("reason") == "ambiguous-session":
        yield f"there are several REPL sessions. Choose one with --session: {', '.join(answer.get('sessions', ()))}"
        return
    if message:
        yield message
    if answer.get("reason") == "other-worktree":
        yield (
            f"to use that REPL anyway, pass --session {answer.get('sessionKey')}. Otherwise, start a REPL in this "
            "workspace"
        )
        return
    if "balancedText" in answer:
        yield f"with the brackets that the indentation suggests: {answer['balancedText']}"
    elif answer.get("hint") and answer.get("reason") in HINTS_BY_REASON:
        yield HINTS_BY_REASON[answer["reason"]]
    elif answer.get("hint") and answer.get("reason") != "evaluation-failed":
        yield answer["hint"]
    yield from answer.get("notes", ())


@click.command(
    "drift",
    short_help="Show where loaded code differs from its files.",
    epilog="Exit status: 0 no differences, 1 differences found, 2 wrong usage, 3 no server.",
)
@session_option
@workspace_option
@json_option
def drift_command(*, session: str | None, workspace: Path, as_json: bool) -> None:
    """Show where the code that the REPL has loaded differs from its files.

    This lists definitions that were edited since they were loaded, that were redefined in the REPL, or that exist only
    in the REPL or only in a file, such as leftovers of earlier loads. Comments are ignored.
    """
    with connect_to_server(workspace.resolve(), start=False) as connection:
        answer = connection.call("what_changed", {"replSessionKey": session} if session else {})
    if as_json:
        echo_json(answer, indent=2)
    elif not answer.get("ok"):
        for line in explain_missing_result(answer):
            echo(line, err=True, hang=2)
    else:
        with convert_field_errors("what_changed"):
            lines = [escape_to_one_line(line) for line in answer["differences"]] or [
                "the loaded code matches the files"
            ]
        for line in lines:
            echo(line, hang=2)
    sys.exit(exit_status(answer) or (FAILED if answer.get("count") else 0))
