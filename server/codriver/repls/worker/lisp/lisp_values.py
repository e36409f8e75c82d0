"""Parts of Lisp's values: what printing cut, from an element on, and by a path. No lazy sequence is counted."""

from __future__ import annotations

import itertools

from ..basics.previews import GLIMPSED, LEVELS, TEXT_CHARACTERS, class_name
from ..basics.printing import Cuts, NoSuchPartError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any, Callable

ATOMS = (str, bytes, int, float, complex, type(None))
COUNTED = (list, tuple, dict, set, frozenset)
PLAIN = ("keyword", "symbol")
"""Modules of the Lisp whose classes print themselves in a word."""
AROUND = {"vector": ("[", "]"), "map": ("{", "}"), "set": ("#{", "}")}
"""By the module of the Lisp that a collection's class is from."""


def pairs_of(value: Any) -> Any:
    """An iterator over the steps to the parts of a collection, each with its part; None for what has none."""
    if isinstance(value, (*ATOMS, type)) or not hasattr(type(value), "__iter__"):
        return None
    if hasattr(value, "items"):
        return iter(value.items())
    # Whatever else can be gone through, but an iterator, which would be used up.
    return None if hasattr(type(value), "__next__") else enumerate(value)


ESCAPES = str.maketrans({'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f", "\b": "\\b"})


def print_string(text: str, *, human_readable: bool = False, print_readably: bool = True, **_settings: object) -> str:
    """A string as Clojure prints it. Basilisp's own way escapes every character beyond ASCII as Python would."""
    if human_readable or not print_readably:
        return text
    return '"' + text.translate(ESCAPES) + '"'


class LispValues:
    """The parts of values of one Lisp. `counted`: its classes that know their length; `show` prints a key."""

    def __init__(self, counted: Any, vector: Callable[[list[Any]], Any], show: Callable[[Any], str]) -> None:
        self._counted = counted
        self._home = counted.__module__.rpartition(".")[0] + "."
        """How the names begin of the modules of the Lisp's own classes."""
        self._vector = vector
        self._show = show

    def _count(self, value: Any) -> int | None:
        # A sequence has a length too, and goes through all that it has to tell it.
        return len(value) if isinstance(value, (COUNTED, self._counted)) else None

    def cut(self, value: Any, length: int, depth: int | None, start: int, path: tuple[object, ...]) -> str:
        """The parts that printing left out, in words; the value was printed, so that all looked at here is realised."""
        cuts = Cuts()
        self._walk(value, path, (length, depth, 0), start, cuts)
        return cuts.words()

    def _walk(
        self, value: Any, place: tuple[object, ...], bounds: tuple[int, int | None, int], start: int, cuts: Cuts
    ) -> None:
        length, depth, level = bounds
        pairs = pairs_of(value)
        if pairs is None:
            return
        if depth is not None and level >= depth:
            cuts.add(f"levels below {depth}", place)
            return
        shown = list(itertools.islice(pairs, start, start + length + 1))
        if len(shown) > length:
            count = self._count(value)
            words = f"more than {start + length}" if count is None else f"{count - length} of {count} elements"
            cuts.add(words, place)
        for step, part in shown[:length]:
            way = (*place, step if type(step) in (int, str) else self._show(step))
            self._walk(part, way, (length, depth, level + 1), 0, cuts)

    def _own_module(self, value: Any) -> str:
        """The last part of the name of a value's module, if the module is the Lisp's own; else empty."""
        before, home, name = type(value).__module__.partition(self._home)
        return "" if before or not home else name

    def _is_core(self, value: Any) -> bool:
        """Whether a value is a collection of the Lisp's own that knows its length."""
        return isinstance(value, self._counted) and bool(self._own_module(value))

    def is_function(self, value: Any) -> bool:
        """Whether a value is there to be called: collections and keywords can be called too."""
        return callable(value) and not self._is_core(value) and self._own_module(value) not in PLAIN

    def glimpse(self, value: Any) -> dict[str, str]:
        """The class of a value, its count, and the value in one line. Nothing is asked of classes of the user."""
        found = {"class": class_name(type(value))}
        if self._is_core(value):
            found["count"] = str(len(value))
        text = self._in_line(value, LEVELS)
        return found if text == f"<{found['class']}>" else {**found, "value": text}

    def _in_line(self, value: Any, levels: int) -> str:
        kind = type(value)
        if kind in (str, bytes) and len(value) > TEXT_CHARACTERS:
            return f"<{kind.__name__} of {len(value)}>"
        if kind in (*ATOMS, bool) or self._own_module(value) in PLAIN:
            return self._show(value)
        if not levels or not self._is_core(value):
            return f"<{class_name(kind)}>"
        before, after = AROUND.get(self._own_module(value), ("(", ")"))
        if hasattr(value, "items"):
            pairs = itertools.islice(value.items(), GLIMPSED)
            parts = [f"{self._in_line(key, levels - 1)} {self._in_line(one, levels - 1)}" for key, one in pairs]
        else:
            parts = [self._in_line(one, levels - 1) for one in itertools.islice(value, GLIMPSED)]
        if len(value) > GLIMPSED:
            parts.append("...")
        return before + " ".join(parts) + after

    def slice(self, value: Any, start: int, length: int) -> Any:
        """A collection from its element `start` on, with one more than is to be shown; else the value itself."""
        pairs = pairs_of(value)
        if pairs is None:
            return value
        shown = itertools.islice(pairs, start, start + length + 1)
        if hasattr(value, "items"):
            return self._vector([self._vector(list(pair)) for pair in shown])
        return self._vector([part for _, part in shown])

    def part_at(self, value: Any, path: Iterable[object]) -> Any:
        """The part of a value at a path: places in sequences and sets, keys as they are printed or, of texts, as is.

        Raises:
            NoSuchPartError: there is none.
        """
        for step in path:
            found = list(itertools.islice(self._matching(value, step), 1))
            if not found:
                words = f"the step {step!r} of the path is not in the {type(value).__name__} there"
                raise NoSuchPartError(words)
            value = found[0]
        return value

    def _matching(self, value: Any, step: object) -> Iterator[Any]:
        pairs = pairs_of(value)
        if pairs is None:
            return
        if not hasattr(value, "items"):
            if type(step) is int and step >= 0:
                yield from (part for _, part in itertools.islice(pairs, step, step + 1))
            return
        for key, part in pairs:
            if key == step or (isinstance(step, str) and self._show(key) == step):
                yield part
