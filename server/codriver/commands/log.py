"""`codriver log`: print, follow or query the output log."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass, replace
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast, get_args

import click

from codriver.app.features import event_logs
from codriver.commands.log_follower import MAX_ENTRIES, MAX_TEXT_BYTES, Follower, FollowError, follow
from codriver.commands.options import IMAGE_MARK_PREFIX, WholeNumberRange, color_option, json_option, workspace_option
from codriver.commands.runs import run_entries
from codriver.commands.terminal import Styled, convert_field_errors, echo, echo_json
from codriver.core.images import replace_image_data, replace_marks
from codriver.errors import truncate_with_length
from codriver.log.control_characters import escape_to_one_line
from codriver.net import client

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from codriver.log.event_logs import EventLog
    from codriver.log.log_entries import Entry
    from codriver.net.client import Connection

INTERRUPTED_STATUS = 130
"""Exit status after Ctrl-C, as in shells."""

MAX_TEXT_CHARACTERS = 2000
"""Maximum number of characters printed from an entry's text."""
TEXT_INDENT = 40
"""The column at which the text of an entry starts."""
MAX_KEY_CHARACTERS = 40
"""Maximum number of characters of a session key that are displayed. Keys of notebooks often start alike."""
MAX_DISPLAY_BYTES = 2**18
"""Maximum size of text requested at once for display. Larger requests would delay the server."""
COLORS_BY_CATEGORY = {
    "evaluatedCode": "cyan",
    "evaluationResults": "green",
    "evaluationErrorOutput": "red",
    "otherErrorOutput": "red",
    "otherOutput": "yellow",
}
"""Terminal colors of log entries, by category."""
SIGNS_BY_CATEGORY = {
    "evaluatedCode": "»",
    "evaluationResults": "=",
    "evaluationErrorOutput": "!",
    "otherErrorOutput": "!",
}
"""The sign in front of an entry's text, by category."""


@dataclass(frozen=True, slots=True)
class Selection:
    """A filter for log entries."""

    who: str | None = None
    categories: tuple[str, ...] = ()
    since: int | None = None
    limit: int = 50
    search: str = ""

    def select_from_run(self, entries: Sequence[Entry]) -> list[dict[str, Any]]:
        """Return the entries of an earlier run that match the filter."""
        found = [
            entry.to_json()
            for entry in entries
            if self.who in (None, entry.who)
            and (not self.categories or entry.category in self.categories)
            and (self.since is None or entry.line > self.since)
        ]
        return self.filter_by_search(found)[-self.limit :]

    def filter_by_search(self, entries: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the entries whose text contains `search`, ignoring case."""
        return [entry for entry in entries if self.search.lower() in entry["text"].lower()]


F = TypeVar("F", bound="Callable[..., None]")


def selection_options(function: F) -> F:
    """Add the options that select entries to a command, which receives them as `selection`."""

    @wraps(function)
    def run(*, who: str | None, since: int | None, limit: int, search: str, **others: Any) -> None:  # of the command
        categories = others.pop("categories")
        _refuse_unknown(categories)
        function(selection=Selection(who, categories, since, limit, search), **others)

    options = (
        click.option("--who", help="Print only entries from this caller."),
        click.option(
            "--category", "categories", multiple=True, help="Print only entries of this category. Can be repeated."
        ),
        click.option("--search", default="", metavar="TEXT", help="Print only entries that contain this text."),
        click.option("--since", type=int, help="Print only entries after this line."),
        click.option(
            "--limit",
            type=WholeNumberRange(1, 10_000),
            default=50,
            help="Maximum number of entries (default: 50). The newest ones are printed.",
        ),
    )
    decorated: Callable[..., None] = run
    for option in reversed(options):
        decorated = option(decorated)
    return cast("F", decorated)


@click.command("log", short_help="Print the newest entries of the output log.")
@selection_options
@click.option(
    "--follow", "-f", is_flag=True, help="Keep printing new entries as they arrive, as `codriver watch` does."
)
@click.option("--query", metavar="EDN", help="Run a Datalog query instead, and print its answer.")
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="JSON",
    help="With --query: the value of the next input in the query's :in. Can be repeated.",
)
@click.option("--run", metavar="RUN", help="An earlier run: -1 for the last one, or an id from `codriver runs`.")
@workspace_option
@color_option
@json_option
def log_command(  # one argument an option
    *,
    selection: Selection,
    follow: bool,
    query: str | None,
    inputs: tuple[str, ...],
    run: str | None,
    workspace: Path,
    as_json: bool,
) -> None:
    """Print the newest entries of the output log. Images are replaced by commands that save them."""
    if inputs and not query:
        raise click.UsageError("--input requires --query")
    if run is not None:
        if follow or query:
            raise click.UsageError(
                "--run cannot be combined with --follow or --query. To query earlier runs, use $memory in a query to "
                "a running server"
            )
        for log in event_logs():
            if log.category in selection.categories:
                raise click.UsageError(
                    f"--run cannot print {log.category}, because events from {log.owner} are available only while "
                    "their server is running"
                )
        entries = selection.select_from_run(run_entries(workspace, run))
        print_entries(
            [{**entry, "text": replace_image_data(entry["text"])} for entry in entries], as_json=as_json, run=run
        )
    elif follow:
        follow_log(workspace.resolve(), selection, as_json=as_json)
    else:
        with client.connect(workspace.resolve(), name="codriver-log") as connection:
            if query:
                sys.exit(_run_query(connection, query, inputs, selection.limit, as_json=as_json))
            entries, _, events = _request_newest(
                connection, selection, MAX_TEXT_BYTES if as_json else MAX_DISPLAY_BYTES
            )
            print_entries(entries, as_json=as_json)
            for log, count in events:
                are = "is 1 event" if count == 1 else f"are {count} events"
                echo(f"there {are} from {log.owner} too. Use --category {log.category} to print them", err=True)


def follow_log(workspace: Path, selection: Selection, *, as_json: bool) -> None:
    """Print the newest entries, including those from features' logs, and then new ones until Ctrl-C.

    When the server stops, wait for the next one and follow its log.
    """
    max_bytes = MAX_TEXT_BYTES if as_json else MAX_DISPLAY_BYTES
    logs = tuple(log for log in event_logs() if not selection.categories or log.category in selection.categories)
    with client.connect(workspace, name="codriver-log") as connection:
        entries, last_line, events = _request_newest(connection, selection, max_bytes)
        if events and logs:
            only_events = replace(selection, categories=tuple(log.category for log in logs))
            found = [*entries, *_request_newest(connection, only_events, max_bytes)[0]]
            # Later ones will be received again, because the log is followed from this line.
            found = [entry for entry in found if entry["line"] <= last_line]
            entries = sorted(found, key=lambda entry: int(entry["line"]))[-selection.limit :]
        follower = Follower(connection, last_line, selection.who, selection.categories, max_bytes, logs)
        try:
            print_entries(entries, as_json=as_json)
            for coming in follow(follower, workspace, "codriver-log"):
                with convert_field_errors("wait_for"):
                    matching = selection.filter_by_search(coming)
                print_entries(matching, as_json=as_json)
        except KeyboardInterrupt:
            sys.exit(INTERRUPTED_STATUS)


def _refuse_unknown(categories: tuple[str, ...]) -> None:
    if not categories:
        return
    from codriver.log.log_entries import Category  # noqa: PLC0415  # rarely needed

    known = (*get_args(Category), *(log.category for log in event_logs()))
    for category in categories:
        if category not in known:
            raise click.UsageError(f"there is no category {category!r}. The categories are {', '.join(known)}")


def replace_images_with_marks(entry: Entry) -> Entry:
    """Replace the images in an entry from an earlier run with markers."""
    return entry._replace(text=replace_image_data(entry.text))


def _run_query(connection: Connection, query: str, inputs: tuple[str, ...], limit: int, *, as_json: bool) -> int:
    """Run a query, print its result, and return the exit status."""
    request = {
        "query": query,
        "inputs": [_parse_input(text) for text in inputs],
        "limit": limit,
        "maxTextBytes": MAX_TEXT_BYTES,
    }
    answer = connection.call("repl_output_log", request)
    is_answered = bool(answer.get("ok")) and "result" in answer
    echo_json(answer if as_json or not is_answered else answer["result"], indent=1)
    return 0 if is_answered else 1


def _request_newest(
    connection: Connection, selection: Selection, max_bytes: int
) -> tuple[list[dict[str, Any]], int, list[tuple[EventLog, int]]]:
    """Return the newest selected entries, the line to continue from, and the numbers of events in features' logs.

    Raises:
        FollowError: the server refuses the request.
    """
    most = MAX_ENTRIES if selection.search else selection.limit
    request: dict[str, Any] = {"limit": most, "maxTextBytes": max_bytes}
    if selection.who:
        request["by"] = selection.who
    if selection.categories:
        request["category"] = list(selection.categories)
    if selection.since is not None:
        request["since"] = selection.since
    answer = connection.call("repl_output_log", request)
    if not answer.get("ok"):
        raise FollowError(answer)
    with convert_field_errors("repl_output_log"):
        entries = selection.filter_by_search(answer["result"])[-selection.limit :]
        last_line = max(int(answer["lastLine"] or 0), selection.since or 0)
        counts = [(log, int(answer.get(log.counted_as) or 0)) for log in event_logs()]
        return entries, last_line, [(log, count) for log, count in counts if count]


def _parse_input(text: str) -> object:
    """Parse a JSON value. Text that is not JSON is returned unchanged, so that words need no quotes."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def print_entries(entries: Sequence[dict[str, Any]], *, as_json: bool, run: str = "") -> None:
    """Print log entries as JSON or for people. `run` is the earlier run that they are from, if any."""
    with convert_field_errors("repl_output_log"):
        lines = [[] if as_json else format_entry(entry, run) for entry in entries]
    for entry, line in zip(entries, lines, strict=True):
        if as_json:
            echo_json(entry)
        else:
            echo(*line, hang=TEXT_INDENT)


def format_entry(entry: dict[str, Any], run: str = "") -> list[str | Styled]:
    """Format a log entry: time, caller, session and text, colored by category.

    Image markers are replaced by the commands that save them. `run` is the id of the earlier run that the entry is
    from, if any.
    """
    category = entry["category"]
    when = time.strftime("%H:%M:%S", time.localtime(entry["timestamp"] / 1000))
    who, session = entry.get("who", "-"), entry.get("repl-session-key", "-")
    where = f"{escape_to_one_line(who):16.16} {escape_to_one_line(session):8.{MAX_KEY_CHARACTERS}}"
    text = entry["text"].rstrip("\n")
    if IMAGE_MARK_PREFIX in text:
        command = (
            f"codriver image {escape_to_one_line(str(entry.get('evaluation', '')))}{f' --run {run}' if run else ''}"
        )
        text = replace_marks(text, lambda facts: f"<<{facts.description}: {command}>>")
    indented = truncate_with_length(text, MAX_TEXT_CHARACTERS).replace("\n", "\n" + " " * TEXT_INDENT)
    sign, color = SIGNS_BY_CATEGORY.get(category, " "), COLORS_BY_CATEGORY.get(category)
    for log in event_logs():
        if log.category == category:
            sign, color = log.sign, log.color
    styled = Styled(f"{sign} {indented}", fg=color)
    return [f"{entry['line']:>6} {when} {where}  ", styled]
