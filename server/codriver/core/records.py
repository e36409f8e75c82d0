"""Frozen dataclasses that are much faster to create and replace than the standard library's.

The standard library sets each field of a frozen dataclass through a call that looks it up by name, and its `replace`
passes every field to the constructor. One evaluation creates about sixty records, with a total of three hundred fields.
This module writes all fields into the record's dictionary in one step, or each into its slot. Type checkers see an
ordinary dataclass.

A field of type `ValueReference[int]` contains an int, or a reference to the source of the int: the *context* of the
dispatch (the time, the client), the *settings*, the *state*, or the *result* of the effect that an action follows.
References in an action are resolved before its handler runs, and those in an effect from the state that its handler
returned. A reference that cannot be resolved is an error. Only fields whose default is a `ValueReference` are
inspected. All other fields are plain data, so nothing that a client sends is ever treated as a reference.
"""

from __future__ import annotations

import dataclasses
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")

if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import dataclass as dataclass  # noqa: PLC0414  # the redundant alias marks a re-export
    from dataclasses import replace as replace  # noqa: PLC0414  # as above
else:

    def dataclass(cls: type | None = None, /, **options: bool) -> Any:
        """Return the class as a dataclass. `kw_only`, `slots` and `eq` work as in the standard library.

        A class that is not frozen, or that has a `__post_init__`, is left to the standard library.
        """
        if cls is None:
            return lambda decorated: dataclass(decorated, **options)
        if not options.get("frozen") or hasattr(cls, "__post_init__"):
            return dataclasses.dataclass(cls, **options)
        made = dataclasses.dataclass(cls, init=False, **options)
        made.__init__ = _initializer(made, has_slots=options.get("slots", False))
        return made

    def replace(record: T, /, **changes: object) -> T:
        """Return a copy of a record with other values in the named fields.

        The record must not have slots.
        """
        changed = object.__new__(type(record))
        values = changed.__dict__
        values |= record.__dict__
        values |= changes
        return changed


class _Factory:
    """A placeholder in signatures for default values that are created for each record.

    Source: `dataclasses`.
    """

    def __repr__(self) -> str:
        return "<factory>"


FACTORY_PLACEHOLDER = _Factory()
"""Placeholder, in generated signatures, for a default value that a function creates."""


def _initializer(kind: Any, *, has_slots: bool) -> Any:
    """Create a constructor with the signature that the standard library would generate for a dataclass."""
    fields = dataclasses.fields(kind)
    names = [field.name for field in fields]
    factories = {
        field.name: field.default_factory for field in fields if field.default_factory is not dataclasses.MISSING
    }
    defaults = {field.name: field.default for field in fields if field.default is not dataclasses.MISSING}
    defaults |= dict.fromkeys(factories, FACTORY_PLACEHOLDER)
    scope: dict[str, Any] = {f"default_{name}": default for name, default in defaults.items()}
    scope |= {f"make_{name}": make for name, make in factories.items()} | {"FACTORY": FACTORY_PLACEHOLDER}
    words = {name: f"{name}=default_{name}" if name in defaults else name for name in names}
    given = [words[field.name] for field in fields if not field.kw_only]
    named = [words[field.name] for field in fields if field.kw_only]
    values = {name: f"make_{name}() if {name} is FACTORY else {name}" if name in factories else name for name in names}
    if has_slots:
        scope |= {f"set_{name}": getattr(kind, name).__set__ for name in names}
        body = [f"set_{name}(self, {value})" for name, value in values.items()]
    else:
        body = ["values = self.__dict__", *[f"values[{name!r}] = {value}" for name, value in values.items()]]
    head = ", ".join(["self", *given, *(["*", *named] if named else [])])
    exec("\n    ".join([f"def __init__({head}):", *(body or ["pass"])]), scope)  # noqa: S102  # as `dataclasses` does
    made: Any = scope["__init__"]
    made.__qualname__, made.__module__ = f"{kind.__qualname__}.__init__", kind.__module__
    made.__annotations__ = {field.name: field.type for field in fields} | {"return": None}
    return made


def _without_placeholder(value: object) -> object:
    return value


@dataclasses.dataclass(frozen=True)
class ValueReference(Generic[T]):
    """A reference to a value that is not known yet. `get` reads the value from its source.

    `name` identifies the value in messages.
    """

    source: Literal["context", "settings", "state", "result"]
    name: str
    get: Callable[[Any], Any] = dataclasses.field(default=_without_placeholder, compare=False, repr=False)

    if TYPE_CHECKING:
        # Type checkers see a field that accepts both and returns the value, as `fill` runs before anyone reads it.
        def __get__(self, holder: object, owner: type) -> T: ...
        def __set__(self, holder: object, value: T | ValueReference[T]) -> None: ...


def from_context(name: str) -> ValueReference[Any]:
    """Return a reference to the value `name` in the context of the dispatch."""
    return ValueReference("context", name, itemgetter(name))


def from_settings(name: str) -> ValueReference[Any]:
    """Return a reference to the setting `name`."""
    return ValueReference("settings", name, attrgetter(name))


def from_state(path: str) -> ValueReference[Any]:
    """Return a reference to a part of the state, given by its dotted path, such as `lifecycle.port`."""
    return ValueReference("state", path, attrgetter(path))


def from_result(part: int | None = None) -> ValueReference[Any]:
    """Return a reference to the result of an effect, or to its part with the number `part`, counted from 1."""
    return (
        ValueReference("result", "all") if part is None else ValueReference("result", str(part), itemgetter(part - 1))
    )


class Recent(dict[K, V]):
    """A dictionary with a maximum number of entries.

    Setting an entry makes it the newest, and removes the oldest one if there are too many.
    """

    __slots__ = ("_most",)

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: K, value: V) -> None:
        """Set an entry, make it the newest, and drop the oldest if there are too many."""
        self.pop(key, None)
        super().__setitem__(key, value)
        if len(self) > self._most:
            del self[next(iter(self))]

    def setdefault(self, key: K, default: V) -> V:
        """Return the value of an entry without making it the newest. If there is no such entry, add `default`."""
        if key not in self:
            self[key] = default
        return self[key]
