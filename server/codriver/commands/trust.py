"""`codriver trust`: accepting what a workspace's settings files say."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from codriver.commands.options import workspace_option
from codriver.commands.terminal import say
from codriver.log.control_characters import one_line
from codriver.settings import trust
from codriver.settings.layers import load

if TYPE_CHECKING:
    from pathlib import Path


@click.command("trust", short_help="Accept what this workspace's settings files say.")
@workspace_option
@click.option("--remove", is_flag=True, help="Take it back.")
@click.option("--list", "is_listing", is_flag=True, help="List the workspaces that you have accepted; change nothing.")
def trust_command(*, workspace: Path, remove: bool, is_listing: bool) -> None:
    """Accept what `codriver.toml` and `[tool.codriver]` of pyproject.toml say now.

    Anybody may have written these files. Until you accept them, what in them would run a command, let others in, let
    edits out of the workspace or show agents the workspace's own skills does not count, and a client that starts a
    server here starts no interpreter that lies in the workspace. `codriver config check` names what does not count.

    What you accept is kept outside the workspace. When the settings change, they have to be accepted again.

    Exit status: 0 ok, 1 the files cannot be read or nothing could be kept, 2 wrong usage.
    """
    if remove and is_listing:
        raise click.UsageError("--remove and --list exclude each other")
    if is_listing:
        _list()
    elif remove:
        was_there = trust.forget(workspace)
        say(f"{one_line(str(workspace.resolve()))}: {'accepted no more' if was_there else 'was not accepted'}")
    else:
        _accept(workspace.resolve())


def _list() -> None:
    accepted = trust.list_accepted()
    for entry in accepted:
        say(one_line(entry.workspace) + ("" if entry.is_current else ": its settings changed since, or are gone"))
    if not accepted:
        say("you have accepted no workspace", err=True)
        sys.exit(1)


def _accept(workspace: Path) -> None:
    loaded = load(workspace, environ=os.environ)
    trust.accept(workspace, loaded.tables)
    say(f"{one_line(str(workspace))}: accepted, with what its settings say now")
    for line in loaded.withheld:
        say(f"  counts from now on: {one_line(line)}")
