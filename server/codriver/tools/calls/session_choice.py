"""Choice of the session that a call means: the one it names, otherwise one by a fixed order of rules."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio

from codriver.core import lanes, recent_repls
from codriver.core.actions import LaneRequested, SessionOpened
from codriver.core.records import dataclass
from codriver.core.state import Session, free_name
from codriver.core.values import MAIN_SESSION, Evaluation, Lane
from codriver.errors import RefusedError, ReplDisconnectedError, refused
from codriver.net.seen_clients import COMMAND_NAME_PREFIX
from codriver.repls.contract.adapter import CapabilityMissingError
from codriver.repls.kinds import dialects_by_suffix
from codriver.tools.calls.gate import LOOK_S, to_name_one

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from codriver.core.state import Repl, State
    from codriver.tools.calls.call import Call


MOST_IN_BACKGROUND: Final = 8
"""Evaluations of a client in the background: each has a thread, and takes its share of the interpreter."""


@dataclass(frozen=True, slots=True)
class Target:
    """A session, and its REPL."""

    repl: Repl
    session: Session
    lane: Lane | None = None
    """The caller's lane, if it is not the session: the REPL is not connected yet, or has no lane left."""
    beside: tuple[str, ...] = ()
    """The keys of the other REPLs that a call could mean."""
    gave_way: tuple[str, ...] = ()
    """The keys of the stand-ins that gave way to this REPL."""
    reason: str = ""
    """Why this REPL was chosen for a call that named none: see `preferred`."""

    @property
    def key(self) -> str:
        """Return the key by which clients know the session."""
        return self.repl.session_key(self.session.name)


def _no_repl(repls: Sequence[Repl], to_name_one: str) -> RefusedError:
    """There is no REPL at all."""
    found = [repl.key for repl in repls if repl.origin.is_discovered_only and repl.phase == "connected"]
    waiting = [repl for repl in repls if repl.key not in found]
    tried = "; ".join(f"{repl.key} ({repl.origin.text}): {repl.note or repl.phase}" for repl in waiting)
    return refused(
        "no-repl",
        "no REPL is connected" + (f"; known but not reached: {tried}" if tried else ""),
        hint=f"a kernel that somebody else started is used by its name: give replSessionKey {' or '.join(found)}"
        if found
        else "start an nREPL in the workspace (it is found by its port file within a second), "
        f"or {to_name_one}, which a running server reads at once",
    )


def _ambiguous(repls: Sequence[Repl]) -> RefusedError:
    """More than one session could be meant."""
    keys = [repl.key for repl in repls]
    shown = [f"{repl.key} (of another working tree)" if repl.other_tree else repl.key for repl in repls]
    return refused(
        "ambiguous-session",
        f"there are {len(keys)} REPL sessions, and replSessionKey was not given",
        hint=f"call again with replSessionKey set to one of: {', '.join(shown)}",
        details={"sessions": list(keys), "count": len(keys)},
    )


def _unknown_session(given: str, keys: Sequence[str]) -> RefusedError:
    """Return the named session does not exist."""
    return refused(
        "unknown-session",
        f"there is no REPL session {given!r}",
        hint=f"the sessions are: {', '.join(keys)}" if keys else "no REPL is connected: see status",
        details={"sessions": list(keys), "count": len(keys)},
    )


def repl_stopped(repl: Repl) -> RefusedError:
    """Return the REPL was given up."""
    return refused(
        "repl-stopped",
        f"the REPL {repl.key} is stopped: {repl.note or 'no reason is known'}",
        hint="call restart_repl if it is a process that codriver starts; else start the REPL itself",
    )


def _other_tree(target: Target, tree: str) -> RefusedError:
    """Return the REPL that a port file led to runs in another working tree of the workspace's repository."""
    return refused(
        "other-worktree",
        f"nothing was evaluated: the REPL {target.key} runs in the working tree {tree}, and this workspace is in "
        "another one of the same repository, so the code it has loaded is not this one's",
        hint=f"to use it all the same, give replSessionKey {target.key}; else start a REPL here, and delete the "
        f"port file {target.repl.origin.text} if it is left over",
        details={"sessionKey": target.key},
    )


def chosen(call: Call, key: str | None, who: str, *, file: str = "") -> Target:
    """Return the session that `key` names, otherwise the one that `resolve` chooses for this caller.

    `file`: the path of the file to be loaded or run there; a session of another language is not meant.

    Raises:
        RefusedError: as `resolve` says.
    """
    dialects = dialects_by_suffix().get(Path(file).suffix, ()) if file else ()
    return resolve(call.services.core.state, key, used=used_repls(call, who), dialects=dialects)


def used_repls(call: Call, who: str) -> tuple[str, ...]:
    """Return the ids of the REPLs that the caller `who` has evaluated in, the last used one last."""
    state = call.services.core.state
    return recent_repls.recent_repls_of(state, call.client, who) if len(state.repls) > 1 else ()


def notes_of_choice(call: Call, evaluation: Evaluation, target: Target) -> tuple[str, ...]:
    """Return the note, given once per caller, on which session was chosen where several could be meant."""
    if not target.beside and not target.gave_way:
        return ()
    others = f"replSessionKey names another: {', '.join(target.beside)}"
    note = f"in {target.repl.key}, {target.reason}; {others}"
    if target.gave_way:
        others = f"{', '.join(target.gave_way)} gave way; replSessionKey names that"
        note = f"in {target.repl.key}, the project's own REPL, to which {others}"
    is_new = call.services.delivered.repls.is_new(evaluation, f"in {target.repl.key}; {others}")
    return (note,) if is_new else ()


def preferred(repls: Sequence[Repl], used: Sequence[str] = ()) -> tuple[list[Repl], str]:
    """Return the REPLs that a call which names none can mean, and why. More than one: the call has to name one.

    The first of these rules that applies decides:

    1. There is only one REPL.
    2. The REPL that the caller used last. `used`: the ids of those it used, the last one last.
    3. The running application; several applications are told apart by name only. The processes of one program count as
       one application, and the first is meant.
    4. The REPLs of the project: those that were found, named or configured.
    5. The REPL that Codriver started unasked.
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
    """Return the REPLs, of those in processes of one program only the first by its key."""
    first: dict[str, Repl] = {}
    for repl in sorted(repls, key=lambda one: one.key):
        first.setdefault(repl.origin.text if repl.origin.kind == "program" else repl.id, repl)
    return [repl for repl in repls if repl in first.values()]


def resolve(
    state: State,
    key: str | None,
    *,
    may_leave: bool = False,
    used: Sequence[str] = (),
    dialects: Collection[str] = (),
) -> Target:
    """Return the session that `key` names, otherwise the main session of the REPL that `preferred` names.

    A key goes before the aliases of other sessions.

    A session that is leaving counts only if it `may_leave`. `used`: the ids of the REPLs that the caller used, the last
    one last. Of several REPLs those that speak one of the `dialects` are meant, if there are any.

    Not considered: REPLs that were never reached, such as one behind a stale port file; kernels that somebody else
    started, which are used by name only; and a stand-in, once the project's own REPL is connected.

    Raises:
        RefusedError: there is no session (of that name), there are several, or the REPL was given up.
    """
    if key is None:
        repls = state.repls.values()
        reachable = [
            one
            for one in repls
            if one.phase != "stopped"
            and (one.phase != "waiting" or one.generation)
            and not one.origin.is_discovered_only
        ]
        if not reachable:
            raise _no_repl(tuple(repls), to_name_one(state))
        candidates = [repl for repl in reachable if repl.dialect in dialects] or reachable
        gave_way = tuple([repl.key for repl in candidates if _gives_way(repl, candidates)])
        candidates = [repl for repl in candidates if repl.key not in gave_way]
        best, reason = preferred(candidates, used)
        if len(best) > 1:
            raise _ambiguous(best)
        repl = best[0]
        beside = tuple([other.key for other in candidates if other is not repl])
        return Target(repl, repl.sessions[MAIN_SESSION], beside=beside, gave_way=gave_way, reason=reason)
    for repl in state.repls.values():
        for session in repl.sessions.values():
            if repl.session_key(session.name) == key and (may_leave or not session.is_leaving):
                if repl.phase == "stopped":
                    raise repl_stopped(repl)
                return Target(repl, session)
    for repl in state.repls.values():
        if key in repl.aliases and repl.phase != "stopped":
            return Target(repl, repl.sessions[MAIN_SESSION])
    raise _unknown_session(key, _named_sessions(state))


def _named_sessions(state: State) -> list[str]:
    candidates = [repl for repl in state.repls.values() if repl.phase != "stopped"]
    return [repl.session_key(one.name) for repl in candidates for one in repl.sessions.values() if one.lane is None]


def _gives_way(repl: Repl, others: Iterable[Repl]) -> bool:
    """True if a REPL stands in for a connected one: Python in place of Lisp for any, else for one of its dialect."""
    return repl.is_stand_in and any(
        other.phase == "connected"
        and not other.is_stand_in
        and other.other_tree is None
        and (bool(repl.origin.stand_in_note) or other.dialect == repl.dialect)
        for other in others
    )


def own(call: Call, key: str | None, who: str) -> Target:
    """The session that `key` names; without a key, the used lane of `who` in the only REPL, else the shared one.

    Raises:
        RefusedError: as `resolve` says.
    """
    target = chosen(call, key, who)
    if key is not None or not target.repl.gives_lanes:
        return target
    lane = _lane(call, who)
    found = lanes.find_lane(call.state, target.repl, lane, call.client) if lane else None
    return Target(target.repl, found) if found is not None and found.is_used else target


def session_field(target: Target, asked: str | None) -> dict[str, object]:
    """The `sessionKey` of an answer; left out for the caller's own lane if the call `asked` for no session."""
    return {} if asked is None and target.session.lane is not None else {"sessionKey": target.key}


def in_lane(call: Call, target: Target, who: str) -> Target:
    """The session for a `who` that named none: the caller's lane in the REPL of `target`, made if need be.

    The result is `target` for a REPL without lanes, or without a free one. A REPL on its way gives the lane when it is
    there.
    """
    repl = target.repl
    if repl.profile is not None and not repl.gives_lanes:
        return target
    lane = _lane(call, who)
    if lane is None:
        return target
    if repl.profile is None:
        return replace(target, repl=repl, lane=lane)
    found = lanes.find_lane(call.state, repl, lane, call.client)
    if found is None or found.client != call.client:
        call.dispatch(LaneRequested(repl.id, lane))
        repl = call.state.repls[repl.id]
        found = lanes.find_lane(call.state, repl, lane, call.client)
    session = target.session if found is None else found
    return replace(target, repl=repl, session=session, lane=lane if found is None else None)


def _lane(call: Call, who: str) -> Lane | None:
    """Return the lane of a caller, in whichever REPL; None for a caller in the session that all share."""
    if not call.services.live.settings.lanes or not call.client or call.client_name.startswith(COMMAND_NAME_PREFIX):
        return None
    return Lane(call.client_name, who, call.conversation)


def check_tree(call: Call, target: Target, who: str, named: str | None) -> None:
    """Refuse to evaluate in a REPL of another working tree, until this caller has named the REPL, and so means it.

    Raises:
        RefusedError: the REPL is such a one, and was not named since its connection.
    """
    repl, tree = target.repl, target.repl.other_tree
    if tree is None or named is not None:
        return
    known = [one for one in call.state.evaluations.values() if (one.repl, one.generation) == (repl.id, repl.generation)]
    if not any(call.is_own(one, who) for one in known):
        raise _other_tree(target, tree)


def server_of(file: Path, repls: Iterable[Repl], workspace: Path, used: Sequence[str] = ()) -> Repl | str | None:
    """Return the connected REPL that serves a file; None if none does; a sentence if that is not clear.

    Of the REPLs that speak the file's likeliest dialect the one whose project is nearest to the file serves it; of
    several alike the one that `preferred` names. `used`: as there.
    """
    dialects = dialects_by_suffix().get(file.suffix, ())
    speaking = [
        repl
        for repl in repls
        if repl.phase == "connected" and repl.dialect in dialects and not repl.origin.is_discovered_only
    ]
    able = [repl for repl in speaking if repl.other_tree is None]
    if not able:
        there = next(iter(speaking), None)
        return f"{there.key} runs in another working tree" if there else None

    def distance(repl: Repl) -> tuple[int, int]:
        home = _home(repl, workspace)
        inside = file.is_relative_to(home)
        return dialects.index(repl.dialect), -len(home.parts) if inside else 1

    nearest = min(map(distance, able))
    best, _ = preferred([repl for repl in able if distance(repl) == nearest], used)
    if len(best) == 1:
        return best[0]
    return f"{' and '.join(sorted(repl.key for repl in best))} could serve it alike: name one with replSessionKey"


def serving(call: Call, file: Path, who: str, key: str | None = None) -> Repl | str | None:
    """Return the REPL that serves a file for a caller: the one that `key` names, otherwise as `server_of` says.

    Raises:
        RefusedError: there is no session of that key, or its REPL was given up.
    """
    if key is None:
        return server_of(file, call.state.repls.values(), call.services.workspace, used_repls(call, who))
    repl = resolve(call.state, key).repl
    if repl.dialect not in dialects_by_suffix().get(file.suffix, ()):
        return f"{repl.key} does not load files of this language"
    return repl if repl.phase == "connected" else f"{repl.key} is not connected now"


async def await_server(call: Call, file: Path, wait_s: float) -> None:
    """Wait for a REPL on its way that may serve a file, as an evaluation does, if no other serves the file."""
    dialects = dialects_by_suffix().get(file.suffix, ())
    with anyio.move_on_after(wait_s):
        while server_of(file, call.state.repls.values(), call.services.workspace) is None:
            if not any(repl.is_coming and repl.dialect in dialects for repl in call.state.repls.values()):
                return
            await anyio.sleep(LOOK_S)


def _home(repl: Repl, workspace: Path) -> Path:
    """Return the directory of the project that a REPL was started in, if known."""
    if repl.profile is not None and repl.profile.project_root:
        return Path(repl.profile.project_root)
    if repl.origin.kind == "port-file":
        folder = Path(repl.origin.text).parent
        return folder.parent if folder.name.startswith(".") else folder
    return workspace


def target_of(state: State, evaluation: Evaluation) -> Target:
    """Return the session of an evaluation.

    Raises:
        RefusedError: the session, or its REPL, is gone.
    """
    repl = state.repls.get(evaluation.repl)
    if repl is None or evaluation.session not in repl.sessions:
        raise _unknown_session(evaluation.session, [one.key for one in state.repls.values()])
    return Target(repl, repl.sessions[evaluation.session])


async def isolated(call: Call, target: Target, who: str) -> Target:
    """The session of `who` and this client beside `target`, opened if missing. It ends with the client.

    Raises:
        CapabilityMissingError: this REPL keeps nothing apart, or is not connected yet.
        ReplDisconnectedError: the REPL was lost meanwhile.
    """
    repl = target.repl
    if repl.profile is None:
        raise CapabilityMissingError("sessions", f"the REPL {repl.key} is not connected yet: call again when it is")
    if repl.profile.isolation == "none":
        raise CapabilityMissingError(
            "sessions", f"the REPL {repl.key} keeps nothing apart: evaluate without isolate, in a namespace of your own"
        )
    while True:
        repl = _still_there(call, repl)
        asked = (one for one in repl.sessions.values() if one.lane is None)
        apart = next((one for one in asked if (one.who, one.client) == (who, call.client)), None)
        if apart is not None:
            return Target(repl, apart)
        name = free_name(who, repl.sessions)
        await call.services.repls.adapter(repl.id).open_session(name)
        # Another caller may have taken the name meanwhile: then the next one is tried.
        if name not in _still_there(call, repl).sessions:
            call.dispatch(SessionOpened(repl.id, name), who=who)


async def in_background(call: Call, target: Target, who: str, wait_s: float) -> Target:
    """The session, for this one evaluation, in which `who` runs code beside the running code of `target`'s REPL.

    A REPL on its way is waited for.

    Raises:
        CapabilityMissingError: this REPL runs one evaluation at a time, or is not connected yet.
        RefusedError: the client has as many such evaluations as it may have.
    """
    repl = target.repl
    with anyio.move_on_after(wait_s):
        while repl.profile is None and repl.is_coming:
            await anyio.sleep(LOOK_S)
            repl = call.state.repls.get(repl.id, repl)
    if repl.profile is None:
        raise CapabilityMissingError("background", f"the REPL {repl.key} is not connected yet: call again when it is")
    if not repl.profile.runs_concurrently:
        raise CapabilityMissingError(
            "background", f"the REPL {repl.key} runs one evaluation at a time: leave background out, and it queues"
        )
    own = [one.id for one in call.state.unfinished() if one.is_background and one.client == call.client]
    if len(own) >= MOST_IN_BACKGROUND:
        raise refused(
            "too-many-in-background",
            f"the code was not sent: {len(own)} evaluations of this client run in the background, and "
            f"{MOST_IN_BACKGROUND} are the most",
            hint=f"wait with get_evaluation, or end one with interrupt_evaluation: {', '.join(own)}",
            details={"running": list(own), "most": MOST_IN_BACKGROUND},
        )
    return Target(repl, Session(free_name(f"{who}-background", repl.sessions), who, is_leaving=True))


def _still_there(call: Call, repl: Repl) -> Repl:
    known = call.state.repls.get(repl.id)
    if known is None or known.profile is None:
        raise ReplDisconnectedError("it was lost while a session was opened in it; call again when it is back")
    return known
