"""Print values with limits on length and depth, and remember which parts were omitted."""

from __future__ import annotations

import array
import collections
import itertools
import json
import sys
import types

from .displays import pretty_printed_text
from .previews import preview_value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, Callable

    Step = object

    Path = tuple[object, ...]


MAX_NESTED_CHARACTERS = 1000
"""Maximum length of a string inside a collection. Other strings are never truncated."""
BRACKETS: dict[type, tuple[str, str]] = {
    list: ("[", "]"),
    tuple: ("(", ")"),
    set: ("{", "}"),
    frozenset: ("frozenset({", "})"),
    collections.deque: ("deque([", "])"),
    dict: ("{", "}"),
    types.MappingProxyType: ("mappingproxy({", "})"),
    collections.OrderedDict: ("OrderedDict({", "})") if sys.version_info >= (3, 12) else ("OrderedDict([", "])"),
    collections.Counter: ("Counter({", "})"),
    type({}.keys()): ("dict_keys([", "])"),
    type({}.values()): ("dict_values([", "])"),
    type({}.items()): ("dict_items([", "])"),
}
INDEXED_TYPES = (list, tuple, collections.deque, collections.UserList, array.array)
"""Collections whose elements are addressed by position."""
MAPPING_TYPES = (dict, types.MappingProxyType)
ATOM_TYPES = frozenset({int, str, float, bool, bytes, complex, type(None), type, types.FunctionType, types.ModuleType})
"""Types whose instances have no parts."""


class Shape:
    """The parts of a collection or record, each with its step in a path, and the text around the parts."""

    def __init__(
        self, before: str, after: str, count: int | None, parts: Callable[[], Iterable[tuple[Step, Any]]], *, keys: str
    ) -> None:
        self.before, self.after, self.count, self.parts = before, after, count, parts
        self.keys = keys
        """The text between a step and its part: `: `, `=`, `, ` in pairs, or "" if steps are positions."""


class OmittedParts:
    """The parts that were omitted from a printed value."""

    def __init__(self) -> None:
        self._first = ""
        self._path: Path = ()
        self._count = 0

    def add(self, words: str, path: Path) -> None:
        """Record an omission. Only the outermost one is described in detail.

        `words` describe the omission, and `path` is its position in the value.
        """
        if not self._count or len(path) < len(self._path):
            self._first, self._path = words, path
        self._count += 1

    def describe(self) -> str:
        """Describe the omissions, or return "" if there are none."""
        if not self._count:
            return ""
        where = " at " + json.dumps(self._path, ensure_ascii=False) if self._path else ""
        more = f", and in {self._count - 1} more places" if self._count > 2 else ""
        return self._first + where + (more or (", and in 1 more place" if self._count == 2 else ""))


class Printer:
    """Prints Python values like `repr`, with at most `length` elements and `depth` levels. None means no limit.

    `requested` is the length that a caller requested. Without it, libraries shorten their tables and arrays themselves.
    """

    def __init__(self, length: int | None, depth: int | None, requested: int | None = None) -> None:
        self._length, self._depth, self._requested = length, depth, requested
        self.cuts = OmittedParts()

    def print_from(self, value: Any, start: int = 0, before: Path = ()) -> str:
        """Print a value, starting at the element `start`. `before` is its path for descriptions of omissions."""
        if self._length is None and self._depth is None and not start:
            return value_text(value)
        if isinstance(value, (str, bytes)) and not start:
            return repr(value)
        return self._text(value, before, (), start)

    def _text(self, value: Any, path: Path, around: tuple[int, ...], start: int = 0) -> str:
        shape = standard_shape(value)
        if shape is None:
            return self._plain(value, path, start)
        if id(value) in around:
            return shape.before + "..." + shape.after
        if self._depth is not None and len(around) >= self._depth and shape.count != 0:
            self.cuts.add(f"levels below {self._depth}", path)
            # Python itself only marks cycles with dots between the brackets.
            return f"<{type(value).__name__} of {shape.count}>"
        return self._collection(value, shape, path, (*around, id(value)), start)

    def _collection(self, value: Any, shape: Shape, path: Path, around: tuple[int, ...], start: int) -> str:
        end = None if self._length is None or shape.keys == "=" else start + self._length
        parts = ["..."] if start else []
        count = start
        for step, part in itertools.islice(shape.parts(), start, end):
            key = "" if not shape.keys else step if shape.keys == "=" else self._text(step, path, around)
            text = f"{key}{shape.keys}" + self._text(part, (*path, json_step(step)), around)
            parts.append(f"({text})" if shape.keys == ", " else text)
            count += 1
        if shape.count is not None and shape.count > count:
            self.cuts.add(f"{shape.count - count + start} of {shape.count} elements", path)
            parts.append("...")
        elif isinstance(value, tuple) and len(parts) == 1 and not shape.keys:
            parts[0] += ","
        return shape.before + ", ".join(parts) + shape.after

    def _plain(self, value: Any, path: Path, start: int) -> str:
        if isinstance(value, (str, bytes)) and len(value) > MAX_NESTED_CHARACTERS and path:
            unit = "characters" if isinstance(value, str) else "bytes"
            left = len(value) - MAX_NESTED_CHARACTERS
            self.cuts.add(f"{left} of {len(value)} {unit}", path)
            return repr(value[:MAX_NESTED_CHARACTERS]) + f"... ({left} more {unit})"
        if start or self._length is not None:
            preview = preview_value(value, start, self._requested)
            if preview is not None:
                text, words = preview
                if words:
                    self.cuts.add(words, path)
                return text
        return value_text(value)


def value_text(value: Any) -> str:
    """Return the `repr` of a value.

    If its class does not define one, return its `str` or the text of its pretty printer.
    """
    kind: Any = type(value)
    if kind.__repr__ is object.__repr__ and kind.__str__ is not object.__str__:
        return str(value)
    return pretty_printed_text(value, repr(value), value_text)


def json_step(step: object) -> object:
    """Convert a step of a path to a JSON value. Integers and strings are unchanged. Other keys are printed."""
    return step if type(step) in (int, str) else repr(step)


def standard_shape(value: Any) -> Shape | None:
    """Return the parts of a value that Python prints in its standard way. Return None for any other value."""
    if type(value) in ATOM_TYPES:
        return None
    repr_method: Any = type(value).__repr__
    for kind, (before, after) in BRACKETS.items():
        if isinstance(value, kind) and repr_method is kind.__repr__:
            return _brackets(value, kind, before, after)
    if isinstance(value, collections.defaultdict) and repr_method is collections.defaultdict.__repr__:
        return _mapping(value, f"defaultdict({value.default_factory!r}, {{", "})")
    if isinstance(value, array.array) and repr_method is array.array.__repr__ and value.typecode != "u":
        return Shape(f"array({value.typecode!r}, [", "])", len(value), lambda: enumerate(value), keys="")
    if isinstance(value, (collections.UserDict, collections.UserList)) and repr_method in (
        collections.UserDict.__repr__,
        collections.UserList.__repr__,
    ):
        return standard_shape(value.data)
    names = _fields(value, repr_method)
    if names is None:
        return None
    title = type(value).__qualname__.rsplit(">.", 1)[-1]
    return Shape(title + "(", ")", len(names), lambda: ((name, getattr(value, name)) for name in names), keys="=")


NAMED_TYPES = (set, frozenset, collections.deque, collections.OrderedDict, collections.Counter)
"""Types that print the name of a subclass, and omit the brackets if empty."""


def _brackets(value: Any, kind: type, before: str, after: str) -> Shape | None:
    """Return the parts of a collection that is printed in brackets, or None if it is printed without them.

    `before` and `after` are the brackets that `kind` uses.
    """
    if kind in NAMED_TYPES:
        if not value:
            return None
        if type(value) is not kind:
            before = before.replace(kind.__name__, type(value).__name__, 1)
            if kind is set:
                before, after = type(value).__name__ + "({", "})"
    if kind is collections.deque and value.maxlen is not None:
        after = f"], maxlen={value.maxlen})"
    if not isinstance(value, MAPPING_TYPES):
        return Shape(before, after, len(value), lambda: enumerate(value), keys="")
    if kind is collections.Counter:
        # The most common elements come first, but sorting very many takes too long.
        counter: Any = value
        most = counter.most_common() if len(value) <= 10_000 else counter.items()
        return Shape(before, after, len(value), lambda: iter(most), keys=": ")
    return _mapping(value, before, after, ", " if "([" in before else ": ")


def _mapping(value: Any, before: str, after: str, keys: str = ": ") -> Shape:
    return Shape(before, after, len(value), lambda: iter(value.items()), keys=keys)


def _fields(value: Any, repr_method: Any) -> list[str] | None:
    """Return the names of the printed fields of a dataclass, an attrs class or a named tuple.

    Returns None for other classes.
    """
    inner = getattr(repr_method, "__wrapped__", repr_method)
    code = getattr(inner, "__code__", None)
    made_in = getattr(code, "co_filename", "")
    if isinstance(value, type):
        return None
    if "__create_fn__" in getattr(inner, "__qualname__", "") and hasattr(value, "__dataclass_fields__"):
        return [
            field.name for field in value.__dataclass_fields__.values() if field.repr and hasattr(value, field.name)
        ]
    if made_in.startswith("<attrs generated") and hasattr(value, "__attrs_attrs__"):
        return [attr.name for attr in value.__attrs_attrs__ if attr.repr is True and hasattr(value, attr.name)]
    if isinstance(value, tuple) and hasattr(value, "_fields") and made_in == _COLLECTIONS_FILE:
        return list(value._fields)
    return None


_COLLECTIONS_FILE = collections.UserDict.__repr__.__code__.co_filename
"""The file of the `collections` module, which defines the methods of named tuples."""
