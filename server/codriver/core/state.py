"""The state of the server, as one immutable value, and the queue that each evaluation waits in.

Everything that outlives a call is in the state: the life cycle, the REPLs with their sessions, the clients, the
evaluations. Live objects (sockets, tasks, buffers) are stored elsewhere, under the ids in the state, so the state can
always be printed. Times are epoch milliseconds.
"""

from __future__ import annotations

from dataclasses import field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, TypeVar

from codriver.core.records import dataclass, replace
from codriver.core.values import LISP, MAIN_SESSION, NOT_LISP, OCCUPYING, PYTHON

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from codriver.core.values import Evaluation, Lane, ListeningProgram, Profile

Phase = Literal["stopped", "starting", "started", "stopping"]
ReplPhase = Literal["starting", "connecting", "connected", "waiting", "stopped"]
"""`starting`: the process is starting; `connecting`: being reached; `waiting`: between two attempts.

`stopped`: given up.
"""

MAX_NEARBY_PROGRAMS = 2
"""The number of listening programs that a warning about a REPL names."""

TRUST: Final = "codriver trust"
"""The command that a note names if it waits for the user to accept the workspace."""

K = TypeVar("K")
V = TypeVar("V")


def with_item(mapping: Mapping[K, V], key: K, value: V) -> MappingProxyType[K, V]:
    """Return the mapping with `key` set to `value`; the given mapping is not changed."""
    # A proxy's `|` copies the dict below it at once, 20 times as fast as unpacking the proxy.
    return MappingProxyType((mapping if type(mapping) is MappingProxyType else dict(mapping)) | {key: value})


def without_item(mapping: Mapping[K, V], key: K) -> Mapping[K, V]:
    """Return the mapping without `key`; the given mapping is not changed."""
    return MappingProxyType({k: v for k, v in mapping.items() if k != key})


def with_evaluation(state: State, evaluation: Evaluation) -> State:
    """Return the state with this evaluation in place of the one with the same id, or added."""
    return replace(state, evaluations=with_item(state.evaluations, evaluation.id, evaluation))


def with_repl(state: State, repl: Repl) -> State:
    """Return the state with this REPL in place of the one with the same id, or added."""
    return replace(state, repls=with_item(state.repls, repl.id, repl))


def with_session(state: State, repl: str, session: Session) -> State:
    """Return the state with this session in place of the REPL's session of the same name, or added."""
    known = state.repls[repl]
    known = replace(known, sessions=with_item(known.sessions, session.name, session))
    return replace(state, repls=with_item(state.repls, repl, known))  # for each evaluation, so a call less


def free_name(base: str, used_names: Collection[str]) -> str:
    """Return `name`, or the first unused of `name-2`, `name-3` and so on."""
    name, number = base, 1
    while name in used_names:
        number += 1
        name = f"{base}-{number}"
    return name


@dataclass(frozen=True)
class Lifecycle:
    """The server's own life cycle. `port_note` names the configured port if it was in use."""

    phase: Phase = "stopped"
    session_id: str = ""
    process_id: int = 0
    version: str = ""
    workspace: str = ""
    host: str = ""
    port: int = 0
    port_note: str | None = None
    started_at: int = 0
    is_searching: bool = False
    """Whether the first search for REPLs is running, which decides if the server starts one of its own."""
    has_unread_port_files: bool = False
    """Whether there are port files whose REPLs are not known yet, as they may be those of REPLs that are starting."""


@dataclass(frozen=True)
class Seen:
    """The generation and the namespace of a session, as an answer gave them to its reader."""

    generation: int
    namespace: str | None


@dataclass(frozen=True)
class Knowledge:
    """The evaluations that a caller knows: those up to `number`. Those in `live` were unfinished when reported."""

    number: int
    live: frozenset[str]
    seen: Mapping[str, Seen] = field(default_factory=lambda: MappingProxyType({}))
    """By session key: the session's status in the caller's last answer about it, the newest last."""


@dataclass(frozen=True)
class Client:
    """One connected MCP client, and what its callers know about others' evaluations."""

    id: str
    since: int = 0
    """The number of the newest evaluation when the client connected."""
    knowledge: Mapping[str, Knowledge] = field(default_factory=lambda: MappingProxyType({}))
    """By `who`, as several callers can share one connection: what each knows, the newest last."""
    names: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """By conversation, the client's own session: the `who` given last."""
    unnamed: str = ""
    """The `who` that was made up for a caller before it gave one."""
    used: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    """By `who`: the ids of the REPLs that the caller has evaluated in, the last used one last."""


@dataclass(frozen=True)
class Session:
    """One session of a REPL. A lane or an isolated session is owned by `who` of `client`, and ends with `client`."""

    name: str = MAIN_SESSION
    who: str | None = None
    client: str | None = None
    is_leaving: bool = False
    """Whether its client is gone: the session accepts nothing new, and is closed as soon as nothing runs in it."""
    namespace: str | None = None
    last_activity: int | None = None
    last_evaluation_by: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """By `who`: the number of the newest evaluation in this session; in the shared session also of those in lanes."""
    lane: Lane | None = None
    """The lane's owner; None for the shared session, and for a session that was requested."""
    is_used: bool = False
    """Whether an evaluation has ended in the session."""


@dataclass(frozen=True)
class Origin:
    """The origin of a REPL: an address, a port file, a program that Codriver starts, or a running Jupyter kernel.

    A `kernel` is identified by its connection file, or by the `server` that serves it. A `program` connects to
    Codriver on request; the processes of one program have the same text.
    """

    kind: Literal["address", "port-file", "process", "kernel", "server", "program"]
    text: str
    """The address, the port file's path, the word or command line to start, the connection file, the URL, or the
    program's command."""
    is_discovered_only: bool = False
    """Whether nobody named the kernel: it is a person's, used only by its key, or as the only REPL."""
    stand_in_note: str = ""
    """The note about a stand-in that Codriver started: which it is, and why the project's program cannot start."""

    is_unasked: bool = False
    """True of a REPL that Codriver started because no REPL was found or requested."""
    named_by: str = ""
    """The tool by which an agent named the address; empty for an address that a person named."""

    @property
    def is_claim(self) -> bool:
        """Return whether the human did not name the REPL: at each connection its listener has to be this user's."""
        return bool(self.named_by) or self.kind == "port-file" or (self.kind == "kernel" and self.is_discovered_only)


@dataclass(frozen=True)
class Repl:
    """One REPL. `key` is its stable name for clients; `generation` rises at every new connection."""

    id: str
    key: str
    origin: Origin
    aliases: tuple[str, ...] = ()
    """Other names by which clients may name its main session, where no session has that key."""
    keyed: bool = True
    """False while `key` is only provisional: a REPL known by address gets its key when its dialect is known."""
    phase: ReplPhase = "connecting"
    address: str | None = None
    expected_dialect: str = "unknown"
    """The dialect that the REPL is expected to speak, until its connection shows the dialect."""
    note: str | None = None
    caution: str | None = None
    remark: str | None = None
    """A sentence that one answer in the workspace reports, over all servers."""
    """A sentence for each caller's first answer from a REPL that is easily mistaken for another one."""
    awaits_trust: bool = False
    """True for a stand-in until the user has accepted the workspace; another REPL then replaces it."""
    notebook: str | None = None
    """The path of the kernel's notebook: absolute, or as the notebook's server has it."""
    generation: int = 0
    end_reason: str | None = None
    """The reason, if known, why the previous generation ended, or why the present one is ending."""
    failures: int = 0
    starts: tuple[int, ...] = ()
    """The starts of the REPL's process, the newest last; only those of the last minute matter."""
    profile: Profile | None = None
    formerly: frozenset[str] = frozenset()
    """The capabilities of its last connection, which are expected again while the REPL reconnects."""
    sessions: Mapping[str, Session] = field(default_factory=lambda: MappingProxyType({MAIN_SESSION: Session()}))

    def session_key(self, session: str) -> str:
        """Return a session's key: the REPL's key, followed by a slash and the name for an isolated session."""
        return self.key if session == MAIN_SESSION else f"{self.key}/{session}"

    def in_common(self, session: Session) -> Session:
        """Return the session that remembers who evaluated last: lanes and the shared session have one in common."""
        return session if session.lane is None else self.sessions.get(MAIN_SESSION, session)

    @property
    def gives_lanes(self) -> bool:
        """Return whether the REPL is connected and supports lanes.

        A server that can interrupt one session reads messages while it runs code, so sessions do not wait for each
        other.
        """
        profile = self.profile
        return (
            profile is not None
            and profile.isolation == "session"
            and not profile.is_serial
            and "interrupt" in profile.capabilities
        )

    @property
    def dialect(self) -> str:
        """Return the dialect that the REPL speaks, or is expected to speak."""
        return self.profile.dialect if self.profile else self.expected_dialect

    @property
    def other_tree(self) -> str | None:
        """Return the other working tree of the repository in which the REPL runs, if a port file led to the REPL.

        None for a REPL that was named or that Codriver started, because it was chosen on purpose.
        """
        return self.profile.other_tree if self.profile is not None and self.origin.kind == "port-file" else None

    @property
    def is_stand_in(self) -> bool:
        """Return whether the REPL replaces the project's own, and gives way to it."""
        return self.awaits_trust or bool(self.origin.stand_in_note)

    @property
    def is_coming(self) -> bool:
        """Return whether the REPL is on its way for the first time, or our process is on its way back.

        A kernel that was only found is never waited for.
        """
        if self.origin.is_discovered_only:
            return False
        if self.owned:
            return self.phase in ("starting", "connecting", "waiting")
        return self.phase == "connecting" and self.generation == 0

    @property
    def owned(self) -> bool:
        """Return whether Codriver may restart and end the REPL's process."""
        return self.origin.kind == "process"


@dataclass(frozen=True)
class AppStream:
    """A stream of an application's events that a client watches, over one connection of a REPL.

    `id` is the subscription, as the application's seam names it.
    """

    id: str
    repl: str
    generation: int
    client: str
    who: str
    topic: str


@dataclass(frozen=True)
class Latch:
    """An error that is remembered until the server stops. `count` is the number of times it was seen."""

    code: str
    text: str
    first_at: int
    count: int = 1


@dataclass(frozen=True)
class State:
    """The whole server. `evaluated` numbers the evaluations ever accepted."""

    lifecycle: Lifecycle = field(default_factory=Lifecycle)
    clients: Mapping[str, Client] = field(default_factory=lambda: MappingProxyType({}))
    repls: Mapping[str, Repl] = field(default_factory=lambda: MappingProxyType({}))
    evaluations: MappingProxyType[str, Evaluation] = field(default_factory=lambda: MappingProxyType({}))
    conversations: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """By client's name and conversation: the caller's name given last, also of connections that have ended."""
    live: tuple[str, ...] = ()
    """The ids of the unfinished evaluations, in the order of their arrival."""
    evaluated: int = 0
    turns: int = 0
    """The last position given in the order of turns."""
    generations: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """By id: the generation of REPLs that were dropped with their port file, so that no generation repeats."""
    keys_of_forgotten: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """By id: the keys of dropped REPLs, by which answers still name the sessions of their evaluations."""
    languages_of_files: frozenset[str] | None = None
    """The languages that files of the workspace are written in; None before the first scan."""
    repl_of_files: str = ""
    """The value of the setting `repl` that the workspace's files suggest; empty if they show no project."""
    repl_needs_trust: bool = False
    """Whether the user has to accept the workspace before the REPL is started."""
    is_accepted: bool = True
    """Whether the user is known to have accepted the workspace."""
    programs: tuple[ListeningProgram, ...] = ()
    """The programs of the workspace that listen on a port, each port once."""
    latches: Mapping[str, Latch] = field(default_factory=lambda: MappingProxyType({}))
    app_streams: tuple[AppStream, ...] = ()
    """The streams of applications' events, in the order in which they were opened."""

    def key_of(self, evaluation: Evaluation) -> str:
        """Return the key of an evaluation's session, also for a REPL that is gone."""
        if repl := self.repls.get(evaluation.repl):
            return repl.session_key(evaluation.session)
        return self.keys_of_forgotten.get(evaluation.repl, evaluation.repl)

    def unfinished(self) -> list[Evaluation]:
        """Return the unfinished evaluations, in the order of their arrival."""
        return [self.evaluations[name] for name in self.live]

    def unfinished_in(self, repl: str, session: str) -> list[Evaluation]:
        """Return the unfinished evaluations in one session of a REPL."""
        return [one for one in self.unfinished() if (one.repl, one.session) == (repl, session)]

    def languages(self) -> frozenset[str]:
        """Return the languages of the workspace, by its files and its REPLs; tools of other languages are of no use."""
        dialects = {repl.dialect for repl in self.repls.values()}
        by_repls = ({LISP} if dialects - NOT_LISP else set()) | (dialects & {PYTHON})
        return (self.languages_of_files or frozenset()) | by_repls

    def has_any(self, capabilities: Collection[str]) -> bool:
        """Return whether at least one connected REPL has one of these capabilities."""
        for repl in self.repls.values():
            if repl.phase == "connected" and repl.profile:
                offered = repl.profile.capabilities
                for name in capabilities:
                    if name in offered:
                        return True
        return False

    def waiting_for_trust(self) -> list[Repl]:
        """Return the REPLs that start, or are replaced, once the user has accepted the workspace."""
        owned = [repl for repl in self.repls.values() if repl.owned]
        return [repl for repl in owned if repl.awaits_trust or (repl.phase == "stopped" and not repl.generation)]

    def capabilities(self) -> frozenset[str]:
        """Return the capabilities of at least one REPL, including one that is starting, for which a call waits."""
        names = {"evaluate"} if self.lifecycle.is_searching else set()
        if PYTHON in self.languages():
            names.update({"test", "interrupt", "stacktrace"})  # tests run in processes of their own, without any REPL
        for repl in self.repls.values():
            if repl.owned:
                # Also while the REPL is stopped, when the capability is needed most.
                names.add("restart")
            if repl.phase == "connected" and repl.profile:
                names.update(repl.profile.capabilities)
            elif repl.is_coming:
                # Evaluations wait for the REPL, and so do tests and cells for a REPL that could run them before.
                names.update({"evaluate"} | ({"test", "cells"} & repl.formerly))
        return frozenset(names)

    def promised(self) -> frozenset[str]:
        """Return the capabilities that decide which tools are available.

        A REPL that reconnects keeps its previous ones.

        So a restart changes no list of tools.
        """
        on_their_way = [repl.formerly for repl in self.repls.values() if repl.is_coming]
        # Also of a REPL that waits for the user's yes, so that a client which lists once has the tool after the yes.
        waits = self.repl_needs_trust and any(r.owned and r.phase == "stopped" for r in self.waiting_for_trust())
        return self.capabilities().union({"evaluate"} if waits else (), *on_their_way)


def queue_of(state: State, evaluation: Evaluation) -> tuple[str, str]:
    """Return the queue of an evaluation: by its REPL, and the session in which it runs there."""
    if evaluation.is_background:
        return (evaluation.repl, evaluation.session)
    return queue_at(state, evaluation.repl, evaluation.execution_session)


def queue_at(state: State, repl_id: str, position: str) -> tuple[str, str]:
    """Return the queue of the evaluations in a session of a REPL."""
    repl = state.repls.get(repl_id)
    profile = repl.profile if repl is not None else None
    shared = profile is not None and (profile.is_serial or profile.isolation == "none")
    return (repl_id, MAIN_SESSION if shared else position)


def holder(state: State, evaluation: Evaluation) -> Evaluation | None:
    """Return the evaluation that occupies the queue in which the given one waits, if any."""
    if not state.live:
        return None
    queue = queue_of(state, evaluation)
    for other in state.unfinished():
        if other.status in OCCUPYING and other.id != evaluation.id and queue_of(state, other) == queue:
            return other
    return None


def stray(state: State, repl: Repl) -> str | None:
    """Return the warning about a REPL that a port file led to and that runs elsewhere, or None.

    A REPL at home runs in the workspace, or above it. A REPL that was named by its address is never suspected: in a
    container, or behind a tunnel, it has other directories.
    """
    root = repl.profile.project_root if repl.profile is not None else None
    if repl.origin.kind != "port-file" or not root or not state.lifecycle.workspace:
        return None
    if tree := repl.other_tree:
        return (
            f"REPL {repl.key} runs in {root}, in the working tree {tree}, and this workspace is in another one of the "
            f"same repository: what is loaded is from there. The port file {repl.origin.text} leads to it"
        )
    if _is_within(root, state.lifecycle.workspace) or _is_within(state.lifecycle.workspace, root):
        return None
    file = repl.origin.text
    return (
        f"REPL {repl.key} runs in {root}, neither in nor above this workspace: the port file {file} may be left from "
        "a REPL that is gone, and then code runs in another project. If so, delete the file and start the REPL again; "
        f"if it is the right one, in a container say, name it with --nrepl {repl.address} and this is not said"
    )


def awaits_acceptance(repl: Repl) -> bool:
    """Return whether a REPL changes, or starts at all, once the user has accepted the workspace."""
    is_refused = repl.phase == "stopped" and not repl.generation and TRUST in (repl.note or "")
    return repl.owned and (repl.awaits_trust or is_refused)


def cautions(state: State, repl: Repl) -> tuple[str, ...]:
    """Return the sentences for each caller's first answer from a REPL that is easily mistaken for another one."""
    nearby = _programs_nearby(state, repl) if state.programs else ""
    return tuple([words for words in (stray(state, repl), repl.caution, nearby) if words])


def _programs_nearby(state: State, repl: Repl) -> str:
    """Return the warning that other programs of the workspace listen on a port, for a Python that Codriver started."""
    if not repl.owned or repl.dialect != PYTHON:
        return ""
    profiles = [other.profile.process_id for other in state.repls.values() if other.profile]
    addresses = [other.address for other in state.repls.values()]
    known = {*profiles, *(one.pid for one in state.programs if one.address in addresses)}
    others = [one for one in state.programs if one.pid not in known]
    if not others:
        return ""
    where = " and ".join(f"{one.address} (pid {one.pid})" for one in others[:MAX_NEARBY_PROGRAMS])
    return (
        f"this is not the application that listens on {where}, which has no REPL: "
        "codriver_seam.start_repl(True) in it, or start_repl() with CODRIVER_SEAM=1, gives it one"
    )


def _is_within(path: str, directory: str) -> bool:
    """Return whether an absolute path is a directory, or is in it."""
    return f"{path.rstrip('/')}/".startswith(f"{directory.rstrip('/')}/")
