"""Print plain values as short texts, without running user code.

Numbers, strings, None, enumeration members, dates and other small standard library values, and short collections of
these are printed, as are exceptions, dataclasses and named tuples that contain such values. Other values are described
by their type, because their `repr` may be user code.
"""

from __future__ import annotations

import collections
import enum
import itertools
import re
import sys
import types

from .previews import describe_shape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


MAX_PARTS = 10
"""Maximum size of a collection whose elements are printed. For a larger one, only the size is given."""
MAX_LEVELS = 2
"""Maximum nesting of collections whose elements are printed."""
MAX_INTEGER_BITS = 400
"""Maximum number of bits of an integer that is printed."""
SECRET_NAME_PATTERN = re.compile(
    r"pass(wor[dt]|wd|phrase|code)|secret|token|credential|api_?key|private_?key|access_?key|auth(?!or)|cookie|session_?id"
    r"|(^|_)(pwd|pin|pw)$|_key$",
    re.IGNORECASE,
)
"""Matches names of variables and keys whose values may be secret."""
COUNTED_TYPES = (
    collections.deque,
    collections.OrderedDict,
    collections.defaultdict,
    collections.Counter,
    bytearray,
    range,
)
"""Types whose instances are described by their size if they are too long."""
REPR_FACTORY_FILE_PATTERN = re.compile(r"\b(dataclasses|reprlib|collections[/\\]__init__)\.py$")
"""Matches the files that create the `__repr__` of dataclasses and named tuples."""
REGEX_TYPES = (type(re.compile("")), type(re.match("", "")))
MISSING = object()
LIBRARY_VALUE_CLASSES = {
    "datetime": ("date", "datetime", "time", "timedelta", "timezone"),
    "decimal": ("Decimal",),
    "fractions": ("Fraction",),
    "uuid": ("UUID",),
    "pathlib": ("PosixPath", "PurePosixPath", "WindowsPath", "PureWindowsPath"),
}
"""Classes, by module, whose `repr` is standard library code and prints nothing but plain values."""
BRACKETS: dict[type, tuple[str, str]] = {
    list: ("[", "]"),
    tuple: ("(", ")"),
    dict: ("{", "}"),
    set: ("{", "}"),
    frozenset: ("frozenset({", "})"),
}


class PlainPrinter:
    """A printer of plain values in the notation of one language.

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
        """Print a value in one line with at most `most` characters.

        A string in a collection is printed completely or not at all, because a part of a secret would not be recognized
        as secret.
        """
        kind = type(value)
        if kind is int and value.bit_length() > MAX_INTEGER_BITS:
            return f"int of {value.bit_length()} bits"
        if kind in (str, bytes) and len(value) > most:
            return f"{class_name(kind)} of {len(value)}" if level else self._atoms[kind](value[:most])[:most]
        if kind in self._atoms:
            return self._atoms[kind](value)
        if kind in self._brackets:
            try:
                return self._collection(value, kind, most, level)
            except RuntimeError:  # another thread has changed it
                return f"{class_name(kind)} of {len(value)}"
        if named := self._with_parts(value, most, level):
            return named
        text = describe_shape(value) or _library_text(value, most)
        return text or (f"{class_name(kind)} of {len(value)}" if kind in COUNTED_TYPES else f"<{class_name(kind)}>")

    def print_complete(self, value: Any, most: int) -> str:
        """Print a value in one line.

        Returns "" if a part of the value is not plain, or if the text has more than `most` characters.
        """
        try:
            text = self.text(value, most + 1) if self._is_plain(value) else ""
        except RuntimeError:  # another thread has changed it
            return ""
        return text if len(text) <= most else ""

    def _is_plain(self, value: Any, level: int = 0) -> bool:
        kind = type(value)
        if kind in self._atoms:
            return True
        if kind in self._brackets:
            parts = [*value.keys(), *value.values()] if hasattr(kind, "items") else value
        else:
            found = _find_parts(value)
            if found is None:
                return False
            parts = [part for _, part in found[1]]
        return len(parts) <= MAX_PARTS and level < MAX_LEVELS and all(self._is_plain(part, level + 1) for part in parts)

    def _collection(self, value: Any, kind: type, most: int, level: int) -> str:
        if len(value) > MAX_PARTS or (level >= MAX_LEVELS and len(value)):
            return f"{class_name(kind)} of {len(value)}"
        before, after = self._brackets[kind]
        comma, colon = self._between
        if hasattr(kind, "items"):
            pairs = ((self.text(key, most, level + 1), key, part) for key, part in value.items())
            parts = [key_text + colon + self._item_text(key, part, most, level) for key_text, key, part in pairs]
        else:
            parts = [self.text(part, most, level + 1) for part in value]
        if kind is tuple and len(parts) == 1:
            after = ",)"
        text = before + comma.join(parts) + after
        return text if len(text) <= most else f"{class_name(kind)} of {len(value)}"

    def _with_parts(self, value: Any, most: int, level: int) -> str:
        """Print an exception, dataclass or similar value with its parts. Return "" for any other value."""
        found = _find_parts(value)
        if found is None or level > MAX_LEVELS or len(found[1]) > MAX_PARTS:
            return ""
        before, parts, after = found
        words = [
            f"{name}={self._item_text(name, part, most, level)}" if name else self.text(part, most, level + 1)
            for name, part in parts
        ]
        text = before + ", ".join(words) + after
        return text if len(text) <= most else ""

    def _item_text(self, key: Any, part: Any, most: int, level: int) -> str:
        """Print the value of a key. Replace the value if the key's name suggests a secret."""
        named = key if type(key) is str else self.text(key, most, level + 1)
        return "<not shown>" if SECRET_NAME_PATTERN.search(named) else self.text(part, most, level + 1)


PYTHON_PRINTER = PlainPrinter(dict.fromkeys((int, float, complex, bool, type(None), str, bytes), repr), BRACKETS)
"""The printer of plain Python values."""


def _find_parts(value: Any) -> tuple[str, list[tuple[str, Any]], str] | None:
    """Return the parts of a value with their names, and the text before and after them.

    Returns None for values without known parts. No user code runs: a dataclass or named tuple counts only if the
    standard library created its `__repr__`.
    """
    kind = type(value)
    name = class_name(kind)
    if kind is collections.deque:
        return f"{name}([", [("", part) for part in itertools.islice(value, MAX_PARTS + 1)], "])"
    if kind in (collections.Counter, collections.OrderedDict):
        return f"{name}(", [("", dict(value))], ")"
    if kind is types.SimpleNamespace:
        return "namespace(", [*vars(value).items()], ")"
    if issubclass(kind, BaseException):
        arguments = BaseException.__dict__["args"].__get__(value)
        return f"{name}(", [("", part) for part in arguments], ")"
    represent = _class_attribute(kind, "__repr__")
    code = getattr(represent, "__code__", None) if type(represent) is types.FunctionType else None
    if code is None or REPR_FACTORY_FILE_PATTERN.search(code.co_filename) is None:
        return None
    if issubclass(kind, tuple) and type(names := _class_attribute(kind, "_fields")) is tuple:
        return f"{name}(", list(zip(names, tuple.__iter__(value))), ")"
    fields = _class_attribute(kind, "__dataclass_fields__")
    if type(fields) is not dict:
        return None
    field_type = getattr(sys.modules.get("dataclasses"), "Field", None)
    displayed = [key for key, field in fields.items() if type(field) is field_type and field.repr]
    found = [(key, _instance_attribute(value, key)) for key in displayed]
    return f"{name}(", [(key, part) for key, part in found if part is not MISSING], ")"


def _class_attribute(kind: type, name: str) -> Any:
    """Return an attribute that is stored in a class or its bases, or MISSING."""
    for item in type.__dict__["__mro__"].__get__(kind):
        space = type.__dict__["__dict__"].__get__(item)
        if name in space:
            return space[name]
    return MISSING


def _instance_attribute(value: Any, name: str) -> Any:
    """Return an attribute that is stored in an object's dictionary or slots, or MISSING."""
    found = _class_attribute(type(value), name)
    try:
        if type(found) is types.MemberDescriptorType:
            return found.__get__(value)
        space = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return MISSING
    return space.get(name, MISSING) if type(space) is dict else MISSING


def _library_text(value: Any, most: int) -> str:
    """Return the text of an enumeration member or a standard library value, or "" for any other value."""
    kind = type(value)
    if type(kind) is enum.EnumMeta:
        name = object.__getattribute__(value, "__dict__").get("_name_")
        return f"{class_name(kind)}.{name}" if type(name) is str else ""
    is_pattern = kind in REGEX_TYPES and type(value.pattern if kind is REGEX_TYPES[0] else value.string) in (str, bytes)
    if is_pattern or kind in (range, bytearray):
        text = repr(value) if is_pattern or len(value) <= most or kind is range else ""
        return text if len(text) <= most else ""
    name = class_name(kind)
    module = next((module for module, names in LIBRARY_VALUE_CLASSES.items() if name in names), "")
    if not module or sys.modules.get(module) is None or vars(sys.modules[module]).get(name) is not kind:
        return ""
    # The class of a time zone may be user code.
    zone = getattr(value, "tzinfo", None)
    if zone is not None and type(zone) is not vars(sys.modules["datetime"]).get("timezone"):
        return ""
    text = repr(value)
    return text if len(text) <= most else ""


def class_name(kind: type) -> str:
    """Return the name of a class without calling its metaclass."""
    name = type.__dict__["__qualname__"].__get__(kind)
    return name if type(name) is str else "object"
