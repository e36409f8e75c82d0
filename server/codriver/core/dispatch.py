"""Changing the state: actions in, a new state and effects out.

An *action* is a frozen dataclass that says what happened or is wanted; its handler is a pure function. An *effect* is
a frozen dataclass that says what to do outside; the shell performs it and reports back only by dispatching. One
dispatch runs in this order:

1. the handlers, in the order of the actions, each seeing the state the one before left;
2. the new state is set;
3. the follow-up actions are dispatched, each handler's in turn;
4. the effects are performed.

*Placeholders* may stand for values in actions and effects that are not known when they are written: from the
context of the dispatch, the state, the settings, or, in a continuation, the result of an effect. They are resolved
before use: an action's before its handler runs, an effect's with the state its handler left. One that cannot be
resolved is an error. Placeholders are objects of their own and are looked for only in the fields of actions and
effects and in tuples, so nothing that a client sends, whatever it looks like, is ever taken for one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from codriver.core.records import replace
from codriver.core.state import State
from codriver.errors import CodriverError

Context = Mapping[str, object]
"""What the source of a dispatch knows: the client it speaks for, the time."""


class UnroutableError(CodriverError):
    """An action or effect whose namespace nobody handles. A programming error."""

    def __init__(self, kind: str, namespace: str) -> None:
        super().__init__(f"no {kind} handler for the namespace {namespace!r}")


class UnresolvedError(CodriverError):
    """A placeholder that has no value where it was used. A programming error."""

    def __init__(self, placeholder: Placeholder, why: str) -> None:
        super().__init__(f"cannot resolve {placeholder}: {why}")


@dataclass(frozen=True)
class Action:
    """Something that happened or is wanted. Subclasses set `namespace` and add fields."""

    namespace: ClassVar[str]


@dataclass(frozen=True, kw_only=True)
class Effect:
    """Something to do outside. `then`: the actions to dispatch with its result, if it gives one."""

    namespace: ClassVar[str]
    then: tuple[Action, ...] = ()


@dataclass(frozen=True)
class Placeholder:
    """Stands for a value that is found when it is used: `source` is `context`, `state`, `settings` or `result`.

    `path` is the name to look up (dots lead into parts), or for a result its part's number counted from 1, empty
    for the whole.
    """

    source: str
    path: str = ""


def from_context(name: str) -> Any:
    """A placeholder for the context's value `name`. Typed so that it fits any field."""
    return Placeholder("context", name)


def from_state(path: str) -> Any:
    """A placeholder for a part of the state, such as `life.port`."""
    return Placeholder("state", path)


def from_settings(name: str) -> Any:
    """A placeholder for a setting."""
    return Placeholder("settings", name)


def from_result(part: int | None = None) -> Any:
    """A placeholder, in a continuation, for an effect's result or its part number `part`, counted from 1."""
    return Placeholder("result", "" if part is None else str(part))


@dataclass(frozen=True)
class Outcome:
    """What a handler gives: the state after, what to do outside, and which actions come next."""

    state: State
    effects: tuple[Effect, ...] = ()
    follow_ups: tuple[Action, ...] = ()


Handler = Callable[[State, Any, Context], Outcome]
Performer = Callable[[Any], None]
T = TypeVar("T")
_NO_RESULT = object()


class Core:
    """Owns the state for the life of one server. Not reentrant from other threads: call it on the event loop."""

    def __init__(
        self,
        *,
        state: State,
        settings: object,
        handlers: Mapping[str, Handler],
        performers: Mapping[str, Performer],
    ) -> None:
        self._state = state
        self.settings = settings
        self._handlers = handlers
        self._performers = performers

    @property
    def state(self) -> State:
        """The state now."""
        return self._state

    def dispatch(self, context: Context, actions: Sequence[Action]) -> None:
        """Run `actions` in the order the module's docstring gives.

        Raises:
            UnroutableError: an action's or effect's namespace has no handler; the state is as before.
            UnresolvedError: a placeholder has no value; the state is as before.
        """
        state = self._state
        effects: list[Effect] = []
        follow_ups: list[Action] = []
        for unresolved in actions:
            action = self._resolve(unresolved, context, state)
            handler = self._handlers.get(action.namespace)
            if handler is None:
                raise UnroutableError("action", action.namespace)
            outcome = handler(state, action, context)
            state = outcome.state
            effects += [self._resolve(effect, context, state) for effect in outcome.effects]
            follow_ups += outcome.follow_ups
        performers = [self._performer(effect) for effect in effects]
        self._state = state
        if follow_ups:
            self.dispatch(context, follow_ups)
        for perform, effect in zip(performers, effects, strict=True):
            perform(effect)

    def resume(self, context: Context, effect: Effect, result: object) -> None:
        """Dispatch an effect's continuation, its result filled in."""
        if effect.then:
            filled = [self._resolve(action, context, self._state, result) for action in effect.then]
            self.dispatch(context, filled)

    def _performer(self, effect: Effect) -> Performer:
        performer = self._performers.get(effect.namespace)
        if performer is None:
            raise UnroutableError("effect", effect.namespace)
        return performer

    def _resolve(self, holder: T, context: Context, state: State, result: object = _NO_RESULT) -> T:
        """The action or effect with its placeholders replaced; itself when it has none."""
        changes: dict[str, object] = {}
        for name, value in vars(holder).items():
            if type(value) is Placeholder or (type(value) is tuple and value):
                # A continuation's own results come later, with `resume`.
                keep_result = name == "then" and isinstance(holder, Effect)
                resolved = self._value(value, context, state, result, keep_result=keep_result)
                if resolved is not value:
                    changes[name] = resolved
        return replace(holder, **changes) if changes else holder  # type: ignore[type-var]  # all are dataclasses

    def _value(self, value: object, context: Context, state: State, result: object, *, keep_result: bool) -> object:
        if type(value) is Placeholder:
            if value.source == "result" and keep_result:
                return value
            return self._lookup(value, context, state, result)
        if type(value) is tuple:
            parts = tuple(self._value(part, context, state, result, keep_result=keep_result) for part in value)
            return value if all(a is b for a, b in zip(parts, value, strict=True)) else parts
        if isinstance(value, Action) and keep_result:
            changes = {
                name: self._value(part, context, state, result, keep_result=True) for name, part in vars(value).items()
            }
            return replace(value, **changes)
        return value

    def _lookup(self, placeholder: Placeholder, context: Context, state: State, result: object) -> object:
        match placeholder.source:
            case "context":
                if placeholder.path not in context:
                    raise UnresolvedError(placeholder, f"the context has only {sorted(context)}")
                return context[placeholder.path]
            case "state":
                return _walk(placeholder, state)
            case "settings":
                return _walk(placeholder, self.settings)
            case "result" if result is not _NO_RESULT:
                return _part(placeholder, result)
        raise UnresolvedError(placeholder, "there is no such source here")


def _walk(placeholder: Placeholder, root: object) -> object:
    value = root
    for name in placeholder.path.split("."):
        if isinstance(value, Mapping) and name in value:
            value = value[name]
        elif hasattr(value, name):
            value = getattr(value, name)
        else:
            raise UnresolvedError(placeholder, f"nothing is called {name!r} there")
    return value


def _part(placeholder: Placeholder, result: object) -> object:
    if not placeholder.path:
        return result
    number = int(placeholder.path)
    if not isinstance(result, Sequence) or not 1 <= number <= len(result):
        raise UnresolvedError(placeholder, f"the result has no part number {number}")
    return result[number - 1]
