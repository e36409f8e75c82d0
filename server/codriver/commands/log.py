"""`codriver log` and `history`: what passed through the REPLs, for people."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any

import click

from codriver.commands.answer_reading import reading
from codriver.commands.log_follower import (
    GAP,
    WHOLE,
    Follower,
    FollowError,
)
from codriver.commands.options import json_option, workspace_option
from codriver.commands.terminal import Styled, say, say_json
from codriver.log.control_characters import one_line
from codriver.net import client

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

INTERRUPTED = 130
"""The exit status after Ctrl-C, as shells have it."""
SHOWN_CHARACTERS = 2000
SHOWN_BYTES = 2**18
"""What is asked for at once to be printed for people: more would hold up the server, and nobody could read it."""
COLOURS = {
    "evaluatedCode": "cyan",
    "evaluationResults": "green",
    "evaluationErrorOutput": "red",
    "otherErrorOutput": "red",
    "otherOutput": "yellow",
}
SIGNS = {"evaluatedCode": "»", "evaluationResults": "=", "evaluationErrorOutput": "!", "otherErrorOutput": "!"}


@click.command("log")
@click.option("--who", help="Only what this caller evaluated.")
@click.option("--category", "categories", multiple=True, help="Only this category. Can be repeated.")
@click.option("--since", type=int, help="Only lines after this one.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, help="At most this many, the newest (50).")
@click.option("--follow", "-f", is_flag=True, help="Go on printing what comes.")
@click.option("--query", metavar="EDN", help="Ask with Datalog instead, and print the answer.")
@click.option("--input", "inputs", multiple=True, metavar="JSON", help="With --query: the next value that :in names.")
@click.option("--run", metavar="RUN", help="Of an earlier run: -1 for the last, or as `codriver runs` says.")
@workspace_option
@json_option
def log_command(  # noqa: PLR0913  # one argument an option
    *,
    who: str | None,
    categories: tuple[str, ...],
    since: int | None,
    limit: int,
    follow: bool,
    query: str | None,
    inputs: tuple[str, ...],
    run: str | None,
    workspace: Path,
    as_json: bool,
) -> None:
    """Print the newest entries of the output log."""
    asked: dict[str, Any]
    if run is not None:
        if follow or query:
            raise click.UsageError("--run takes neither --follow nor --query: ask a server for $memory instead")
        from codriver.commands.runs import run_entries  # noqa: PLC0415  # only here

        wanted = [
            entry.to_json()
            for entry in run_entries(workspace, run)
            if who in (None, entry.who)
            and (not categories or entry.category in categories)
            and (since is None or entry.line > since)
        ]
        _print(wanted[-limit:], as_json=as_json)
        return
    with client.connect(workspace.resolve(), name="codriver-log") as connection:
        if query:
            asked = {"query": query, "inputs": [_value(text) for text in inputs], "limit": limit, "maxTextBytes": WHOLE}
            answer = connection.call("repl_output_log", asked)
            is_answered = bool(answer.get("ok")) and "result" in answer
            say_json(answer if as_json or not is_answered else answer["result"], indent=1)
            sys.exit(0 if is_answered else 1)
        max_bytes = WHOLE if as_json else SHOWN_BYTES
        asked = {"limit": limit, "maxTextBytes": max_bytes}
        if who:
            asked["who"] = who
        if categories:
            asked["category"] = list(categories)
        if since is not None:
            asked["since"] = since
        answer = connection.call("repl_output_log", asked)
        if not answer.get("ok"):
            raise FollowError(answer)
        with reading("repl_output_log"):
            last_line, entries = max(answer["lastLine"] or 0, since or 0), answer["result"]
        follower = Follower(connection, last_line, who, categories, max_bytes)
        try:
            _print(entries, as_json=as_json)
            while follow:
                entries, gap = follower.next()
                if gap:
                    say(GAP, err=True)
                _print(entries, as_json=as_json)
        except KeyboardInterrupt:
            sys.exit(INTERRUPTED)


def _value(text: str) -> object:
    """The JSON value in a text; the text itself when it is none, so that words need no quotes."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _print(entries: Sequence[dict[str, Any]], *, as_json: bool) -> None:
    with reading("repl_output_log"):
        lines = [[] if as_json else shown(entry) for entry in entries]
    for entry, line in zip(entries, lines, strict=True):
        if as_json:
            say_json(entry)
        else:
            say(*line)


@click.command("history", short_help="Search the code that was evaluated in this workspace.")
@click.argument("text", default="")
@click.option("--limit", type=click.IntRange(1, 10_000), default=20, help="At most this many, the newest (20).")
@workspace_option
def history_command(*, text: str, limit: int, workspace: Path) -> None:
    """Search the code evaluated in this workspace, earlier runs included, for TEXT; print it ready to paste."""
    for line, when, who, key, code in _remembered(workspace.resolve(), text)[-limit:]:
        stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(when / 1000))
        say(Styled(one_line(f";; {line} {stamp} {who} {key}".rstrip()), dim=True))
        say(code)


REMEMBERED = """[:find ?line ?when ?who ?key ?code :in $ $history
  :where [$history ?e :output/line ?line] [$history ?e :output/timestamp ?when] [$history ?e :output/text ?code]
         [(get-else $history ?e :output/who "") ?who] [(get-else $history ?e :output/repl-session-key "") ?key]]"""


def _remembered(workspace: Path, text: str) -> list[tuple[int, int, str, str, str]]:
    """The history from the server that runs, else from its file: line, time, who, session, code."""
    try:
        with client.connect(workspace, name="codriver-history") as connection:
            answer = connection.call("repl_output_log", {"query": REMEMBERED, "limit": 10_000, "maxTextBytes": WHOLE})
        if not answer.get("ok"):
            raise FollowError(answer)
        with reading("repl_output_log"):
            rows = [_remembered_row(*row) for row in answer["result"]]
    except client.NoServerError:
        from codriver.files.paths import workspace_state_folder  # noqa: PLC0415  # as above
        from codriver.log.history import NewerFormatError, UnreadableError, remembered  # noqa: PLC0415  # only here

        file = workspace_state_folder(workspace) / "eval-history.transit.json"
        try:
            entries = remembered(file)
        except (NewerFormatError, UnreadableError, OSError) as error:
            raise click.ClickException(f"the history {file} cannot be read: {error}") from error
        rows = [(e.line, e.timestamp, e.who or "", e.session_key or "", e.text) for e in entries]
    return [row for row in rows if text in row[4]]


def _remembered_row(line: int, when: int, who: str, key: str, code: str) -> tuple[int, int, str, str, str]:
    return int(line), int(when), str(who), str(key), str(code)


def shown(entry: dict[str, Any]) -> list[str | Styled]:
    """One entry on its own lines: when, who, where, and the text, coloured by what it is."""
    category = entry["category"]
    when = time.strftime("%H:%M:%S", time.localtime(entry["timestamp"] / 1000))
    where = f"{one_line(entry.get('who', '-')):16.16} {one_line(entry.get('repl-session-key', '-')):8.8}"
    text = entry["text"].rstrip("\n")
    if len(text) > SHOWN_CHARACTERS:
        text = text[:SHOWN_CHARACTERS] + f"… ({len(text)} characters)"
    indented = text.replace("\n", "\n" + " " * 40)
    styled = Styled(f"{SIGNS.get(category, ' ')} {indented}", fg=COLOURS.get(category))
    return [f"{entry['line']:>6} {when} {where}  ", styled]
