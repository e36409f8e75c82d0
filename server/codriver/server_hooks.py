"""Hooks through which features extend a running server.

A hook is added only when a second feature needs it. Until then, the code that a single feature needs stays in the base
or is an ordinary call.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from codriver.repls.contract.evaluation_extensions import NO_HOOKS as NO_ADAPTER_HOOKS
from codriver.repls.contract.evaluation_extensions import AdapterHooks
from codriver.tools.calls.call import NO_HOOKS, CallHooks

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence

    from anyio.abc import TaskGroup

    from codriver.core.actions import AddRepl
    from codriver.editing.file_languages import ApplyText
    from codriver.log.query_sources import Queryable, QuerySource
    from codriver.net.client_sessions import Clients, ClientSession
    from codriver.repls.contract.adapter import Connector
    from codriver.repls.contract.endpoints import AcceptedStream
    from codriver.settings.model import Settings
    from codriver.tools.calls.arguments import AddedArguments
    from codriver.tools.calls.call import Services
    from codriver.tools.calls.tool import Tool

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Part(Generic[T]):
    """A feature's state, which exists for as long as the server does. Calls access it as `call.services.part(kind)`."""

    kind: type[T]
    create: Callable[[Services, TaskGroup], T]
    """Called when the server is built, before it listens."""
    run: Callable[[T], Coroutine[Any, Any, None]] | None = None
    """A task that starts with the server and is cancelled when it ends."""
    search: Callable[[T], Coroutine[Any, Any, None]] | None = None
    """A task that starts when the server begins to search for REPLs."""
    stop_before_repls: Callable[[T], Coroutine[Any, Any, None]] | None = None
    """Awaited when the server stops, before its REPLs end. It must return within a second."""
    stop_after_repls: Callable[[T], Coroutine[Any, Any, None]] | None = None
    """Awaited when the server stops, after its REPLs have ended. It must return within a few seconds."""


@dataclass(frozen=True, slots=True)
class Report(Generic[T]):
    """A kind of report that REPLs send with replies to evaluations, or at any time.

    See `codriver.repls.contract.evaluation_extensions`.
    """

    name: str
    part: type[T]
    """The type of the part that receives the report."""
    receive: Callable[[T, str, str | None, str], None]
    """Called with the part, the REPL's id, the evaluation's id if it belongs to one, and the report's text.

    The text is unvalidated data from the REPL.
    """


@dataclass(frozen=True, slots=True)
class ResourceRow:
    """The URI or URI template of a resource, as clients list it."""

    uri: str
    title: str
    description: str


@dataclass(frozen=True, slots=True)
class ResourceFamily:
    """The resources of one kind. Their URIs have the form `codriver://KIND/PART/PART`."""

    kind: str
    parts: int
    """The number of parts in an address."""
    mime_type: str
    read: Callable[[Services, ClientSession, Sequence[str], Mapping[str, str]], Awaitable[str]]
    """Return the text of a resource for a client, given the parts and the query of its address.

    It may raise a `RefusedError`, which means that there is no such resource.
    """
    listed: tuple[ResourceRow, ...] = ()
    templates: tuple[ResourceRow, ...] = ()
    has_plain_path: bool = False
    """Whether addresses of the form `/KIND/PART`, as in Backseat Driver, are accepted too."""


@dataclass(frozen=True, slots=True)
class Guide:
    """A skill about a tool of the feature. It is offered only together with the tool."""

    skill: str
    tool: str


REPORT_PLACEHOLDER: Final = "{report}"
"""Placeholder for the server's report in a prompt's text."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt that a person can select in a client to give an agent a task."""

    name: str
    title: str
    description: str
    text: str
    """The text, with `{name}` for each argument."""
    arguments: tuple[tuple[str, str, str], ...] = ()
    """The name, the description and the default of each argument."""
    report: Callable[[Services, ClientSession, Mapping[str, str]], Awaitable[str]] | None = None
    """Return the text that replaces `REPORT_PLACEHOLDER`, for a client and the arguments that it passed."""


@dataclass(frozen=True, slots=True)
class RunningServer:
    """The parts of a running server that a feature needs to serve clients over its own transport."""

    services: Services
    protocol: Any
    """The `McpServer`, whose module imports this one."""
    clients: Clients


@dataclass(frozen=True, slots=True)
class Request:
    """A request that a command sends to the server's port instead of speaking MCP. See `net.client.send_request`.

    `answer` receives the detail of the request and returns the answer.
    """

    name: str
    answer: Callable[[RunningServer, str], Awaitable[Mapping[str, object]]]


@dataclass(frozen=True, slots=True)
class AcceptedRepls(Generic[T]):
    """Describes REPLs that connect to the server when requested, at addresses of the form `PROTOCOL://LOCATION`."""

    protocol: str
    part: type[T]
    """The type of the part that accepts the connections."""
    accept: Callable[[T, str], Coroutine[Any, Any, AcceptedStream]]
    """Called with the part and the location: have the REPL connect, check its peer, and return the stream.

    Raises a `ReplUnreachableError` if nobody connects.
    """
    variable: str
    """An environment variable by which programs with such a REPL are recognized."""
    start_advice: str
    """A clause on how to start a program with such a REPL, for `ListeningProgram.start_advice`."""


@dataclass(frozen=True, slots=True)
class Connectors(Generic[T]):
    """Describes how a server connects to REPLs over the protocols of a feature."""

    part: type[T]
    create: Callable[[T], Mapping[str, Connector]]
    """Return the connectors by protocol, which is the part of an address before `://`."""
    silence: Callable[[str, float], str | None] | None = None
    """Describe an address that has not answered for a few seconds, or return None for the usual message."""


@dataclass(frozen=True, slots=True)
class ServerHooks:
    """Everything that a feature adds to a running server."""

    tools: tuple[Tool, ...] = ()
    parts: tuple[Part[Any], ...] = ()
    requests: tuple[Request, ...] = ()
    accepted: tuple[AcceptedRepls[Any], ...] = ()
    connectors: tuple[Connectors[Any], ...] = ()
    named_repls: tuple[Callable[[Settings, Mapping[str, str]], Sequence[AddRepl]], ...] = ()
    """Return the REPLs that the feature's settings name, for an environment."""
    checks: tuple[Callable[[Settings, Mapping[str, str]], None], ...] = ()
    """Check settings before a server starts. Raises a `StartError`."""
    added_arguments: tuple[AddedArguments, ...] = ()
    """Arguments for base tools."""
    calls: CallHooks = NO_HOOKS
    """Hooks that run around calls of base tools."""
    adapters: AdapterHooks = NO_ADAPTER_HOOKS
    """Hooks that extend REPL adapters."""
    reports: tuple[Report[Any], ...] = ()
    edit_languages: tuple[tuple[str, ApplyText], ...] = ()
    """How string edits are applied to files with these suffixes, which have parts: see `editing.file_languages`."""
    languages: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Languages that the feature's tools are for, each with the suffixes of the files that make them available."""
    guides: tuple[Guide, ...] = ()
    resources: tuple[ResourceFamily, ...] = ()
    prompts: tuple[Prompt, ...] = ()
    query_sources: tuple[tuple[QuerySource, type[Queryable]], ...] = ()
    """Sources of Datalog queries, each with the type of the part that stores its records."""
