"""The server's own life cycle: stopped → starting → started → stopping → stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver.core.actions import AppAction, Listening, Start, Stop, Stopped
from codriver.core.dispatch import Context, Outcome, from_result
from codriver.core.effects import Announce, Listen, WindDown
from codriver.core.records import replace
from codriver.core.state import Life

if TYPE_CHECKING:
    from codriver.core.state import State


def handle(state: State, action: AppAction, context: Context) -> Outcome:
    """The state after an `app` action. What does not fit the phase changes nothing."""
    del context
    life = state.life
    match action:
        case Start() if life.phase == "stopped":
            life = Life(
                phase="starting",
                session_id=action.session_id,
                process_id=action.process_id,
                version=action.version,
                workspace=action.workspace,
                started_at=action.now,
            )
            listening = Listening(host=from_result(1), port=from_result(2), asked_port=from_result(3))
            return Outcome(replace(state, life=life), effects=(Listen(then=(listening,)),))
        case Listening() if life.phase == "starting":
            note = None
            if action.asked_port not in (0, action.port):
                note = f"port {action.asked_port} was taken, so this server listens on {action.port}"
            life = replace(life, phase="started", host=action.host, port=action.port, port_note=note)
            return Outcome(replace(state, life=life), effects=(Announce(),))
        case Stop() if life.phase in ("starting", "started"):
            life = replace(life, phase="stopping", stop_reason=action.reason)
            return Outcome(replace(state, life=life), effects=(WindDown(reason=action.reason),))
        case Stopped() if life.phase == "stopping":
            return Outcome(replace(state, life=replace(life, phase="stopped")))
    return Outcome(state)
