"""Dispatch actions, which change the state of the server and cause effects.

An *action* is a frozen dataclass that describes an event or a request; its handler is a pure function. An *effect* is a
frozen dataclass that describes something to do outside the core. The shell performs it and reports back only by
dispatching more actions. Handlers and performers are looked up by class. One dispatch runs in this order:

1. the handlers run in the order of their actions, each on the state that the previous one returned;
2. the new state is stored;
3. the follow-up actions are dispatched in the same way;
4. the effects are performed.

References in actions and effects are resolved first: see `codriver.core.records`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from codriver.core.actions import ACTIONS, Action
from codriver.core.effects import EFFECTS, Effect
from codriver.core.records import ValueReference, dataclass, replace
from codriver.errors import CodriverError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from codriver.core.state import State


R = TypeVar("R", bound="DataclassInstance")

Context = Mapping[str, object]
"""Facts about the origin of a dispatch, such as the requesting client. The core adds the current time as `now`."""

NO_CALLER_CONTEXT: Final[Context] = MappingProxyType({})
"""The context of events that no caller caused."""


class UnhandledError(CodriverError):
    """Raised when no function is registered for a class of actions or effects."""

    def __init__(self, kind: str, names: Sequence[str]) -> None:
        super().__init__(f"no function handles the {kind} {', '.join(names)}. Pass a function for each to the core")


class UnresolvedReferenceError(CodriverError):
    """Raised when a reference in an action or effect names a value that does not exist."""

    def __init__(self, later: ValueReference[Any]) -> None:
        super().__init__(f"cannot resolve the reference {later}: there is no value with this name")


@dataclass(frozen=True)
class Outcome:
    """The result of a handler.

    It consists of the new state, the effects to perform, and the actions to dispatch before the effects.
    """

    state: State
    effects: tuple[Effect, ...] = ()
    follow_ups: tuple[Action, ...] = ()


Handler = Callable[["State", Any], Outcome]
Performer = Callable[[Any], object]


class Core:
    """Owns the state of a server and changes it by dispatching actions.

    A core must only be used on the thread of the event loop.
    """

    def __init__(
        self,
        *,
        state: State,
        settings: object,
        now: Callable[[], int],
        handlers: Mapping[type[Action], Handler],
        performers: Callable[[Core], Mapping[type[Effect], Performer]],
    ) -> None:
        """Set up the core with a function for each class of actions and effects.

        `now` returns epoch milliseconds. `performers` receives this core, so that performers can report to it, but must
        not dispatch actions itself.

        Raises:
            UnhandledError: a class of actions or effects has no function.
        """
        self.state = state
        """The current state. Only a dispatch replaces it."""
        self.settings = settings
        """The current settings, for references to settings."""
        self.now = now
        self._handlers = handlers
        self._performers = performers(self)
        self._observers: tuple[Callable[[State, State], None], ...] = ()
        _check_registered("action", ACTIONS, handlers)
        _check_registered("effect", EFFECTS, self._performers)

    @contextmanager
    def observed_by(self, observer: Callable[[State, State], None]) -> Iterator[None]:
        """Call `observer` after each change of the state while the context is active.

        It receives the states before and after the change. It may dispatch actions, but must not raise exceptions.
        """
        self._observers = (*self._observers, observer)
        try:
            yield
        finally:
            self._observers = tuple(other for other in self._observers if other is not observer)

    def report(self, *actions: Action) -> None:
        """Dispatch actions for events that no caller caused."""
        self.dispatch(NO_CALLER_CONTEXT, actions)

    def dispatch(self, context: Context, actions: Sequence[Action]) -> None:
        """Dispatch actions in order. See the module's docstring for the steps.

        Raises:
            UnhandledError: an action or effect has no function.
            UnresolvedReferenceError: a reference cannot be resolved. After either error, the state is that of the last
                complete step. If a follow-up action failed, the changes made by `actions` remain, and their effects are
                performed.
        """
        self._dispatch({"now": self.now(), **context}, actions)

    def resume(self, effect: Effect, result: object) -> None:
        """Dispatch the actions that follow an effect, with references to its result resolved."""
        if effect.then:
            self.report(*(resolve_references(action, {"result": result}) for action in effect.then))

    def _dispatch(self, context: Context, actions: Sequence[Action]) -> None:
        before = state = self.state
        sources = {"context": context, "settings": self.settings, "state": state}
        effects: list[Effect] = []
        follow_ups: list[Action] = []
        for action in actions:
            handle = self._handlers.get(type(action))
            if handle is None:
                raise UnhandledError("action", [type(action).__name__])
            outcome = handle(state, resolve_references(action, sources))
            state = sources["state"] = outcome.state
            if outcome.effects:
                effects += [
                    _resolve_effect(effect, sources) if effect.then else resolve_references(effect, sources)
                    for effect in outcome.effects
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
            for observe in self._observers:
                observe(before, state)


PENDING_RESULT: Final = object()
"""A placeholder for a result that is not available yet. References to such a result are left unresolved."""


def resolve_references(record: R, sources: Mapping[str, object]) -> R:
    """Return a copy of a record with its references replaced by values from `sources`.

    A record without references is returned as is.

    Raises:
        UnresolvedReferenceError: a source does not have the value.
    """
    changes: dict[str, object] = {}
    for name in reference_fields(type(record)):
        later = record.__dict__[name]
        if type(later) is ValueReference:
            try:
                source = sources[later.source]
                if source is not PENDING_RESULT:
                    changes[name] = later.get(source)
            except (LookupError, AttributeError, TypeError) as error:
                raise UnresolvedReferenceError(later) from error
    return replace(record, **changes) if changes else record


@cache
def reference_fields(kind: type[DataclassInstance]) -> tuple[str, ...]:
    """Return the names of the fields of a class that may contain references."""
    return tuple(field.name for field in fields(kind) if type(field.default) is ValueReference)


def _resolve_effect(effect: Effect, sources: Mapping[str, object]) -> Effect:
    """Resolve the references of an effect, except references to its own result in `then`."""
    then = tuple(resolve_references(action, {**sources, "result": PENDING_RESULT}) for action in effect.then)
    return resolve_references(replace(effect, then=then), sources)


def _check_registered(kind: str, classes: Iterable[type], functions: Mapping[Any, object]) -> None:
    if unhandled := [klass.__name__ for klass in classes if klass not in functions]:
        raise UnhandledError(kind, unhandled)
