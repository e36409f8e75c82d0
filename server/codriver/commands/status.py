"""`codriver status`: report whether a server is running for a workspace. Exit status: 0 if so, 3 if not."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from codriver.commands.all_servers import show_all_servers
from codriver.commands.call import no_repl_message
from codriver.commands.options import color_option, json_option, workspace_option
from codriver.commands.terminal import Styled, convert_field_errors, echo, echo_json
from codriver.errors import format_count
from codriver.log.control_characters import escape_to_one_line
from codriver.net import registration
from codriver.net.client import NoServerError, connect
from codriver.net.kernel_sockets import format_address

if TYPE_CHECKING:
    from collections.abc import Iterator


MAX_CODE_CHARACTERS = 60
"""Maximum number of characters of code displayed for an evaluation."""
COLORS_BY_PHASE = {"connected": "green", "stopped": "red"}
"""The colors of a REPL's phases, except for temporary phases."""


@click.command("status")
@click.option(
    "--all", "is_every", is_flag=True, help="List all of your servers, whatever their workspace, one per line."
)
@workspace_option
@color_option
@json_option
def status_command(*, is_every: bool, workspace: Path, as_json: bool) -> None:
    """Show the state of the workspace's server.

    The exit status is 3 if no server is running.
    """
    if is_every:
        show_all_servers(as_json=as_json)
    try:
        with connect(workspace.resolve(), name="codriver-status") as connection:
            health = connection.call("server_health", {})
            listed = connection.call("list_sessions", {})
            with convert_field_errors("list_sessions"):
                sessions = listed["sessions"]
    except NoServerError as error:
        is_for_good = registration.is_stopped_for_good(workspace.resolve())
        if as_json:
            echo_json({"ok": False, "message": str(error), **({"stoppedForGood": True} if is_for_good else {})})
        else:
            echo(str(error), hang=2)
            if is_for_good:
                echo(
                    "the server was stopped with --for-good, so relays with --start do not start another one. To start "
                    "a server and allow that again, run `codriver serve`"
                )
        sys.exit(error.exit_status)
    if as_json:
        echo_json({**health, "sessions": sessions}, indent=2)
        return
    with convert_field_errors("server_health"):
        lines = list(_health_lines(health, sessions))
    for line in lines:
        echo(replace(line, text=escape_to_one_line(line.text)), hang=4)


def _health_lines(health: dict[str, Any], sessions: list[dict[str, Any]]) -> Iterator[Styled]:
    """Yield lines that describe the state of a server. `sessions` is from an answer of `list_sessions`."""
    address = format_address(health["host"], health["port"])
    yield Styled(f"running: pid {health['pid']} on {address}, since {health['startedAt']}", bold=True)
    keys = {repl["key"] for repl in health["repls"]}
    others = [row for row in sessions if row["key"] not in keys]
    if not health["repls"] and not others:
        yield Styled(f"  {no_repl_message(Path(health['workspace']))}", fg="yellow")
    for repl in health["repls"]:
        note = f": {repl['note']}" if "note" in repl else ""
        unfinished = _unfinished_in_repl(health, repl["key"])
        busy = ", busy" if any(row["status"] != "queued" for row in unfinished) else ""
        text = f"  REPL {repl['key']} ({_describe_kind(repl)}): {repl['phase']}{busy}{note}"
        yield Styled(text, fg=COLORS_BY_PHASE.get(repl["phase"], "yellow"))
        for row in unfinished:
            yield Styled(f"    {_describe_evaluation(row)}", fg="yellow")
        if "caution" in repl:
            yield Styled(f"    note: {repl['caution']}", fg="yellow")
    for row in others:  # isolated sessions, and programs whose REPL has not been used yet
        note = f": {row['note']}" if "note" in row else ""
        yield Styled(f"  REPL {row['key']} ({_describe_kind(row)}): {row['phase']}{note}", fg="yellow")
    names = [client["name"] or "not introduced" for client in health["clients"] if client["name"] != "codriver-status"]
    yield Styled(f"  clients: {', '.join(names) or 'none'}")
    if relays := describe_restarting_relays(health):
        yield Styled(f"  kept alive by {relays}. To stop the server anyway, run `codriver stop --for-good`")
    notes = [str(repl["note"]) for repl in health["repls"] if repl.get("note")]
    for latch in health["errors"]:
        if not any(note in latch["message"] for note in notes):  # already in the REPL's line
            times = "once" if latch["count"] == 1 else f"{latch['count']} times"
            yield Styled(f"  error: {latch['message']} ({times})", fg="red")


def _describe_kind(repl: dict[str, Any]) -> str:
    """Describe the origin and dialect of a REPL, without repeating a word.

    For a kernel's connection file, only the name of the file is used.
    """
    if "program" in repl:
        return str(repl["program"])
    origin, dialect = str(repl["origin"]), str(repl["dialect"])
    origin = origin.rpartition("/")[2] if origin.endswith(".json") else origin
    return origin if origin == dialect else f"{origin}, {dialect}"


def _unfinished_in_repl(health: dict[str, Any], key: str) -> list[dict[str, Any]]:
    """Return the descriptions of unfinished evaluations in a REPL, running ones first."""
    rows = [row for row in health["evaluations"].get("unfinished", ()) if row["sessionKey"].partition("/")[0] == key]
    return sorted(rows, key=lambda row: row["status"] == "queued")


def _describe_evaluation(row: dict[str, Any]) -> str:
    """Describe an unfinished evaluation: its caller, how long it has been running, and what it is waiting for."""
    head = str(row["code"]).strip().partition("\n")[0][:MAX_CODE_CHARACTERS]
    since = f"{row['who']} for {row['elapsedMs'] // 1000} s"
    if row["status"] == "queued":
        return f"{row['who']} is waiting to run {head} ({row['evaluationId']}): {row.get('waits', '')}"
    what = f"runs {head}" if row["kind"] == "run-tests" else head
    waits = ", waiting for input" if row["status"] == "needs-input" else ""
    return f"{since}{waits}: {what} ({row['evaluationId']})"


def describe_restarting_relays(health: dict[str, Any]) -> str:
    """Describe the relays that would start another server. Return an empty string if there are none."""
    names = [str(client["name"]) or "not introduced" for client in health["clients"] if client.get("startsServer")]
    if not names:
        return ""
    return f"{format_count(len(names), 'relay')} with --start ({', '.join(names)})"
