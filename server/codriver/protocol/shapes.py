"""Shapes of requests: whether one is so exactly what the protocol describes that nobody needs to look it up.

A shape is stricter than the protocol wherever that saves words: what does not fit one may still be right, and is then
read by the SDK. A member that the protocol does not know, null for one that is left out, 1 for true: none of them fits.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

from codriver.protocol.versions import (
    CAPABILITIES_KEY,
    CLIENT_KEY,
    LEVEL_KEY,
    LEVELS,
    MODERN,
    TASKS,
    TOKEN,
    VERSION_KEY,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    Shape: TypeAlias = "type | tuple[type, ...] | frozenset[str] | Members | ListOf"

NONE: Mapping[str, Shape] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Members:
    """An object: with all members that are `needed`, perhaps some that are `known`, each of its shape.

    Any other has the shape `others`; None: there is no other.
    """

    needed: Mapping[str, Shape] = field(default_factory=lambda: NONE)
    known: Mapping[str, Shape] = field(default_factory=lambda: NONE)
    others: Shape | None = None


@dataclass(frozen=True, slots=True)
class ListOf:
    """An array of values of one shape."""

    items: Shape


def fits(value: object, shape: Shape) -> bool:
    """True for a value, as JSON has it, that is exactly of this shape."""
    if isinstance(shape, type):
        return type(value) is shape
    if isinstance(shape, tuple):
        return type(value) in shape
    if isinstance(shape, frozenset):
        return type(value) is str and value in shape
    if isinstance(shape, ListOf):
        return type(value) is list and all(fits(item, shape.items) for item in value)
    if type(value) is not dict or not shape.needed.keys() <= value.keys():
        return False
    for name, member in value.items():
        of_member = shape.needed.get(name, shape.known.get(name, shape.others))
        if of_member is None or not fits(member, of_member):
            return False
    return True


ANYTHING = (dict, list, str, int, float, bool, type(None))
OBJECTS = Members(others=dict)
NEVER: frozenset[str] = frozenset()
"""What no value fits."""

CLIENT = Members(needed={"name": str, "version": str}, known={"title": str, "description": str, "websiteUrl": str})
CAPABILITIES = Members(
    known={
        "elicitation": Members(known={"form": dict, "url": dict}, others=ANYTHING),
        "experimental": OBJECTS,
        "extensions": Members(known={TASKS: NEVER}, others=dict),  # with tasks, calls have other answers
        "roots": Members(known={"listChanged": bool}, others=ANYTHING),
        "sampling": Members(known={"context": dict, "tools": dict}, others=ANYTHING),
        "tasks": Members(known={"list": dict, "cancel": dict, "requests": Members(others=OBJECTS)}),
    },
    others=ANYTHING,
)

META = Members(known={TOKEN: (str, int), VERSION_KEY: NEVER}, others=ANYTHING)
"""The `_meta` of a request where the client has made the handshake."""
META_OF_MODERN = Members(
    needed={VERSION_KEY: frozenset({MODERN}), CAPABILITIES_KEY: CAPABILITIES},
    known={TOKEN: (str, int), CLIENT_KEY: CLIENT, LEVEL_KEY: NEVER},  # with a level, it is told messages meanwhile
    others=ANYTHING,
)
"""That of a request which tells of its client itself."""


def _params(needed: Mapping[str, Shape] = NONE, known: Mapping[str, Shape] = NONE) -> Members:
    return Members(needed, {**known, "_meta": dict})


HELLO = _params({"protocolVersion": str, "capabilities": CAPABILITIES, "clientInfo": CLIENT})
NOTHING = _params()
PAGE = _params(known={"cursor": str})
CALL = _params({"name": str}, {"arguments": dict})
LEVEL = _params({"level": frozenset(LEVELS)})
RESOURCE = _params({"uri": str})
KINDS_OF_CHANGE = ("toolsListChanged", "promptsListChanged", "resourcesListChanged")
CHANGES = _params(
    {"notifications": Members(known={**dict.fromkeys(KINDS_OF_CHANGE, bool), "resourceSubscriptions": ListOf(str)})}
)
CANCELLATION = _params({"requestId": (str, int)}, {"reason": str})
