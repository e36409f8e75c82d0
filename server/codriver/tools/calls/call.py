"""A tool call: its caller, the services that it may use, and features' hooks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from codriver.core import caller_names
from codriver.core.actions import Action, CallerNamed
from codriver.core.evaluation_sessions import session_keys
from codriver.core.records import dataclass
from codriver.errors import refused
from codriver.net.fair_threads import WorkThreads
from codriver.settings.durations import Durations
from codriver.tools.calls.caller_slugs import RESERVED_SLUGS, client_slug, to_slug
from codriver.tools.calls.client_traits import find_traits
from codriver.tools.ledgers.delivered_notes import NoteRecords
from codriver.tools.ledgers.standing_queries import QueryLimits

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping, Sequence
    from pathlib import Path

    import anyio

    from codriver.core.dispatch import Core
    from codriver.core.evaluations import Evaluation
    from codriver.core.requests import Request
    from codriver.core.state import Repl, Session, State
    from codriver.editing import Editor
    from codriver.editing.file_changes import Change
    from codriver.log.evaluation_transcripts import Transcripts
    from codriver.log.history import History
    from codriver.log.image_files import ImageFiles
    from codriver.log.log_entries import Entry
    from codriver.log.output_log import LogQuery, OutputLog
    from codriver.log.remarks import Remarks
    from codriver.repls.launch.recipes import Recipe
    from codriver.repls.supervisor import ReplSupervisor
    from codriver.settings.interpreter_grants import InterpreterGrants
    from codriver.settings.model import Settings
    from codriver.testing.test_jobs import TestJobs
    from codriver.tools.calls.answer import Answer
    from codriver.tools.calls.arguments import Arguments
    from codriver.tools.ledgers.file_edits import EditedFile
    from codriver.tools.ledgers.workspace_records import WorkspaceRecords
    from codriver_datalog.solve import QueryAnswer

T = TypeVar("T")

AddRows = Callable[[list[dict[str, object]]], list[dict[str, object]]]
"""A function that returns the descriptions in `list_sessions` with additional fields and descriptions."""


class LiveSettings(Protocol):
    """The settings of a running server, which can change at any time."""

    settings: Settings
    """The current settings."""
    changed: anyio.Event
    """Set on the next change of the settings, and then replaced by a new event."""
    withheld: tuple[str, ...]
    """Sentences about the workspace's settings that are ignored because the user has not accepted them."""


@dataclass(frozen=True, slots=True)
class CallHooks:
    """Functions that let features take part in calls to base tools."""

    before: tuple[Callable[[Call, Arguments], Awaitable[None]], ...] = ()
    """Called before a tool that uses a REPL, to connect to REPLs that the call may refer to.

    May refuse the call by raising an error.
    """
    sessions: tuple[Callable[[Call], Awaitable[AddRows]], ...] = ()
    """Called before `list_sessions` describes the REPLs: return a function that extends the descriptions."""
    prepare: tuple[Callable[[Call, Repl | None], object | None], ...] = ()
    """Called before code or tests are sent to a REPL: return the feature's data for the request, or None.

    May refuse the request by raising an error. Called only if the caller passed an argument that a feature added. The
    REPL is None for code in a frame of a failed test's process.
    """
    recorders: tuple[Callable[[Call], Mapping[str, Mapping[str, Any]]], ...] = ()
    """Return the recorders of a test run in a separate process, with their options, by name."""
    complete: tuple[Callable[[Call, Answer, str], Awaitable[Answer]], ...] = ()
    """Return an answer about the evaluation or test run with this id, with the feature's additions."""
    hints: tuple[Callable[[Repl], str], ...] = ()
    """Return a clause that the hint about a repeated failure ends with, or an empty string."""
    failed: tuple[Callable[[Call, str], None], ...] = ()
    """Called when an answer about failed tests of this run is being sent."""
    sent: tuple[Callable[[Call, Repl, Session, Request], None], ...] = ()
    """Called when the caller's code has been accepted for a session, where it is now waiting or running."""
    notes: tuple[Callable[[Call, Evaluation], Awaitable[Sequence[str]]], ...] = ()
    """Return notes for an answer about an evaluation. They follow those about its outcome."""
    edited: tuple[Callable[[Call, EditedFile], Awaitable[Sequence[str]]], ...] = ()
    """Called when a caller edited a file: return notes for the answer. An edit made outside Codriver has no text."""
    started: tuple[Callable[[Call, ClientStart], Awaitable[str]], ...] = ()
    """Called when a client has started. Each returns text for its agent."""
    describe: tuple[Callable[[Call, Evaluation], Awaitable[AnswerAddition | None]], ...] = ()
    """Return an addition to the answer about an evaluation, or None."""
    guards: tuple[Callable[[Services, str, Change], str], ...] = ()
    """Return why a caller must not change a file, or an empty string. Guards may wait for other programs."""
    changed: tuple[Callable[[Call, str, Path], None], ...] = ()
    """Called with each file that the caller of this name changed, reverted, or reported as changed."""
    process_of: Mapping[str, Callable[[str], int | None]] = field(default_factory=lambda: MappingProxyType({}))
    """Functions, by protocol, that return the process serving a REPL at a location other than a port. They block."""
    variables_of: Mapping[str, Callable[[Path, str], Mapping[str, str] | None]] = field(
        default_factory=lambda: MappingProxyType({})
    )
    """Functions, by protocol, that return the environment variables with which a REPL's program was started.

    They are called with the workspace and the REPL's location, and return None if they are unknown. They block.
    """
    status_subjects: Mapping[str, StatusSubject] = field(default_factory=lambda: MappingProxyType({}))
    """Additional values of `about` in `status`."""
    loadable: tuple[Callable[[str, Path], bool], ...] = ()
    """Return whether a REPL for a dialect can load a file whose suffix does not belong to its language."""
    evaluation_parts: Mapping[str, Callable[[Call, Evaluation, Any], Awaitable[Answer]]] = field(
        default_factory=lambda: MappingProxyType({})
    )
    """Functions with which `get_evaluation` reads additional values of `part`."""


NO_HOOKS = CallHooks()


@dataclass(frozen=True, slots=True)
class AnswerAddition:
    """Fields and notes that a feature adds to the answer about an evaluation."""

    fields: Mapping[str, object]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StatusSubject:
    """A subject that a feature adds to `status`, as a value of the argument `about`."""

    summary: str
    """The subject, as listed in the description of `status`."""
    file: str
    """The meaning of the argument `file` for this subject, for the start of its description."""
    answer: Callable[[Call, Any], Awaitable[Answer]]
    """Answer a call with the arguments of `status`."""


@dataclass(frozen=True, slots=True)
class ClientStart:
    """The start of a client's session, as reported by the client's hook."""

    who: str
    source: str
    """How the session started, in the client's terms, such as `startup`, `resume` or `compact`."""
    wait_s: float
    """How long the client waits for the answer."""


@dataclass(frozen=True, slots=True)
class Services:
    """The services that all tools of a server share, for the lifetime of the server."""

    core: Core
    live: LiveSettings
    workspace: Path
    log: OutputLog
    transcripts: Transcripts
    repls: ReplSupervisor
    tests: TestJobs
    """Test runs in separate processes."""
    recipe_of: Callable[[str], Recipe]
    """Return the recipe for starting a REPL from the settings. Blocks."""
    may_run_files: Callable[[], bool]
    """Return whether the user has accepted the workspace, or started the server in it. Blocks."""
    now: Callable[[], int]
    """Return the time in epoch milliseconds."""
    client_counters: Callable[[], list[dict[str, object]]]
    """Return a JSON object for each connected client, with the length of its queue and its dropped notifications."""
    query: Callable[[LogQuery], QueryAnswer]
    """Answer a Datalog query. Blocks, so use the threads in `work`. Raises `RefusedError`."""
    history: History
    """Code evaluated in this workspace by all of its servers."""
    remembered: Callable[[], tuple[Entry, ...]]
    """Return earlier servers' entities in line order, and then the documents in the memory, by kind. Blocks."""
    editor: Editor
    image_files: ImageFiles
    """Files of images, for clients that do not pass images to their model."""
    ledger: WorkspaceRecords
    """Records of the code that callers sent and the files that they wrote."""
    work: WorkThreads = field(default_factory=WorkThreads)
    """Threads for blocking work, shared fairly between clients."""
    waits: QueryLimits = field(default_factory=QueryLimits)
    """Counts of waiting queries and of the rows that they remember."""
    durations: Durations = field(default_factory=Durations)
    """How long calls wait for evaluations."""
    delivered: NoteRecords = field(default_factory=NoteRecords)
    """Notes that each caller has received."""
    learn_secret: Callable[[str, str], None] = lambda _name, _secret: None
    """Redact a secret of this name from everything that the server reports and stores."""
    grants: InterpreterGrants | None = None
    """The user's permission to run the project's interpreter, for the lifetime of this server."""
    remarks: Remarks | None = None
    """Remarks about the workspace that have been reported."""
    hooks: CallHooks = NO_HOOKS
    """The hooks with which features extend calls of these tools."""
    uses: dict[str, dict[str, int]] = field(default_factory=dict)
    """By tool, the number of calls under `calls`, and of calls that passed each argument under the argument's name."""
    parts: dict[type[Any], Any] = field(default_factory=dict)
    """State of each feature, by its type."""

    def part(self, kind: type[T]) -> T:
        """Return the state that a feature stored under its type.

        Raises:
            KeyError: no feature stored such a state.
        """
        found: T = self.parts[kind]
        return found


class ReplUser(Protocol):
    """An object that uses REPLs on behalf of a client: a call, or the server itself."""

    @property
    def services(self) -> Services:
        """Return the services shared by all tools."""

    @property
    def client(self) -> str:
        """Return the id of the client on whose behalf the work is done."""

    @property
    def state(self) -> State:
        """Return the current state of the server."""


@dataclass(frozen=True)
class ServerReplUser:
    """The server itself, when it inspects REPLs on behalf of a client."""

    services: Services
    client: str

    @property
    def state(self) -> State:
        """Return the current state of the server."""
        return self.services.core.state


class CallFollower(Protocol):
    """The interface for following a call whose answer the client fetches later.

    The evaluation of such a call may take as long as necessary.
    """

    accepts_input: bool
    """Whether the client can be asked for input while the call waits."""
    is_detached: bool
    """Whether nothing is waiting for the call any more, in which case its end does not stop the evaluation."""

    def follow_evaluation(self, evaluation: Evaluation) -> None:
        """Record the evaluation that the call is now waiting for."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a tool by a client."""

    services: Services
    client: str
    client_name: str
    progress: Callable[[float, str], Awaitable[None]]
    """Report progress to a caller that requested it: seconds since the call started, and a message."""
    has_left: Callable[[], bool] = lambda: False
    """Return whether the client has disconnected, or is about to."""
    conversation: str = ""
    """The client's session that the call comes from, if it has a name."""
    conversation_number: int = 1
    """The number of the session in `conversation`. It is part of the name of an unnamed caller, unless it is 1."""
    evaluations: list[str] = field(default_factory=list)
    """Ids of the evaluations that the call started or describes."""
    added: Mapping[type, Any] | None = None
    """The caller's arguments that features added, by the features' models. None if there are none."""
    lasting: ClassVar[CallFollower | None] = None
    """The follower. Only a `LastingCall` has one, because an extra field would make every call slower."""

    @property
    def state(self) -> State:
        """Return the current state of the server.

        Code that runs for every evaluation accesses `services.core.state` directly, which is faster.
        """
        return self.services.core.state

    def dispatch(self, *actions: Action, who: str | None = None) -> None:
        """Dispatch actions on behalf of this client, and of the caller `who` if one is given."""
        context: dict[str, object] = {"client": self.client}
        self.services.core.dispatch(context if who is None else {**context, "who": who}, actions)

    def wait_ms(self, given: int | None = None) -> int:
        """Return the time that this call waits for an evaluation, in milliseconds.

        This is the time passed by the caller, or else the one in the settings, or else the default for the client.
        """
        if given is not None:
            return given
        settings = self.services.live.settings
        is_set = "evaluate_timeout_ms" in settings.model_fields_set
        return settings.evaluate_timeout_ms if is_set else find_traits(self.client_name).wait_ms

    def who(self, given: str | None) -> str:
        """Return the caller's name in kebab-case.

        This is the name passed as `given`, or else the last name passed in this conversation, or else one derived from
        the client's name.

        Raises:
            RefusedError: the given name is not in kebab-case, or it is reserved.
        """
        if given is None:
            known = caller_names.caller_name(self.state, self.client, self.conversation, self.client_name)
            unnamed = client_slug(self.client_name) or "mcp-client"
            return known or (unnamed if self.conversation_number == 1 else f"{unnamed}-{self.conversation_number}")
        # Only clients that people use may be named "human".
        if given != to_slug(given) or (given in RESERVED_SLUGS and given != client_slug(self.client_name)):
            raise refused(
                "bad-who",
                f"{given!r} is not a valid value of `who`",
                hint="Use a short name for your task in lower case with hyphens, such as `order-reviewer`. The names "
                "`ui`, `api`, `human` and `jupyter` are reserved. Omit `who` to use the name of your client.",
            )
        return self.services.log.redact(given)

    def with_added(self, added: Mapping[type, Any]) -> Call:
        """Return a copy of this call with arguments that features added."""
        return replace(self, added=added)

    def added_arguments(self, model: type[T]) -> T | None:
        """Return the arguments that belong to a feature's model, or None if the caller passed none."""
        return None if self.added is None else self.added.get(model)

    def remember_name(self, given: str) -> None:
        """Remember the caller's name for later calls that pass none.

        Raises:
            RefusedError: see `who`.
        """
        who, formerly = self.who(given), self.who(None)
        if caller_names.caller_name(self.state, self.client, self.conversation) != who:
            self.dispatch(CallerNamed(self.conversation, formerly, client_name=self.client_name), who=who)

    def belongs_to(self, evaluation: Evaluation, who: str) -> bool:
        """Return whether an evaluation belongs to the caller `who`.

        It does if it was started over the same connection, under this name or without a name.
        """
        return caller_names.is_by_caller(self.state, self.client, who, (evaluation.client, evaluation.who))

    def session_keys(self, evaluation: Evaluation) -> tuple[str, ...]:
        """Return the keys of all sessions to which an evaluation belongs. See `core.evaluation_sessions`."""
        report = self.services.tests.report(evaluation.id) if evaluation.is_job else None
        return session_keys(self.state, evaluation, None if report is None else report.job.session_key)


class LastingCall(Call):
    """A call that may continue after its client has stopped waiting."""

    lasting: CallFollower  # type: ignore[misc]  # an instance attribute, where other calls have a class attribute

    def __init__(self, lasting: CallFollower, call: Call) -> None:
        super().__init__(
            call.services,
            call.client,
            call.client_name,
            call.progress,
            call.has_left,
            call.conversation,
            call.conversation_number,
            call.evaluations,
            call.added,
        )
        object.__setattr__(self, "lasting", lasting)

    def with_added(self, added: Mapping[type, Any]) -> Call:
        """Return a copy of this call with arguments that features added."""
        call = LastingCall(self.lasting, self)
        object.__setattr__(call, "added", added)
        return call
