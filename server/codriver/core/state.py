"""The state of the server as one immutable value, and the rule that assigns evaluations to queues.

The state contains everything that outlives a call: the life cycle, the REPLs with their sessions, the clients and the
evaluations. Live objects such as sockets, tasks and buffers are stored elsewhere, under the ids used in the state, so
the state can always be printed. Times are epoch milliseconds.
"""

from __future__ import annotations

from dataclasses import field
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, TypeVar

from codriver.core.evaluations import OCCUPYING_STATUSES
from codriver.core.profiles import LISP, NON_LISP_DIALECTS, PYTHON
from codriver.core.records import dataclass, replace
from codriver.core.requests import MAIN_SESSION

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from codriver.core.evaluations import Evaluation, Lane
    from codriver.core.listening_program import ListeningProgram
    from codriver.core.profiles import Profile

Phase = Literal["stopped", "starting", "started", "stopping"]
ReplPhase = Literal["starting", "connecting", "connected", "waiting", "stopped"]
"""The phase of a REPL's connection.

`starting` means that its process is starting, `connecting` that an attempt to connect is running, `waiting` that the
next attempt is scheduled, and `stopped` that there will be no further attempt.
"""

MAX_NEARBY_PROGRAMS = 2
"""Maximum number of other listening programs that a warning about a REPL names."""

K = TypeVar("K")
V = TypeVar("V")


def with_item(mapping: Mapping[K, V], key: K, value: V) -> MappingProxyType[K, V]:
    """Return a copy of a mapping with one item set."""
    # The proxy's `|` copies the underlying dict in one step, 20 times as fast as unpacking the proxy.
    return MappingProxyType((mapping if type(mapping) is MappingProxyType else dict(mapping)) | {key: value})


def without_item(mapping: Mapping[K, V], key: K) -> Mapping[K, V]:
    """Return a copy of a mapping without the item `key`."""
    return MappingProxyType({k: v for k, v in mapping.items() if k != key})


def with_evaluation(state: State, evaluation: Evaluation) -> State:
    """Return the state with an evaluation added, or replaced if there is one with the same id."""
    return replace(state, evaluations=with_item(state.evaluations, evaluation.id, evaluation))


def with_repl(state: State, repl: Repl) -> State:
    """Return the state with a REPL added, or replaced if there is one with the same id."""
    return replace(state, repls=with_item(state.repls, repl.id, repl))


def with_session(state: State, repl: str, session: Session) -> State:
    """Return the state with a session added to a REPL, or replaced if there is one with the same name."""
    known = state.repls[repl]
    known = replace(known, sessions=with_item(known.sessions, session.name, session))
    return replace(state, repls=with_item(state.repls, repl, known))  # `with_repl`, inlined for speed


def free_name(base: str, used_names: Collection[str]) -> str:
    """Return `base` if it is unused, or else the first unused name of `base-2`, `base-3` and so on."""
    name, number = base, 1
    while name in used_names:
        number += 1
        name = f"{base}-{number}"
    return name


@dataclass(frozen=True)
class Lifecycle:
    """The phase and the identity of a server. `port_note` explains why its port is not the chosen one."""

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
    """Whether the first search for REPLs is running. Its result decides whether the server starts a REPL."""
    has_unread_port_files: bool = False
    """Whether some port files have not been read yet because the REPLs that write them may still be starting."""


@dataclass(frozen=True)
class ReportedStatus:
    """The generation and the namespace of a session that an answer reported to a caller."""

    generation: int
    namespace: str | None


@dataclass(frozen=True)
class CallerKnowledge:
    """A record of the evaluations that were reported to a caller.

    All evaluations up to `number` were reported. The evaluations in `live` were unfinished when they were reported.
    """

    number: int
    live: frozenset[str]
    seen: Mapping[str, ReportedStatus] = field(default_factory=lambda: MappingProxyType({}))
    """The last reported status of each session by its key, newest last."""


@dataclass(frozen=True)
class Client:
    """A connected MCP client, its callers' names, and what was reported to them."""

    id: str
    since: int = 0
    """The number of the latest evaluation when the client connected."""
    knowledge: Mapping[str, CallerKnowledge] = field(default_factory=lambda: MappingProxyType({}))
    """The knowledge of each caller, by its `who` and newest last. Several callers can share one connection."""
    names: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """The last `who` given in each conversation, by the conversation's id."""
    generated: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """The `who` that was generated for a caller before it gave a name, by the name that it gave later."""
    used: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    """The ids of the REPLs that each caller has evaluated in, by its `who`, most recently used last."""


@dataclass(frozen=True)
class Session:
    """A REPL session.

    Lanes and isolated sessions belong to the caller `who` of `client`, and end when this client disconnects.
    """

    name: str = MAIN_SESSION
    who: str | None = None
    client: str | None = None
    is_leaving: bool = False
    """Whether its client has disconnected. It then accepts no code and is closed once nothing is running in it."""
    namespace: str | None = None
    last_activity: int | None = None
    last_evaluation_by: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """The number of each caller's latest evaluation in this session. The shared session also counts those in lanes."""
    lane: Lane | None = None
    """The owner of the lane. None for the shared session and for sessions that were opened explicitly."""
    is_used: bool = False
    """Whether an evaluation has finished in the session."""


@dataclass(frozen=True)
class Origin:
    """Information about how a REPL was found, named or started."""

    kind: str
    """`address`, `port-file`, `process`, or the name that a feature gives to the REPLs that it finds."""
    text: str
    """How the REPL is named or found: the address, the port file's path, or the word or command line that starts it."""
    title: str = ""
    """A description of a feature's REPL for the instructions. Empty for a plain REPL."""
    is_discovered_only: bool = False
    """Whether the REPL was only discovered, not named by anyone.

    Such a REPL belongs to a person. It is used only by callers that name its key. Their next calls may omit the key.
    """
    is_of_unverified_file: bool = False
    """Whether the REPL was found through a file that is not a port file and may not have been written by this user."""
    has_several_processes: bool = False
    """Whether several processes of one program share this text. A caller that names none of them gets the first one."""
    stand_in_note: str = ""
    """The note about a stand-in: which REPL Codriver started, and why the project's own cannot be started."""

    is_unasked: bool = False
    """Whether Codriver started the REPL although nobody requested it, because none was found."""
    named_by: str = ""
    """The tool with which an agent named the address. Empty if a person named it."""

    @property
    def needs_verification(self) -> bool:
        """Return whether the REPL's address has to be verified, because no person named it.

        If so, each connection must check that a process of this user listens there.
        """
        return bool(self.named_by) or self.kind == "port-file" or self.is_of_unverified_file


@dataclass(frozen=True)
class Repl:
    """A REPL and its sessions. `key` is its name for clients, and `generation` counts its connections."""

    id: str
    key: str
    origin: Origin
    aliases: tuple[str, ...] = ()
    """Other names for its main session. A session whose key is the same takes precedence."""
    keyed: bool = True
    """Whether `key` is final. A REPL known only by its address gets its key when its dialect is known."""
    phase: ReplPhase = "connecting"
    address: str | None = None
    expected_dialect: str = "unknown"
    """The dialect assumed until the REPL is connected."""
    note: str | None = None
    caution: str | None = None
    """A sentence for each caller's first answer from a REPL that is easily mistaken for a different one."""
    remark: str | None = None
    """A sentence that is reported in a single answer per workspace, across all its servers."""
    awaits_trust: bool = False
    """Whether this is a stand-in that is replaced as soon as the user accepts the workspace."""
    is_not_accepted: bool = False
    """Whether the process was not started because the user has not accepted its checkout."""
    document: str | None = None
    """The path of the document whose code people run in the REPL, such as a notebook. It may be relative."""
    generation: int = 0
    end_reason: str | None = None
    """The reason why the previous generation ended or the current one is ending, if known."""
    failures: int = 0
    starts: tuple[int, ...] = ()
    """The times at which the process was started, newest last. Only those from the last minute count."""
    profile: Profile | None = None
    formerly: frozenset[str] = frozenset()
    """The capabilities from the last connection. While the REPL reconnects, it is expected to have them again."""
    queued: frozenset[str] = frozenset()
    """The subset of `formerly` for which calls wait until the REPL is connected again, as evaluations do."""
    sessions: Mapping[str, Session] = field(default_factory=lambda: MappingProxyType({MAIN_SESSION: Session()}))

    def session_key(self, session: str) -> str:
        """Return the key of a session.

        This is the key of the REPL for the shared session. For others, a slash and the name of the session follow.
        """
        return self.key if session == MAIN_SESSION else f"{self.key}/{session}"

    def with_shared_record(self, session: Session) -> Session:
        """Return the session that records who evaluated last, which is the shared session for all lanes."""
        return session if session.lane is None else self.sessions.get(MAIN_SESSION, session)

    @property
    def supports_lanes(self) -> bool:
        """Return whether the REPL is connected and its sessions can be used as lanes.

        This requires that sessions do not block each other. They do not if the REPL can interrupt a session, because it
        then reads messages while code is running.
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
        """Return the dialect of the REPL, or the expected one if the REPL is not connected."""
        return self.profile.dialect if self.profile else self.expected_dialect

    @property
    def other_working_tree(self) -> str | None:
        """Return the other working tree of this repository in which the REPL runs, or None.

        It is None for a REPL that was named or that Codriver started, because it was chosen on purpose.
        """
        return self.profile.other_tree if self.profile is not None and self.origin.kind == "port-file" else None

    @property
    def is_stand_in(self) -> bool:
        """Return whether the REPL replaces the project's own REPL until that one can be used."""
        return self.awaits_trust or bool(self.origin.stand_in_note)

    @property
    def is_awaited(self) -> bool:
        """Return whether calls should wait for the REPL.

        They wait while it is connecting for the first time, and while a process that Codriver started is starting
        again. They never wait for a REPL that was only discovered.
        """
        if self.origin.is_discovered_only:
            return False
        if self.is_owned:
            return self.phase in ("starting", "connecting", "waiting")
        return self.phase == "connecting" and self.generation == 0

    @property
    def is_owned(self) -> bool:
        """Return whether Codriver started the REPL's process, in which case it may restart and end it."""
        return self.origin.kind == "process"


@dataclass(frozen=True)
class DroppedRepl:
    """The key and generation of a REPL that was dropped, for example because its port file was deleted."""

    key: str
    """The key, which answers still need to name the sessions of evaluations."""
    generation: int
    """The last generation. If the REPL comes back, it continues from this number."""
    cause: str = ""
    """Why the REPL was dropped."""
    is_discovered_only: bool = False
    """Whether the REPL was only discovered. See `Origin.is_discovered_only`."""
    document: str | None = None
    """The path of the document whose code people ran in the REPL."""

    def reserves_key(self, document: str | None) -> bool:
        """Return whether another REPL, which runs the code of `document`, must not get this REPL's key.

        Callers use a discovered REPL by its key, and would otherwise run code in another person's notebook.
        """
        return self.is_discovered_only and (self.document is None or self.document != document)


@dataclass(frozen=True)
class LatchedError:
    """An error that is remembered until it is resolved or the server stops. `count` counts its occurrences."""

    code: str
    text: str
    first_at: int
    count: int = 1


@dataclass(frozen=True)
class State:
    """The state of a server. `evaluated` is the number of evaluations accepted so far."""

    lifecycle: Lifecycle = field(default_factory=Lifecycle)
    clients: Mapping[str, Client] = field(default_factory=lambda: MappingProxyType({}))
    repls: Mapping[str, Repl] = field(default_factory=lambda: MappingProxyType({}))
    evaluations: MappingProxyType[str, Evaluation] = field(default_factory=lambda: MappingProxyType({}))
    conversations: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """The last `who` given for each client name and conversation, including those on closed connections."""
    live: tuple[str, ...] = ()
    """The ids of the unfinished evaluations, in order of arrival."""
    evaluated: int = 0
    turns: int = 0
    """The last position assigned in the order of turns."""
    forgotten: Mapping[str, DroppedRepl] = field(default_factory=lambda: MappingProxyType({}))
    """The REPLs that were dropped, by id."""
    languages_of_files: frozenset[str] | None = None
    """The languages of the workspace's files, or None before the first scan."""
    repl_of_files: str = ""
    """The value for the setting `repl` that fits the workspace's files, or empty if they belong to no project."""
    repl_needs_trust: bool = False
    """Whether the user must accept the workspace before its REPL is started."""
    is_accepted: bool = True
    """Whether the user has accepted the workspace, or does not have to."""
    programs: tuple[ListeningProgram, ...] = ()
    """The workspace's programs that are listening on a port, one entry per port."""
    latches: Mapping[str, LatchedError] = field(default_factory=lambda: MappingProxyType({}))
    rare: frozenset[str] = frozenset()
    """Capabilities that most REPLs lack. Their tools and guides are listed only while a REPL has them."""

    def evaluation_session_key(self, evaluation: Evaluation) -> str:
        """Return the key of an evaluation's session, even if its REPL has been dropped."""
        if repl := self.repls.get(evaluation.repl):
            return repl.session_key(evaluation.session)
        left = self.forgotten.get(evaluation.repl)
        return evaluation.repl if left is None else left.key

    def has_session(self, key: str) -> bool:
        """Return whether there is a session with this key, or a REPL with this alias."""
        repls = self.repls.values()
        return any(
            key in repl.aliases or any(key == repl.session_key(name) for name in repl.sessions) for repl in repls
        )

    def unfinished(self) -> list[Evaluation]:
        """Return the unfinished evaluations in the order in which they were accepted."""
        return [self.evaluations[name] for name in self.live]

    def unfinished_in_session(self, repl: str, session: str) -> list[Evaluation]:
        """Return the unfinished evaluations in one of a REPL's sessions."""
        return [
            evaluation for evaluation in self.unfinished() if (evaluation.repl, evaluation.session) == (repl, session)
        ]

    def languages(self) -> frozenset[str]:
        """Return the languages of the workspace's files and REPLs, which determine the listed tools."""
        dialects = {repl.dialect for repl in self.repls.values()}
        by_repls = ({LISP} if dialects - NON_LISP_DIALECTS else set()) | (dialects & {PYTHON})
        return (self.languages_of_files or frozenset()) | by_repls

    def has_any(self, capabilities: Collection[str]) -> bool:
        """Return whether a connected REPL has at least one of the capabilities."""
        for repl in self.repls.values():
            if repl.phase == "connected" and repl.profile:
                offered = repl.profile.capabilities
                for name in capabilities:
                    if name in offered:
                        return True
        return False

    def repls_awaiting_acceptance(self) -> list[Repl]:
        """Return the REPLs that are started or replaced when the user accepts the workspace."""
        owned = [repl for repl in self.repls.values() if repl.is_owned]
        return [repl for repl in owned if repl.awaits_trust or (repl.phase == "stopped" and not repl.generation)]

    def capabilities(self) -> frozenset[str]:
        """Return the capabilities that calls can use now.

        They include those of a starting REPL, because calls wait for it.
        """
        names = {"evaluate"} if self.lifecycle.is_searching else set()
        if PYTHON in self.languages():
            names.update({"test", "interrupt", "stacktrace"})  # tests run in processes of their own, without any REPL
        for repl in self.repls.values():
            if repl.is_owned:
                # This includes stopped REPLs, which need it most.
                names.add("restart")
            if repl.phase == "connected" and repl.profile:
                names.update(repl.profile.capabilities)
            elif repl.is_awaited:
                # Evaluations wait for the REPL. Tests do so if its last connection supported them.
                names.update({"evaluate"} | repl.queued)
        return frozenset(names)

    def expected_capabilities(self) -> frozenset[str]:
        """Return the capabilities that determine which tools are listed.

        They include those that a reconnecting REPL had before, so that a restart does not change the list.
        """
        on_their_way = [repl.formerly for repl in self.repls.values() if repl.is_awaited]
        # A REPL waiting for trust counts, too, so that clients that list tools only once have the tool afterwards.
        waits = self.repl_needs_trust and any(
            r.is_owned and r.phase == "stopped" for r in self.repls_awaiting_acceptance()
        )
        return self.capabilities().union({"evaluate"} if waits else (), *on_their_way)


def evaluation_queue(state: State, evaluation: Evaluation) -> tuple[str, str]:
    """Return the queue of an evaluation as a pair of a REPL's id and a session's name.

    An evaluation in the background has its own queue.
    """
    if evaluation.is_background:
        return (evaluation.repl, evaluation.session)
    return session_queue(state, evaluation.repl, evaluation.execution_session)


def session_queue(state: State, repl_id: str, position: str) -> tuple[str, str]:
    """Return the queue for evaluations in a session.

    All sessions of a REPL that runs one evaluation at a time share a queue.
    """
    repl = state.repls.get(repl_id)
    profile = repl.profile if repl is not None else None
    shared = profile is not None and (profile.is_serial or profile.isolation == "none")
    return (repl_id, MAIN_SESSION if shared else position)


def queue_occupant(state: State, evaluation: Evaluation) -> Evaluation | None:
    """Return the other evaluation that currently occupies the queue of an evaluation, or None."""
    if not state.live:
        return None
    queue = evaluation_queue(state, evaluation)
    for other in state.unfinished():
        if other.status in OCCUPYING_STATUSES and other.id != evaluation.id and evaluation_queue(state, other) == queue:
            return other
    return None


def outside_workspace_warning(state: State, repl: Repl) -> str | None:
    """Return a warning about a REPL that was found by a port file and runs outside the workspace, or None.

    A REPL should run in the workspace or in a directory above it. There is no warning about a REPL that was named by
    its address, because paths differ in containers and behind tunnels.
    """
    root = repl.profile.project_root if repl.profile is not None else None
    if repl.origin.kind != "port-file" or not root or not state.lifecycle.workspace:
        return None
    if tree := repl.other_working_tree:
        return (
            f"REPL {repl.key} runs in {root}, in the working tree {tree}, so it loads code from there. This workspace "
            f"is in another working tree of the same repository. The REPL was found by the port file {repl.origin.text}"
        )
    if _is_within(root, state.lifecycle.workspace) or _is_within(state.lifecycle.workspace, root):
        return None
    file = repl.origin.text
    return (
        f"REPL {repl.key} runs in {root}, which is neither in nor above this workspace. The port file {file} may be "
        "left over from another REPL, so code may run in another project. If so, delete it and start the REPL again. "
        f"If it is the right REPL, for example in a container, pass --nrepl {repl.address} to silence this warning"
    )


def awaits_acceptance(repl: Repl) -> bool:
    """Return whether accepting the workspace would start or replace the REPL."""
    is_refused = repl.phase == "stopped" and not repl.generation and repl.is_not_accepted
    return repl.is_owned and (repl.awaits_trust or is_refused)


def first_answer_warnings(state: State, repl: Repl) -> tuple[str, ...]:
    """Return warnings for each caller's first answer from a REPL, if it is easily mistaken for a different one."""
    nearby = _nearby_programs_warning(state, repl) if state.programs else ""
    return tuple([words for words in (outside_workspace_warning(state, repl), repl.caution, nearby) if words])


def _nearby_programs_warning(state: State, repl: Repl) -> str:
    """Return a warning that other programs in the workspace are listening on ports, or an empty string.

    Only Python REPLs that Codriver started get the warning, because they are not part of these programs.
    """
    if not repl.is_owned or repl.dialect != PYTHON:
        return ""
    profiles = [other.profile.process_id for other in state.repls.values() if other.profile]
    addresses = [other.address for other in state.repls.values()]
    known = {*profiles, *(program.pid for program in state.programs if program.address in addresses)}
    others = [program for program in state.programs if program.pid not in known and not program.can_connect]
    if not others:
        return ""
    where = " and ".join(f"{listening.address} (pid {listening.pid})" for listening in others[:MAX_NEARBY_PROGRAMS])
    start = f"{others[0].start_advice}, or " if others[0].start_advice else ""
    return (
        f"this REPL is not part of the application listening on {where}. To get a REPL in that application, {start}"
        "call codriver_seam.start_repl(True) in it"
    )


def _is_within(path: str, directory: str) -> bool:
    """Return whether an absolute path is a directory or inside it."""
    return f"{path.rstrip('/')}/".startswith(f"{directory.rstrip('/')}/")
