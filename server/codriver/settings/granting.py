"""Settings that grant something: in a workspace's files they count only with the values that the user has accepted.

A checkout's settings were written by a stranger. Some of them would run a command, let others in or let edits out. All
others change how Codriver serves, but not what it may do to whom, and count at once.
"""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from codriver.errors import cut
from codriver.net.admission import is_loopback
from codriver.repls import kinds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from codriver.settings.declared import Grants

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
"""For each list, a function that tells whether an item grants nothing."""

_GRANTING_VALUES: Mapping[str, object] = MappingProxyType(
    {
        "auto_start_mcp_server": True,
        "allow_edits_outside_workspace": True,
        "allow_edits_of_client_files": True,
        "allow_sensitive_reads": True,
        "enable_mcp_repl_evaluation": True,
        "enable_edits": True,
        "require_token": False,
        "watch": True,  # a watcher runs the code that is saved, or checked out
        "hook_gate": True,
    }
)
"""For each switch, the value that grants something. A workspace may always take something away."""

_GRANTING_TEXTS: Final = frozenset({"host", "python"})


def granting_items(name: str, value: object, grants: Grants = "nothing") -> tuple[object, ...]:
    """Return the items of a setting's value that grant something: of a list some of its items, else the value.

    `grants`: what the feature says that declares the setting.
    """
    if name in _HARMLESS_ITEMS and isinstance(value, tuple):
        return tuple(item for item in value if not _HARMLESS_ITEMS[name](item))
    is_granting = name in _GRANTING_TEXTS or (name in _GRANTING_VALUES and value is _GRANTING_VALUES[name])
    is_granting |= grants == "any value" or (isinstance(value, bool) and grants == json.dumps(value))
    return (value,) if is_granting else ()


def split_granting(
    name: str, value: object, current: object, accepted: tuple[object, ...], grants: Grants = "nothing"
) -> tuple[object, object]:
    """Split a value for the setting `name` from a workspace's file into the part that counts and the rest.

    Each part is None if it is empty. `current`: the value without that file, which needs no acceptance. `accepted`: the
    granting items that the user has accepted. `grants`: what the feature says that declares the setting.
    """
    granting = granting_items(name, value, grants)
    if name in _HARMLESS_ITEMS and isinstance(value, tuple):
        known = (*(current if isinstance(current, tuple) else ()), *accepted)
        held = tuple(item for item in granting if item not in known)
        counting = tuple(item for item in value if item not in held)
        return (counting if counting or not held else None), held or None
    return (None, value) if granting and value != current and value not in accepted else (value, None)


_OF_ITEMS: Mapping[str, str] = MappingProxyType(
    {
        "repl": "the words of known REPLs; a command line once accepted",
        "nrepl": "on this machine; others once accepted",
        "port_files": "below the workspace; others once accepted",
        "skill_sources": "once accepted",
        "kernels": "never",
    }
)


def when_it_counts(name: str, grants: Grants = "nothing") -> str:
    """Describe the condition under which a workspace's file decides the setting `name`."""
    if name in _GRANTING_VALUES:
        return f"{json.dumps(_GRANTING_VALUES[name])} once accepted"
    if grants in {"true", "false"}:
        return f"{grants} once accepted"
    is_granting = name in _GRANTING_TEXTS or grants == "any value"
    return _OF_ITEMS.get(name) or ("once accepted" if is_granting else "always")


def shown_value(value: object) -> str:
    """Return a value in one line, not too long."""
    return cut(json.dumps(value, default=str), SHOWN_CHARACTERS)
