"""`codriver trust`: accept a workspace's settings and its Python environment."""

from __future__ import annotations

import os
from pathlib import Path  # noqa: TC003  # for the annotation alone, and loaded already

import click

from codriver.commands.options import exact_workspace_option
from codriver.commands.terminal import echo
from codriver.log.control_characters import escape_to_one_line


@click.command("trust", short_help="Accept this workspace's settings and environment.")
@exact_workspace_option
@click.option("--remove", is_flag=True, help="Revoke the acceptance.")
@click.option(
    "--list", "is_listing", is_flag=True, help="List the workspaces that you have accepted. Nothing is changed."
)
def trust_command(*, workspace: Path, remove: bool, is_listing: bool) -> None:
    """Accept this workspace's settings and its Python environment as they are now.

    Anybody may have written `codriver.toml` and `[tool.codriver]` in pyproject.toml. Until you accept them, Codriver
    ignores settings that would run a command, admit other machines, allow edits outside the workspace, or give agents
    the workspace's own skills. A server that a client starts here also runs no interpreter inside the workspace and no
    Python tests. Evaluated code and Lisp tests still run in the REPL, because somebody requests them.
    `codriver config check` lists the settings that are ignored.

    Your acceptance is stored outside the workspace. You have to accept it again when a setting that grants something
    changes, and when the environment becomes a link that leads outside the workspace, belongs to another user or is
    tracked by git. You do not have to accept it again when the environment is rebuilt or other settings change.

    Exit status: 0 ok, 1 a file cannot be read or written, 2 wrong usage.
    """
    from codriver.settings import acceptance_records  # noqa: PLC0415  # only needed here

    if remove and is_listing:
        raise click.UsageError("--remove and --list cannot be used together")
    if is_listing:
        _list_accepted()
    elif remove:
        was_accepted = acceptance_records.revoke_acceptance(workspace)
        echo(
            f"{escape_to_one_line(str(workspace.resolve()))}: "
            f"{'no longer accepted' if was_accepted else 'was not accepted'}"
        )
    else:
        _accept_current_settings(workspace.resolve())


def _list_accepted() -> None:
    from codriver.settings import acceptance_records  # noqa: PLC0415  # only needed here

    accepted = acceptance_records.list_accepted()
    for entry in accepted:
        echo(
            escape_to_one_line(entry.workspace)
            + ("" if entry.lapsed is None else f": lapsed because {escape_to_one_line(entry.lapsed)}")
        )
    if not accepted:
        echo("you have not accepted any workspace", err=True)


def _accept_current_settings(workspace: Path) -> None:
    from codriver.app.workspace_settings import load_workspace_settings  # noqa: PLC0415  # as above
    from codriver.settings.acceptance import accept_workspace  # noqa: PLC0415  # only needed here

    loaded = load_workspace_settings(workspace, environ=os.environ)
    accept_workspace(workspace, loaded, os.environ)
    echo(f"{escape_to_one_line(str(workspace))}: accepted, with its current settings and environment")
    for setting in loaded.withheld:
        echo(f"  now takes effect: {escape_to_one_line(str(setting))}")
