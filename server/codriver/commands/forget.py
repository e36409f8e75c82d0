"""`codriver forget`: list or delete the stored data about a workspace."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from codriver.commands.history import HISTORY_KIND, history_rows
from codriver.commands.options import workspace_option
from codriver.commands.runs import RUNS_KIND, format_time, open_memory
from codriver.commands.terminal import echo
from codriver.files.codriver_paths import history_file, server_directory
from codriver.log.control_characters import escape_to_one_line
from codriver.net import server_record

if TYPE_CHECKING:
    from pathlib import Path

    from codriver.log.memory import Memory


@click.command("forget", short_help="List or delete the stored data about this workspace.")
@click.argument("kinds", nargs=-1, metavar="[KIND]...")
@click.option("--all", "is_all", is_flag=True, help="Delete everything, including the history.")
@workspace_option
def forget_command(*, kinds: tuple[str, ...], is_all: bool, workspace: Path) -> None:
    """List the data stored about this workspace, or delete one KIND of it: `runs`, `history` or another one listed.

    A running server uses the history and the log, so stop it before you delete `runs`, `history` or everything.
    """
    workspace = workspace.resolve()
    memory = open_memory(workspace)
    documents = memory.documents()
    known = [RUNS_KIND, HISTORY_KIND, *dict.fromkeys(document.kind for document in documents)]
    for kind in kinds:
        if kind not in known:
            raise click.UsageError(f"no data of the kind {kind!r} is stored. Choose one of {', '.join(known)}")
    if not kinds and not is_all:
        echo(f"runs: {len(memory.run_ids())}")
        echo(f"history: {len(history_rows(workspace, ''))} evaluations")
        for document in documents:
            echo(
                escape_to_one_line(
                    f"{document.kind}: {document.name}, {format_time(document.time)} {document.text}".rstrip()
                )
            )
        return
    chosen = known if is_all else kinds
    if {RUNS_KIND, HISTORY_KIND} & set(chosen) and server_record.is_claimed(server_directory(workspace)):
        raise click.ClickException(
            "nothing was deleted, because the running server is using the history and its log. Run `codriver stop`, "
            "then repeat this command"
        )
    for kind in chosen:
        _forget(memory, workspace, kind)
        echo(escape_to_one_line(f"forgotten: {kind}"))


def _forget(memory: Memory, workspace: Path, kind: str) -> None:
    try:
        if kind == RUNS_KIND:
            memory.delete_runs(memory.run_ids())
        elif kind == HISTORY_KIND:
            from codriver.log.history import forget_history  # noqa: PLC0415  # only needed here

            forget_history(history_file(workspace))
        else:
            memory.delete_documents(kind)
    except OSError as error:
        raise click.ClickException(f"cannot delete {kind}: {error}") from error
