"""The settings by which a workspace would be allowed something, and so count only once its user has accepted them.

Everything else in a workspace's settings changes how Codriver serves, and nothing about what it may do to whom.
"""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from codriver.net.admission import is_loopback
from codriver.repls import kinds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

SHOWN_CHARACTERS: Final = 120


def _is_known_repl(words: str) -> bool:
    return words == kinds.NO_REPL or words in kinds.by_word()


def _is_near(address: str) -> bool:
    host, colon, _ = address.rpartition("=")[2].rpartition(":")
    return not colon or is_loopback(host)


def _is_within(path: str) -> bool:
    return not (path.startswith(("/", "\\")) or ".." in path or ":" in path)


_HARMLESS_ITEMS: Mapping[str, Callable[[str], bool]] = MappingProxyType(
    {
        "repl": _is_known_repl,  # any other word is a command line, and an interpreter's path is one too
        "nrepl": _is_near,
        "port_files": _is_within,
        "skill_sources": lambda _: False,
    }
)
"""By list: whether an item grants nothing."""

_GRANTING_VALUES: Mapping[str, object] = MappingProxyType(
    {
        "auto_start_mcp_server": True,
        "allow_edits_outside_workspace": True,
        "enable_mcp_repl_evaluation": True,
        "require_token": False,
        "watch": True,  # it runs what is saved, or checked out
    }
)
"""By switch: the side of it that grants something. A workspace may always take something away."""

_GRANTING_TEXTS: Final = frozenset({"host", "clojuredocs_url"})


def split(name: str, value: object, current: object) -> tuple[object, object]:
    """What counts of a value that a workspace's file gives to the setting `name`, and what does not, None for nothing.

    `current`: what holds without that file, which nobody has to be asked for.
    """
    if name in _HARMLESS_ITEMS and isinstance(value, tuple):
        had = current if isinstance(current, tuple) else ()
        held = tuple(item for item in value if item not in had and not _HARMLESS_ITEMS[name](item))
        kept = tuple(item for item in value if item not in held)
        return (kept if kept or not held else None), held or None
    is_granting = name in _GRANTING_TEXTS or (name in _GRANTING_VALUES and value is _GRANTING_VALUES[name])
    return (None, value) if is_granting and value != current else (value, None)


_OF_ITEMS: Mapping[str, str] = MappingProxyType(
    {
        "repl": "the words of known REPLs; a command line once accepted",
        "nrepl": "on this machine; others once accepted",
        "port_files": "below the workspace; others once accepted",
        "skill_sources": "once accepted",
    }
)


def when_it_counts(name: str) -> str:
    """In words, when a workspace's file decides the setting `name`."""
    if name in _GRANTING_VALUES:
        return f"{json.dumps(_GRANTING_VALUES[name])} once accepted"
    return _OF_ITEMS.get(name) or ("once accepted" if name in _GRANTING_TEXTS else "always")


def shown(value: object) -> str:
    """A value in one line, not too long."""
    text = json.dumps(value, default=str)
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[: SHOWN_CHARACTERS - 1]}…"
