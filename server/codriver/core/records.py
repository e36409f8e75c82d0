"""Records: frozen dataclasses that are created and replaced in a fraction of the time of the standard library's.

The library sets each field of a frozen dataclass by a call that looks it up by name, and its `replace` calls the
constructor with every field. An evaluation creates some sixty records with three hundred fields. This module writes the
fields into the record's dictionary in one step, or each into its slot. To a type checker it is the library's own
dataclass. `Recent` retains the newest entries and drops the oldest.

A field may refer to its value instead of holding it. A field of type `Later[int]` holds an int, or a `Later` with the
source of the int: the *context* of the dispatch (the time, the client), the *settings*, the *state*, or, in a
continuation, the *result* of the effect before it. The dispatch resolves it before an action's handler sees it, and in
an effect from the state that its handler returned. A value that cannot be resolved is an error. Only fields that
default to a `Later` are inspected. The value of any other field is data, and nothing that a client sends is ever
treated as a `Later`.
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
    from dataclasses import dataclass as dataclass  # noqa: PLC0414  # said twice is what makes it ours to export
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
        """Return the record, which has no slots, with other values in the named fields.

        The given record is not changed.
        """
        changed = object.__new__(type(record))
        values = changed.__dict__
        values |= record.__dict__
        values |= changes
        return changed


class _Factory:
    """A marker in a signature for a default that each record creates again. Source: `dataclasses`."""

    def __repr__(self) -> str:
        return "<factory>"


FACTORY = _Factory()


def _initializer(kind: Any, *, has_slots: bool) -> Any:
    """Return a constructor with the signature that the library would give to this dataclass."""
    fields = dataclasses.fields(kind)
    names = [one.name for one in fields]
    factories = {one.name: one.default_factory for one in fields if one.default_factory is not dataclasses.MISSING}
    defaults = {one.name: one.default for one in fields if one.default is not dataclasses.MISSING}
    defaults |= dict.fromkeys(factories, FACTORY)
    scope: dict[str, Any] = {f"default_{name}": default for name, default in defaults.items()}
    scope |= {f"make_{name}": make for name, make in factories.items()} | {"FACTORY": FACTORY}
    words = {name: f"{name}=default_{name}" if name in defaults else name for name in names}
    given = [words[one.name] for one in fields if not one.kw_only]
    named = [words[one.name] for one in fields if one.kw_only]
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
    made.__annotations__ = {one.name: one.type for one in fields} | {"return": None}
    return made


def _whole(value: object) -> object:
    return value


@dataclasses.dataclass(frozen=True)
class Later(Generic[T]):
    """A value of type T that is resolved before use: `get` reads it from its source. `name` is for people."""

    source: Literal["context", "settings", "state", "result"]
    name: str
    get: Callable[[Any], Any] = dataclasses.field(default=_whole, compare=False, repr=False)

    if TYPE_CHECKING:
        # To a type checker such a field takes both and gives the value: every reader comes after `fill`.
        def __get__(self, holder: object, owner: type) -> T: ...
        def __set__(self, holder: object, value: T | Later[T]) -> None: ...


def from_context(name: str) -> Later[Any]:
    """Return the context's value `name`."""
    return Later("context", name, itemgetter(name))


def from_settings(name: str) -> Later[Any]:
    """Return the setting `name`."""
    return Later("settings", name, attrgetter(name))


def from_state(path: str) -> Later[Any]:
    """Return a part of the state, such as `life.port`."""
    return Later("state", path, attrgetter(path))


def from_result(part: int | None = None) -> Later[Any]:
    """Return the effect's result, in a continuation, or its part number `part`, counted from 1."""
    return Later("result", "all") if part is None else Later("result", str(part), itemgetter(part - 1))


class Recent(dict[K, V]):
    """A mapping of the newest entries, up to a maximum. Setting an existing entry makes it the newest."""

    __slots__ = ("_most",)

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: K, value: V) -> None:
        """Set an entry as the newest, and drop the oldest if there is one too many."""
        self.pop(key, None)
        super().__setitem__(key, value)
        if len(self) > self._most:
            del self[next(iter(self))]

    def setdefault(self, key: K, default: V) -> V:
        """Return the value of an entry, which retains its age, or add this value as a new entry."""
        if key not in self:
            self[key] = default
        return self[key]
