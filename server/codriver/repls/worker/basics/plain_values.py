"""Short texts of plain values, made without running code of the user's.

Numbers, texts, None, and short collections of these are printed. Any other value is described by its type, as its
`repr` may be the user's.
"""

from __future__ import annotations

import collections
import re

from .previews import title_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


PARTS = 10
"""Elements of the longest collection that is printed."""
LEVELS = 2
BITS = 400
"""The bits of the longest whole number that is printed."""
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
    """Prints plain values of one language; `atoms`: by class its printer, `brackets`: by class a collection's brackets.

    Both are looked up by the class itself, never by a base class, since a subclass may print in another way.
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

        Half of a secret would not be recognised.
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
        """A value in one line if all of it is plain and no longer than `most`; else nothing."""
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
            parts = [key_text + colon + self._of_key(key, part, most, level) for key_text, key, part in pairs]
        else:
            parts = [self.text(part, most, level + 1) for part in value]
        if kind is tuple and len(parts) == 1:
            after = ",)"
        text = before + comma.join(parts) + after
        return text if len(text) <= most else f"{name_of(kind)} of {len(value)}"

    def _of_key(self, key: Any, part: Any, most: int, level: int) -> str:
        named = key if type(key) is str else self.text(key, most, level + 1)
        return "<not shown>" if SECRET.search(named) else self.text(part, most, level + 1)


PYTHON = PlainPrinter(dict.fromkeys((int, float, complex, bool, type(None), str, bytes), repr), BRACKETS)


def name_of(kind: type) -> str:
    """The real name of a class, which a metaclass could make up."""
    name = type.__dict__["__qualname__"].__get__(kind)
    return name if type(name) is str else "object"
