"""`codriver runs` and `forget`: the memory of a workspace, with or without a server."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from codriver.commands.options import json_option, workspace_option
from codriver.commands.terminal import say, say_json
from codriver.files.paths import presence_folder, workspace_state_folder
from codriver.log.control_characters import one_line
from codriver.net import server_record

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from codriver.log.memory import Memory, Run
    from codriver.log.output_log import Entry

RUNS = "runs"


@click.command("runs", short_help="List the runs whose output log is remembered.")
@workspace_option
@json_option
def runs_command(*, workspace: Path, as_json: bool) -> None:
    """List the runs of this workspace's servers whose output log is remembered, the oldest first."""
    workspace = workspace.resolve()
    earlier, current = _runs(workspace, _memory(workspace))
    numbers = [str(place - len(earlier)) for place in range(len(earlier))] + ["now"] * len(current)
    for number, run in zip(numbers, [*earlier, *current], strict=True):
        if as_json:
            say_json({"run": run.id, "startedAt": run.started, "endedAt": run.ended, "entries": run.entries})
        else:
            say(one_line(f"{number:>4}  {run.id}  {_length(run, is_running=number == 'now')}, {run.entries} entries"))
    if not numbers and not as_json:
        say("no run of this workspace is remembered yet: a server remembers its own when it ends", err=True)


@click.command("forget", short_help="List what is remembered of this workspace, or clear it.")
@click.argument("kinds", nargs=-1, metavar="[KIND]...")
@click.option("--all", "is_all", is_flag=True, help="Clear every kind.")
@workspace_option
def forget_command(*, kinds: tuple[str, ...], is_all: bool, workspace: Path) -> None:
    """List what is remembered of this workspace; or clear KIND: `runs`, or any other that the list names.

    A server that runs remembers its own run when it ends.
    """
    workspace = workspace.resolve()
    memory = _memory(workspace)
    documents = memory.documents()
    known = [RUNS, *dict.fromkeys(document.kind for document in documents)]
    for kind in kinds:
        if kind not in known:
            raise click.UsageError(f"nothing of the kind {kind!r} is remembered: {', '.join(known)}")
    if not kinds and not is_all:
        say(f"runs: {len(memory.run_ids())}")
        for document in documents:
            say(one_line(f"{document.kind}: {document.name}, {_day(document.time)} {document.text}".rstrip()))
        return
    for kind in known if is_all else kinds:
        try:
            if kind == RUNS:
                memory.forget_runs(memory.run_ids())
            else:
                memory.forget(kind)
        except OSError as error:
            raise click.ClickException(f"{kind} cannot be cleared: {error}") from error
        say(one_line(f"forgotten: {kind}"))


def run_entries(workspace: Path, asked: str) -> Sequence[Entry]:
    """The entries of the run that `asked` names: `-1` for the last before the one that goes on, or its id.

    Raises:
        ClickException: there is none.
    """
    workspace = workspace.resolve()
    memory = _memory(workspace)
    earlier, current = _runs(workspace, memory)
    if asked.startswith("-") and asked[1:].isdecimal() and 0 < int(asked[1:]) <= len(earlier):
        return memory.entries(earlier[int(asked)].id)
    if asked in [run.id for run in (*earlier, *current)]:
        return memory.entries(asked)
    raise click.ClickException(f"no run {asked} is remembered here: `codriver runs` lists those that are")


def _memory(workspace: Path) -> Memory:
    """The memory, to be looked at: what is broken in it is said and left to a server."""
    from codriver.log.memory import Memory  # noqa: PLC0415  # TinyDB is for these commands alone

    return Memory(
        workspace_state_folder(workspace), is_repairing=False, report=lambda problem: say(one_line(problem), err=True)
    )


def _runs(workspace: Path, memory: Memory) -> tuple[list[Run], list[Run]]:
    """The runs that are over, the oldest first, and the one that goes on, if it is remembered yet."""
    folder = presence_folder(workspace)
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
