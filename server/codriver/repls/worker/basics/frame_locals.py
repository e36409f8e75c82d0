"""Locals of the frames of an error, in a line each, without running code of the user's.

Only plain values are printed: numbers, texts, None, and short collections of these. Anything else is told by its type,
as its `repr` may be the user's. Names that look like those of secrets are left out. Nothing is kept: the values live as
long as the session's last error does.
"""

from __future__ import annotations

import collections
import itertools
import re

from .error_report import LINKS, is_library, is_worker, linked
from .previews import title_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Callable

FRAMES = 20
"""Frames of each error whose locals are told."""
NAMES = 20
"""Locals of a frame that are told: its arguments come first."""
PARTS = 10
"""Elements of the longest collection that is printed."""
LEVELS = 2
AT_ONCE, AT_ONCE_CHARACTERS = 3, 60
"""Locals that are told with an error, before anybody asks, and the longest that one of them may be."""
BITS = 400
"""Of the longest whole number that is printed."""
SECRET = re.compile(
    r"pass(wor[dt]|wd|phrase|code)|secret|token|credential|api_?key|private_?key|access_?key|auth(?!or)|cookie|session_?id"
    r"|(^|_)(pwd|pin|pw)$|_key$",
    re.IGNORECASE,
)
"""Names, of variables and of keys, whose values are nobody's business."""
COUNTED = (collections.deque, collections.OrderedDict, collections.defaultdict, collections.Counter, bytearray, range)
BRACKETS: dict[type, tuple[str, str]] = {
    list: ("[", "]"),
    tuple: ("(", ")"),
    dict: ("{", "}"),
    set: ("{", "}"),
    frozenset: ("frozenset({", "})"),
}


class PlainPrinter:
    """Prints plain values of one language; `atoms`: by class how one is printed, `brackets`: those around a collection.

    Both are looked up by the class itself, never by one that it derives from, which may have been changed.
    """

    def __init__(
        self,
        atoms: dict[type, Callable[[Any], str]],
        brackets: dict[type, tuple[str, str]],
        between: tuple[str, str] = (", ", ": "),
    ) -> None:
        self._atoms, self._brackets, self._between = atoms, brackets, between

    def text(self, value: Any, most: int, level: int = 0) -> str:
        """A value in one line, of at most `most` characters; a text within a collection is shown whole or not at all.

        The half of a secret would not be known for one.
        """
        kind = type(value)
        if kind is int and value.bit_length() > BITS:
            return f"int of {value.bit_length()} bits"
        if kind in (str, bytes) and len(value) > most:
            return f"{name_of(kind)} of {len(value)}" if level else self._atoms[kind](value[:most])[:most]
        if kind in self._atoms:
            return self._atoms[kind](value)
        if kind in self._brackets:
            try:
                return self._collection(value, kind, most, level)
            except RuntimeError:  # another thread changed it meanwhile
                return f"{name_of(kind)} of {len(value)}"
        if kind in COUNTED:
            return f"{name_of(kind)} of {len(value)}"
        return title_of(value) or f"<{name_of(kind)}>"

    def whole(self, value: Any, most: int) -> str:
        """A value in one line if it is plain through and through, and no longer than `most`; else nothing."""
        try:
            text = self.text(value, most + 1) if self._is_plain(value) else ""
        except RuntimeError:  # another thread changed it meanwhile
            return ""
        return text if len(text) <= most else ""

    def _is_plain(self, value: Any, level: int = 0) -> bool:
        kind = type(value)
        if kind in self._atoms or kind not in self._brackets:
            return kind in self._atoms
        if len(value) > PARTS or level >= LEVELS:
            return False
        parts = [*value.keys(), *value.values()] if hasattr(kind, "items") else value
        return all(self._is_plain(part, level + 1) for part in parts)

    def _collection(self, value: Any, kind: type, most: int, level: int) -> str:
        if len(value) > PARTS or (level >= LEVELS and len(value)):
            return f"{name_of(kind)} of {len(value)}"
        before, after = self._brackets[kind]
        comma, colon = self._between
        if hasattr(kind, "items"):
            pairs = ((self.text(key, most, level + 1), key, part) for key, part in value.items())
            texts = [shown + colon + self._of_key(key, part, most, level) for shown, key, part in pairs]
        else:
            texts = [self.text(part, most, level + 1) for part in value]
        if kind is tuple and len(texts) == 1:
            after = ",)"
        text = before + comma.join(texts) + after
        return text if len(text) <= most else f"{name_of(kind)} of {len(value)}"

    def _of_key(self, key: Any, part: Any, most: int, level: int) -> str:
        named = key if type(key) is str else self.text(key, most, level + 1)
        return "<not shown>" if SECRET.search(named) else self.text(part, most, level + 1)


PYTHON = PlainPrinter(dict.fromkeys((int, float, complex, bool, type(None), str, bytes), repr), BRACKETS)


def name_of(kind: type) -> str:
    """The name of a class, which a class of its own could make up."""
    name = type.__dict__["__qualname__"].__get__(kind)
    return name if type(name) is str else "object"


def locals_of(
    error: BaseException, most: int, printer: PlainPrinter, name: Callable[[str], str]
) -> list[dict[str, Any]]:
    """The locals of the user's frames, by frame, of an error or of one of its chain: its place is `error`, 0 the first.

    A frame is told as it is in the report; where calls repeat, the innermost stands for all. `name` gives a variable's
    name as the source has it, or nothing for one that is not the user's.
    """
    told: list[dict[str, Any]] = []
    errors = itertools.chain([error], (other for _, other in itertools.islice(linked(error), LINKS)))
    for place, one in enumerate(errors):
        shown: dict[str, dict[str, str]] = {}
        for text, values in _frames(one):
            if text not in shown and len(shown) < FRAMES:
                shown[text] = dict(itertools.islice(_locals(values, most, printer, name), NAMES))
        told += [{"error": place, "frame": text, "locals": found} for text, found in shown.items() if found]
    return told


def plain_locals_of(error: BaseException, printer: PlainPrinter, name: Callable[[str], str]) -> list[str]:
    """The first few plain locals of the innermost frame of the user's code, each whole, as `name=value`."""
    for _, values in _frames(error)[:1]:
        named = ((shown, key) for key in list(values) if (shown := name(key)) and not SECRET.search(shown))
        told = (f"{shown}={text}" for shown, key in named if (text := printer.whole(values[key], AT_ONCE_CHARACTERS)))
        return list(itertools.islice(told, AT_ONCE))
    return []


def _frames(error: BaseException) -> list[tuple[str, dict[str, Any]]]:
    """The frames of the user's own functions, innermost first, each in a line and with its values."""
    found: list[tuple[str, dict[str, Any]]] = []
    trace = error.__traceback__
    while trace is not None:
        frame = trace.tb_frame
        file = frame.f_code.co_filename
        if not is_worker(file) and not is_library(file) and frame.f_locals is not frame.f_globals:
            found.append((f"{frame.f_code.co_name} ({file}:{trace.tb_lineno})", frame.f_locals))
        trace = trace.tb_next
    return found[::-1]


def _locals(
    values: dict[str, Any], most: int, printer: PlainPrinter, name: Callable[[str], str]
) -> Iterator[tuple[str, str]]:
    for key in list(values):
        shown = name(key)
        if shown and not SECRET.search(shown):
            yield shown, printer.text(values[key], most)
