"""Handle the life cycle of REPL connections, from discovery and retries to giving up.

A REPL that cannot be reached is retried after 0.25 s, then after pauses that double up to 10 s. A process that Codriver
started is restarted the same way when it ends. After four starts within a minute, Codriver gives up on it and reports
the reason. For a REPL that was only discovered, Codriver gives up after five attempts without reporting an error,
because the file that led to it may be left over from a process that has ended. Whenever the REPL is discovered again,
one attempt is made.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from codriver.core import evaluation_queue, lanes, orphans
from codriver.core.actions import (
    Action,
    AddRepl,
    AddServerLine,
    CapabilityFound,
    DropRepl,
    LatchError,
    ReplConnected,
    ReplLost,
    ReplProgress,
    ReplStarted,
    RestartRepl,
    RetryDue,
    SessionClosed,
    SessionOpened,
)
from codriver.core.dispatch import Handler, Outcome
from codriver.core.effects import ConnectRepl, Effect, EndRepl, NotifyClients, RetryRepl, StartRepl, StoreDocument
from codriver.core.log_facts import CONNECTED_KIND, encode_facts
from codriver.core.records import replace
from codriver.core.requests import MAIN_SESSION
from codriver.core.state import (
    DroppedRepl,
    Repl,
    Session,
    State,
    free_name,
    outside_workspace_warning,
    with_item,
    with_repl,
    with_session,
    without_item,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


FIRST_RETRY_PAUSE_S = 0.25
"""Pause before the first retry, in seconds. It doubles with every further failure."""
MAX_RETRY_PAUSE_S = 10.0
"""Maximum pause between attempts to connect, in seconds."""
MAX_STALE_RETRY_PAUSE_S = 60.0
"""Maximum pause, in seconds, while nothing listens on the port in a port file. A rewritten file is read immediately."""
MAX_STARTS_PER_MINUTE = 4
"""Maximum number of starts of a process within a minute. After that, Codriver gives up on it."""
MAX_DISCOVERED_REPL_ATTEMPTS = 5
"""Maximum number of attempts to connect to a discovered REPL.

The last attempt is made after about 8 s, which is enough time for a REPL to restart.
"""
MINUTE_MS = 60_000
"""Length of a minute in milliseconds."""
MAX_REMEMBERED_STARTS = 8
"""Maximum number of start times that are stored for a REPL."""


def notifying_of_tool_changes(handle: Handler) -> Handler:
    """Wrap a handler so that clients are notified when it changes which tools are available.

    Clients also list resources again when a rare capability appears or disappears, because the guide to a rare
    capability is listed only while a REPL has it.
    """

    def announced(state: State, action: Action) -> Outcome:
        outcome = handle(state, action)
        after = outcome.state
        if after.expected_capabilities() == state.expected_capabilities() and after.languages() == state.languages():
            return outcome
        is_same = state.rare.intersection(after.expected_capabilities()) == state.rare.intersection(
            state.expected_capabilities()
        )
        guides = () if is_same else (NotifyClients(changed="resources"),)
        return replace(outcome, effects=(*outcome.effects, NotifyClients(changed="tools"), *guides))

    return announced


def for_known_repl(handle: Callable[[State, Repl, Any], Outcome]) -> Handler:
    """Wrap a handler so that it receives the REPL of its action.

    The handler is not called if the REPL is unknown.
    """

    def handled(state: State, action: Any) -> Outcome:
        repl = state.repls.get(action.id)
        return Outcome(state) if repl is None else handle(state, repl, action)

    return notifying_of_tool_changes(handled)


def add_repl(state: State, action: AddRepl) -> Outcome:
    """Connect to a REPL or start it. If the REPL is already known, update only its changed properties."""
    known = state.repls.get(action.id)
    if known is not None and known.phase != "stopped":
        return _update_known_repl(state, known, action)
    key = known.key if known else _free_key(state, action.key, action.id, action.document)
    # A discovered REPL that was given up on is tried once, unless its file was rewritten.
    given_up = known if action.origin.is_discovered_only and not action.rewritten else None
    repl = Repl(
        id=action.id,
        key=key,
        origin=action.origin,
        keyed=known.keyed if known else action.keyed,
        address=action.address,
        expected_dialect=action.dialect,
        generation=known.generation if known else _last_generation(state, key, action.id),
        end_reason=known.end_reason if known else None,
        failures=given_up.failures if given_up else 0,
        note=given_up.note if given_up else None,
        aliases=action.aliases,
        document=action.document,
    )
    if action.error is not None:
        stopped = replace(repl, phase="stopped", note=action.error, is_not_accepted=action.is_not_accepted)
        return Outcome(with_repl(state, stopped))
    return _start_or_connect(state, repl, action.now)


def _update_known_repl(state: State, known: Repl, action: AddRepl) -> Outcome:
    moved_away = action.address not in (None, known.address)
    if action.aliases != known.aliases and (moved_away or action.aliases):
        # Another process has replaced the previous one, or an alias has passed to another REPL.
        known = replace(known, aliases=action.aliases)
        state = with_repl(state, known)
    if action.document not in (None, known.document):
        # A document that uses this REPL was opened or renamed.
        known = replace(known, document=action.document)
        state = with_repl(state, known)
    if known.phase == "connected" or not (moved_away or (action.rewritten and known.phase == "waiting")):
        return Outcome(state)
    # The port file was rewritten while the REPL was unreachable, so try the new address immediately.
    moved = replace(known, address=action.address, phase="connecting", note=None)
    return Outcome(with_repl(state, moved), effects=(EndRepl(id=moved.id), ConnectRepl(id=moved.id)))


def drop_repl(state: State, repl: Repl, action: DropRepl) -> Outcome:
    """Remove a disconnected REPL, and record its key and generation in case it comes back."""
    if repl.phase not in ("waiting", "stopped", "connecting"):
        return Outcome(state)
    dropped = DroppedRepl(
        repl.key, repl.generation, action.cause, repl.origin.is_discovered_only, document=repl.document
    )
    left = with_item(state.forgotten, repl.id, dropped)
    without = replace(state, repls=without_item(state.repls, repl.id), forgotten=left)
    return Outcome(without, follow_ups=evaluation_queue.actions_ending_evaluations(without, repl.id, action.cause))


def store_progress(state: State, repl: Repl, action: ReplProgress) -> Outcome:
    """Store a progress message as the REPL's note."""
    return Outcome(with_repl(state, replace(repl, note=action.note)))


def record_started_process(state: State, repl: Repl, action: ReplStarted) -> Outcome:
    """Record the address of a started process. Codriver connects to it next."""
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


def use_new_connection(state: State, repl: Repl, action: ReplConnected) -> Outcome:
    """Start using a new connection, which starts a new generation of the REPL, and run queued evaluations."""
    connected = replace(
        repl,
        key=repl.key if repl.keyed else _free_key(state, action.key, repl.id, repl.document),
        keyed=True,
        phase="connected",
        address=action.address,
        note=None,
        generation=repl.generation + 1,
        failures=0,
        profile=action.profile,
        document=repl.document or action.profile.document,
        formerly=frozenset(action.profile.capabilities),
        queued=action.profile.queued.intersection(action.profile.capabilities),
        sessions=_main_session_only(repl),
    )
    # The error about the REPL's end no longer applies.
    state = replace(state, latches=without_item(state.latches, _given_up_error_code(connected.key)))
    announcements = _connection_messages(state, connected)
    placed = lanes.move_waiting_to_lanes(with_repl(state, connected), repl.id)
    return replace(evaluation_queue.fill_queues(placed, repl.id, action.now), follow_ups=announcements)


def add_capability(state: State, repl: Repl, action: CapabilityFound) -> Outcome:
    """Add a capability to a REPL until its connection is lost."""
    if repl.profile is None or repl.profile.capabilities.get(action.name) == action.capability:
        return Outcome(state)
    capabilities = with_item(repl.profile.capabilities, action.name, action.capability)
    return Outcome(with_repl(state, replace(repl, profile=replace(repl.profile, capabilities=capabilities))))


def _connection_messages(state: State, repl: Repl) -> tuple[Action, ...]:
    words = f"REPL {repl.key} connected: {repl.dialect} at {repl.address}, generation {repl.generation}"
    facts = encode_facts(repl=repl.key, dialect=repl.dialect, generation=repl.generation)
    announcements: tuple[Action, ...] = (AddServerLine(words, repl=repl.key, kind=CONNECTED_KIND, data=facts),)
    if strange := outside_workspace_warning(state, repl):
        announcements += (AddServerLine(strange, error=True, repl=repl.key),)
    return announcements


def handle_lost_connection(state: State, repl: Repl, action: ReplLost) -> Outcome:
    """Schedule a retry, or give up on the REPL. Unfinished evaluations end if it was connected or is given up on."""
    # Start times may be in the future if the clock was set back.
    recent = tuple(start for start in repl.starts if 0 <= action.now - start < MINUTE_MS)
    final, cause = action.final, action.cause
    if repl.is_owned and len(recent) >= MAX_STARTS_PER_MINUTE:
        final = True
        cause += (
            f"; it was started {len(recent)} times within a minute and will not be restarted automatically (call "
            "restart_repl)"
        )
    is_stale = action.is_unreachable and repl.origin.kind == "port-file"
    if is_stale:
        cause += f"; {repl.origin.text} is probably left over from a process that has ended"
    final = final or (repl.origin.is_discovered_only and repl.failures + 1 >= MAX_DISCOVERED_REPL_ATTEMPTS)
    lost = replace(
        repl,
        phase="stopped" if final else "waiting",
        note=cause,
        end_reason=cause if repl.phase == "connected" else repl.end_reason,
        failures=repl.failures + 1,
        is_not_accepted=action.is_not_accepted,
        starts=recent,
        profile=None,
        sessions=_main_session_only(repl),
    )
    state = with_repl(state, lost)
    if repl.origin.is_discovered_only:
        return _lose_discovered_repl(state, repl, cause, final=final)
    longest_s = MAX_STALE_RETRY_PAUSE_S if is_stale else MAX_RETRY_PAUSE_S
    effects: tuple[Effect, ...] = (
        (StoreDocument("given up", repl.key, cause),) if final else (_schedule_retry(lost, longest_s),)
    )
    if not final and repl.phase != "connected":
        return Outcome(state, effects)
    ends = evaluation_queue.actions_ending_evaluations(state, repl.id, cause)
    return Outcome(state, effects, (*ends, *_loss_messages(repl, cause, action.now, final=final)))


def _lose_discovered_repl(state: State, repl: Repl, cause: str, *, final: bool) -> Outcome:
    """Handle the loss of a REPL that was only discovered, or a failed attempt to connect to it.

    Only the first failure is logged.
    """
    effects = () if final else (_schedule_retry(state.repls[repl.id]),)
    is_new = repl.phase == "connected" or not (repl.failures or repl.generation)
    words = "lost" if repl.phase == "connected" else f"could not be reached ({repl.origin.text})"
    announcements = (AddServerLine(f"REPL {repl.key} {words}: {cause}", error=True, repl=repl.key),) if is_new else ()
    ends = (
        evaluation_queue.actions_ending_evaluations(state, repl.id, cause) if final or repl.phase == "connected" else ()
    )
    return Outcome(state, effects, (*ends, *announcements))


def _schedule_retry(repl: Repl, longest_s: float = MAX_RETRY_PAUSE_S) -> RetryRepl:
    delay_s = min(longest_s, FIRST_RETRY_PAUSE_S * 2 ** min(repl.failures - 1, 10))
    return RetryRepl(id=repl.id, delay_s=delay_s, then=(RetryDue(repl.id, repl.failures),))


def _loss_messages(repl: Repl, cause: str, now: int, *, final: bool) -> tuple[Action, ...]:
    announcements: tuple[Action, ...] = (AddServerLine(f"REPL {repl.key} lost: {cause}", error=True, repl=repl.key),)
    if final:
        announcements += (
            LatchError(_given_up_error_code(repl.key), f"Codriver gave up on REPL {repl.key}: {cause}", now),
        )
    return announcements


def _given_up_error_code(key: str) -> str:
    """Return the code of the remembered error about a REPL that was given up on."""
    return f"repl-given-up:{key}"


def retry_connection(state: State, repl: Repl, action: RetryDue) -> Outcome:
    """Try to connect again, unless the REPL's state has changed since the retry was scheduled."""
    if repl.phase != "waiting" or repl.failures != action.failures:
        return Outcome(state)
    return _start_or_connect(state, repl, action.now)


def restart_repl(state: State, repl: Repl, action: RestartRepl) -> Outcome:
    """End the process of a REPL that Codriver started, and start it again. Other REPLs are not affected."""
    if not repl.is_owned:
        return Outcome(state)
    restarting = replace(
        repl,
        phase="starting",
        note=f"restarting: {action.why}",
        end_reason=action.why if repl.phase == "connected" else repl.end_reason,
        profile=None,
        failures=0,
        starts=repl.starts[:-1],
        sessions=_main_session_only(repl),
    )
    state = with_repl(state, restarting)
    ends = evaluation_queue.actions_ending_evaluations(
        state, repl.id, f"the REPL was restarted ({action.why})", restarted=True
    )
    gone = "; its definitions are lost" if repl.generation else ""
    announcements = AddServerLine(f"restarting REPL {repl.key}: {action.why}{gone}", repl=repl.key)
    return Outcome(state, (EndRepl(id=repl.id), StartRepl(id=repl.id)), (*ends, announcements))


def add_session(state: State, repl: Repl, action: SessionOpened) -> Outcome:
    """Add a session that was opened in the REPL for a caller."""
    session = Session(action.name, action.who, action.client)
    return Outcome(with_session(state, repl.id, session))


def remove_session(state: State, repl: Repl, action: SessionClosed) -> Outcome:
    """Remove a session whose client has disconnected."""
    return Outcome(orphans.remove_closed_session(state, repl.id, action.name))


def _free_key(state: State, expected: str, repl_id: str, document: str | None) -> str:
    """Return a key for a REPL that no other REPL has and that no dropped REPL reserves."""
    left = state.forgotten.get(repl_id)
    if left is not None and left.is_discovered_only:
        return left.key  # still reserved for this REPL
    used = {repl.key for repl in state.repls.values() if repl.id != repl_id}
    reserved = {dropped.key for dropped in state.forgotten.values() if dropped.reserves_key(document)}
    return free_name(expected, used | reserved)


def _last_generation(state: State, key: str, repl_id: str) -> int:
    """Return the last generation of a dropped REPL, or of the kernel whose key it gets, or 0.

    The next kernel of a notebook gets the same key and continues its generations, so callers notice that it is new.
    """
    dropped = state.forgotten.get(repl_id)
    same_key = [left.generation for left in state.forgotten.values() if left.is_discovered_only and left.key == key]
    return max([dropped.generation if dropped is not None else 0, *same_key])


def _start_or_connect(state: State, repl: Repl, now: int) -> Outcome:
    """Start a REPL's process, or connect to a REPL that Codriver did not start."""
    if not repl.is_owned:
        return Outcome(with_repl(state, replace(repl, phase="connecting")), effects=(ConnectRepl(id=repl.id),))
    starts = (*repl.starts, now)[-MAX_REMEMBERED_STARTS:]
    starting = replace(repl, phase="starting", note=f"starting {repl.origin.text}", starts=starts)
    return Outcome(with_repl(state, starting), effects=(StartRepl(id=repl.id),))


def _main_session_only(repl: Repl) -> Mapping[str, Session]:
    """Return only the shared session of a REPL. All others end when the connection is lost."""
    return MappingProxyType({MAIN_SESSION: replace(repl.sessions[MAIN_SESSION], namespace=None)})
