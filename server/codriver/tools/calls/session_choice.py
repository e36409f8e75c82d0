"""Choose the session for a call: the one that it names, or else one chosen by a list of rules."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio

from codriver.core import lanes, recent_repls
from codriver.core.actions import RequestLane, SessionOpened
from codriver.core.evaluations import Evaluation, Lane
from codriver.core.records import dataclass
from codriver.core.requests import MAIN_SESSION
from codriver.core.state import DroppedRepl, Session, free_name
from codriver.errors import RefusedError, ReplDisconnectedError, refused
from codriver.net.seen_clients import COMMAND_NAME_PREFIX
from codriver.repls.contract.adapter import CapabilityMissingError
from codriver.repls.kinds import dialects_by_suffix
from codriver.tools.calls.gate import CHECK_INTERVAL_S, describe_repl_setup

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from codriver.core.state import Repl, State
    from codriver.tools.calls.call import Call


MAX_BACKGROUND_EVALUATIONS: Final = 8
"""Maximum number of background evaluations per client. Each one has a thread and slows the others."""


@dataclass(frozen=True, slots=True)
class Target:
    """A session chosen for a call, and its REPL."""

    repl: Repl
    session: Session
    lane: Lane | None = None
    """The caller's lane if it is not the session, because the REPL is not connected yet or has no free lane."""
    alternatives: tuple[str, ...] = ()
    """Keys of the other REPLs that the call could refer to."""
    displaced: tuple[str, ...] = ()
    """Keys of the stand-ins that this REPL replaces."""
    reason: str = ""
    """The reason why this REPL was chosen for a call that named none. See `preferred_repls`."""

    @property
    def key(self) -> str:
        """Return the key by which clients identify the session."""
        return self.repl.session_key(self.session.name)


def _no_repl_error(repls: Sequence[Repl], to_name_one: str) -> RefusedError:
    """Create the error for a call when no REPL can be chosen."""
    found = [repl.key for repl in repls if repl.origin.is_discovered_only and repl.phase == "connected"]
    waiting = [repl for repl in repls if repl.key not in found]
    tried = "; ".join(f"{repl.key} ({repl.origin.text}): {repl.note or repl.phase}" for repl in waiting)
    return refused(
        "no-repl",
        "no REPL is connected" + (f"; these REPLs could not be reached: {tried}" if tried else ""),
        hint=f"To use a kernel that somebody else started, pass replSessionKey {' or '.join(found)}."
        if found
        else "Start an nREPL server in the workspace. Codriver will find it by its port file within a second. "
        f"Alternatively, {to_name_one}. A running server reads the change at once.",
    )


def _ambiguous_session_error(repls: Sequence[Repl]) -> RefusedError:
    """Create the error for a call that could refer to several sessions."""
    keys = [repl.key for repl in repls]
    descriptions = [f"{repl.key} (in another working tree)" if repl.other_working_tree else repl.key for repl in repls]
    return refused(
        "ambiguous-session",
        f"there are {len(keys)} REPL sessions, and replSessionKey was not given",
        hint=f"Call again with replSessionKey set to one of: {', '.join(descriptions)}.",
        details={"sessions": list(keys), "count": len(keys)},
    )


def _unknown_session_error(state: State, given: str) -> RefusedError:
    """Create the error for a call that names a session that does not exist, or that has ended."""
    keys = _session_keys(state)
    dropped = [repl for repl in state.forgotten.values() if repl.key == given]
    message = (
        f"the REPL session {given} has ended: {dropped[-1].cause}" if dropped else f"there is no REPL session {given!r}"
    )
    return refused(
        "unknown-session",
        message,
        hint=f"The sessions are {', '.join(keys)}." if keys else "No REPL is connected. See status.",
        details={"sessions": keys, "count": len(keys)},
    )


def _finished_session_error(state: State, finished: Repl | DroppedRepl) -> RefusedError:
    """Create the error for a call without a session key whose caller last used a discovered REPL that has ended."""
    keys, cause = _session_keys(state), finished.cause if isinstance(finished, DroppedRepl) else finished.note
    return refused(
        "unknown-session",
        f"the REPL session {finished.key}, which you used last, has ended: {cause or 'no reason is known'}",
        hint=f"To use another session, pass replSessionKey, which is one of: {', '.join(keys)}."
        if keys
        else "No REPL is connected. See status.",
        details={"sessions": keys, "count": len(keys)},
    )


def repl_stopped_error(repl: Repl) -> RefusedError:
    """Create the error for a call to a REPL that could not be started."""
    return refused(
        "repl-stopped",
        f"the REPL {repl.key} is stopped: {repl.note or 'no reason is known'}",
        hint="If Codriver started the REPL, call restart_repl. Otherwise, start the REPL again yourself.",
    )


def _other_tree_error(target: Target, tree: str) -> RefusedError:
    """Create the error for evaluating in a REPL that belongs to another working tree."""
    return refused(
        "other-worktree",
        f"nothing was evaluated, because the REPL {target.key} runs in the working tree {tree}. This workspace is in "
        "another working tree of the same repository, whose code may differ",
        hint=f"To use this REPL anyway, pass replSessionKey {target.key}. Otherwise, start a REPL in this workspace, "
        f"and delete the port file {target.repl.origin.text} if it is stale.",
        details={"sessionKey": target.key},
    )


def choose_session(call: Call, key: str | None, who: str, *, file: str = "") -> Target:
    """Choose the session for a call by `who`.

    `key` names the session. Without it, `resolve_session` chooses one. If `file` is the path of a file to load or run,
    only sessions for its language are considered.

    Raises:
        RefusedError: see `resolve_session`.
    """
    dialects = dialects_by_suffix().get(Path(file).suffix, ()) if file else ()
    return resolve_session(call.services.core.state, key, used=used_repls(call, who), dialects=dialects)


def used_repls(call: Call, who: str) -> tuple[str, ...]:
    """Return the ids of the REPLs in which a caller has evaluated code, most recent last."""
    return recent_repls.recent_repl_ids(call.services.core.state, call.client, who)


def discovered_session_in_use(call: Call, who: str) -> Target | None:
    """Return the session of the REPL that a caller used last if this REPL was only discovered, or else None.

    Raises:
        RefusedError: this REPL has ended.
    """
    used = used_repls(call, who)
    finished = recent_repls.finished_discovered_repl(call.state, used)
    if finished is not None:
        raise _finished_session_error(call.state, finished)
    repl = call.state.repls.get(used[-1]) if used else None
    if repl is None or not repl.origin.is_discovered_only:
        return None
    return Target(repl, repl.sessions[MAIN_SESSION])


def describe_choice(call: Call, evaluation: Evaluation, target: Target) -> tuple[str, ...]:
    """Return a note about the chosen session, if the call did not determine it.

    Each caller receives the same note only once.
    """
    is_discovered = bool(target.reason) and target.repl.origin.is_discovered_only
    if not target.alternatives and not target.displaced and not is_discovered:
        return ()
    others = f"replSessionKey selects another REPL: {', '.join(target.alternatives)}" if target.alternatives else ""
    note = f"in {target.repl.key}, {target.reason}" + (f"; {others}" if others else "")
    if target.displaced:
        others = f"replSessionKey still selects {', '.join(target.displaced)}"
        note = f"in {target.repl.key}, the project's REPL; {others}"
    is_new = call.services.delivered.repls.is_new(evaluation, f"in {target.repl.key}; {others}")
    return (note,) if is_new else ()


def preferred_repls(repls: Sequence[Repl], used: Sequence[str] = ()) -> tuple[list[Repl], str]:
    """Return the REPLs that a call without a session key may refer to, and why.

    If several REPLs remain, the caller has to name one. The first applicable rule decides:
        1. There is only one REPL.
        2. The REPL that the caller used last. `used` contains the ids of the REPLs that it has used, most recent last.
        3. The running application. The processes of one program count as one application, represented by the first.
        4. The REPLs of the project, which were found, named or configured.
        5. The REPL that Codriver started automatically.
    """
    if len(repls) == 1:
        return list(repls), "the only REPL"
    by_id = {repl.id: repl for repl in repls}
    for identity in reversed(used):
        if identity in by_id:
            return [by_id[identity]], "as before"
    applications = [repl for repl in repls if repl.profile is not None and repl.profile.application]
    if applications:
        return _first_of_each_program(applications), "the running application"
    of_project = [repl for repl in repls if not repl.origin.is_unasked]
    return of_project or list(repls), "the project's REPL"


def _first_of_each_program(repls: Sequence[Repl]) -> list[Repl]:
    """Return the REPLs, with only one process of each program: the one whose key sorts first."""
    first: dict[str, Repl] = {}
    for repl in sorted(repls, key=lambda candidate: candidate.key):
        first.setdefault(repl.origin.text if repl.origin.has_several_processes else repl.id, repl)
    return [repl for repl in repls if repl in first.values()]


def resolve_session(
    state: State,
    key: str | None,
    *,
    may_leave: bool = False,
    used: Sequence[str] = (),
    dialects: Collection[str] = (),
) -> Target:
    """Return the session with the given key, or the main session of the REPL chosen by `preferred_repls`.

    A key takes precedence over other sessions' aliases. A session that is closing is only accepted if `may_leave` is
    true. `used` contains the ids of the REPLs that the caller has used, most recent last. REPLs for one of the
    `dialects` are preferred.

    Without a key, these REPLs are not considered: REPLs that were never reached, such as one with a stale port file,
    kernels that somebody else started, and stand-ins while the project's own REPL is connected. The exception is a
    kernel that the caller used last. If it has ended, the caller has to name another session.

    Raises:
        RefusedError: the session does not exist, several sessions are possible, or the REPL has stopped.
    """
    if key is None:
        repls = state.repls.values()
        finished = recent_repls.finished_discovered_repl(state, used)
        if finished is not None:
            raise _finished_session_error(state, finished)
        reachable = [
            candidate
            for candidate in repls
            if candidate.phase != "stopped"
            and (candidate.phase != "waiting" or candidate.generation)
            and recent_repls.is_eligible(candidate, used)
        ]
        if not reachable:
            raise _no_repl_error(tuple(repls), describe_repl_setup(state))
        candidates = [repl for repl in reachable if repl.dialect in dialects] or reachable
        displaced = tuple([repl.key for repl in candidates if _is_superseded(repl, candidates)])
        candidates = [repl for repl in candidates if repl.key not in displaced]
        best, reason = preferred_repls(candidates, used)
        if len(best) > 1:
            raise _ambiguous_session_error(best)
        repl = best[0]
        alternatives = tuple([other.key for other in candidates if other is not repl])
        return Target(repl, repl.sessions[MAIN_SESSION], alternatives=alternatives, displaced=displaced, reason=reason)
    for repl in state.repls.values():
        for session in repl.sessions.values():
            if repl.session_key(session.name) == key and (may_leave or not session.is_leaving):
                if repl.phase == "stopped":
                    raise repl_stopped_error(repl)
                return Target(repl, session)
    for repl in state.repls.values():
        if key in repl.aliases and repl.phase != "stopped":
            return Target(repl, repl.sessions[MAIN_SESSION])
    raise _unknown_session_error(state, key)


def _session_keys(state: State) -> list[str]:
    """Return the keys of the sessions that a call can name.

    These are all sessions except lanes and sessions of stopped REPLs.
    """
    candidates = [repl for repl in state.repls.values() if repl.phase != "stopped"]
    return [
        repl.session_key(session.name)
        for repl in candidates
        for session in repl.sessions.values()
        if session.lane is None
    ]


def _is_superseded(repl: Repl, others: Iterable[Repl]) -> bool:
    """Return whether a connected REPL replaces a stand-in.

    Python as a stand-in for a Lisp is replaced by any REPL of the project. Other stand-ins are replaced by a REPL of
    the same dialect.
    """
    return repl.is_stand_in and any(
        other.phase == "connected"
        and not other.is_stand_in
        and not other.origin.is_discovered_only
        and other.other_working_tree is None
        and (bool(repl.origin.stand_in_note) or other.dialect == repl.dialect)
        for other in others
    )


def session_in_use(call: Call, key: str | None, who: str) -> Target:
    """Return the session with the given key, or the one that the caller currently uses.

    This is the caller's own lane if code has run in it, and otherwise the shared session.

    Raises:
        RefusedError: see `resolve_session`.
    """
    target = choose_session(call, key, who)
    if key is not None or not target.repl.supports_lanes:
        return target
    lane = _lane_for_caller(call, who)
    found = lanes.find_lane(call.state, target.repl, lane, call.client) if lane else None
    return Target(target.repl, found) if found is not None and found.is_used else target


def session_field(target: Target, key: str | None) -> dict[str, object]:
    """Return the field `sessionKey` of an answer. It is omitted for a caller's lane if the call passed no key."""
    return {} if key is None and target.session.lane is not None else {"sessionKey": target.key}


def caller_lane(call: Call, target: Target, who: str) -> Target:
    """Return the caller's lane in the REPL of `target`, creating it if necessary.

    Returns `target` itself if the REPL has no lanes or no free one. A REPL that is starting provides the lane when it
    is ready.
    """
    repl = target.repl
    if repl.profile is not None and not repl.supports_lanes:
        return target
    lane = _lane_for_caller(call, who)
    if lane is None:
        return target
    if repl.profile is None:
        return replace(target, repl=repl, lane=lane)
    found = lanes.find_lane(call.state, repl, lane, call.client)
    if found is None or found.client != call.client:
        call.dispatch(RequestLane(repl.id, lane))
        repl = call.state.repls[repl.id]
        found = lanes.find_lane(call.state, repl, lane, call.client)
    session = target.session if found is None else found
    return replace(target, repl=repl, session=session, lane=lane if found is None else None)


def _lane_for_caller(call: Call, who: str) -> Lane | None:
    """Return the lane of a caller, or None if the caller uses the shared session."""
    if not call.services.live.settings.lanes or not call.client or call.client_name.startswith(COMMAND_NAME_PREFIX):
        return None
    return Lane(call.client_name, who, call.conversation)


def check_working_tree(call: Call, target: Target, who: str, named: str | None) -> None:
    """Check that code is not evaluated by mistake in a REPL that belongs to another working tree.

    `named` is the session key that the call passed, if any.

    Raises:
        RefusedError: the REPL belongs to another working tree, and the caller has not named it since it connected.
    """
    repl, tree = target.repl, target.repl.other_working_tree
    if tree is None or named is not None:
        return
    known = [
        evaluation
        for evaluation in call.state.evaluations.values()
        if (evaluation.repl, evaluation.generation) == (repl.id, repl.generation)
    ]
    if not any(call.belongs_to(known_evaluation, who) for known_evaluation in known):
        raise _other_tree_error(target, tree)


def find_serving_repl(
    file: Path, repls: Iterable[Repl], workspace: Path, used: Sequence[str] = ()
) -> Repl | str | None:
    """Return the connected REPL that serves a file.

    REPLs for the file's most likely dialect are considered first. Among these, the one whose project directory is
    nearest to the file is chosen, then the one that `preferred_repls` chooses when it receives `used`. Returns None if
    there is no such REPL, and an explanation if several could serve the file.
    """
    repls = tuple(repls)
    best = _best_serving_repls(file, repls, workspace, used)
    if len(best) == 1:
        return best[0]
    if not best:
        in_other_tree = next((repl for repl in repls if _can_load(repl, file)), None)
        return f"{in_other_tree.key} runs in another working tree" if in_other_tree else None
    return (
        f"{' and '.join(sorted(repl.key for repl in best))} could all serve this file. Select one with replSessionKey"
    )


def check_serving_repl(call: Call, file: Path, who: str) -> None:
    """Check that at most one REPL serves a file.

    Raises:
        RefusedError: several could serve it, so the caller has to choose.
    """
    best = _best_serving_repls(file, call.state.repls.values(), call.services.workspace, used_repls(call, who))
    if len(best) > 1:
        raise _ambiguous_session_error(best)


def _can_load(repl: Repl, file: Path) -> bool:
    """Return whether a REPL is connected, supports the language of a file, and may be used without being named."""
    dialects = dialects_by_suffix().get(file.suffix, ())
    return repl.phase == "connected" and repl.dialect in dialects and not repl.origin.is_discovered_only


def _best_serving_repls(file: Path, repls: Iterable[Repl], workspace: Path, used: Sequence[str]) -> list[Repl]:
    """Return the REPL that is most suitable for serving a file, or several if they are equally suitable."""
    dialects = dialects_by_suffix().get(file.suffix, ())
    able = [repl for repl in repls if _can_load(repl, file) and repl.other_working_tree is None]
    if not able:
        return []

    def distance(repl: Repl) -> tuple[int, int]:
        home = _project_directory(repl, workspace)
        inside = file.is_relative_to(home)
        return dialects.index(repl.dialect), -len(home.parts) if inside else 1

    nearest = min(map(distance, able))
    return preferred_repls([repl for repl in able if distance(repl) == nearest], used)[0]


def repl_for_file(call: Call, file: Path, who: str, key: str | None = None) -> Repl | str | None:
    """Return the REPL that serves a file for a caller.

    If `key` is given, it is the REPL of this session. Otherwise `find_serving_repl` chooses it. The result is an
    explanation if the REPL cannot load the file, and None if there is no REPL.

    Raises:
        RefusedError: there is no session with this key, or its REPL has stopped.
    """
    if key is None:
        return find_serving_repl(file, call.state.repls.values(), call.services.workspace, used_repls(call, who))
    repl = resolve_session(call.state, key).repl
    if repl.dialect not in dialects_by_suffix().get(file.suffix, ()):
        return f"{repl.key} does not load files of this language"
    return repl if repl.phase == "connected" else f"{repl.key} is not connected"


async def await_serving_repl(call: Call, file: Path, wait_s: float) -> None:
    """Wait for a starting REPL that may serve a file, unless another REPL already serves it."""
    dialects = dialects_by_suffix().get(file.suffix, ())
    with anyio.move_on_after(wait_s):
        while find_serving_repl(file, call.state.repls.values(), call.services.workspace) is None:
            if not any(repl.is_awaited and repl.dialect in dialects for repl in call.state.repls.values()):
                return
            await anyio.sleep(CHECK_INTERVAL_S)


def _project_directory(repl: Repl, workspace: Path) -> Path:
    """Return the project directory of a REPL, or the workspace if it is unknown.

    It is also the workspace for an application outside it, which may have been started in any directory.
    """
    if repl.profile is not None and repl.profile.project_root:
        root = Path(repl.profile.project_root)
        return workspace if repl.profile.application and not root.is_relative_to(workspace) else root
    if repl.origin.kind == "port-file":
        directory = Path(repl.origin.text).parent
        return directory.parent if directory.name.startswith(".") else directory
    return workspace


def find_target(state: State, evaluation: Evaluation) -> Target:
    """Return the session of an evaluation and its REPL.

    Raises:
        RefusedError: the session or its REPL no longer exists.
    """
    repl = state.repls.get(evaluation.repl)
    if repl is None or evaluation.session not in repl.sessions:
        raise _unknown_session_error(state, evaluation.session)
    return Target(repl, repl.sessions[evaluation.session])


async def isolated_session(call: Call, target: Target, who: str, wait_s: float) -> Target:
    """Return a caller's isolated session, opening it if necessary. It closes when the client disconnects.

    If the REPL is starting, this function waits for it for at most `wait_s` seconds.

    Raises:
        CapabilityMissingError: this REPL cannot isolate code, or is not connected yet.
        ReplDisconnectedError: the connection to the REPL was lost.
    """
    repl = await _await_profile(call, target.repl, wait_s)
    if repl.profile is None:
        raise CapabilityMissingError("sessions", f"the REPL {repl.key} is not connected yet. Call again later")
    if repl.profile.isolation == "none":
        raise CapabilityMissingError(
            "sessions",
            f"the REPL {repl.key} cannot isolate code. Evaluate the code without isolate, in a namespace of your own",
        )
    while True:
        repl = _check_connected(call, repl)
        shared = (session for session in repl.sessions.values() if session.lane is None)
        apart = next((existing for existing in shared if (existing.who, existing.client) == (who, call.client)), None)
        if apart is not None:
            return Target(repl, apart)
        name = free_name(who, repl.sessions)
        await call.services.repls.adapter(repl.id).open_session(name)
        # If another caller claims the name in the meantime, the next one is tried.
        if name not in _check_connected(call, repl).sessions:
            call.dispatch(SessionOpened(repl.id, name), who=who)


async def _await_profile(call: Call, repl: Repl, wait_s: float) -> Repl:
    """Wait until the profile of a starting REPL is known, for at most `wait_s` seconds. Return the REPL's new state."""
    with anyio.move_on_after(wait_s):
        while repl.profile is None and repl.is_awaited:
            await anyio.sleep(CHECK_INTERVAL_S)
            repl = call.state.repls.get(repl.id, repl)
    return repl


async def background_session(call: Call, target: Target, who: str, wait_s: float) -> Target:
    """Return a session for one evaluation that runs in parallel with other code in the REPL of `target`.

    If the REPL is starting, this function waits for it for at most `wait_s` seconds.

    Raises:
        CapabilityMissingError: this REPL runs one evaluation at a time, or is not connected yet.
        RefusedError: the client has reached its limit of such evaluations.
    """
    repl = await _await_profile(call, target.repl, wait_s)
    if repl.profile is None:
        raise CapabilityMissingError("background", f"the REPL {repl.key} is not connected yet. Call again later")
    if not repl.profile.runs_concurrently:
        raise CapabilityMissingError(
            "background", f"the REPL {repl.key} runs one evaluation at a time. To queue the code, omit background"
        )
    background = [
        background_evaluation.id
        for background_evaluation in call.state.unfinished()
        if background_evaluation.is_background and background_evaluation.client == call.client
    ]
    if len(background) >= MAX_BACKGROUND_EVALUATIONS:
        raise refused(
            "too-many-in-background",
            f"the code was not sent, because this client already has {len(background)} evaluations in the "
            f"background, and the limit is {MAX_BACKGROUND_EVALUATIONS}",
            hint=f"Wait for one with get_evaluation, or stop one with interrupt_evaluation: {', '.join(background)}.",
            details={"running": list(background), "most": MAX_BACKGROUND_EVALUATIONS},
        )
    return Target(repl, Session(free_name(f"{who}-background", repl.sessions), who, is_leaving=True))


def _check_connected(call: Call, repl: Repl) -> Repl:
    """Return the current state of a REPL that must be connected.

    Raises:
        ReplDisconnectedError: the connection was lost.
    """
    known = call.state.repls.get(repl.id)
    if known is None or known.profile is None:
        raise ReplDisconnectedError(
            "the connection to the REPL was lost while a session was being opened. Call again when the REPL is "
            "connected"
        )
    return known
