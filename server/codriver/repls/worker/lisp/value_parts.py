"""Print Basilisp values and return their parts. Lazy sequences are never realized to count them."""

from __future__ import annotations

import itertools

from ..basics.previews import MAX_GLIMPSE_ELEMENTS, MAX_GLIMPSE_LEVELS, MAX_NESTED_CHARACTERS, qualified_class_name
from ..basics.printing import OmittedParts
from ..basics.value_paths import NoSuchPartError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any, Callable


ATOM_TYPES = (str, bytes, int, float, complex, type(None))
"""Python classes whose values are printed in full."""
COUNTED_TYPES = (list, tuple, dict, set, frozenset)
"""Python collection classes with a known length."""
WORD_MODULES = ("keyword", "symbol")
"""Basilisp modules whose values are printed as one word."""
BRACKETS_BY_MODULE = {"vector": ("[", "]"), "map": ("{", "}"), "set": ("#{", "}")}
"""The brackets of a collection, by the module of its class."""


def iterate_parts(value: Any) -> Any:
    """Return an iterator over the steps and parts of a collection. Return None for any other value."""
    if isinstance(value, (*ATOM_TYPES, type)) or not hasattr(type(value), "__iter__"):
        return None
    if hasattr(value, "items"):
        return iter(value.items())
    # Iterators are excluded, because iterating would consume them.
    return None if hasattr(type(value), "__next__") else enumerate(value)


STRING_ESCAPES = str.maketrans(
    {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f", "\b": "\\b"}
)


def print_string(text: str, *, human_readable: bool = False, print_readably: bool = True, **_settings: object) -> str:
    """Print a string like Clojure. Basilisp itself escapes all non-ASCII characters."""
    if human_readable or not print_readably:
        return text
    return '"' + text.translate(STRING_ESCAPES) + '"'


class LispValues:
    """Accesses and describes the parts of Lisp values.

    `counted` is the class of collections with a known length, `vector` creates a vector, and `show` prints a key.
    """

    def __init__(self, counted: Any, vector: Callable[[list[Any]], Any], show: Callable[[Any], str]) -> None:
        self._counted = counted
        self._home = counted.__module__.rpartition(".")[0] + "."
        """Name prefix of Basilisp's own modules."""
        self._vector = vector
        self._show = show

    def _count(self, value: Any) -> int | None:
        # A lazy sequence has a length too, but computing it would realize the sequence.
        return len(value) if isinstance(value, (COUNTED_TYPES, self._counted)) else None

    def cut(self, value: Any, length: int, depth: int | None, start: int, path: tuple[object, ...]) -> str:
        """Describe what was omitted from a printed value. All printed parts are already realized."""
        cuts = OmittedParts()
        self._walk(value, path, (length, depth, 0), start, cuts)
        return cuts.describe()

    def _walk(
        self, value: Any, path: tuple[object, ...], bounds: tuple[int, int | None, int], start: int, cuts: OmittedParts
    ) -> None:
        """Record in `cuts` what was omitted from a value and its parts."""
        length, depth, level = bounds
        pairs = iterate_parts(value)
        if pairs is None:
            return
        if depth is not None and level >= depth:
            cuts.add(f"levels below {depth}", path)
            return
        name = list(itertools.islice(pairs, start, start + length + 1))
        if len(name) > length:
            count = self._count(value)
            words = f"more than {start + length}" if count is None else f"{count - length} of {count} elements"
            cuts.add(words, path)
        for step, part in name[:length]:
            way = (*path, step if type(step) in (int, str) else self._show(step))
            self._walk(part, way, (length, depth, level + 1), 0, cuts)

    def _lisp_module(self, value: Any) -> str:
        """Return the last part of the name of a value's module. Return "" if the module is not Basilisp's."""
        before, home, name = type(value).__module__.partition(self._home)
        return "" if before or not home else name

    def _is_counted_collection(self, value: Any) -> bool:
        """Return whether a value is a Basilisp collection with a known length."""
        return isinstance(value, self._counted) and bool(self._lisp_module(value))

    def is_function(self, value: Any) -> bool:
        """Return whether a value is a function. Collections and keywords do not count, although they are callable."""
        return (
            callable(value) and not self._is_counted_collection(value) and self._lisp_module(value) not in WORD_MODULES
        )

    def describe_value(self, value: Any) -> dict[str, str]:
        """Describe a value by its class, its size, and its text in one line. No user code runs."""
        found = {"class": qualified_class_name(type(value))}
        if self._is_counted_collection(value):
            found["count"] = str(len(value))
        text = self._in_line(value, MAX_GLIMPSE_LEVELS)
        return found if text == f"<{found['class']}>" else {**found, "value": text}

    def _in_line(self, value: Any, levels: int) -> str:
        kind = type(value)
        if kind in (str, bytes) and len(value) > MAX_NESTED_CHARACTERS:
            return f"<{kind.__name__} of {len(value)}>"
        if kind in (*ATOM_TYPES, bool) or self._lisp_module(value) in WORD_MODULES:
            return self._show(value)
        if not levels or not self._is_counted_collection(value):
            return f"<{qualified_class_name(kind)}>"
        before, after = BRACKETS_BY_MODULE.get(self._lisp_module(value), ("(", ")"))
        if hasattr(value, "items"):
            pairs = itertools.islice(value.items(), MAX_GLIMPSE_ELEMENTS)
            parts = [f"{self._in_line(key, levels - 1)} {self._in_line(item, levels - 1)}" for key, item in pairs]
        else:
            parts = [self._in_line(item, levels - 1) for item in itertools.islice(value, MAX_GLIMPSE_ELEMENTS)]
        if len(value) > MAX_GLIMPSE_ELEMENTS:
            parts.append("...")
        return before + " ".join(parts) + after

    def slice_of_value(self, value: Any, start: int, length: int) -> Any:
        """Return `length + 1` elements of a collection, beginning at `start`. Return other values unchanged."""
        pairs = iterate_parts(value)
        if pairs is None:
            return value
        name = itertools.islice(pairs, start, start + length + 1)
        if hasattr(value, "items"):
            return self._vector([self._vector(list(pair)) for pair in name])
        return self._vector([part for _, part in name])

    def get_part(self, value: Any, path: Iterable[object]) -> Any:
        """Return the part of a value at a path of positions and keys. Keys may be in their printed form.

        Raises:
            NoSuchPartError: the path does not exist.
        """
        for step in path:
            found = list(itertools.islice(self._matching(value, step), 1))
            if not found:
                words = f"the {type(value).__name__} has no {step!r}, which is the next step of the path"
                raise NoSuchPartError(words)
            value = found[0]
        return value

    def _matching(self, value: Any, step: object) -> Iterator[Any]:
        """Yield the parts of a value at one step of a path."""
        pairs = iterate_parts(value)
        if pairs is None:
            return
        if not hasattr(value, "items"):
            if type(step) is int and step >= 0:
                yield from (part for _, part in itertools.islice(pairs, step, step + 1))
            return
        for key, part in pairs:
            if key == step or (isinstance(step, str) and self._show(key) == step):
                yield part
