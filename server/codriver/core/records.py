"""Records: frozen dataclasses that are made and changed in a fraction of the time that the library takes.

The library sets each field of a frozen dataclass by a call that looks it up by its name, and its `replace` calls the
constructor with every field. An evaluation makes some sixty records with three hundred fields. Here the fields go into
the record's dictionary at once, or each into its slot. To a type checker it is the library's own dataclass.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, TypeVar

T = TypeVar("T")

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass  # noqa: PLC0414  # said twice is what makes it ours to export
    from dataclasses import replace as replace  # noqa: PLC0414  # as above
else:

    def dataclass(cls: type | None = None, /, **options: bool) -> Any:
        """The class as a dataclass; with `kw_only`, `slots` and `eq` as the library takes them.

        One that is not frozen, or does more when it is made (`__post_init__`), is made as the library makes it.
        """
        if cls is None:
            return lambda decorated: dataclass(decorated, **options)
        if not options.get("frozen") or hasattr(cls, "__post_init__"):
            return dataclasses.dataclass(cls, **options)
        made = dataclasses.dataclass(cls, init=False, **options)
        made.__init__ = _initializer(made, has_slots=options.get("slots", False))
        return made

    def replace(record: T, /, **changes: object) -> T:
        """The record, which has no slots, with other values in the fields named; the given one is not changed."""
        changed = object.__new__(type(record))
        values = changed.__dict__
        values |= record.__dict__
        values |= changes
        return changed


class _Factory:
    """Stands in a signature for a default that is made anew for each record. Source: `dataclasses`."""

    def __repr__(self) -> str:
        return "<factory>"


FACTORY = _Factory()


def _initializer(kind: Any, *, has_slots: bool) -> Any:
    """A constructor with the signature that the library would give to this dataclass."""
    fields = dataclasses.fields(kind)
    names = [one.name for one in fields]
    made_anew = {one.name: one.default_factory for one in fields if one.default_factory is not dataclasses.MISSING}
    defaults = {one.name: one.default for one in fields if one.default is not dataclasses.MISSING}
    defaults |= dict.fromkeys(made_anew, FACTORY)
    scope: dict[str, Any] = {f"default_{name}": default for name, default in defaults.items()}
    scope |= {f"make_{name}": make for name, make in made_anew.items()} | {"FACTORY": FACTORY}
    words = {name: f"{name}=default_{name}" if name in defaults else name for name in names}
    given = [words[one.name] for one in fields if not one.kw_only]
    named = [words[one.name] for one in fields if one.kw_only]
    values = {name: f"make_{name}() if {name} is FACTORY else {name}" if name in made_anew else name for name in names}
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
