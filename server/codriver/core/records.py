"""Records: the frozen dataclasses of the core, made and changed several times as fast as the library does it.

The library sets each field of a frozen dataclass by a call of its own, and its `replace` calls the constructor with
every field. An evaluation makes some forty records with two hundred fields. Here the fields go into the record's
dictionary at once. To a type checker it is the library's own dataclass.
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
        """The class as a frozen dataclass; with `kw_only` as the library takes it. It has a dictionary, and no slots.

        One with a default that is made anew for each is made as the library makes it.
        """
        if cls is None:
            return lambda decorated: dataclass(decorated, **options)
        inherited = getattr(cls, "__dataclass_fields__", {})
        given = [one for one in (*vars(cls).values(), *inherited.values()) if isinstance(one, dataclasses.Field)]
        if any(one.default_factory is not dataclasses.MISSING for one in given):
            return dataclasses.dataclass(cls, **options)
        made = dataclasses.dataclass(cls, init=False, **options)
        made.__init__ = _initializer(made)
        return made

    def replace(record: T, /, **changes: object) -> T:
        """The record with other values in the fields named; the given one is not changed."""
        changed = object.__new__(type(record))
        values = changed.__dict__
        values |= record.__dict__
        values |= changes
        return changed


def _initializer(kind: Any) -> Any:
    """A constructor with the signature that the library would give to this dataclass."""
    fields = dataclasses.fields(kind)
    scope = {f"default_{one.name}": one.default for one in fields if one.default is not dataclasses.MISSING}
    words = {
        one.name: f"{one.name}=default_{one.name}" if f"default_{one.name}" in scope else one.name for one in fields
    }
    given = [words[one.name] for one in fields if not one.kw_only]
    named = [words[one.name] for one in fields if one.kw_only]
    head = ", ".join(["self", *given, *(["*", *named] if named else [])])
    body = ["values = self.__dict__", *[f"values[{name!r}] = {name}" for name in words]]
    exec("\n    ".join([f"def __init__({head}):", *body]), scope)  # noqa: S102  # as `dataclasses` does
    made: Any = scope["__init__"]
    made.__qualname__, made.__module__ = f"{kind.__qualname__}.__init__", kind.__module__
    made.__annotations__ = {one.name: one.type for one in fields} | {"return": None}
    return made
