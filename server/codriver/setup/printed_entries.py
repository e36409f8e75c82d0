"""The entries that `codriver init` prints to be pasted: of clients whose files it does not write."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from codriver.setup.clients import Client, entry_name, shipped_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from codriver.setup.clients import Launch, Scope


@dataclass(frozen=True, slots=True)
class Block:
    """A text to be pasted: the place that it belongs to, and the template."""

    place: str
    template: str


@dataclass(frozen=True, slots=True)
class PrintedClient:
    """A client whose entry is printed, as `wrapper-config/printed.toml` describes it."""

    id: str
    title: str
    scope: Scope
    next: str
    blocks: tuple[Block, ...]

    def render(self, block: Block, launch: Launch) -> str:
        """The text of a block, filled in."""
        client = Client(self.id, self.title, block.template, is_toml=False, next=self.next)
        return client.render(launch.in_scope(self.scope), entry_name(self.scope, launch.workspace))

    def to_text(self, launch: Launch) -> str:
        """All that is to be pasted, each block behind its place, and what to do then."""
        parts = [f"{self.title}: paste into {block.place}\n\n{self.render(block, launch)}" for block in self.blocks]
        return "\n".join([*parts, f"then {self.next}\n"])


def printed_clients() -> Mapping[str, PrintedClient]:
    """Every client whose entry is printed, by its id."""
    table = tomllib.loads(shipped_text("printed.toml"))
    return MappingProxyType({name: _client(name, row) for name, row in table.items()})


def printed_entries(names: Iterable[str], launch: Launch, *, remove: bool) -> tuple[str, tuple[str, ...]]:
    """The text that `init` prints for those clients among `names` whose entries it does not write, and the rest."""
    known = printed_clients()
    texts, others = [], []
    for name in names:
        if name not in known:
            others.append(name)
        elif remove:
            places = " and ".join(block.place for block in known[name].blocks)
            texts.append(
                f"{known[name].title}: codriver wrote nothing; take out by hand what you pasted into {places}\n"
            )
        else:
            texts.append(known[name].to_text(launch))
    return "\n".join(texts), tuple(others)


def _client(name: str, row: Mapping[str, Any]) -> PrintedClient:
    blocks = tuple(Block(place, shipped_text(template)) for template, place in row["paste"].items())
    return PrintedClient(name, row["title"], row["scope"], row["next"], blocks)
