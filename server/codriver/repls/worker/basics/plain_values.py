"""A printer of plain values in short texts, without running user code.

Numbers, strings, None, members of enumerations, dates and other small values of the standard library, and short
collections of these are printed. Other values are described by their type, because their `repr` may be user code.
"""

from __future__ import annotations

import collections
import enum
import re
import sys

from .previews import title_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


PARTS = 10
"""Maximum number of elements of a collection that is printed."""
LEVELS = 2
"""Maximum nesting of a collection that is printed."""
BITS = 400
"""Maximum number of bits of an integer that is printed."""
SECRET = re.compile(
    r"pass(wor[dt]|wd|phrase|code)|secret|token|credential|api_?key|private_?key|access_?key|auth(?!or)|cookie|session_?id"
    r"|(^|_)(pwd|pin|pw)$|_key$",
    re.IGNORECASE,
)
"""Matches names of variables and keys whose values may be secret."""
COUNTED = (collections.deque, collections.OrderedDict, collections.defaultdict, collections.Counter, bytearray, range)
"""Classes whose instances are described by their size."""
LIBRARY_VALUES = {
    "datetime": ("date", "datetime", "time", "timedelta", "timezone"),
    "decimal": ("Decimal",),
    "fractions": ("Fraction",),
    "uuid": ("UUID",),
    "pathlib": ("PosixPath", "PurePosixPath", "WindowsPath", "PureWindowsPath"),
}
"""Classes by module whose `repr` is code of the standard library and prints nothing but plain values."""
BRACKETS: dict[type, tuple[str, str]] = {
    list: ("[", "]"),
    tuple: ("(", ")"),
    dict: ("{", "}"),
    set: ("{", "}"),
    frozenset: ("frozenset({", "})"),
}


class PlainPrinter:
    """A printer of plain values in one language.

    `atoms` maps classes to functions that print their instances, and `brackets` maps collections to their brackets.
    Only the exact class counts, because a subclass may print differently.
    """

    def __init__(
        self,
        atoms: dict[type, Callable[[Any], str]],
        brackets: dict[type, tuple[str, str]],
        between: tuple[str, str] = (", ", ": "),
    ) -> None:
        self._atoms, self._brackets, self._between = atoms, brackets, between

    def text(self, value: Any, most: int, level: int = 0) -> str:
        """Print a value in one line of at most `most` characters.

        A string in a collection is printed completely or not at all, because half of a secret could not be recognized.
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
            except RuntimeError:  # another thread has changed it
                return f"{name_of(kind)} of {len(value)}"
        if kind in COUNTED:
            return f"{name_of(kind)} of {len(value)}"
        return title_of(value) or _library_text(value, most) or f"<{name_of(kind)}>"

    def whole(self, value: Any, most: int) -> str:
        """Print a value in one line if all of it is plain and at most `most` characters long, or return ""."""
        try:
            text = self.text(value, most + 1) if self._is_plain(value) else ""
        except RuntimeError:  # another thread has changed it
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


def _library_text(value: Any, most: int) -> str:
    """Return the text of a member of an enumeration or of a value of the standard library, or an empty string."""
    kind = type(value)
    if type(kind) is enum.EnumMeta:
        name = object.__getattribute__(value, "__dict__").get("_name_")
        return f"{name_of(kind)}.{name}" if type(name) is str else ""
    name = name_of(kind)
    module = next((module for module, names in LIBRARY_VALUES.items() if name in names), "")
    if not module or sys.modules.get(module) is None or vars(sys.modules[module]).get(name) is not kind:
        return ""
    # The class of a time zone may belong to the user.
    zone = getattr(value, "tzinfo", None)
    if zone is not None and type(zone) is not vars(sys.modules["datetime"]).get("timezone"):
        return ""
    text = repr(value)
    return text if len(text) <= most else ""


def name_of(kind: type) -> str:
    """Return the name of a class without calling its metaclass."""
    name = type.__dict__["__qualname__"].__get__(kind)
    return name if type(name) is str else "object"
