"""Tools: their declaration, the call that they are given, with its client's traits and its services, and their answer.

A tool is a description and one async function. The function gets a `Call`, through which it reaches everything it may
use, and its arguments, already checked; it gives an `Answer` or raises a `RefusedError`. The traits of clients are one
table by the clients' own names, with an entry for each special client.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from codriver.core import caller_names
from codriver.core.actions import Action, CallerNamed
from codriver.core.records import dataclass
from codriver.errors import refused
from codriver.net.fair_threads import Work
from codriver.settings.model import Durations, Settings
from codriver.tools.ledgers.delivered_notes import Told
from codriver.tools.ledgers.standing_queries import Waits

if TYPE_CHECKING:
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
    from codriver.tools.ledgers.file_edits import EditedFile
    from codriver.tools.ledgers.workspace_records import Ledger
    from codriver_datalog.solve import QueryAnswer

T = TypeVar("T")

ENVELOPE_BYTES = 1000
"""The bytes of an answer beside its texts: its other fields, and notes on others' acts."""
LIFTED_CHARACTERS = 300_000
"""The characters that Claude Code hands on for a tool whose `_meta` says so in `anthropic/maxResultSizeChars`."""
LIFTED_TOOLS = frozenset({"get_evaluation", "repl_output_log"})
"""The tools by which a caller asks for more than an answer has by itself."""
OWN_CHARACTERS = 64 * 2**20
"""The characters for our own commands, which read for a person or a program: all that can be asked for."""


@dataclass(frozen=True, slots=True)
class Traits:
    """The differences of a known client from an unknown one."""

    answer_characters: int = 20_000
    """The longest answer, as JSON, that reaches the model whole; of a longer one the model sees a part, or a file's
    name."""
    lifts_limit: bool = False
    """Whether the longest answer has `LIFTED_CHARACTERS` for the tools that ask for that."""
    has_budget: bool = True
    """Whether an answer's text is bounded by the setting `maxTextBytes`, unless more is asked for."""
    takes_structure: bool = True
    """Whether an answer has its `structuredContent` too, and each tool the schema of it."""
    reads_whole: bool = False
    """Whether values are printed whole unless the call sets a bound: the client is a script, and no model."""
    wants_detail: bool = False
    """Whether answers about evaluations have every field, unless the call says otherwise."""
    shows_images: bool = True
    """Whether the client hands image content on to its model; else the text names a file, which its own tool opens."""
    wait_ms: int = 25_000
    """How long a call waits by default: the longest that a client is known to wait without a progress report, with a
    margin. There are clients that give up after 30 s and cancel nothing."""
    lists_again: bool = False
    """Whether the client is known to list the tools again when it is notified that they changed."""
    who: str = ""
    """The `who` of the client's callers that give none; empty for the client's own name in kebab-case."""


HUMAN_CLIENT: Final = "codriver-human"
"""The name of a client by which a person acts: its callers are `human`."""
TRAITS: Mapping[str, Traits] = MappingProxyType(
    {
        "claude-code": Traits(
            answer_characters=50_000, lifts_limit=True, lists_again=True, wait_ms=50_000, who="claude-code"
        ),
        "copilot-cli": Traits(
            answer_characters=20_000, shows_images=False, lists_again=True, wait_ms=50_000, who="copilot-cli"
        ),
        "codex-mcp-client": Traits(answer_characters=12_000, takes_structure=False, wait_ms=50_000, who="codex"),
        "gemini-cli-mcp-client": Traits(answer_characters=40_000, lists_again=True, wait_ms=50_000, who="gemini"),
        "opencode": Traits(
            answer_characters=48_000, shows_images=False, lists_again=True, wait_ms=50_000, who="opencode"
        ),
        "qwen-cli-mcp-client": Traits(answer_characters=20_000, shows_images=False, who="qwen"),
        "@cline/": Traits(takes_structure=False, who="cline"),
        "factory-cli": Traits(who="droid"),
        "augment-mcp-client": Traits(who="auggie"),
        HUMAN_CLIENT: Traits(answer_characters=LIFTED_CHARACTERS, lists_again=True, wants_detail=True, who="human"),
        "codriver-": Traits(
            answer_characters=OWN_CHARACTERS, lists_again=True, has_budget=False, reads_whole=True, wants_detail=True
        ),
    }
)
"""By the beginning of `clientInfo.name`: Qwen Code adds the server's name, and our own commands are `codriver-cli`,
`codriver-log` and so on. Source: Claude Code 2.1.330, Copilot CLI 1.0.102, Codex 0.169, Gemini CLI 0.61, opencode
1.18.33, Qwen Code 0.24, Cline 3.0.65, droid 0.215 and auggie 0.36, observed. opencode, Copilot CLI and Qwen Code hand
no image part on to a model without known vision. Codex drops the text and the images that stand beside a structure;
Cline hands on both, so that its model reads everything twice."""
_ORDINARY = Traits()
_SPECIAL = tuple(TRAITS)


@lru_cache(maxsize=64)
def traits_of(client_name: str) -> Traits:
    """The traits of the client of this name."""
    if not client_name.startswith(_SPECIAL):
        return _ORDINARY
    return next(traits for start, traits in TRAITS.items() if client_name.startswith(start))


def most_bytes(client_name: str, tool: str = "") -> int:
    """The most bytes of text that reach the model in one answer of this tool, however many are asked for."""
    traits = traits_of(client_name)
    is_lifted = traits.lifts_limit and tool in LIFTED_TOOLS
    return (LIFTED_CHARACTERS if is_lifted else traits.answer_characters) - ENVELOPE_BYTES


Json = Mapping[str, Any]
Schema = dict[str, Any]

UNLISTED: Final = "unlisted"
"""The mark, in a model's schema, of an argument that is taken and not listed, as it costs more than it is worth."""


class Given(BaseModel):
    """An object that a caller gives: camelCase outside, snake_case inside, nothing unknown, never changed."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True, populate_by_name=False)

    FILES: ClassVar[frozenset[str]] = frozenset({"file_path", "file_paths", "paths", "directory"})
    """The arguments that name files."""
    OTHER_NAMES: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Other names of these arguments, besides those of any tool: see `codriver.tools.calls.argument_reading`."""


class Arguments(Given):
    """The arguments of a tool."""

    who: str | None = Field(None, json_schema_extra={UNLISTED: True})
    """The caller, for `Call.who`. Every tool takes it; `evaluate_code` lists it and says so."""


@dataclass(frozen=True, slots=True)
class Image:
    """A picture of an answer, base64 as it came."""

    data: str
    mime_type: str


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a tool: JSON fields under camelCase keys. `ok` is false for a failure or a refusal."""

    fields: Json
    ok: bool = True
    images: tuple[Image, ...] = ()
    has_numbers: bool = False
    """Whether the answer holds numbers of a query, of any size."""
    is_bare: bool = False
    """Whether the answer has another program's shape, and so nothing around it."""
    handed_out: Callable[[], None] | None = None
    """Called when the answer is on its way to its client: from then on, its content counts as told."""
    shows_told: bool = False
    """Whether the answer may hold texts that an application calls sensitive, as the user allowed and the call asked
    for."""


class LiveSettings(Protocol):
    """The holder of the settings, which can change while the server runs."""

    settings: Settings
    """The settings now."""
    changed: anyio.Event
    """Set at the next change of the settings; a new event then replaces this one."""
    withheld: tuple[str, ...]
    """The settings in the workspace's files that do not count, as its user has not accepted them, a sentence each."""


@dataclass(frozen=True, slots=True)
class AddedArguments:
    """Arguments of a feature for tools of the base: listed with theirs, and validated by a model of the feature."""

    tools: tuple[str, ...]
    model: type[Given]


@dataclass(frozen=True, slots=True)
class CallHooks:
    """The hooks of all features into the tools of the base."""

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
    manifest: Manifest
    """All tools of this server."""
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
    told: Told = field(default_factory=Told)
    """The register of the news that callers were told."""
    grants: InterpreterGrants | None = None
    remarks: Remarks | None = None
    """The user's yes to the project's own interpreter, for the life of this server."""
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
        """The services that all tools share."""

    @property
    def client(self) -> str:
        """The id of the client, for whom threads are taken."""

    @property
    def state(self) -> State:
        """The state now."""


@dataclass(frozen=True)
class Onlooker:
    """The server itself, which asks about the REPLs for a client."""

    services: Services
    client: str

    @property
    def state(self) -> State:
        """The state now."""
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
        """The state now. Code that runs for each evaluation takes it from `services.core`, which saves a call."""
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


RESERVED = frozenset({"", "ui", "api", "human", "jupyter"})
"""Names that would hide who acted."""
_BETWEEN_WORDS = re.compile(r"[^a-z0-9]+")


def slug(text: str) -> str:
    """`text` in kebab-case: lower-case letters and digits, single hyphens between."""
    return _BETWEEN_WORDS.sub("-", text.lower()).strip("-")[:60].strip("-")


@lru_cache(maxsize=64)
def client_slug(client_name: str) -> str:
    """The name of a client's callers that give none: a short one, or the client's own in kebab-case."""
    return traits_of(client_name).who or slug(client_name)


TEXTS: Final = {"type": "array", "items": {"type": "string"}}
"""The schema of a list of texts."""
ROWS: Final = {"type": "array", "items": {"type": "object"}}
"""The schema of a list of objects."""

SAID_BY_REFUSALS: Final = frozenset(
    {"title", "additionalProperties", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems"}
)
"""Keys of a schema that no model needs to know before a refusal tells them."""


def unsaid_default(schema: Schema) -> None:
    """Take the default out of an argument's schema: for `json_schema_extra` of one whose default needs no telling."""
    schema.pop("default", None)


ANY_ANSWER: Final[Schema] = {"type": "object", "required": ["ok"]}
"""The schema of every answer."""

Run = Callable[[Call, Any], Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class Tool:
    """One entry of the manifest. `needs`: any one of these capabilities; `setting`: the setting that must be on.

    `languages`: the tool is listed in workspaces with one of them, everywhere if empty. The annotation `open_world` is
    for a tool that can reach beyond the workspace, as the code that it runs can.
    """

    name: str
    title: str
    description: str
    arguments: type[Arguments]
    output: Schema
    run: Run
    needs: tuple[str, ...] = ()
    setting: str | None = None
    is_usual: bool = False
    """Whether a tool of a feature is in the default list."""
    other_names: tuple[str, ...] = ()
    """The names of this tool in Backseat Driver, answered and not listed."""
    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False
    open_world: bool = False
    languages: tuple[str, ...] = ()
    is_core: bool = False
    """Whether an agent needs the tool from the start; others may be found by a client's search, by `search_hint`."""
    search_hint: str = ""
    lists_output: bool = False
    """Whether `output` is listed whole: an evaluation's is stated once, and no model is shown any."""
    added: tuple[type[Given], ...] = ()
    """The models of arguments that features add."""
    elsewhere: Tool | None = None
    """The tool listed in place of this one in a workspace without Lisp: the same, without arguments of Lisp."""
    schema: Schema = field(init=False)
    """The JSON schema of the arguments."""
    own_names: frozenset[str] = field(init=False)
    """The arguments that no feature added."""

    @property
    def listed_output(self) -> Schema:
        """The schema of the answer that clients are told: they check each answer by it, so it has to fit all."""
        return self.output if self.lists_output else ANY_ANSWER

    def __post_init__(self) -> None:
        schema = _plain(self.arguments.model_json_schema(by_alias=True))
        for model in self.added:
            schema["properties"] |= _plain(model.model_json_schema(by_alias=True))["properties"]
        object.__setattr__(self, "schema", schema)
        own = frozenset(info.alias or to_camel(name) for name, info in self.arguments.model_fields.items())
        object.__setattr__(self, "own_names", own)


@dataclass(frozen=True)
class Manifest:
    """The tools of a server in the order in which clients see them: the base's, and those of its features."""

    tools: tuple[Tool, ...]
    usual: tuple[Tool, ...]
    """The tools in the default list."""
    for_hooks: tuple[Tool, ...] = ()
    """The tools that only clients' hooks call. No client lists them."""
    by_name: Mapping[str, Tool] = field(init=False)
    """The listed tools by their names."""
    called: Mapping[str, Tool] = field(init=False)
    """Every tool by each name that a call can give: its own, or its name in Backseat Driver."""

    def __post_init__(self) -> None:
        by_name = {tool.name: tool for tool in self.tools}
        others = {name: tool for tool in self.tools for name in tool.other_names}
        hooks = {tool.name: tool for tool in self.for_hooks}
        object.__setattr__(self, "by_name", MappingProxyType(by_name))
        object.__setattr__(self, "called", MappingProxyType({**others, **by_name, **hooks}))


def answer_schema(**properties: Schema | str) -> Schema:
    """The schema of a tool's answer: the envelope, and `properties` by name, each a schema or a JSON type."""
    shown = {name: {"type": kind} if isinstance(kind, str) else kind for name, kind in properties.items()}
    return {"type": "object", "properties": {"ok": {"type": "boolean"}, **shown}, "required": ["ok"]}


def _first(values: object) -> list[object]:
    """The first value of an enumeration, which is also its default, if it has one."""
    return values[:1] if isinstance(values, list) else []


def _plain(schema: Schema) -> Schema:
    """A pydantic schema without titles, which tell a client nothing, and with references inlined."""
    definitions = schema.pop("$defs", {})

    def visit(node: object) -> object:
        if isinstance(node, list):
            return [visit(item) for item in node]
        if not isinstance(node, dict):
            return node
        if "$ref" in node:
            return visit(definitions[node["$ref"].rsplit("/", 1)[1]])
        options = node.get("anyOf")
        if options and {"type": "null"} in options and len(options) == 2:
            # An optional argument is left out, not null: its type alone is told, which every client understands.
            kept = next(option for option in options if option != {"type": "null"})
            node = {**kept, **{key: value for key, value in node.items() if key not in ("anyOf", "default")}}
        named = node.get("properties")
        plain = {
            key: visit(value) for key, value in node.items() if key not in SAID_BY_REFUSALS and key != "properties"
        }
        if plain.get("default", True) in (None, False, 0, [], *_first(plain.get("enum"))):
            del plain["default"]
        if isinstance(named, dict):
            shown = {name: value for name, value in named.items() if UNLISTED not in value}
            plain["properties"] = {name: visit(value) for name, value in shown.items()}
        return plain

    result = visit(schema)
    assert isinstance(result, dict)  # noqa: S101  # the schema of a model is an object
    if not result.get("properties"):
        # Strict modes, such as that of OpenAI's models, take no open object without properties.
        result["additionalProperties"] = False
    result.pop("description", None)
    return result
