"""Clients whose entry is printed so that the user can paste it. `wrapper-config/printed.toml` describes them."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from codriver.setup.clients import Client, entry_name, read_packaged_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from codriver.setup.relay_launch import Launch, Scope


@dataclass(frozen=True, slots=True)
class PastedBlock:
    """A block of text to paste into a client's configuration: where it belongs, and its template."""

    location: str
    template: str


@dataclass(frozen=True, slots=True)
class PrintedClient:
    """A client that users configure by pasting. See `wrapper-config/printed.toml` for the fields."""

    id: str
    title: str
    scope: Scope
    next: str
    blocks: tuple[PastedBlock, ...]

    def render(self, block: PastedBlock, launch: Launch) -> str:
        """Return the text of a block with the values of `launch`."""
        client = Client(self.id, self.title, block.template, is_toml=False, next=self.next)
        return client.render(launch.for_scope(self.scope), entry_name(self.scope, launch.workspace))

    def to_text(self, launch: Launch) -> str:
        """Return all blocks to paste with their locations, followed by the next steps."""
        parts = [f"{self.title}: paste into {block.location}\n\n{self.render(block, launch)}" for block in self.blocks]
        return "\n".join([*parts, f"then {self.next}\n"])


def printed_clients() -> Mapping[str, PrintedClient]:
    """Return all clients that users configure by pasting, by id."""
    table = tomllib.loads(read_packaged_text("printed.toml"))
    return MappingProxyType({name: _parse_client(name, row) for name, row in table.items()})


def printed_entries(names: Iterable[str], launch: Launch, *, remove: bool) -> tuple[str, tuple[str, ...]]:
    """Return the text to print for the named clients that users configure by pasting, and the names of all others."""
    known = printed_clients()
    printed, others = [], []
    for name in names:
        if name not in known:
            others.append(name)
        elif remove:
            locations = " and ".join(block.location for block in known[name].blocks)
            printed.append(
                f"{known[name].title}: Codriver wrote nothing. Remove the text that you pasted into {locations} "
                "yourself\n"
            )
        else:
            printed.append(known[name].to_text(launch))
    return "\n".join(printed), tuple(others)


def _parse_client(name: str, row: Mapping[str, Any]) -> PrintedClient:
    blocks = tuple(PastedBlock(location, read_packaged_text(template)) for template, location in row["paste"].items())
    return PrintedClient(name, row["title"], row["scope"], row["next"], blocks)
