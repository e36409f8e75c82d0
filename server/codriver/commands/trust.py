"""`codriver trust`: accept a workspace's settings and its Python environment."""

from __future__ import annotations

import os
from pathlib import Path  # noqa: TC003  # for the annotation alone, and loaded already

import click

from codriver.commands.options import exact_workspace_option
from codriver.commands.terminal import echo
from codriver.log.control_characters import one_line


@click.command("trust", short_help="Accept this workspace's settings and environment.")
@exact_workspace_option
@click.option("--remove", is_flag=True, help="Take it back.")
@click.option("--list", "is_listing", is_flag=True, help="List the workspaces that you have accepted; change nothing.")
def trust_command(*, workspace: Path, remove: bool, is_listing: bool) -> None:
    """Accept this workspace's settings and its Python environment, as they are now.

    Anybody may have written `codriver.toml` and `[tool.codriver]` of pyproject.toml. Until you accept them, settings
    that would run a command, let others in, let edits out of the workspace or show agents the workspace's own skills do
    not count. A client that starts a server here starts no interpreter that lies in the workspace, either.
    `codriver config check` names what does not count.

    What you accept is kept outside the workspace. A setting that grants something has to be accepted again when it
    changes; other settings do not matter. The environment has to be accepted again when it becomes a link out of the
    workspace, belongs to another user or is tracked by git, but not when it is rebuilt.

    Exit status: 0 ok, 1 the files cannot be read or nothing could be kept, 2 wrong usage.
    """
    from codriver.settings import trust  # noqa: PLC0415  # only needed here

    if remove and is_listing:
        raise click.UsageError("--remove and --list exclude each other")
    if is_listing:
        _list_accepted()
    elif remove:
        was_accepted = trust.forget(workspace)
        echo(f"{one_line(str(workspace.resolve()))}: {'accepted no more' if was_accepted else 'was not accepted'}")
    else:
        _accept_as_written(workspace.resolve())


def _list_accepted() -> None:
    from codriver.settings import trust  # noqa: PLC0415  # only needed here

    accepted = trust.list_accepted()
    for entry in accepted:
        echo(one_line(entry.workspace) + ("" if entry.lapsed is None else f": lapsed, as {one_line(entry.lapsed)}"))
    if not accepted:
        echo("you have accepted no workspace", err=True)


def _accept_as_written(workspace: Path) -> None:
    from codriver.app.workspace_settings import load  # noqa: PLC0415  # as above
    from codriver.settings.acceptance import accept_workspace  # noqa: PLC0415  # only needed here

    loaded = load(workspace, environ=os.environ)
    accept_workspace(workspace, loaded, os.environ)
    echo(f"{one_line(str(workspace))}: accepted, with its settings and its environment as they are now")
    for one in loaded.withheld:
        echo(f"  counts from now on: {one_line(str(one))}")
