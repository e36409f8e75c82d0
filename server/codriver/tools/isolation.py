"""A REPL session of one's own, so that two callers do not share a namespace or `*1`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver.core.actions import SessionOpened
from codriver.repls.base import CapabilityMissingError
from codriver.tools.target import Target

if TYPE_CHECKING:
    from codriver.tools.base import Call


async def isolated(call: Call, target: Target, who: str) -> Target:
    """The session of `who` beside `target`, opened now if it is not there yet. It ends with its client.

    Raises:
        CapabilityMissingError: this REPL keeps nothing apart, or is not connected yet.
    """
    repl = target.repl
    if who in repl.sessions:
        return Target(repl, repl.sessions[who])
    if repl.profile is None:
        raise CapabilityMissingError("sessions", f"the REPL {repl.key} is not connected yet: call again when it is")
    if repl.profile.isolation == "none":
        raise CapabilityMissingError(
            "sessions", f"the REPL {repl.key} keeps nothing apart: evaluate without isolate, in a namespace of your own"
        )
    await call.services.repls.adapter(repl.id).open_session(who)
    if who not in call.state.repls[repl.id].sessions:
        call.dispatch(SessionOpened(repl.id, who, who, call.client))
    opened = call.state.repls[repl.id]
    return Target(opened, opened.sessions[who])
