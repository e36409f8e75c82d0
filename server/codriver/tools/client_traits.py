"""What is known of clients by the name that they give themselves: one table, an entry for each that is special."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Traits:
    """How a client differs from one that does all that the protocol lets it do."""

    lists_once: bool = False
    """It asks for the list of tools once, whatever it is told of changes later."""


TRAITS: Mapping[str, Traits] = MappingProxyType(
    {
        "codex-mcp-client": Traits(lists_once=True),
        "qwen-cli-mcp-client": Traits(lists_once=True),
    }
)
"""By the beginning of `clientInfo.name`. Source: Codex 0.169 and Qwen Code 0.24, observed."""
_ORDINARY = Traits()


def traits_of(client_name: str) -> Traits:
    """The traits of the client of this name."""
    return next((traits for start, traits in TRAITS.items() if client_name.startswith(start)), _ORDINARY)
