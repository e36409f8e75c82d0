"""Plan what `codriver init` writes to the workspace's `codriver.toml`, and read which REPLs the settings name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from codriver.files import toml_file
from codriver.files.toml_file import TomlFileError
from codriver.setup.change_plan import Change, plan_removal, read_file
from codriver.setup.clients import known_clients
from codriver.wire.untrusted import mapping_or_empty
from codriver_relay.workspace_search import is_workspace

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from codriver.setup.clients import Client
    from codriver.setup.environment import Environment
    from codriver.setup.relay_launch import Launch

WORKSPACE_MARK: Final = (
    "# Codriver's settings. While this file is here, codriver-relay --workspace auto finds this folder.\n"
)
"""Content of a `codriver.toml` whose only purpose is to mark the workspace."""
CODRIVER_LINES_ONLY: Final = re.compile(r'(?:repl = \["[\w-]+"\]\n)?(?:toolset = "\w+"\n)?')
"""Matches a file that contains only lines written by `codriver init`."""
TOOLSET_LINE: Final = re.compile(r"^toolset[ \t]*=.*\n?", re.MULTILINE)
"""Matches the line that sets the toolset."""


def plan_settings(workspace: Path, repl_line: str, toolset: str | None) -> tuple[Change, ...]:
    """Return the change to `codriver.toml` for the REPL to start and the requested toolset."""
    if not repl_line and toolset is None:
        return ()
    file = workspace / "codriver.toml"
    before = read_file(file, workspace)
    text = (before or "").removeprefix("\ufeff")
    if toolset is not None:
        text = TOOLSET_LINE.sub("", text, count=1)
    line = "" if toolset is None else f'toolset = "{toolset}"\n'
    # Keys without a table must come before the first table.
    after = repl_line + line + text
    if after == (before or "").removeprefix("\ufeff"):
        return ()
    next_step = (
        "to use another REPL, change `repl` in codriver.toml"
        if repl_line
        else "`toolset` in codriver.toml determines which tools clients get"
    )
    return (Change("codriver", file, "add", before, after, next=next_step, root=workspace),)


def plan_marker_file(launch: Launch, changes: Sequence[Change]) -> tuple[Change, ...]:
    """Return the change that creates `codriver.toml`, if `--workspace auto` would not find the workspace without it."""
    needs_mark = launch.shared and any(change.is_pending and change.root is not None for change in changes)
    if not needs_mark or is_workspace(str(launch.workspace)):
        return ()
    return (Change("codriver", launch.workspace / "codriver.toml", "add", None, WORKSPACE_MARK, root=launch.workspace),)


def plan_marker_removal(
    launch: Launch, clients: Sequence[Client], environment: Environment, changes: Sequence[Change], *, is_whole: bool
) -> tuple[Change, ...]:
    """Return the change that removes `codriver.toml`, if only `init` has written to it and no other client needs it.

    With `is_whole`, everything that `init` wrote to the workspace is removed, even if no client had an entry.
    """
    file = launch.workspace / "codriver.toml"
    try:
        before = read_file(file, launch.workspace)
    except (OSError, UnicodeDecodeError):
        before = None
    is_mark = before == WORKSPACE_MARK or (before is not None and CODRIVER_LINES_ONLY.fullmatch(before) is not None)
    cleared = {change.file for change in changes if change.state == "remove" and change.root is not None}
    others = [client for client in known_clients().values() if "workspace" in client.scopes and client not in clients]
    left = plan_removal(others, launch, environment, scope="workspace")
    if (
        not is_mark
        or not (cleared or is_whole)
        or any(change.state == "remove" and change.file not in cleared for change in left)
    ):
        return ()
    return (Change("codriver", file, "remove", before, None, root=launch.workspace),)


def has_repl_setting(workspace: Path) -> bool:
    """Return whether the workspace's settings name a REPL. Also return True if they cannot be read."""
    named = named_repls(workspace)
    return named is None or bool(named)


def named_repls(workspace: Path) -> dict[str, object] | None:
    """Return the workspace's settings that name REPLs, or None if the settings cannot be read."""
    try:
        workspace_settings, project = (
            toml_file.read_toml(workspace / name, root=workspace) for name in ("codriver.toml", "pyproject.toml")
        )
    except TomlFileError:
        return None
    layers = (mapping_or_empty(mapping_or_empty(project.get("tool")).get("codriver")), workspace_settings)
    return {key: value for layer in layers for key, value in layer.items() if key in ("repl", "nrepl")}
