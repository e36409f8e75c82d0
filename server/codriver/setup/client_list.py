"""The list of all clients for `codriver init --list`: which are found, which have an entry, which were connected."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from codriver.setup.change_plan import plan
from codriver.setup.clients import known_clients
from codriver.setup.printed_entries import printed_clients

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from codriver.setup.clients import Client, Environment, Launch

HEAD = ("client", "--client", "found", "last connected", "entry")


def client_list(launch: Launch, environment: Environment, seen: Mapping[str, int]) -> str:
    """A table with a line for each client that `init` knows, as seen from `launch.workspace`.

    `seen`: when the callers of each client were last connected, in any workspace, in seconds since 1970.
    """
    rows = [HEAD, *(_row(client, launch, environment, seen) for client in known_clients().values())]
    printed = [(one.title, one.id, "?", _moment(seen.get(one.id))) for one in printed_clients().values()]
    rows += [(*cells, "not looked for: --client prints one") for cells in printed]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
    return "\n".join(_line(row, widths) for row in rows) + "\n"


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()


def _row(client: Client, launch: Launch, environment: Environment, seen: Mapping[str, int]) -> tuple[str, ...]:
    is_found = client.is_used_in(launch.workspace) or client.is_on(environment)
    found = "yes" if is_found else "no"
    return client.title, client.id, found, _moment(seen.get(client.who)), _entry(client, launch, environment)


def _moment(when: int | None) -> str:
    """A time for a person, in the time zone of this machine."""
    return "never" if when is None else time.strftime("%Y-%m-%d %H:%M", time.localtime(when))


def _entry(client: Client, launch: Launch, environment: Environment) -> str:
    """The places of its entries; that one is of another kind than `init` writes, or its file cannot be read, too."""
    told: list[str] = []
    for scope in client.scopes:
        (change,) = plan([client], launch, environment, scope=scope)
        place = _shown(change.file, launch.workspace, environment.home)
        if change.state == "same":
            told.append(f"in {place}")
        elif change.state == "replace":
            told.append(f"{place}: an older entry, with paths of this machine")
        elif change.state == "refused":
            told.append(f"{place}: {change.problem}")
    return ", ".join(told) or "none"


def _shown(file: Path, workspace: Path, home: Path) -> str:
    """The path as short as a person writes it."""
    if file.is_relative_to(workspace):
        return str(file.relative_to(workspace))
    return f"~/{file.relative_to(home)}" if file.is_relative_to(home) else str(file)
