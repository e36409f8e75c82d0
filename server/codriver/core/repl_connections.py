"""The REPLs: found or started, connected, lost, retried, given up.

A REPL that cannot be reached is retried after 0.25 s, doubling to 10 s. A process that Codriver started and that ends
is started again the same way, at most three times in a minute; then it is given up with its reason. A kernel that was
only discovered is given up after five attempts, without an alarm: its file may be left from a kernel that is gone.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from codriver.core import evaluation_queue, lanes, orphans
from codriver.core.actions import (
    Action,
    AddServerLine,
    LatchError,
    ReplConnected,
    ReplForgotten,
    ReplFound,
    ReplLost,
    ReplProgress,
    ReplStarted,
    RestartRepl,
    RetryDue,
    SeamSeen,
    SessionClosed,
    SessionOpened,
)
from codriver.core.dispatch import (
    ConnectRepl,
    Effect,
    EndRepl,
    Handler,
    NotifyClients,
    Outcome,
    Remember,
    RetryRepl,
    StartRepl,
)
from codriver.core.log_facts import CONNECTED, data_of
from codriver.core.records import replace
from codriver.core.state import Repl, Session, State, free_name, stray, with_item, with_repl, with_session, without_item
from codriver.core.values import MAIN_SESSION, Capability

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


FIRST_RETRY_S = 0.25
LONGEST_RETRY_S = 10.0
STALE_RETRY_S = 60.0
"""The longest pause if no one listens at a file's port. The file is read immediately when it is written again."""
STARTS_PER_MINUTE = 4
"""The starts of a process in a minute: the first and three more."""
FOUND_TRIES = 5
"""Maximum number of attempts to reach a discovered kernel: the last comes some 8 s later, enough for a restart."""
MINUTE_MS = 60_000
REMEMBERED_STARTS = 8
SEAM: Final = "seam"
SEAM_OP: Final = "codriver/seam"
"""The op by which Codriver's worker queries the seam."""


def announcing(handle: Handler) -> Handler:
    """Return the handler, which also notifies the clients when tools come or go: by capability, or by language.

    A guide comes and goes with an application that shows itself.
    """

    def announced(state: State, action: Action) -> Outcome:
        outcome = handle(state, action)
        after = outcome.state
        if after.promised() == state.promised() and after.languages() == state.languages():
            return outcome
        is_same = (SEAM in after.promised()) == (SEAM in state.promised())
        guides = () if is_same else (NotifyClients(changed="resources"),)
        return replace(outcome, effects=(*outcome.effects, NotifyClients(changed="tools"), *guides))

    return announced


def of_known(handle: Callable[[State, Repl, Any], Outcome]) -> Handler:
    """Return a handler for actions about one REPL, which gets that REPL; actions about an unknown REPL do nothing."""

    def handled(state: State, action: Any) -> Outcome:
        repl = state.repls.get(action.id)
        return Outcome(state) if repl is None else handle(state, repl, action)

    return announcing(handled)


def found(state: State, action: ReplFound) -> Outcome:
    """Connect to a REPL or start it, unless the REPL is known already at this address."""
    known = state.repls.get(action.id)
    if known is not None and known.phase != "stopped":
        return _found_again(state, known, action)
    repl = Repl(
        id=action.id,
        key=known.key if known else _free_key(state, action.key, action.id),
        origin=action.origin,
        keyed=known.keyed if known else action.keyed,
        address=action.address,
        expected_dialect=action.dialect,
        generation=known.generation if known else state.generations.get(action.id, 0),
        end_reason=known.end_reason if known else None,
        aliases=action.aliases,
        notebook=action.notebook,
    )
    if action.error is not None:
        return Outcome(with_repl(state, replace(repl, phase="stopped", note=action.error)))
    return _begin(state, repl, action.now)


def _found_again(state: State, known: Repl, action: ReplFound) -> Outcome:
    moved_away = action.address not in (None, known.address)
    if moved_away and action.aliases != known.aliases:
        # Another process took the place of the one before.
        known = replace(known, aliases=action.aliases)
        state = with_repl(state, known)
    if action.notebook not in (None, known.notebook):
        # A notebook was opened with this kernel, or renamed.
        known = replace(known, notebook=action.notebook)
        state = with_repl(state, known)
    if known.phase == "connected" or not (moved_away or (action.rewritten and known.phase == "waiting")):
        return Outcome(state)
    # Its port file was rewritten while the REPL could not be reached: try the file's address at once.
    moved = replace(known, address=action.address, phase="connecting", note=None)
    return Outcome(with_repl(state, moved), effects=(EndRepl(id=moved.id), ConnectRepl(id=moved.id)))


def forgotten(state: State, repl: Repl, action: ReplForgotten) -> Outcome:
    """Drop a REPL whose port file is gone. If the file comes back, the REPL's generation counts on from here."""
    if repl.phase not in ("waiting", "stopped", "connecting"):
        return Outcome(state)
    generations = with_item(state.generations, repl.id, repl.generation) if repl.generation else state.generations
    keys = with_item(state.keys_of_forgotten, repl.id, repl.key)
    without = replace(state, repls=without_item(state.repls, repl.id), generations=generations, keys_of_forgotten=keys)
    return Outcome(without, follow_ups=evaluation_queue.endings(without, repl.id, action.cause))


def progress(state: State, repl: Repl, action: ReplProgress) -> Outcome:
    """Store the progress for people who wait for the REPL."""
    return Outcome(with_repl(state, replace(repl, note=action.note)))


def started(state: State, repl: Repl, action: ReplStarted) -> Outcome:
    """Return the process listens."""
    caution = repl.origin.stand_in_note or action.caution
    listening = replace(
        repl,
        phase="connecting",
        address=action.address,
        caution=caution,
        remark=action.remark,
        awaits_trust=action.awaits_trust,
    )
    return Outcome(with_repl(state, listening))


def connected(state: State, repl: Repl, action: ReplConnected) -> Outcome:
    """Start to use a connection: a new generation, which runs the queued evaluations."""
    connected = replace(
        repl,
        key=repl.key if repl.keyed else _free_key(state, action.key, repl.id),
        keyed=True,
        phase="connected",
        address=action.address,
        note=None,
        generation=repl.generation + 1,
        failures=0,
        profile=action.profile,
        notebook=repl.notebook or action.profile.notebook,
        formerly=frozenset(action.profile.capabilities),
        sessions=_main_alone(repl),
    )
    # The note on its end is true no more.
    state = replace(state, latches=without_item(state.latches, _given_up(connected.key)))
    announcements = _connection_messages(state, connected)
    placed = lanes.move_waiting_to_lanes(with_repl(state, connected), repl.id)
    return replace(evaluation_queue.fill_queues(placed, repl.id, action.now), follow_ups=announcements)


def seam_seen(state: State, repl: Repl, action: SeamSeen) -> Outcome:
    """Remember the application's seam while the connection lasts."""
    if repl.profile is None or repl.profile.seam == action.seam:
        return Outcome(state)
    support = Capability(action.provider or SEAM_OP, adapted=action.provider is not None)
    able = with_item(repl.profile.capabilities, SEAM, support)
    seen = replace(repl.profile, capabilities=able, seam=action.seam)
    return Outcome(with_repl(state, replace(repl, profile=seen)))


def _connection_messages(state: State, repl: Repl) -> tuple[Action, ...]:
    words = f"REPL {repl.key} connected: {repl.dialect} at {repl.address}, generation {repl.generation}"
    facts = data_of(repl=repl.key, dialect=repl.dialect, generation=repl.generation)
    announcements: tuple[Action, ...] = (AddServerLine(words, repl=repl.key, kind=CONNECTED, data=facts),)
    if strange := stray(state, repl):
        announcements += (AddServerLine(strange, error=True, repl=repl.key),)
    return announcements


def lost(state: State, repl: Repl, action: ReplLost) -> Outcome:
    """Retry after a pause, or give up. The evaluations of an established connection end with it."""
    # If a clock was set back, starts of long ago lie ahead.
    recent = tuple(start for start in repl.starts if 0 <= action.now - start < MINUTE_MS)
    final, cause = action.final, action.cause
    if repl.owned and len(recent) >= STARTS_PER_MINUTE:
        final = True
        cause += f"; it was started {len(recent)} times within a minute and is not started again (use restart_repl)"
    is_stale = action.is_unreachable and repl.origin.kind == "port-file"
    if is_stale:
        cause += f", so {repl.origin.text} is left from one that has ended"
    final = final or (repl.origin.is_discovered_only and repl.failures + 1 >= FOUND_TRIES)
    lost = replace(
        repl,
        phase="stopped" if final else "waiting",
        note=cause,
        end_reason=cause if repl.phase == "connected" else repl.end_reason,
        failures=repl.failures + 1,
        starts=recent,
        profile=None,
        sessions=_main_alone(repl),
    )
    state = with_repl(state, lost)
    if repl.origin.is_discovered_only:
        return _found_lost(state, repl, cause, final=final)
    longest_s = STALE_RETRY_S if is_stale else LONGEST_RETRY_S
    effects: tuple[Effect, ...] = (Remember("given up", repl.key, cause),) if final else (_retry(lost, longest_s),)
    if not final and repl.phase != "connected":
        return Outcome(state, effects)
    ends = evaluation_queue.endings(state, repl.id, cause)
    return Outcome(state, effects, (*ends, *_loss_messages(repl, cause, action.now, final=final)))


def _found_lost(state: State, repl: Repl, cause: str, *, final: bool) -> Outcome:
    """Return the outcome of losing, or not reaching, a kernel that was only discovered. It is logged once."""
    effects = () if final else (_retry(state.repls[repl.id]),)
    is_new = repl.phase == "connected" or not (repl.failures or repl.generation)
    words = "lost" if repl.phase == "connected" else f"not reached ({repl.origin.text})"
    announcements = (AddServerLine(f"REPL {repl.key} {words}: {cause}", error=True, repl=repl.key),) if is_new else ()
    ends = evaluation_queue.endings(state, repl.id, cause) if final or repl.phase == "connected" else ()
    return Outcome(state, effects, (*ends, *announcements))


def _retry(repl: Repl, longest_s: float = LONGEST_RETRY_S) -> RetryRepl:
    delay_s = min(longest_s, FIRST_RETRY_S * 2 ** min(repl.failures - 1, 10))
    return RetryRepl(id=repl.id, delay_s=delay_s, then=(RetryDue(repl.id, repl.failures),))


def _loss_messages(repl: Repl, cause: str, now: int, *, final: bool) -> tuple[Action, ...]:
    announcements: tuple[Action, ...] = (AddServerLine(f"REPL {repl.key} lost: {cause}", error=True, repl=repl.key),)
    if final:
        announcements += (LatchError(_given_up(repl.key), f"REPL {repl.key} was given up: {cause}", now),)
    return announcements


def _given_up(key: str) -> str:
    """Return the code of the error for a REPL that was given up."""
    return f"repl-given-up:{key}"


def retry_due(state: State, repl: Repl, action: RetryDue) -> Outcome:
    """Try again, unless something else happened to the REPL in the meantime."""
    if repl.phase != "waiting" or repl.failures != action.failures:
        return Outcome(state)
    return _begin(state, repl, action.now)


def restart(state: State, repl: Repl, action: RestartRepl) -> Outcome:
    """End the process and start it again; another's REPL is left alone."""
    if not repl.owned:
        return Outcome(state)
    restarting = replace(
        repl,
        phase="starting",
        note=f"restarting: {action.why}",
        end_reason=action.why if repl.phase == "connected" else repl.end_reason,
        profile=None,
        failures=0,
        starts=repl.starts[:-1],
        sessions=_main_alone(repl),
    )
    state = with_repl(state, restarting)
    ends = evaluation_queue.endings(state, repl.id, f"the REPL was restarted ({action.why})", restarted=True)
    gone = "; what was defined in it is gone" if repl.generation else ""
    announcements = AddServerLine(f"REPL {repl.key} restarts: {action.why}{gone}", repl=repl.key)
    return Outcome(state, (EndRepl(id=repl.id), StartRepl(id=repl.id)), (*ends, announcements))


def session_opened(state: State, repl: Repl, action: SessionOpened) -> Outcome:
    """Add a session."""
    session = Session(action.name, action.who, action.client)
    return Outcome(with_session(state, repl.id, session))


def session_closed(state: State, repl: Repl, action: SessionClosed) -> Outcome:
    """Remove a session, if its client has left it."""
    return Outcome(orphans.forget_session(state, repl.id, action.name))


def _free_key(state: State, expected: str, own_id: str) -> str:
    return free_name(expected, {repl.key for repl in state.repls.values() if repl.id != own_id})


def _begin(state: State, repl: Repl, now: int) -> Outcome:
    """Start the process or make the connection."""
    if not repl.owned:
        return Outcome(with_repl(state, replace(repl, phase="connecting")), effects=(ConnectRepl(id=repl.id),))
    starts = (*repl.starts, now)[-REMEMBERED_STARTS:]
    starting = replace(repl, phase="starting", note=f"starting {repl.origin.text}", starts=starts)
    return Outcome(with_repl(state, starting), effects=(StartRepl(id=repl.id),))


def _main_alone(repl: Repl) -> Mapping[str, Session]:
    """Return the sessions that a lost connection leaves: the main one; all others live in the REPL and end with it."""
    return MappingProxyType({MAIN_SESSION: replace(repl.sessions[MAIN_SESSION], namespace=None)})
