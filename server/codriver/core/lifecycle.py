"""The server's own life cycle, and its messages about itself: lines in the log, errors latched until they are over.

stopped → starting → started → stopping → stopped. An action that does not fit the phase changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver.core.actions import (
    LanguagesSeen,
    LatchError,
    Listening,
    ProgramsSeen,
    Say,
    Searching,
    Start,
    Stop,
    Stopped,
    WithdrawError,
)
from codriver.core.dispatch import Outcome
from codriver.core.effects import Announce, Append, Listen, LogMessage, WindDown
from codriver.core.records import replace
from codriver.core.state import Latch, Life, with_item, without_item

if TYPE_CHECKING:
    from codriver.core.state import State


def start(state: State, action: Start) -> Outcome:
    """Open the listener first: until it is open nobody is told of the server."""
    if state.life.phase != "stopped":
        return Outcome(state)
    life = Life(
        phase="starting",
        session_id=action.session_id,
        process_id=action.process_id,
        version=action.version,
        workspace=action.workspace,
        started_at=action.now,
    )
    return Outcome(replace(state, life=life), effects=(Listen(then=(Listening(),)),))


def listening(state: State, action: Listening) -> Outcome:
    """Announce the server, with a note if its port is not the one asked for."""
    if state.life.phase != "starting":
        return Outcome(state)
    note = None
    if action.asked_port not in (0, action.port):
        note = f"port {action.asked_port} was taken, so this server listens on {action.port}"
    life = replace(state.life, phase="started", host=action.host, port=action.port, port_note=note)
    return Outcome(replace(state, life=life), effects=(Announce(),))


def stop(state: State, action: Stop) -> Outcome:
    """Wind down, once."""
    if state.life.phase not in ("starting", "started"):
        return Outcome(state)
    life = replace(state.life, phase="stopping")
    return Outcome(replace(state, life=life), effects=(WindDown(reason=action.reason),))


def languages_seen(state: State, action: LanguagesSeen) -> Outcome:
    """Remember the languages that the workspace's files are written in, and the REPL that they call for."""
    return Outcome(
        replace(
            state,
            languages_of_files=action.languages,
            repl_of_files=action.repl,
            repl_needs_trust=action.needs_trust,
        )
    )


def programs_seen(state: State, action: ProgramsSeen) -> Outcome:
    """Remember the programs of the workspace that listen on a port."""
    return Outcome(replace(state, programs=action.programs))


def searching(state: State, action: Searching) -> Outcome:
    """Remember whether the first search for REPLs is under way."""
    return Outcome(replace(state, life=replace(state.life, is_searching=action.is_under_way)))


def stopped(state: State, _action: Stopped) -> Outcome:
    """The end: all is closed."""
    if state.life.phase != "stopping":
        return Outcome(state)
    return Outcome(replace(state, life=replace(state.life, phase="stopped")))


def say(state: State, action: Say) -> Outcome:
    """Append a line to the output log, and tell the clients that want to hear of it at once."""
    said = Append(
        category="otherErrorOutput" if action.error else "otherOutput",
        text=action.text,
        who=action.who,
        session_key=action.repl,
    )
    told = LogMessage("warning" if action.error else "info", action.text, action.repl)
    return Outcome(state, effects=(said, told))


def latch_error(state: State, action: LatchError) -> Outcome:
    """Remember an error; one that is known already is counted, under its newest text."""
    known = state.latches.get(action.code)
    latch = Latch(action.code, action.text, action.now)
    if known is not None:
        latch = replace(known, text=action.text, count=known.count + 1)
    return Outcome(replace(state, latches=with_item(state.latches, action.code, latch)))


def withdraw_error(state: State, action: WithdrawError) -> Outcome:
    """Forget an error that is over."""
    if action.code not in state.latches:
        return Outcome(state)
    return Outcome(replace(state, latches=without_item(state.latches, action.code)))
