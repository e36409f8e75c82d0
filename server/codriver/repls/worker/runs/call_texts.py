"""Short texts of the arguments and results of calls, made while a program runs: quickly, and without running any of it.

Classes are compared by identity and read past their own attributes, as a class may have a class that answers for it.
"""

from __future__ import annotations

import os
import re
import types

from ..basics.frame_locals import BITS, SECRET, name_of
from ..basics.previews import title_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..basics.frame_locals import PlainPrinter

CHARACTERS = 80
"""Of the longest text."""
SMALL_CHARACTERS = 24
"""Of a text within a collection."""
KEPT_CHARACTERS = 60
"""Of a text that is longer, from its beginning."""
PARTS = 4
"""Elements of the longest collection that is told by its elements."""
LEVELS = 2
HIDDEN = "<not shown>"
BASES = (str, int, float, tuple, list, dict, set, frozenset, bytes)
"""Built-in classes whose values are told where a class derives from one."""
AROUND = {list: ("[", "]"), tuple: ("(", ")"), dict: ("{", "}"), set: ("{", "}"), frozenset: ("frozenset({", "})")}
ALL = slice(None)
PLAIN: dict[type, Callable[[Any], Any]] = {
    str: str.__str__, int: int.__int__, float: float.__float__, bytes: lambda value: bytes.__getitem__(value, ALL),
}  # fmt: skip
"""The value of the built-in class that one of a class derived from it is."""
SECRET_VARIABLE = re.compile(r"_(KEY|SECRET|TOKEN|PASSWORD)$")
"""Names of environment variables whose values the server takes out of all that it is told, where they are whole."""
LEAST_SECRET = 6

mro_of: Callable[[type], tuple[type, ...]] = type.__dict__["__mro__"].__get__
space_of: Callable[[type], Any] = type.__dict__["__dict__"].__get__


class CallTexts:
    """The texts of one recording: `short` of a value, and `error` of what was raised.

    `printer`: of a language whose values are no Python's.
    """

    def __init__(self, printer: PlainPrinter | None = None) -> None:
        self._printer = printer
        secrets = (value for name, value in os.environ.items() if SECRET_VARIABLE.search(name.upper()))
        self._secrets = [value for value in secrets if len(value) >= LEAST_SECRET]
        self._kinds: dict[int, tuple[type, type | None, Callable[[object], Any] | None, str]] = {}
        """By the id of a class: the class, the built-in one that it derives from, its instances' fields, its name."""
        self._is_secret: dict[str, bool] = {}

    def short(self, value: Any) -> str:
        """A short text of any value."""
        if self._printer is not None:
            return self._printed(value, self._printer)
        kind = type(value)
        if kind is int:
            return repr(value) if value.bit_length() < BITS else f"int of {value.bit_length()} bits"
        if kind is str or kind is bytes:
            return self._text(value, CHARACTERS, KEPT_CHARACTERS)
        if value is None or kind is bool or kind is float or kind is complex:
            return repr(value)
        try:
            if kind is list or kind is tuple or kind is dict or kind is set or kind is frozenset:
                return self._collection(value, kind, 0)
            return self._object(value, kind, 0)
        except RuntimeError:  # another thread changed it meanwhile
            return f"<{name_of(kind)}>"

    def _printed(self, value: Any, printer: PlainPrinter) -> str:
        """The text of a value as its language prints it."""
        if type(value) is str and len(value) > CHARACTERS:
            if any(one in value for one in self._secrets):
                return HIDDEN
            return f"{printer.text(value[:KEPT_CHARACTERS], CHARACTERS)}+{len(value) - KEPT_CHARACTERS}"
        return printer.text(value, CHARACTERS)

    def error(self, error: BaseException) -> str:
        """The class of an error with what it was made of."""
        arguments = BaseException.args.__get__(error)  # type: ignore[attr-defined]  # past a property of the same name
        shown = [self._within(one, 1) for one in arguments[:PARTS]] if type(arguments) is tuple else []
        return _bounded(f"{name_of(type(error))}({', '.join(shown)})")

    def is_secret(self, name: str) -> bool:
        """True where a name looks like that of a secret."""
        known = self._is_secret.get(name)
        if known is None:
            known = self._is_secret[name] = SECRET.search(name) is not None
        return known

    def _text(self, value: Any, most: int, kept: int) -> str:
        if len(value) <= most:
            return repr(value)
        # Half of a secret would not be known for what it is.
        if type(value) is str and any(one in value for one in self._secrets):
            return HIDDEN
        return f"{value[:kept]!r}+{len(value) - kept}"

    def _within(self, value: Any, level: int) -> str:
        """The text of a value within another."""
        kind = type(value)
        if kind is str or kind is bytes:
            return self._text(value, SMALL_CHARACTERS, SMALL_CHARACTERS // 2)
        if kind is list or kind is tuple or kind is dict or kind is set or kind is frozenset:
            return self._collection(value, kind, level)
        if value is None or kind is int or kind is bool or kind is float or kind is complex:
            return self.short(value)
        return self._object(value, kind, level)

    def _collection(self, value: Any, base: Any, level: int) -> str:
        """A collection of a built-in class, or of one that derives from it, by its elements or by their number."""
        size = base.__len__(value)
        if size > PARTS or (size and level >= LEVELS):
            return f"{name_of(base)} of {size}"
        if not size and base is not list and base is not tuple and base is not dict:
            return f"{name_of(base)}()"
        before, after = AROUND[base]
        if base is dict:
            pairs = dict.items(value)
            shown = ", ".join([f"{self._within(key, level + 1)}: {self._named(key, one, level)}" for key, one in pairs])
        else:
            shown = ", ".join([self._within(one, level + 1) for one in base.__iter__(value)])
        text = before + shown + ("," if base is tuple and size == 1 else "") + after
        return text if len(text) <= CHARACTERS else f"{name_of(base)} of {size}"

    def _named(self, name: object, value: object, level: int) -> str:
        return HIDDEN if type(name) is str and self.is_secret(name) else self._within(value, level + 1)

    def _object(self, value: Any, kind: type, level: int) -> str:
        """An instance by its class, and by the built-in value or the first fields that it holds."""
        _, base, fields, name = self._kinds.get(id(kind)) or self._look(kind)
        if base is not None:
            if base in PLAIN:
                return _bounded(f"{name}({self._within(PLAIN[base](value), level)})")
            text = self._collection(value, base, level + 1)
            return _bounded(f"{name}{text}" if text[0] == "(" else f"{name}({text})")
        found = fields(value) if fields is not None and level < LEVELS - 1 else None
        if type(found) is not dict or not found:
            return title_of(value) or f"<{name}>"
        names = [key for key in list(found)[: PARTS + 1] if type(key) is str]
        shown = [f"{key}={self._named(key, found.get(key), level)}" for key in names[:PARTS]]
        text = f"{name}({', '.join(shown)}{', …' if len(names) > PARTS else ''})"
        return text if len(text) <= CHARACTERS else f"<{name}>"

    def _look(self, kind: type) -> tuple[type, type | None, Callable[[object], Any] | None, str]:
        bases = mro_of(kind)
        base = next((one for one in BASES if any(one is other for other in bases)), None)
        fields: Callable[[object], Any] | None = None
        for one in bases:
            found = space_of(one).get("__dict__")
            if type(found) is types.GetSetDescriptorType:
                fields = found.__get__
                break
        # A module is told by its name, a class as one, a function by its own: their fields are code.
        if kind is types.ModuleType or kind is types.FunctionType or any(one is type for one in bases):
            fields = None
        known = self._kinds[id(kind)] = kind, base, fields, name_of(kind)
        return known


def _bounded(text: str) -> str:
    return text if len(text) <= 2 * CHARACTERS else text[: 2 * CHARACTERS] + "…"
