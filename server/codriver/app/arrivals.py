"""Arrivals: the REPLs and clients that came and went since the last look, in lines for the terminal of `serve`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from codriver.core.state import Repl

OWN = "codriver-"
"""The names of our own commands begin so: they come and go in a moment."""


@dataclass(slots=True)
class Arrivals:
    """The REPLs that are connected, and the clients, as they were told last."""

    _repls: dict[str, str] = field(default_factory=dict)
    _clients: dict[str, str] = field(default_factory=dict)

    def lines(self, repls: Iterable[Repl], clients: Iterable[Mapping[str, Any]]) -> Iterator[str]:
        """A line for each that came or went."""
        now = {repl.key: f"{repl.origin.text}, {repl.dialect}" for repl in repls if repl.phase == "connected"}
        for key in now.keys() - self._repls.keys():
            yield f"REPL {key} is connected ({now[key]})"
        for key in self._repls.keys() - now.keys():
            yield f"REPL {key} is no longer connected: `codriver status` says why"
        named = {str(row["id"]): str(row["name"]) for row in clients if row["name"]}
        there = {key: name for key, name in named.items() if not name.startswith(OWN)}
        for key in there.keys() - self._clients.keys():
            yield f"client {there[key]} came; {_counted(len(there))}"
        for key in self._clients.keys() - there.keys():
            yield f"client {self._clients[key]} left; {_counted(len(there))}"
        self._repls, self._clients = now, there


def _counted(count: int) -> str:
    return {0: "none is connected", 1: "1 is connected"}.get(count, f"{count} are connected")
