"""`restart_repl`: a process of ours is ended and started anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
from pydantic import Field

from codriver.core.actions import RestartRepl
from codriver.core.evaluation_queue import session_key
from codriver.repls.errors import CapabilityMissingError
from codriver.tools.base import TEXTS, Answer, Arguments, Call, Tool, answer_schema
from codriver.tools.session_choice import ReplStoppedError, resolve

if TYPE_CHECKING:
    from codriver.core.state import Repl, State

LOOK_S = 0.05


class RestartArguments(Arguments):
    """Arguments of `restart_repl`."""

    repl_session_key: str | None = None
    timeout_ms: int = Field(25_000, ge=1000, le=600_000)


async def restart_repl(call: Call, arguments: RestartArguments) -> Answer:
    """End the process behind a session, start it anew, and wait until it is back."""
    repl = _wanted(call.state, arguments.repl_session_key)
    who = call.who(arguments.who)
    before = repl.generation
    with anyio.move_on_after(arguments.timeout_ms / 1000):
        if repl.owned:
            call.dispatch(RestartRepl(repl.id, f"{who} asked for it"))
        elif _may_be_asked(repl) and arguments.repl_session_key is not None:
            await call.services.repls.adapter(repl.id).restart()
        else:
            why = f"codriver did not start {repl.key}: restart it where it was started"
            raise CapabilityMissingError("restart", why)
        while (now := call.state.repls[repl.id]).phase != "stopped":
            if now.phase == "connected" and now.generation > before:
                break
            await anyio.sleep(LOOK_S)
    current = call.state.repls[repl.id]
    if current.phase == "stopped":
        raise ReplStoppedError(current)
    fields: dict[str, object] = {"sessionKey": current.key, "phase": current.phase, "generation": current.generation}
    if current.phase == "connected":
        fields["notes"] = ["what was defined in it is gone: load what you need again"]
    else:
        why = f" ({current.note})" if current.note else ""
        fields["notes"] = [f"it is not back yet{why}: an evaluation sent now runs as soon as it is"]
    return Answer(fields)


def _may_be_asked(repl: Repl) -> bool:
    """Whether somebody else can restart it for us, and its user named it to us: one that was found is a human's."""
    can = repl.profile is not None and "restart" in repl.profile.capabilities
    return can and not repl.origin.is_merely_found


def _wanted(state: State, key: str | None) -> Repl:
    """The REPL that `key` names, also a stopped one; without a key the only one of ours.

    Raises:
        RefusedError: as `resolve` says.
    """
    if key is None:
        ours = [repl for repl in state.repls.values() if repl.owned]
        if len(ours) == len(state.repls) == 1:
            return ours[0]
    for repl in state.repls.values():
        if any(session_key(repl, name) == key for name in repl.sessions):
            return repl
    return resolve(state, key).repl


TOOLS = (
    Tool(
        name="restart_repl",
        title="Restart REPL",
        description="Restart a REPL of codriver's; its state is lost.",
        arguments=RestartArguments,
        output=answer_schema(
            sessionKey="string",
            phase="string",
            generation="integer",
            notes=TEXTS,
        ),
        run=restart_repl,
        needs=("restart",),
        setting="enable_mcp_repl_evaluation",
        destructive=True,
        search_hint="start the process anew",
    ),
)
