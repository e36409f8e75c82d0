"""Records: the frozen dataclasses of the core, made and changed several times as fast as the library does it.

The library sets each field of a frozen dataclass by a call of its own, and its `replace` calls the constructor with
every field. An evaluation makes some forty records with two hundred fields. Here the fields go into the record's
dictionary at once. To a type checker it is the library's own dataclass.
"""

from __future__ import annotations

import dataclasses
import inspect
from typing import TYPE_CHECKING, Any, TypeVar

T = TypeVar("T")

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass  # noqa: PLC0414  # said twice is what makes it ours to export
    from dataclasses import replace as replace  # noqa: PLC0414  # as above
else:

    def dataclass(cls: type | None = None, /, **options: bool) -> Any:
        """The class as a frozen dataclass; with `kw_only` as the library takes it. It has a dictionary, and no slots.

        One with `__post_init__`, or with a default that is made anew for each, is made as the library makes it.
        """
        if cls is None:
            return lambda decorated: dataclass(decorated, **options)
        made = dataclasses.dataclass(cls, **options)
        is_plain = not hasattr(made, "__post_init__") and "__dict__" in dir(made)
        if is_plain and all(one.default_factory is dataclasses.MISSING for one in dataclasses.fields(made)):
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
    """A constructor with the signature that the library gave to this dataclass."""
    known = kind.__init__
    given = inspect.signature(known).parameters.values()
    words = [one.name for one in given if one.kind is not one.KEYWORD_ONLY]
    named = [one.name for one in given if one.kind is one.KEYWORD_ONLY]
    head = ", ".join([*words, "*", *named] if named else words)
    body = [f"values[{one.name!r}] = {one.name}" for one in dataclasses.fields(kind)]
    scope: dict[str, Any] = {}
    exec("\n    ".join([f"def __init__({head}):", "values = self.__dict__", *body]), scope)  # noqa: S102  # as `dataclasses` does
    made = scope["__init__"]
    made.__defaults__, made.__kwdefaults__ = known.__defaults__, known.__kwdefaults__
    made.__qualname__, made.__module__ = known.__qualname__, kind.__module__
    made.__annotations__ = known.__annotations__
    return made
