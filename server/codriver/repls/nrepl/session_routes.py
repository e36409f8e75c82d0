"""Decide which connection serves a session of an nREPL server, without doing anything about it.

| the server keeps apart | the session is | it gets |
| --- | --- | --- |
| nothing | a caller's | nothing: the request is refused |
| nothing | one of our own | the main session itself |
| connections | any | a connection of its own |
| sessions, or unknown | one of our own | a clone on the main connection |
| sessions, or unknown | a caller's | a clone with names of its own, where the server has those |
| sessions, or unknown | a caller's that shares names | a clone, joined to the main session where clones do not share |
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

from codriver.core.values import TEST_SESSION

if TYPE_CHECKING:
    from codriver.repls.dialects.server_dialect import Isolation

TOOL_SESSION: Final = "codriver/tool"
"""Our own session for questions, so that the caller's `*1`, `*e` and namespace stay as they are."""

CODRIVER_SESSIONS: Final = frozenset({TOOL_SESSION, TEST_SESSION})
"""The sessions that Codriver opens for itself: they share the names of the main session."""


class Route(Enum):
    """How a session comes to a connection."""

    REFUSED = "refused"
    MAIN = "the main session"
    SEPARATE_CONNECTION = "a connection of its own"
    CLONE = "a clone"
    CLONE_APART = "a clone with names of its own"
    CLONE_JOINED = "a clone that is joined to the main session"


def route_to(name: str, isolates: Isolation | None, *, shares_names: bool, has_joining: bool) -> Route:
    """Return the route of the session `name`, which is not open yet.

    Args:
        name: the name of the session.
        isolates: what the server keeps apart; None while no one knows.
        shares_names: whether the caller wants the names of the main session.
        has_joining: whether the dialect has code that lets a clone share the names of another session.
    """
    is_codrivers = name in CODRIVER_SESSIONS
    if isolates == "none":
        return Route.MAIN if is_codrivers else Route.REFUSED
    if isolates == "connection":
        return Route.SEPARATE_CONNECTION
    if shares_names and has_joining:
        return Route.CLONE_JOINED
    return Route.CLONE if is_codrivers or shares_names else Route.CLONE_APART
