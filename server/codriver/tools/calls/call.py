"""One call of a tool: who made it, the services that it may use, and the hooks of features into it."""

from __future__ import annotations

from dataclasses import field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from codriver.core import caller_names
from codriver.core.actions import Action, CallerNamed
from codriver.core.records import dataclass
from codriver.errors import refused
from codriver.net.fair_threads import Work
from codriver.settings.model import Durations, Settings
from codriver.tools.calls.caller_slugs import RESERVED, client_slug, slug
from codriver.tools.calls.client_traits import traits_of
from codriver.tools.ledgers.delivered_notes import NoteRecords
from codriver.tools.ledgers.standing_queries import Waits

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from pathlib import Path

    import anyio

    from codriver.core.dispatch import Core
    from codriver.core.state import Repl, Session, State
    from codriver.core.values import Evaluation, Request
    from codriver.editing import Editor
    from codriver.log.history import History
    from codriver.log.logbook import AppLog
    from codriver.log.output_log import Entry, LogQuery, OutputLog
    from codriver.log.picture_files import ImageFiles
    from codriver.log.remarks import Remarks
    from codriver.log.transcripts import Transcripts
    from codriver.repls.launch.recipes import Recipe
    from codriver.repls.supervisor import Repls
    from codriver.settings.interpreter_grants import InterpreterGrants
    from codriver.testing.test_jobs import TestJobs
    from codriver.tools.calls.answer import Answer
    from codriver.tools.ledgers.file_edits import EditedFile
    from codriver.tools.ledgers.workspace_records import Ledger
    from codriver_datalog.solve import QueryAnswer

T = TypeVar("T")


class LiveSettings(Protocol):
    """The holder of the settings, which can change while the server runs."""

    settings: Settings
    """The settings now."""
    changed: anyio.Event
    """Set at the next change of the settings; a new event then replaces this one."""
    withheld: tuple[str, ...]
    """The settings in the workspace's files that do not count, as its user has not accepted them, a sentence each."""


@dataclass(frozen=True, slots=True)
class CallHooks:
    """The hooks of all features into the tools of the base."""

    before: tuple[Callable[[Call, str, str | None], Awaitable[None]], ...] = ()
    """Before a call of a tool that needs a REPL: connect to what the call may mean. It gets the tool's name and the key
    of the session that the call names, if any, and may refuse by raising.
    """
    sessions: tuple[Callable[[Call, list[dict[str, object]]], Awaitable[list[dict[str, object]]]], ...] = ()
    """Return the rows of `list_sessions`, with more fields and further rows."""
    prepare: tuple[Callable[[Call, Repl | None], object | None], ...] = ()
    """Before code or tests are sent to a REPL: return the extra of the request, None for none, or refuse by raising.

    Called only if the caller gave an argument that a feature added. The REPL is None for code that runs in a frame of
    a failed test's process.
    """
    recorders: tuple[Callable[[Call], Mapping[str, Mapping[str, Any]]], ...] = ()
    """Before tests run in a process of their own: the recorders of the run, with the options of each by its name."""
    complete: tuple[Callable[[Call, Answer, str], Awaitable[Answer]], ...] = ()
    """Add to an answer about the evaluation or the run of this id."""
    hints: tuple[Callable[[Repl], str], ...] = ()
    """What else helps when the same code or test fails a second time: a clause for the end of the hint, or nothing."""
    failed: tuple[Callable[[Call, str], None], ...] = ()
    """An answer about a run of tests of this id, some of which failed, is on its way to the caller."""
    sent: tuple[Callable[[Call, Repl, Session, Request], None], ...] = ()
    """Code of the caller was accepted for a session: it waits there, or runs."""
    notes: tuple[Callable[[Call, Evaluation], Awaitable[Sequence[str]]], ...] = ()
    """Return notes for an answer about an evaluation. They follow those on its outcome."""
    edited: tuple[Callable[[Call, EditedFile], Awaitable[Sequence[str]]], ...] = ()
    """A caller edited a file: return notes for the answer. An edit past Codriver has no texts."""
    started: tuple[Callable[[Call, Started], Awaitable[str]], ...] = ()
    """A client started: return what its agent should know."""
    parts: Mapping[str, Callable[[Call, Evaluation, Any], Awaitable[Answer]]] = field(
        default_factory=lambda: MappingProxyType({})
    )
    """What `get_evaluation` reads for further values of `part`, by value."""


NO_HOOKS = CallHooks()


@dataclass(frozen=True, slots=True)
class Started:
    """The start of a client, as its hook reports it."""

    who: str
    source: str
    """The kind of start, in the client's word, such as `startup`, `resume` or `compact`."""
    wait_s: float
    """How long the client waits for the answer."""


@dataclass(frozen=True, slots=True)
class Services:
    """Everything that tools share, for the life of one server."""

    core: Core
    live: LiveSettings
    workspace: Path
    log: OutputLog
    app_log: AppLog
    """The events that applications tell by their seams."""
    transcripts: Transcripts
    repls: Repls
    tests: TestJobs
    """The test runs that have a process of their own."""
    recipe_of: Callable[[str], Recipe]
    """Return the recipe by which a REPL of the settings would be started. Blocks."""
    may_run_files: Callable[[], bool]
    """Whether the user has accepted the workspace, or started the server there. Blocks."""
    now: Callable[[], int]
    """Epoch milliseconds."""
    client_counters: Callable[[], list[dict[str, object]]]
    """One row a connected client: its queue, its losses."""
    query: Callable[[LogQuery], QueryAnswer]
    """The answer to a Datalog query. Blocks: `work` has threads for it. Raises `RefusedError`."""
    history: History
    """The code evaluated in this workspace, over all runs of its servers."""
    remembered: Callable[[], tuple[Entry, ...]]
    """The entities that earlier runs left, in line order, then the documents of the memory, by their kinds. Blocks."""
    editor: Editor
    pictures: ImageFiles
    """The files of pictures, for clients that hand on no images."""
    ledger: Ledger
    """The ledger of the code that callers sent and the files that they wrote."""
    work: Work = field(default_factory=Work)
    """The threads for blocking work, shared out between the clients."""
    waits: Waits = field(default_factory=Waits)
    """The standing queries."""
    durations: Durations = field(default_factory=Durations)
    """The durations of the waits for evaluations."""
    delivered: NoteRecords = field(default_factory=NoteRecords)
    """Which notes each caller has had already."""
    grants: InterpreterGrants | None = None
    """The user's yes to the project's own interpreter, for the life of this server."""
    remarks: Remarks | None = None
    """The remarks on the workspace that were reported already."""
    hooks: CallHooks = NO_HOOKS
    """What features add to calls of these tools."""
    uses: dict[str, dict[str, int]] = field(default_factory=dict)
    """By tool the number of its calls, under `calls`, and of those with each argument, under the argument's name."""
    parts: dict[type[Any], Any] = field(default_factory=dict)
    """The state of each feature, by its type."""

    def part(self, kind: type[T]) -> T:
        """Return the state that a feature keeps for the life of this server."""
        found: T = self.parts[kind]
        return found


class Asker(Protocol):
    """The asker of a question about the REPLs: a call, or the server itself for a client."""

    @property
    def services(self) -> Services:
        """Return the services that all tools share."""

    @property
    def client(self) -> str:
        """Return the id of the client, for whom threads are taken."""

    @property
    def state(self) -> State:
        """Return the state now."""


@dataclass(frozen=True)
class Onlooker:
    """The server itself, which asks about the REPLs for a client."""

    services: Services
    client: str

    @property
    def state(self) -> State:
        """Return the state now."""
        return self.services.core.state


class Lasting(Protocol):
    """The follower of a call whose answer its client fetches later, so that the evaluation may take its time."""

    takes_input: bool
    """Whether the client is asked for input by other means than the call's answer."""
    is_detached: bool
    """Whether nobody waits for the call any more, so that its end does not end the evaluation."""

    def note(self, evaluation: Evaluation) -> None:
        """Note that the call now waits for this evaluation."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a tool by one client."""

    services: Services
    client: str
    client_name: str
    progress: Callable[[float, str], Awaitable[None]]
    """Tell the caller, if it asked for progress: seconds since the call began, and words."""
    has_left: Callable[[], bool] = lambda: False
    """Whether the client is gone, or on its way."""
    conversation: str = ""
    """The client's own session that the call comes from, if named."""
    evaluations: list[str] = field(default_factory=list)
    """The ids of the evaluations that the call started or describes, for its life."""
    added: Mapping[type, Any] | None = None
    """The arguments that the caller gave and features added, by the features' models; None if there are none."""
    lasting: ClassVar[Lasting | None] = None
    """The follower, in a `LastingCall` alone: one field more would make every call dearer."""

    @property
    def state(self) -> State:
        """Return the state now.

        Code that runs for each evaluation takes it from `services.core`, which saves a call.
        """
        return self.services.core.state

    def dispatch(self, *actions: Action, who: str | None = None) -> None:
        """Dispatch for this client; `who`: the caller, for actions with that field."""
        context: dict[str, object] = {"client": self.client}
        self.services.core.dispatch(context if who is None else {**context, "who": who}, actions)

    def wait_ms(self, given: int | None = None) -> int:
        """Return how long this call waits, in ms: as given, else by the setting, else as long as its client does."""
        if given is not None:
            return given
        settings = self.services.live.settings
        is_set = "evaluate_timeout_ms" in settings.model_fields_set
        return settings.evaluate_timeout_ms if is_set else traits_of(self.client_name).wait_ms

    def who(self, given: str | None) -> str:
        """The slug of the caller, without secrets: the one given, now or before, else made from the client's name.

        Raises:
            RefusedError: the given name is no slug, or a reserved one.
        """
        if given is None:
            known = caller_names.name_of(self.state, self.client, self.conversation, self.client_name)
            return known or client_slug(self.client_name) or "mcp-client"
        # A client by which a person acts, and no other, is named after a human.
        if given != slug(given) or (given in RESERVED and given != client_slug(self.client_name)):
            raise refused(
                "bad-who",
                f"{given!r} cannot be used as who",
                hint="use a kebab-case slug that names you and nobody else, such as order-reviewer; "
                "ui, api, blank and those who are no agents, human and jupyter, are reserved; leave it out to be named "
                "after your client",
            )
        return self.services.log.without_secrets(given)

    def with_added(self, added: Mapping[type, Any]) -> Call:
        """Return this call with arguments that features added."""
        return replace(self, added=added)

    def addition(self, model: type[T]) -> T | None:
        """Return the arguments that the caller gave among those of a feature's model."""
        return None if self.added is None else self.added.get(model)

    def note_name(self, given: str) -> None:
        """Remember the name that the caller gives, for its calls without one.

        Raises:
            RefusedError: as `who` says.
        """
        who, formerly = self.who(given), self.who(None)
        if caller_names.name_of(self.state, self.client, self.conversation) != who:
            self.dispatch(CallerNamed(self.conversation, formerly, client_name=self.client_name), who=who)

    def is_own(self, evaluation: Evaluation, who: str) -> bool:
        """True of an evaluation of the caller `who`, which came over this connection under its name or none."""
        return caller_names.is_by_caller(self.state, self.client, who, (evaluation.client, evaluation.who))


class LastingCall(Call):
    """A call that may outlast its client's patience."""

    lasting: Lasting  # type: ignore[misc]  # of each its own, where others have none

    def __init__(self, lasting: Lasting, call: Call) -> None:
        super().__init__(
            call.services,
            call.client,
            call.client_name,
            call.progress,
            call.has_left,
            call.conversation,
            call.evaluations,
            call.added,
        )
        object.__setattr__(self, "lasting", lasting)

    def with_added(self, added: Mapping[type, Any]) -> Call:
        """Return this call with arguments that features added."""
        call = LastingCall(self.lasting, self)
        object.__setattr__(call, "added", added)
        return call
