"""`codriver log`, `history`, `runs`, `forget`, `handoff`: the output log, earlier runs, and the standing.

`handoff` is for a person or an agent that takes over, from a server or from the memory of a workspace. Exit status: 0,
also without a running server.
"""

from __future__ import annotations

import ast
import json
import sys
import time
from dataclasses import dataclass, replace
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast, get_args
from urllib.parse import quote

import click

from codriver.commands.followers import (
    APP_EVENT,
    GAP,
    MAX_ENTITIES,
    STREAM_OVER,
    WHOLE,
    Follower,
    FollowError,
    followed,
)
from codriver.commands.options import PICTURE, Whole, color_option, json_option, workspace_option
from codriver.commands.terminal import Styled, reading, say, say_json
from codriver.core.pictures import marked, without_data
from codriver.errors import cut_counted
from codriver.files.own_folders import history_file, server_folder, workspace_state_folder
from codriver.log.control_characters import one_line, visible
from codriver.net import client, server_record
from codriver.repls.kinds import PYTHON, dialect_of_key

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from codriver.log.memory import Memory, Run
    from codriver.log.output_log import Entry
    from codriver.net.client import Connection

INTERRUPTED = 130
"""The exit status after Ctrl-C, as shells have it."""
RUNS = "runs"
HISTORY = "history"
CALLS = "calls"
"""The topic of streams that end by themselves, with events of the op `call`."""
WHEN = "a server writes its own within 30 s of a change, mostly in 2, and when it ends"
JUDGED_CODES = 20
"""The number of a session's codes read to find out its language; most code of one language is unreadable in another."""
SHOWN_CHARACTERS = 2000
HANG = 40
"""The column at which the text of an entry begins in its line."""
SHOWN_BYTES = 2**18
"""The bytes asked for at once to be printed for people: more would hold up the server, and nobody could read them."""
COLOURS = {
    "evaluatedCode": "cyan",
    "evaluationResults": "green",
    "evaluationErrorOutput": "red",
    "otherErrorOutput": "red",
    "otherOutput": "yellow",
    APP_EVENT: "magenta",
}
SIGNS = {
    "evaluatedCode": "»",
    "evaluationResults": "=",
    "evaluationErrorOutput": "!",
    "otherErrorOutput": "!",
    APP_EVENT: "~",
}


@dataclass(frozen=True, slots=True)
class Selection:
    """The entries to print."""

    who: str | None = None
    categories: tuple[str, ...] = ()
    since: int | None = None
    limit: int = 50
    search: str = ""

    def in_run(self, entries: Sequence[Entry]) -> list[dict[str, Any]]:
        """Return those of the entries of an earlier run that are selected."""
        found = [
            entry.to_json()
            for entry in entries
            if self.who in (None, entry.who)
            and (not self.categories or entry.category in self.categories)
            and (self.since is None or entry.line > self.since)
        ]
        return self.matching(found)[-self.limit :]

    def matching(self, entries: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the entries that contain the text."""
        return [entry for entry in entries if self.search.lower() in entry["text"].lower()]


F = TypeVar("F", bound="Callable[..., None]")


def selection_options(function: F) -> F:
    """Add the options that select entries, and pass them as `selection`."""

    @wraps(function)
    def run(*, who: str | None, since: int | None, limit: int, search: str, **others: Any) -> None:  # of the command
        categories = others.pop("categories")
        _refuse_unknown(categories)
        function(selection=Selection(who, categories, since, limit, search), **others)

    options = (
        click.option("--who", help="Only what this caller evaluated."),
        click.option("--category", "categories", multiple=True, help="Only this category. Can be repeated."),
        click.option("--search", default="", metavar="TEXT", help="Only entries that contain this text."),
        click.option("--since", type=int, help="Only lines after this one."),
        click.option("--limit", type=Whole(1, 10_000), default=50, help="At most this many, the newest (50)."),
    )
    decorated: Callable[..., None] = run
    for option in reversed(options):
        decorated = option(decorated)
    return cast("F", decorated)


@click.command("log", short_help="Print the newest entries of the output log.")
@selection_options
@click.option("--follow", "-f", is_flag=True, help="Go on printing new entries, as `codriver watch` does.")
@click.option("--query", metavar="EDN", help="Ask with Datalog instead, and print the answer.")
@click.option("--input", "inputs", multiple=True, metavar="JSON", help="With --query: the next value that :in names.")
@click.option("--run", metavar="RUN", help="Of an earlier run: -1 for the last, or as `codriver runs` says.")
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
    """Print the newest entries of the output log; in the place of an image, the command that saves it."""
    if inputs and not query:
        raise click.UsageError("--input gives a value to --query, which is not there")
    if run is not None:
        if follow or query:
            raise click.UsageError("--run takes neither --follow nor --query: ask a server for $memory instead")
        if APP_EVENT in selection.categories:
            raise click.UsageError(f"--run has no {APP_EVENT}: what applications do is known until their server ends")
        entries = selection.in_run(run_entries(workspace, run))
        _print([{**entry, "text": without_data(entry["text"])} for entry in entries], as_json=as_json, run=run)
    elif follow:
        follow_log(workspace.resolve(), selection, as_json=as_json)
    else:
        with client.connect(workspace.resolve(), name="codriver-log") as connection:
            if query:
                sys.exit(_ask(connection, query, inputs, selection.limit, as_json=as_json))
            entries, _, events = _newest(connection, selection, WHOLE if as_json else SHOWN_BYTES)
            _print(entries, as_json=as_json)
            if events:
                say(f"events of applications, beside these: {events}; --category {APP_EVENT} prints them", err=True)


def follow_log(workspace: Path, selection: Selection, *, as_json: bool) -> None:
    """Print the newest entries and then each new one, until Ctrl-C. Applications' events are among them.

    A server that ends is waited for, and the log of the next one is followed.
    """
    max_bytes = WHOLE if as_json else SHOWN_BYTES
    with_events = not selection.categories or APP_EVENT in selection.categories
    with client.connect(workspace, name="codriver-log") as connection:
        entries, last_line, events = _newest(connection, selection, max_bytes)
        if events and with_events:
            only_events = replace(selection, categories=(APP_EVENT,))
            found = [*entries, *_newest(connection, only_events, max_bytes)[0]]
            # Later ones come again, as the log is followed from its last line.
            found = [entry for entry in found if entry["line"] <= last_line]
            entries = sorted(found, key=lambda entry: int(entry["line"]))[-selection.limit :]
        follower = Follower(connection, last_line, selection.who, selection.categories, max_bytes, with_events)
        try:
            _print(entries, as_json=as_json)
            for coming in followed(follower, workspace, "codriver-log"):
                with reading("wait_for"):
                    matching = selection.matching(coming)
                _print(matching, as_json=as_json)
        except KeyboardInterrupt:
            sys.exit(INTERRUPTED)


def follow_stream(connection: Connection, begun: dict[str, Any], topic: str, *, as_json: bool) -> int:
    """Print the events of a stream until the stream is over or Ctrl-C ends it; the exit status."""
    with reading("watch_app"):
        since, begins = int(begun["since"]), f"{begun['subId']} "
    # Streams share the database: events of another op belong to another stream.
    ops = {None} if topic == "trace" else {"call" if topic == CALLS else topic, "stream"}
    follower = Follower(connection, since, None, (APP_EVENT,), WHOLE if as_json else SHOWN_BYTES, events=True)
    try:
        while True:
            entities, gap = follower.next()
            if gap:
                say(GAP, err=True)
            _print([one for one in entities if None in ops or one.get("op") in ops], as_json=as_json)
            if any(one.get("name") == STREAM_OVER and one["text"].startswith(begins) for one in entities):
                return 0 if topic == CALLS else 1
    except KeyboardInterrupt:
        return INTERRUPTED


def _refuse_unknown(categories: tuple[str, ...]) -> None:
    if not categories:
        return
    from codriver.log.output_log import Category  # noqa: PLC0415  # few calls name one

    known = (*get_args(Category), APP_EVENT)
    for category in categories:
        if category not in known:
            raise click.UsageError(f"there is no category {category!r}: {', '.join(known)}")


def bare(entry: Entry) -> Entry:
    """The entry of a run with a mark in the place of each picture, whose data nobody reads."""
    return entry._replace(text=without_data(entry.text))


def _ask(connection: Connection, query: str, inputs: tuple[str, ...], limit: int, *, as_json: bool) -> int:
    """Print the answer to a query; the exit status."""
    asked = {"query": query, "inputs": [_value(text) for text in inputs], "limit": limit, "maxTextBytes": WHOLE}
    answer = connection.call("repl_output_log", asked)
    is_answered = bool(answer.get("ok")) and "result" in answer
    say_json(answer if as_json or not is_answered else answer["result"], indent=1)
    return 0 if is_answered else 1


def _newest(connection: Connection, selection: Selection, max_bytes: int) -> tuple[list[dict[str, Any]], int, int]:
    """Return the newest entries that are selected, the line to continue from, and the number of applications' events.

    Raises:
        FollowError: the server refuses.
    """
    most = MAX_ENTITIES if selection.search else selection.limit
    asked: dict[str, Any] = {"limit": most, "maxTextBytes": max_bytes}
    if selection.who:
        asked["by"] = selection.who
    if selection.categories:
        asked["category"] = list(selection.categories)
    if selection.since is not None:
        asked["since"] = selection.since
    answer = connection.call("repl_output_log", asked)
    if not answer.get("ok"):
        raise FollowError(answer)
    with reading("repl_output_log"):
        entries = selection.matching(answer["result"])[-selection.limit :]
        last_line = max(int(answer["lastLine"] or 0), selection.since or 0)
        return entries, last_line, int(answer.get("appEvents") or 0)


def _value(text: str) -> object:
    """The JSON value in a text; the text itself if it is no JSON, so that words need no quotes."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _print(entries: Sequence[dict[str, Any]], *, as_json: bool, run: str = "") -> None:
    with reading("repl_output_log"):
        lines = [[] if as_json else shown(entry, run) for entry in entries]
    for entry, line in zip(entries, lines, strict=True):
        if as_json:
            say_json(entry)
        else:
            say(*line, hang=HANG)


@click.command("history", short_help="Search the code that was evaluated in this workspace.")
@click.argument("text", default="")
@click.option("--limit", type=Whole(1, 10_000), default=20, help="At most this many, the newest (20).")
@workspace_option
def history_command(*, text: str, limit: int, workspace: Path) -> None:
    """Search the code evaluated in this workspace, earlier runs included, for TEXT; print it ready to paste."""
    found = _history_rows(workspace.resolve(), text)[-limit:]
    if not found:
        told = f"nothing in the history contains {text!r}" if text else "nothing was evaluated in this workspace yet"
        say(told, err=True)
    signs = comment_signs([(key, code) for _, _, _, key, code, _ in found])
    for line, when, who, key, code, file in found:
        stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(when / 1000))
        say(Styled(one_line(f"{signs[key]} {line} {stamp} {who} {key}".rstrip()), dim=True))
        say(f"{signs[key]} load {one_line(file.removeprefix(f'{workspace.resolve()}/'))}" if file else code)


def comment_signs(rows: Sequence[tuple[str, str]]) -> dict[str, str]:
    """The sign of a comment in the language of each session of `rows`, by the session's key.

    A key with a REPL kind's name tells the language; for a key of the user's it is Python if most of the newest code
    parses so.
    """
    codes: dict[str, list[str]] = {}
    for key, code in reversed(rows):
        codes.setdefault(key, []).append(code)
    return {key: "#" if _is_python(key, some[:JUDGED_CODES]) else ";;" for key, some in codes.items()}


def _is_python(key: str, codes: Sequence[str]) -> bool:
    dialect = dialect_of_key(key)
    return sum(map(_reads_as_python, codes)) * 2 > len(codes) if dialect is None else dialect == PYTHON.dialect


def _reads_as_python(code: str) -> bool:
    try:
        ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


REMEMBERED = """[:find ?line ?when ?who ?key ?code ?file :in $ $history
  :where [$history ?e :output/line ?line] [$history ?e :output/timestamp ?when] [$history ?e :output/text ?code]
         [(get-else $history ?e :output/who "") ?who] [(get-else $history ?e :output/repl-session-key "") ?key]
         [(get-else $history ?e :output/file "") ?file]]"""


def _history_rows(workspace: Path, text: str) -> list[tuple[int, int, str, str, str, str]]:
    """The history from the running server, else from its file: line, time, who, session, code, file if loaded."""
    try:
        with client.connect(workspace, name="codriver-history") as connection:
            answer = connection.call("repl_output_log", {"query": REMEMBERED, "limit": 10_000, "maxTextBytes": WHOLE})
        if not answer.get("ok"):
            raise FollowError(answer)
        with reading("repl_output_log"):
            rows = [_history_row(*row) for row in answer["result"]]
    except client.NoServerError:
        from codriver.log.history import NewerFormatError, UnreadableError, read_history  # noqa: PLC0415  # only here

        file = history_file(workspace)
        try:
            entries = read_history(file)
        except (NewerFormatError, UnreadableError, OSError) as error:
            raise click.ClickException(f"the history {file} cannot be read: {error}") from error
        rows = [(e.line, e.timestamp, e.who or "", e.session_key or "", e.text, e.file or "") for e in entries]
    return [row for row in rows if text in row[4] or text in row[5]]


def _history_row(line: int, when: int, who: str, key: str, code: str, file: str) -> tuple[int, int, str, str, str, str]:
    return int(line), int(when), str(who), str(key), str(code), str(file)


def shown(entry: dict[str, Any], run: str = "") -> list[str | Styled]:
    """One entry on its own lines: when, who, where, and the text, coloured by category. `run`: the entry's earlier run.

    The command that gives a picture stands in the picture's place.
    """
    category = entry["category"]
    when = time.strftime("%H:%M:%S", time.localtime(entry["timestamp"] / 1000))
    where = f"{one_line(entry.get('who', '-')):16.16} {one_line(entry.get('repl-session-key', '-')):8.8}"
    text = entry["text"].rstrip("\n")
    if PICTURE in text:
        command = f"codriver image {one_line(str(entry.get('evaluation', '')))}{f' --run {run}' if run else ''}"
        text = marked(text, lambda one: f"<<{one.words}: {command}>>")
    indented = cut_counted(text, SHOWN_CHARACTERS).replace("\n", "\n" + " " * HANG)
    styled = Styled(f"{SIGNS.get(category, ' ')} {indented}", fg=COLOURS.get(category))
    return [f"{entry['line']:>6} {when} {where}  ", styled]


@click.command("runs", short_help="List the runs whose output log is remembered.")
@workspace_option
@json_option
def runs_command(*, workspace: Path, as_json: bool) -> None:
    """List the runs of this workspace's servers whose output log is remembered, the oldest first."""
    workspace = workspace.resolve()
    earlier, current = _runs(workspace, memory_of(workspace))
    numbers = [str(place - len(earlier)) for place in range(len(earlier))] + ["now"] * len(current)
    for number, run in zip(numbers, [*earlier, *current], strict=True):
        if as_json:
            say_json({"run": run.id, "startedAt": run.started, "endedAt": run.ended, "entries": run.entries})
        else:
            say(one_line(f"{number:>4}  {run.id}  {_length(run, is_running=number == 'now')}, {run.entries} entries"))
    if not numbers and not as_json:
        say(f"no run of this workspace is remembered yet: {WHEN}", err=True)


@click.command("forget", short_help="List what is remembered of this workspace, or clear it.")
@click.argument("kinds", nargs=-1, metavar="[KIND]...")
@click.option("--all", "is_all", is_flag=True, help="Clear every kind, the history too.")
@workspace_option
def forget_command(*, kinds: tuple[str, ...], is_all: bool, workspace: Path) -> None:
    """List what is remembered of this workspace; or clear KIND: `runs`, `history`, or any other that the list names.

    A server that runs keeps the history and the log of its own run: stop it first, to have these cleared too.
    """
    workspace = workspace.resolve()
    memory = memory_of(workspace)
    documents = memory.documents()
    known = [RUNS, HISTORY, *dict.fromkeys(document.kind for document in documents)]
    for kind in kinds:
        if kind not in known:
            raise click.UsageError(f"nothing of the kind {kind!r} is remembered: {', '.join(known)}")
    if not kinds and not is_all:
        say(f"runs: {len(memory.run_ids())}")
        say(f"history: {len(_history_rows(workspace, ''))} evaluations")
        for document in documents:
            say(one_line(f"{document.kind}: {document.name}, {_day(document.time)} {document.text}".rstrip()))
        return
    wanted = known if is_all else kinds
    is_served = bool(server_record.is_claimed(server_folder(workspace)))
    for kind in wanted:
        if not (kind == HISTORY and is_served):
            _forget(memory, workspace, kind)
            say(one_line(f"forgotten: {kind}"))
    if is_served and {RUNS, HISTORY} & set(wanted):
        raise click.ClickException(
            "a server runs here and keeps the history and the log of its own run: `codriver stop`, then this again"
        )


def _forget(memory: Memory, workspace: Path, kind: str) -> None:
    try:
        if kind == RUNS:
            memory.forget_runs(memory.run_ids())
        elif kind == HISTORY:
            from codriver.log.history import forget_history  # noqa: PLC0415  # only here

            forget_history(history_file(workspace))
        else:
            memory.forget(kind)
    except OSError as error:
        raise click.ClickException(f"{kind} cannot be cleared: {error}") from error


def run_entries(workspace: Path, asked: str) -> Sequence[Entry]:
    """The entries of the run that `asked` names: `-1` for the last before the present one, or its id.

    Raises:
        ClickException: there is no such run.
    """
    workspace = workspace.resolve()
    memory = memory_of(workspace)
    earlier, current = _runs(workspace, memory)
    if asked.startswith("-") and asked[1:].isdecimal() and 0 < int(asked[1:]) <= len(earlier):
        return memory.entries(earlier[int(asked)].id)
    if asked in [run.id for run in (*earlier, *current)]:
        return memory.entries(asked)
    raise click.ClickException(f"no run {asked} is remembered here: `codriver runs` lists those that are")


def memory_of(workspace: Path) -> Memory:
    """The memory, to be read: faults in it are said and left to a server."""
    from codriver.log.memory import Memory  # noqa: PLC0415  # TinyDB is for these commands alone

    return Memory(
        workspace_state_folder(workspace), is_repairing=False, report=lambda problem: say(one_line(problem), err=True)
    )


def _runs(workspace: Path, memory: Memory) -> tuple[list[Run], list[Run]]:
    """The finished runs, the oldest first, and the run that goes on, if it is remembered yet."""
    folder = server_folder(workspace)
    record = server_record.read_record(folder) if server_record.is_claimed(folder) else None
    session = record and record.session_id
    runs = memory.runs()
    return [run for run in runs if run.session != session], [run for run in runs if run.session == session]


def _length(run: Run, *, is_running: bool) -> str:
    if is_running:
        return f"{_day(run.started)}, still running"
    return f"{_day(run.started)} to {_day(run.ended)}" if run.ended else f"{_day(run.started)}, did not end properly"


def _day(epoch_ms: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(epoch_ms / 1000))


SEARCH_S = 5.0
NOTHING = "nothing is remembered of this workspace yet"


@click.command("handoff", short_help="Say how things stand, for who takes over.")
@click.option("--who", metavar="WHO", default="", help="For this caller: what others did since its last call, too.")
@workspace_option
@json_option
def handoff_command(*, who: str, workspace: Path, as_json: bool) -> None:
    """Say how things stand in the REPLs, in 4,000 bytes at most, for an agent or a person who takes over.

    Goals and checkpoints, tests that are red, what failed and how it ended, definitions that are in no file, what runs
    and who is here. Where no server runs it is told from what earlier ones left.
    """
    workspace = workspace.resolve()
    try:
        with client.connect(workspace, name="codriver-handoff") as connection, reading("resources/read"):
            uri = f"codriver://handoff?who={quote(who, safe='')}"
            text = str(connection.request("resources/read", {"uri": uri})["contents"][0]["text"])
    except client.NoServerError:
        say("codriver: no server runs here: this is what earlier ones left", err=True)
        text = _told_without_server(workspace, who) or NOTHING
    if as_json:
        say_json({"handoff": text})
    else:
        say(visible(text), hang=2)


def _told_without_server(workspace: Path, who: str) -> str:
    """The handoff from the files on disk."""
    # A running server does this itself.
    from codriver.log.handoff_report import (  # noqa: PLC0415  # as it says above
        Present,
        compose,
        names_on_disk,
        read_story,
    )
    from codriver.repls.kinds import dialects_by_suffix  # noqa: PLC0415  # as above

    story = read_story(_entries(workspace), {})
    defined = {name for step in story.steps for name in step.names}
    on_disk = names_on_disk(workspace, defined, tuple(dialects_by_suffix()), SEARCH_S)
    return compose(story, Present(now=time.time_ns() // 1_000_000, on_disk=on_disk), who)


def _entries(workspace: Path) -> tuple[Entry, ...]:
    """The entities that earlier runs left: see `earlier_runs`."""
    from codriver.log.history import NewerFormatError, UnreadableError, read_history  # noqa: PLC0415  # as above
    from codriver.log.output_log import Entry, earlier_runs  # noqa: PLC0415  # as above

    known = [Entry.from_record(record) for record in memory_of(workspace).snapshot().records]
    try:
        code = read_history(history_file(workspace))
    except (NewerFormatError, UnreadableError, OSError) as error:
        say(f"codriver: the history cannot be read: {error}", err=True)
        code = ()
    return earlier_runs(known, code)
