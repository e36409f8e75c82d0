"""`restart_repl`: stop the process of a session and start it again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
from pydantic import Field

from codriver.core.actions import RestartRepl
from codriver.core.records import replace
from codriver.repls.contract.adapter import CapabilityMissingError
from codriver.tools.calls.answer import STRINGS_SCHEMA, Answer, answer_schema
from codriver.tools.calls.arguments import UNLISTED_KEY, Arguments
from codriver.tools.calls.session_choice import repl_stopped_error, resolve_session
from codriver.tools.calls.tool import Tool

if TYPE_CHECKING:
    from codriver.core.state import Repl, State
    from codriver.tools.calls.call import Call

SETTLE_INTERVAL_S = 0.05
"""Interval for checking whether the REPL is ready again, in seconds."""


class RestartArguments(Arguments):
    """The arguments of the tool `restart_repl`."""

    repl_session_key: str | None = None
    timeout_ms: int = Field(25_000, ge=100, le=600_000, json_schema_extra={UNLISTED_KEY: True})


async def restart_repl(call: Call, arguments: RestartArguments) -> Answer:
    """Restart the process of a session, and wait until its REPL is ready."""
    repl = _repl_to_restart(call.state, arguments.repl_session_key)
    who = call.who(arguments.who)
    with anyio.move_on_after(arguments.timeout_ms / 1000):
        if repl.is_owned:
            call.dispatch(RestartRepl(repl.id, f"{who} called restart_repl"))
        elif _can_be_restarted_by_key(repl) and arguments.repl_session_key is not None:
            await call.services.repls.adapter(repl.id).restart()
        else:
            why = f"Codriver did not start {repl.key}. Restart it with the program that started it"
            raise CapabilityMissingError("restart", why)
        while not _is_settled(_current_repl(call.state, repl), repl):
            await anyio.sleep(SETTLE_INTERVAL_S)
    current = _current_repl(call.state, repl)
    if current.phase == "stopped":
        raise repl_stopped_error(current)
    if not _is_settled(current, repl):
        why = f" ({current.note})" if current.note else ""
        outcome = f"the REPL is not ready yet{why}. Code that you send now runs as soon as the REPL is"
        current = replace(current, phase="waiting" if current is repl else current.phase)
    else:
        outcome = (
            "the REPL's definitions are gone. Load what you need again" if repl.generation else "the REPL is ready now"
        )
        call.services.delivered.repls.record_generation(
            call.client, who, current
        )  # this answer replaces the note about the restart
    fields = {"sessionKey": current.key, "phase": current.phase, "generation": current.generation, "notes": [outcome]}
    return Answer(fields)


def _current_repl(state: State, before: Repl) -> Repl:
    """Return the current state of a REPL.

    If it was replaced during the restart, this is the REPL with the same key.
    """
    same_key = (repl for repl in state.repls.values() if repl.key == before.key)
    return state.repls.get(before.id) or next(same_key, before)


def _is_settled(now: Repl, before: Repl) -> bool:
    """Return whether a REPL is ready after a restart, or has failed to restart."""
    is_new = now.id != before.id or now.generation > before.generation
    return now.phase == "stopped" or (now.phase == "connected" and is_new)


def _can_be_restarted_by_key(repl: Repl) -> bool:
    """Return whether another program can restart a REPL, as Jupyter Server can restart its kernels.

    Such a REPL may belong to a human, so the caller has to name it by its key.
    """
    return repl.profile is not None and "restart" in repl.profile.capabilities


def _repl_to_restart(state: State, key: str | None) -> Repl:
    """Return the REPL with the given key, or the only REPL if Codriver started it. It may be stopped.

    Raises:
        RefusedError: no REPL matches, or several do.
    """
    if key is None:
        started_by_codriver = [repl for repl in state.repls.values() if repl.is_owned]
        if len(started_by_codriver) == len(state.repls) == 1:
            return started_by_codriver[0]
    for repl in state.repls.values():
        if any(repl.session_key(name) == key for name in repl.sessions):
            return repl
    return resolve_session(state, key).repl


TOOL = Tool(
    name="restart_repl",
    title="Restart REPL",
    description="Restart a REPL that Codriver started. Its state is lost.",
    arguments=RestartArguments,
    output=answer_schema(
        sessionKey="string",
        phase="string",
        generation="integer",
        notes=STRINGS_SCHEMA,
    ),
    run=restart_repl,
    needs=("restart",),
    destructive=True,
    search_hint="start the process again",
)
