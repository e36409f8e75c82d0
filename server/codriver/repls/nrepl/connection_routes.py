"""Choose the connection to an nREPL server for a session.

| the server isolates  | the session belongs to         | the session gets                                          |
| --------------------- | ------------------------------ | --------------------------------------------------------- |
| nothing               | a caller                       | nothing: the request is refused                           |
| nothing               | Codriver                       | the main session itself                                   |
| connections           | anyone                         | a separate connection                                     |
| sessions, or unknown  | Codriver                       | a clone on the main connection                            |
| sessions, or unknown  | a caller                       | a clone with separate names, if the server supports that  |
| sessions, or unknown  | a caller, and shares names     | a clone that shares them                                  |
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

from codriver.core.requests import TEST_SESSION

if TYPE_CHECKING:
    from codriver.repls.dialects.server_dialect import Isolation

TOOL_SESSION: Final = "codriver/tool"
"""The session for Codriver's own programs, so that the caller's `*1`, `*e` and namespace do not change."""

CODRIVER_SESSIONS: Final = frozenset({TOOL_SESSION, TEST_SESSION})
"""The sessions that Codriver opens for itself. They share the main session's names."""


class Route(Enum):
    """The ways in which a session can get a connection."""

    REFUSED = "refused"
    MAIN = "the main session"
    SEPARATE_CONNECTION = "a separate connection"
    CLONE = "a clone"
    CLONE_APART = "a clone with separate names"
    CLONE_JOINED = "a clone that is joined to the main session"


def choose_route(name: str, isolates: Isolation | None, *, shares_names: bool, has_joining: bool) -> Route:
    """Choose how a session that is not open yet gets a connection.

    `name` is the name of the session. `isolates` is what the server isolates, or None if that is not known yet. With
    `shares_names`, the session is to use the main session's names. `has_joining` means that the dialect has code that
    makes a clone share another session's names.
    """
    is_codrivers = name in CODRIVER_SESSIONS
    if isolates == "none":
        return Route.MAIN if is_codrivers else Route.REFUSED
    if isolates == "connection":
        return Route.SEPARATE_CONNECTION
    if shares_names and has_joining:
        return Route.CLONE_JOINED
    return Route.CLONE if is_codrivers or shares_names else Route.CLONE_APART
