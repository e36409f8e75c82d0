"""`codriver runs`: list the earlier runs of a workspace's servers whose output logs are stored."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from codriver.commands.options import json_option, workspace_option
from codriver.commands.terminal import echo, echo_json
from codriver.errors import format_count
from codriver.files.codriver_paths import server_directory, workspace_state_directory
from codriver.log.control_characters import escape_to_one_line
from codriver.net import server_record

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from codriver.log.log_entries import Entry
    from codriver.log.memory import Memory, Run

RUNS_KIND = "runs"
"""The argument of `codriver forget` that selects the logs of earlier runs."""

STORE_DELAY_TEXT = "a server stores its log within 30 s of a change, usually within 2 s, and when it stops"


@click.command("runs", short_help="List the runs whose output logs are stored.")
@workspace_option
@json_option
def runs_command(*, workspace: Path, as_json: bool) -> None:
    """List the runs of this workspace's servers whose output logs are stored, oldest first."""
    workspace = workspace.resolve()
    earlier, current = _read_runs(workspace, open_memory(workspace))
    numbers = [str(index - len(earlier)) for index in range(len(earlier))] + ["now"] * len(current)
    for number, run in zip(numbers, [*earlier, *current], strict=True):
        if as_json:
            echo_json({"run": run.id, "startedAt": run.started, "endedAt": run.finished, "entries": run.entries})
        else:
            length = _length(run, is_running=number == "now")
            entries = format_count(run.entries, "entry", "entries")
            echo(escape_to_one_line(f"{number:>4}  {run.id}  {length}, {entries}"))
    if not numbers and not as_json:
        echo(f"no run of this workspace is stored yet: {STORE_DELAY_TEXT}", err=True)


def run_entries(workspace: Path, name: str) -> Sequence[Entry]:
    """Return the log entries of a run, given by its id, or as `-1` for the last run before the current one.

    Raises:
        ClickException: there is no such run.
    """
    workspace = workspace.resolve()
    memory = open_memory(workspace)
    earlier, current = _read_runs(workspace, memory)
    if name.startswith("-") and name[1:].isdecimal() and 0 < int(name[1:]) <= len(earlier):
        return memory.entries(earlier[int(name)].id)
    if name in [run.id for run in (*earlier, *current)]:
        return memory.entries(name)
    raise click.ClickException(
        f"there is no stored run {name} in this workspace. `codriver runs` lists the stored runs"
    )


def open_memory(workspace: Path) -> Memory:
    """Open the stored data of a workspace for reading. Broken files are reported and left for a server to repair."""
    from codriver.log.memory import Memory  # noqa: PLC0415  # only needed here, as it imports TinyDB

    return Memory(
        workspace_state_directory(workspace),
        is_repairing=False,
        report=lambda message: echo(escape_to_one_line(message), err=True),
    )


def _read_runs(workspace: Path, memory: Memory) -> tuple[list[Run], list[Run]]:
    """Return the finished runs, oldest first, and the current run if it is already stored."""
    directory = server_directory(workspace)
    record = server_record.read_record(directory) if server_record.is_claimed(directory) else None
    session = record and record.session_id
    runs = memory.runs()
    return [run for run in runs if run.session != session], [run for run in runs if run.session == session]


def _length(run: Run, *, is_running: bool) -> str:
    if is_running:
        return f"{format_time(run.started)}, still running"
    return (
        f"{format_time(run.started)} to {format_time(run.finished)}"
        if run.finished
        else f"{format_time(run.started)}, did not stop properly"
    )


def format_time(epoch_ms: int) -> str:
    """Format a time in epoch milliseconds as local date and time."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(epoch_ms / 1000))
