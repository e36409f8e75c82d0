"""A REPL session of one's own, so that two callers do not share a namespace or `*1`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver.core.actions import SessionOpened
from codriver.errors import ReplDisconnectedError
from codriver.repls.errors import CapabilityMissingError
from codriver.tools.session_choice import Target

if TYPE_CHECKING:
    from codriver.core.state import Repl
    from codriver.tools.base import Call


async def isolated(call: Call, target: Target, who: str) -> Target:
    """The session of `who` and this client beside `target`, opened now if it is not there yet. It ends with the client.

    Raises:
        CapabilityMissingError: this REPL keeps nothing apart, or is not connected yet.
        ReplDisconnectedError: it was lost meanwhile.
    """
    repl = target.repl
    if repl.profile is None:
        raise CapabilityMissingError("sessions", f"the REPL {repl.key} is not connected yet: call again when it is")
    if repl.profile.isolation == "none":
        raise CapabilityMissingError(
            "sessions", f"the REPL {repl.key} keeps nothing apart: evaluate without isolate, in a namespace of your own"
        )
    while True:
        repl = _still_there(call, repl)
        own = next((one for one in repl.sessions.values() if (one.who, one.client) == (who, call.client)), None)
        if own is not None:
            return Target(repl, own)
        name = _free_name(repl, who)
        await call.services.repls.adapter(repl.id).open_session(name)
        # Somebody may have taken the name meanwhile: then the next one is tried.
        if name not in _still_there(call, repl).sessions:
            call.dispatch(SessionOpened(repl.id, name), who=who)


def _still_there(call: Call, repl: Repl) -> Repl:
    known = call.state.repls.get(repl.id)
    if known is None or known.profile is None:
        raise ReplDisconnectedError("it was lost while a session was opened in it; call again when it is back")
    return known


def _free_name(repl: Repl, who: str) -> str:
    """`who`, or `who-2` and so on where another client's session has the name."""
    name, number = who, 1
    while name in repl.sessions:
        number += 1
        name = f"{who}-{number}"
    return name
