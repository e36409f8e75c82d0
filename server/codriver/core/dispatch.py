"""The dispatch: actions in, a new state and effects out. This module defines every kind of effect.

An *action* is a frozen dataclass for an event or a request; its handler is a pure function. An *effect* is a frozen
dataclass for an act outside; the shell performs it and reports back only by dispatching. Handlers and performers are
found by class. One dispatch runs in this order:

1. the handlers, in the order of the actions, each seeing the state that the previous one returned;
2. the new state is set;
3. the follow-up actions are dispatched, each handler's in turn;
4. the effects are performed.

Values that actions and effects only refer to are resolved first: see `codriver.core.records`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from codriver.core.actions import ACTIONS, Action
from codriver.core.records import Later, dataclass, from_context, from_settings, from_state, replace
from codriver.errors import CodriverError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from codriver.core.state import AppStream, Lifecycle, State
    from codriver.core.values import Request


@dataclass(frozen=True, kw_only=True)
class Effect:
    """An effect on the outside. `then`: the actions to dispatch with its result, if it gives one."""

    then: tuple[Action, ...] = ()


@dataclass(frozen=True)
class Listen(Effect):
    """Open the listener. Continuation: (host, actual port)."""

    host: Later[str] = from_settings("host")
    port: Later[int] = from_settings("mcp_socket_server_port")


@dataclass(frozen=True)
class Announce(Effect):
    """Write the port file and its companion, now that the server can be reached."""

    lifecycle: Later[Lifecycle] = from_state("lifecycle")


@dataclass(frozen=True)
class WindDown(Effect):
    """Refuse new calls, interrupt running code, answer the open calls, close everything."""

    reason: str = ""


@dataclass(frozen=True)
class Remember(Effect):
    """Store a document beyond this run, under its kind and its name."""

    kind: str
    name: str
    text: str
    data: str = ""
    """The facts behind the text, as a JSON object."""
    now: Later[int] = from_context("now")


@dataclass(frozen=True)
class NotifyClients(Effect):
    """Notify every initialized client that a list changed."""

    changed: Literal["tools", "resources"] = "tools"


@dataclass(frozen=True)
class ConnectRepl(Effect):
    """Reach the REPL at its address."""

    id: str


@dataclass(frozen=True)
class StartRepl(Effect):
    """Start the REPL's process, then reach it."""

    id: str


@dataclass(frozen=True)
class EndRepl(Effect):
    """Close the connection, and end the process if Codriver started it."""

    id: str


@dataclass(frozen=True)
class RetryRepl(Effect):
    """Dispatch the continuation after `delay_s`."""

    id: str
    delay_s: float


@dataclass(frozen=True)
class RunEvaluation(Effect):
    """Send the code to the REPL and report its end. Code that runs longer than `max_run_ms` is interrupted."""

    repl: str
    request: Request
    max_run_ms: Later[int] = from_settings("max_run_ms")
    max_length: Later[int] = from_settings("max_length")
    max_depth: Later[int] = from_settings("max_depth")


@dataclass(frozen=True)
class RunJob(Effect):
    """Start the process of a test run and report its end. One that runs longer than `max_run_ms` is interrupted."""

    request: Request
    max_run_ms: Later[int] = from_settings("max_run_ms")


@dataclass(frozen=True)
class CloseSession(Effect):
    """End an isolated session in the REPL."""

    id: str
    name: str


@dataclass(frozen=True)
class StopEvaluation(Effect):
    """Interrupt an evaluation that no one wants any more, if its REPL can."""

    evaluation: str
    why: str


@dataclass(frozen=True)
class AwaitGrace(Effect):
    """Dispatch the continuation after `grace_ms`."""

    grace_ms: Later[int] = from_settings("gone_client_grace_ms")


@dataclass(frozen=True)
class RenewAppStream(Effect):
    """Notify the application, before its lease expires, that a stream is still watched. Continuation: true if so."""

    stream: AppStream


@dataclass(frozen=True)
class EndAppStream(Effect):
    """End a stream in the application."""

    stream: AppStream


@dataclass(frozen=True)
class ReportAppStreamEnd(Effect):
    """Notify the callers that wait for events of a stream that it has ended, and why."""

    stream: AppStream
    why: str


@dataclass(frozen=True)
class WakeWaiters(Effect):
    """Wake the callers that wait for the evaluation: it has finished, or its status changed."""

    evaluation: str


@dataclass(frozen=True)
class Append(Effect):
    """Append to the output log."""

    category: Literal["evaluatedCode", "otherOutput", "otherErrorOutput"]
    text: str
    who: str | None = None
    ns: str | None = None
    session_key: str | None = None
    evaluation: str | None = None
    notebook: str | None = None
    file: str | None = None
    kind: str | None = None
    data: str | None = None
    now: Later[int] = from_context("now")


@dataclass(frozen=True)
class LogMessage(Effect):
    """Send a message to the clients that subscribed to the server's own messages."""

    level: Literal["info", "warning"]
    text: str
    repl: str | None = None
    """The key of the REPL that the message is about."""


EFFECTS: Final = tuple(Effect.__subclasses__())
"""Every effect of the core; a server needs a performer for each."""


R = TypeVar("R", bound="DataclassInstance")

Context = Mapping[str, object]
"""Facts about who dispatches, such as the requesting client. The core adds the time, as `now`."""

NOBODY: Final[Context] = MappingProxyType({})
"""The context of an event without a caller."""


class UnhandledError(CodriverError):
    """Actions or effects without a function that serves them. A programming error."""

    def __init__(self, kind: str, names: Sequence[str]) -> None:
        super().__init__(f"nobody handles the {kind} {', '.join(names)}: name a function for it where the core is made")


class UnresolvedError(CodriverError):
    """A value is named where no value of that name is known. A programming error."""

    def __init__(self, later: Later[Any]) -> None:
        super().__init__(f"cannot fill in {later}: nothing of that name is known here")


@dataclass(frozen=True)
class Outcome:
    """The state after an action, the effects outside, and the follow-up actions."""

    state: State
    effects: tuple[Effect, ...] = ()
    follow_ups: tuple[Action, ...] = ()


Handler = Callable[["State", Any], Outcome]
Performer = Callable[[Any], object]


class Core:
    """Owns the state of one server. Not reentrant from other threads: call it on the event loop."""

    def __init__(
        self,
        *,
        state: State,
        settings: object,
        now: Callable[[], int],
        handlers: Mapping[type[Action], Handler],
        performers: Callable[[Core], Mapping[type[Effect], Performer]],
    ) -> None:
        """Take the functions for actions and effects, by class. `now` gives epoch milliseconds.

        `performers` is given this core, as a performer reports back to it; it must not dispatch yet.

        Raises:
            UnhandledError: an action or effect of the core has no function.
        """
        self.state = state
        """The state now; only a dispatch sets it."""
        self.settings = settings
        """The settings now, for values that name one."""
        self.now = now
        self._handlers = handlers
        self._performers = performers(self)
        _check_all("action", ACTIONS, handlers)
        _check_all("effect", EFFECTS, self._performers)

    def report(self, *actions: Action) -> None:
        """Dispatch events that have no caller."""
        self.dispatch(NOBODY, actions)

    def dispatch(self, context: Context, actions: Sequence[Action]) -> None:
        """Run `actions` in the order the module's docstring gives.

        Raises:
            UnhandledError: an action or effect of this class has no function.
            UnresolvedError: a named value cannot be filled in.
                After either, the state is as the last complete step left it: `actions` stand if a follow-up failed,
                and so their effects are performed.
        """
        self._dispatch({"now": self.now(), **context}, actions)

    def resume(self, effect: Effect, result: object) -> None:
        """Dispatch an effect's continuation, its result filled in."""
        if effect.then:
            self.report(*(fill(action, {"result": result}) for action in effect.then))

    def _dispatch(self, context: Context, actions: Sequence[Action]) -> None:
        state = self.state
        sources = {"context": context, "settings": self.settings, "state": state}
        effects: list[Effect] = []
        follow_ups: list[Action] = []
        for action in actions:
            handle = self._handlers.get(type(action))
            if handle is None:
                raise UnhandledError("action", [type(action).__name__])
            outcome = handle(state, fill(action, sources))
            state = sources["state"] = outcome.state
            if outcome.effects:
                effects += [
                    _filled(effect, sources) if effect.then else fill(effect, sources) for effect in outcome.effects
                ]
            follow_ups += outcome.follow_ups
        for effect in effects:
            if type(effect) not in self._performers:
                raise UnhandledError("effect", [type(effect).__name__])
        self.state = state
        try:
            if follow_ups:
                self._dispatch(context, follow_ups)
        finally:  # The effects of the new state are performed even if a follow-up fails.
            for effect in effects:
                self._performers[type(effect)](effect)


NOT_YET: Final = object()
"""A marker for a result that is not available yet: fields that refer to the result are left unchanged."""


def fill(record: R, sources: Mapping[str, object]) -> R:
    """Return the action or effect with its named values filled in from `sources`; itself if it names none."""
    changes: dict[str, object] = {}
    for name in later_fields(type(record)):
        later = record.__dict__[name]
        if type(later) is Later:
            try:
                source = sources[later.source]
                if source is not NOT_YET:
                    changes[name] = later.get(source)
            except (LookupError, AttributeError, TypeError) as error:
                raise UnresolvedError(later) from error
    return replace(record, **changes) if changes else record


@cache
def later_fields(kind: type[DataclassInstance]) -> tuple[str, ...]:
    """Return the names of the fields in which a class may name a value."""
    return tuple(one.name for one in fields(kind) if type(one.default) is Later)


def _filled(effect: Effect, sources: Mapping[str, object]) -> Effect:
    """Return the effect with all values filled in, except those that its continuation takes from its result."""
    then = tuple(fill(action, {**sources, "result": NOT_YET}) for action in effect.then)
    return fill(replace(effect, then=then), sources)


def _check_all(kind: str, classes: Iterable[type], functions: Mapping[Any, object]) -> None:
    if unhandled := [one.__name__ for one in classes if one not in functions]:
        raise UnhandledError(kind, unhandled)
