"""The REPLs: found or started, connected, lost, tried again, given up.

A REPL that cannot be reached is tried again after 0.25 s, doubling to 10 s. A process of ours that ends is started
again the same way, at most three times in a minute; then it is given up with its reason.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from codriver.core import evaluations, homes, sessions
from codriver.core.actions import (
    CancelQueued,
    Evaluate,
    EvaluationEnded,
    InputGiven,
    InputWanted,
    LatchError,
    ReplAction,
    ReplConnected,
    ReplForgotten,
    ReplFound,
    ReplLost,
    ReplProgress,
    ReplStarted,
    RestartRepl,
    RetryDue,
    Say,
    SessionClosed,
    SessionOpened,
    StopAsked,
)
from codriver.core.dispatch import Action, Context, Effect, Outcome
from codriver.core.effects import ConnectRepl, EndRepl, NotifyClients, RetryRepl, StartRepl
from codriver.core.records import replace
from codriver.core.state import MAIN, Repl, Session, State, with_item, without_item

if TYPE_CHECKING:
    from collections.abc import Mapping

FIRST_RETRY_S = 0.25
LONGEST_RETRY_S = 10.0
STARTS_PER_MINUTE = 4
"""The first start and three more."""

KEYS: Mapping[str, str] = MappingProxyType(
    {
        "clojure": "clj",
        "clojurescript": "cljs",
        "babashka": "bb",
        "basilisp": "lpy",
        "python": "py",
        "hy": "hy",
        "nbb": "nbb",
        "squint": "squint",
    }
)
"""The key that a REPL of a dialect gets when nobody gave it one."""


def handle(state: State, action: ReplAction, context: Context) -> Outcome:
    """The state after a `repl` action. Clients hear of it when what the REPLs can do together changed."""
    if isinstance(action, Evaluate | EvaluationEnded | CancelQueued | StopAsked | InputWanted | InputGiven):
        return evaluations.handle(state, action, context)
    outcome = _connections(state, action)
    if outcome.state.capabilities() != state.capabilities():
        return replace(outcome, effects=(*outcome.effects, NotifyClients(changed="tools")))
    return outcome


def _connections(state: State, action: ReplAction) -> Outcome:
    if isinstance(action, ReplFound):
        return _found(state, action)
    repl = state.repls.get(getattr(action, "id", ""))
    if repl is None:
        return Outcome(state)
    match action:
        case ReplForgotten() if repl.phase in ("waiting", "stopped", "connecting"):
            return _forgotten(state, repl)
        case ReplProgress():
            return Outcome(_put(state, replace(repl, note=action.note)))
        case ReplStarted():
            return Outcome(_put(state, replace(repl, phase="connecting", address=action.address)))
        case ReplConnected():
            return _connected(state, repl, action)
        case ReplLost():
            return _lost(state, repl, action)
        case RetryDue() if repl.phase == "waiting" and repl.failures == action.failures:
            return _begin(state, repl, action.now)
        case RestartRepl() if repl.owned:
            return _restart(state, repl, action)
        case SessionOpened():
            session = Session(action.name, action.who, action.client)
            return Outcome(sessions.put(state, repl.id, session))
        case SessionClosed():
            return Outcome(sessions.forget(state, repl.id, action.name))
    return Outcome(state)


def _put(state: State, repl: Repl) -> State:
    return replace(state, repls=with_item(state.repls, repl.id, repl))


def _free_key(state: State, wanted: str, own_id: str) -> str:
    """`wanted`, or `wanted-2` and so on when another REPL has it."""
    taken = {repl.key for repl in state.repls.values() if repl.id != own_id}
    key, number = wanted, 1
    while key in taken:
        number += 1
        key = f"{wanted}-{number}"
    return key


def _found(state: State, action: ReplFound) -> Outcome:
    known = state.repls.get(action.id)
    if known and known.phase != "stopped":
        moved_away = action.address not in (None, known.address)
        if known.phase == "connected" or not (moved_away or (action.rewritten and known.phase == "waiting")):
            return Outcome(state)
        # Its port file was rewritten while it could not be reached: try the address in it at once.
        moved = replace(known, address=action.address, phase="connecting", note=None)
        return Outcome(_put(state, moved), effects=(EndRepl(id=moved.id), ConnectRepl(id=moved.id)))
    repl = Repl(
        id=action.id,
        key=known.key if known else _free_key(state, action.key, action.id),
        origin=action.origin,
        keyed=known.keyed if known else action.keyed,
        address=action.address,
        expected_dialect=action.dialect,
        generation=known.generation if known else state.generations.get(action.id, 0),
    )
    return _begin(_put(state, repl), repl, action.now)


def _forgotten(state: State, repl: Repl) -> Outcome:
    """The state without a REPL whose port file is gone. If it comes back, its generation goes on from here."""
    generations = with_item(state.generations, repl.id, repl.generation) if repl.generation else state.generations
    without = replace(state, repls=without_item(state.repls, repl.id), generations=generations)
    return _end_waiting(without, repl, "its port file is gone")


def _begin(state: State, repl: Repl, now: int) -> Outcome:
    """Start the process or make the connection."""
    if repl.owned:
        starting = replace(repl, phase="starting", note=f"starting {repl.origin.text}", starts=(*repl.starts, now)[-8:])
        return Outcome(_put(state, starting), effects=(StartRepl(id=repl.id),))
    return Outcome(_put(state, replace(repl, phase="connecting")), effects=(ConnectRepl(id=repl.id),))


def _connected(state: State, repl: Repl, action: ReplConnected) -> Outcome:
    key = repl.key
    if not repl.keyed:
        key = _free_key(state, KEYS.get(action.profile.dialect, "repl"), repl.id)
    connected = replace(
        repl,
        key=key,
        keyed=True,
        phase="connected",
        address=action.address,
        note=None,
        generation=repl.generation + 1,
        failures=0,
        profile=action.profile,
        sessions=_main_alone(repl),
    )
    words = f"REPL {key} connected: {action.profile.dialect} at {action.address}, generation {connected.generation}"
    says: tuple[Action, ...] = (Say(words, repl=key),)
    if strange := homes.stray(state, connected):
        says += (Say(strange, error=True, repl=key),)
    return evaluations.fill_lanes(_put(state, connected), repl.id, action.now, follow_ups=says)


def _lost(state: State, repl: Repl, action: ReplLost) -> Outcome:
    was_connected = repl.phase == "connected"
    failures = repl.failures + 1
    # A clock that was set back makes starts of long ago lie ahead.
    recent = tuple(start for start in repl.starts if 0 <= action.now - start < 60_000)
    final = action.final
    cause = action.cause
    if repl.owned and len(recent) >= STARTS_PER_MINUTE:
        final = True
        cause += f"; it was started {len(recent)} times within a minute and is not started again (use restart_repl)"
    lost = replace(
        repl,
        phase="stopped" if final else "waiting",
        note=cause,
        failures=failures,
        starts=recent,
        profile=None,
        sessions=_main_alone(repl),
    )
    effects: tuple[Effect, ...] = ()
    if not final:
        delay_s = min(LONGEST_RETRY_S, FIRST_RETRY_S * 2 ** min(failures - 1, 10))
        effects = (RetryRepl(id=repl.id, delay_s=delay_s, then=(RetryDue(repl.id, failures),)),)
    state = _put(state, lost)
    says: tuple[Action, ...] = ()
    if was_connected or final:
        says = (Say(f"REPL {repl.key} lost: {cause}", error=True, repl=repl.key),)
    if final:
        says += (LatchError(f"repl-given-up:{repl.key}", f"REPL {repl.key} was given up: {cause}", action.now),)
    if was_connected or final:
        ended = _end_waiting(state, repl, cause)
        return Outcome(ended.state, (*ended.effects, *effects), (*ended.follow_ups, *says))
    return Outcome(state, effects, says)


def _main_alone(repl: Repl) -> Mapping[str, Session]:
    """What is left of the sessions when the connection is: all others live in the REPL, and end with it."""
    return MappingProxyType({MAIN: replace(repl.sessions[MAIN], namespace=None)})


def _restart(state: State, repl: Repl, action: RestartRepl) -> Outcome:
    restarting = replace(
        repl,
        phase="starting",
        note=f"restarting: {action.why}",
        profile=None,
        failures=0,
        starts=repl.starts[:-1],
        sessions=_main_alone(repl),
    )
    ended = _end_waiting(_put(state, restarting), repl, f"the REPL was restarted ({action.why})", restarted=True)
    effects = (*ended.effects, EndRepl(id=repl.id), StartRepl(id=repl.id))
    says = Say(f"REPL {repl.key} restarts: {action.why}; what was defined in it is gone", repl=repl.key)
    return Outcome(ended.state, effects, (*ended.follow_ups, says))


def _end_waiting(state: State, repl: Repl, cause: str, *, restarted: bool = False) -> Outcome:
    """Every evaluation of this REPL that is not over ends now."""
    ends = evaluations.endings(state, repl.id, cause, restarted=restarted)
    return Outcome(state, follow_ups=ends)
