"""Settings that grant permissions: a file in the workspace can only set them to values that the user has accepted.

A stranger may have written the settings in a checkout. Some settings run a command, open a port or allow edits
elsewhere. All others change how Codriver works but not what it is allowed to do, and take effect without acceptance.
"""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from codriver.errors import truncate
from codriver.net.admission import is_loopback
from codriver.repls import kinds

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping

    from codriver.settings.declared import Grants

MAX_VALUE_CHARACTERS: Final = 120
"""Maximum length of a setting's value in a message."""


def _is_known_repl(words: str) -> bool:
    return words == kinds.NO_REPL_SETTING or words in kinds.kinds_by_word()


def _is_loopback_address(address: str) -> bool:
    host, colon, _ = address.rpartition("=")[2].rpartition(":")
    return not colon or is_loopback(host)


def _is_within(path: str) -> bool:
    return not (path.startswith(("/", "\\")) or ".." in path or ":" in path)


_HARMLESS_ITEM_CHECKS: Mapping[str, Callable[[str], bool]] = MappingProxyType(
    {
        "repl": _is_known_repl,  # anything else is a command line; the path of an interpreter is one too
        "nrepl": _is_loopback_address,
        "port_files": _is_within,
        "skill_sources": lambda _: False,
    }
)
"""For each list setting, a function that returns whether an item grants nothing."""

_GRANTING_VALUES: Mapping[str, object] = MappingProxyType(
    {
        "auto_start_mcp_server": True,
        "allow_edits_outside_workspace": True,
        "allow_edits_of_client_files": True,
        "enable_mcp_repl_evaluation": True,
        "enable_edits": True,
        "require_token": False,
        "watch": True,  # a watcher runs code as soon as it is saved or checked out
        "hook_gate": True,
    }
)
"""For each switch, the value that grants something. A workspace may always choose the opposite."""

_GRANTING_STRINGS: Final = frozenset({"host", "python"})
"""String settings that grant something regardless of their value."""


def granting_items(
    name: str, value: object, grants: Grants = "nothing", added_repls: Container[str] = ()
) -> tuple[object, ...]:
    """Return the parts of a setting's value that grant something: items of a list, or the whole value.

    `grants` is what the feature that declares the setting specifies. `added_repls` are the names of features' REPLs.
    """
    if name in _HARMLESS_ITEM_CHECKS and isinstance(value, tuple):
        items = (item for item in value if not _HARMLESS_ITEM_CHECKS[name](item))
        return tuple(item for item in items if not (name == "repl" and item in added_repls))
    is_granting = name in _GRANTING_STRINGS or (name in _GRANTING_VALUES and value is _GRANTING_VALUES[name])
    is_granting |= grants == "any value" or (isinstance(value, bool) and grants == json.dumps(value))
    return (value,) if is_granting else ()


def split_granting(
    name: str, value: object, current: object, accepted: tuple[object, ...], granting: tuple[object, ...]
) -> tuple[object, object]:
    """Split a value from a file in the workspace into the part that takes effect and the part that is withheld.

    Each part is None if it is empty. `current` is the value without this file, which needs no acceptance. `accepted`
    are the items that the user has accepted, and `granting` are the items of the value that need acceptance: see
    `granting_items`.
    """
    if name in _HARMLESS_ITEM_CHECKS and isinstance(value, tuple):
        known = (*(current if isinstance(current, tuple) else ()), *accepted)
        withheld = tuple(item for item in granting if item not in known)
        counting = tuple(item for item in value if item not in withheld)
        return (counting if counting or not withheld else None), withheld or None
    return (None, value) if granting and value != current and value not in accepted else (value, None)


_ITEM_CONDITIONS: Mapping[str, str] = MappingProxyType(
    {
        "repl": "names of known REPLs; command lines once accepted",
        "nrepl": "on this machine; others once accepted",
        "port_files": "inside the workspace; others once accepted",
        "skill_sources": "once accepted",
    }
)
"""Items allowed in a workspace's file without acceptance, by list-valued setting, for the table of settings."""


def describe_grant_condition(name: str, grants: Grants = "nothing") -> str:
    """Describe when a file in the workspace may decide this setting, for the table of settings."""
    if name in _GRANTING_VALUES:
        return f"{json.dumps(_GRANTING_VALUES[name])} once accepted"
    if grants in {"true", "false"}:
        return f"{grants} once accepted"
    is_granting = name in _GRANTING_STRINGS or grants == "any value"
    return _ITEM_CONDITIONS.get(name) or ("once accepted" if is_granting else "always")


def value_as_json_line(value: object) -> str:
    """Format a value as one line of JSON, truncated if it is long."""
    return truncate(json.dumps(value, default=str), MAX_VALUE_CHARACTERS)
