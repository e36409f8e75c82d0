"""`restart_repl`: end the process behind a session and start it again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
from pydantic import Field

from codriver.core.actions import RestartRepl
from codriver.core.records import replace
from codriver.repls.contract.adapter import CapabilityMissingError
from codriver.tools.calls.answer import TEXTS, Answer, answer_schema
from codriver.tools.calls.arguments import UNLISTED, Arguments
from codriver.tools.calls.session_choice import repl_stopped, resolve
from codriver.tools.calls.tool import Tool

if TYPE_CHECKING:
    from codriver.core.state import Repl, State
    from codriver.tools.calls.call import Call

SETTLE_LOOK_S = 0.05


class RestartArguments(Arguments):
    """Arguments of `restart_repl`."""

    repl_session_key: str | None = None
    timeout_ms: int = Field(25_000, ge=100, le=600_000, json_schema_extra={UNLISTED: True})


async def restart_repl(call: Call, arguments: RestartArguments) -> Answer:
    """End the process behind a session, start it again, and wait until it is back."""
    repl = _wanted(call.state, arguments.repl_session_key)
    who = call.who(arguments.who)
    with anyio.move_on_after(arguments.timeout_ms / 1000):
        if repl.owned:
            call.dispatch(RestartRepl(repl.id, f"{who} asked for it"))
        elif _is_served(repl) and arguments.repl_session_key is not None:
            await call.services.repls.adapter(repl.id).restart()
        else:
            why = f"codriver did not start {repl.key}: restart it where it was started"
            raise CapabilityMissingError("restart", why)
        while not _is_settled(_as_it_is(call.state, repl), repl):
            await anyio.sleep(SETTLE_LOOK_S)
    current = _as_it_is(call.state, repl)
    if current.phase == "stopped":
        raise repl_stopped(current)
    if not _is_settled(current, repl):
        why = f" ({current.note})" if current.note else ""
        told = f"it is not back yet{why}: an evaluation sent now runs as soon as it is"
        current = replace(current, phase="waiting" if current is repl else current.phase)
    else:
        told = "what was defined in it is gone: load what you need again" if repl.generation else "it is here now"
        call.services.told.places.is_renewed(call.client, who, current)  # told here, and not again
    fields = {"sessionKey": current.key, "phase": current.phase, "generation": current.generation, "notes": [told]}
    return Answer(fields)


def _as_it_is(state: State, before: Repl) -> Repl:
    """The REPL in its present state; if gone, the one with its key: a server may lead to it another way then."""
    same_key = (one for one in state.repls.values() if one.key == before.key)
    return state.repls.get(before.id) or next(same_key, before)


def _is_settled(now: Repl, before: Repl) -> bool:
    """Return true for a REPL that is back, or given up."""
    is_new = now.id != before.id or now.generation > before.generation
    return now.phase == "stopped" or (now.phase == "connected" and is_new)


def _is_served(repl: Repl) -> bool:
    """Return true of a kernel that a Jupyter Server can restart.

    It may be a human's, so it has to be named by its key.
    """
    return repl.profile is not None and "restart" in repl.profile.capabilities


def _wanted(state: State, key: str | None) -> Repl:
    """Return the REPL that `key` names, also a stopped one; without a key the only one of ours.

    Raises:
        RefusedError: as `resolve` says.
    """
    if key is None:
        ours = [repl for repl in state.repls.values() if repl.owned]
        if len(ours) == len(state.repls) == 1:
            return ours[0]
    for repl in state.repls.values():
        if any(repl.session_key(name) == key for name in repl.sessions):
            return repl
    return resolve(state, key).repl


TOOL = Tool(
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
)
