"""List clients for `codriver init --list`: whether each one was found, is configured, and has been connected."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from codriver.setup.change_plan import plan_entries
from codriver.setup.clients import known_clients
from codriver.setup.printed_clients import printed_clients

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from codriver.setup.clients import Client
    from codriver.setup.environment import Environment
    from codriver.setup.relay_launch import Launch

COLUMN_TITLES = ("client", "--client", "found", "last connected", "entry")
"""The column titles of the list of clients."""


def render_client_table(launch: Launch, environment: Environment, seen: Mapping[str, int]) -> str:
    """Return a table of all known clients, and where they are configured for `launch.workspace`.

    `seen` maps clients to the time of their last connection to any server, in seconds since the epoch.
    """
    rows = [COLUMN_TITLES, *(_client_row(client, launch, environment, seen) for client in known_clients().values())]
    printed = [
        (client.title, client.id, "?", _format_time(seen.get(client.id))) for client in printed_clients().values()
    ]
    rows += [(*cells, "not detected. --client prints an entry to paste") for cells in printed]
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMN_TITLES))]
    return "\n".join(_format_row(row, widths) for row in rows) + "\n"


def _format_row(row: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()


def _client_row(client: Client, launch: Launch, environment: Environment, seen: Mapping[str, int]) -> tuple[str, ...]:
    is_found = client.is_used_in(launch.workspace) or client.is_installed(environment)
    found = "yes" if is_found else "no"
    return (
        client.title,
        client.id,
        found,
        _format_time(seen.get(client.who)),
        _describe_entries(client, launch, environment),
    )


def _format_time(when: int | None) -> str:
    """Format a time in the local time zone. None becomes "never"."""
    return "never" if when is None else time.strftime("%Y-%m-%d %H:%M", time.localtime(when))


def _describe_entries(client: Client, launch: Launch, environment: Environment) -> str:
    """Return the locations of a client's entries, including entries that differ and files that cannot be read."""
    found: list[str] = []
    for scope in client.scopes:
        (change,) = plan_entries([client], launch, environment, scope=scope)
        path = _display_path(change.file, launch.workspace, environment.home)
        if change.state == "same":
            found.append(f"in {path}")
        elif change.state == "replace":
            found.append(f"{path}: an older entry with paths from this machine")
        elif change.state == "refused":
            found.append(f"{path}: {change.reason}")
    return ", ".join(found) or "none"


def _display_path(file: Path, workspace: Path, home: Path) -> str:
    """Return a path relative to the workspace or the home directory, if possible."""
    if file.is_relative_to(workspace):
        return str(file.relative_to(workspace))
    return f"~/{file.relative_to(home)}" if file.is_relative_to(home) else str(file)
