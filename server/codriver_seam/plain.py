"""Text and parts of values by their exact types, on whatever thread they are: no code of the application is run for it.

Pure. No `repr`, property or comparison of the application's own classes is called, and no long collection is walked.
"""

from __future__ import annotations

import enum
import itertools
import re
import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

LONG, ITEMS, LEVELS, BITS = 200, 10, 3, 400
"""Shown at most: characters of a text, elements of a collection, levels, bits of a whole number."""
MANY = 100
"""Elements of the longest collection that is compared."""
SECRET = re.compile(
    r"pass(wor[dt]|wd|phrase|code)|secret|token|credential|api_?key|private_?key|access_?key|auth(?!or)|cookie|session_?id"
    r"|(^|_)(pwd|pin|pw)$|_key$",
    re.IGNORECASE,
)
"""Names, of variables, fields and keys, whose values are nobody's business."""
HIDDEN = "<not shown>"
ATOMS = (float, complex, bool, type(None), type(Ellipsis), range)
LIBRARY = ("datetime", "decimal", "uuid", "fractions", "pathlib")
"""Modules of the standard library whose values are printed, and compared, as they do it themselves."""
LISP = "basilisp.lang."
LISP_BRACKETS = {"map": "{}", "vector": "[]", "set": "#{}", "list": "()"}
"""By module of Basilisp, where that is used, what is around its collections."""
BRACKETS: Mapping[type, tuple[str, str]] = {
    list: ("[", "]"),
    tuple: ("(", ")"),
    set: ("{", "}"),
    frozenset: ("frozenset({", "})"),
}


class Told(str):
    """Text of a value, as a tag that is short enough already."""

    __slots__ = ()


class Plain:
    """Prints values in one line of about `most` characters in all; what is cut ends with `…`."""

    def __init__(self, most: int) -> None:
        self._left = most

    def named(self, values: Iterable[tuple[str, Any]]) -> str:
        """Variables, as `name=value` with commas between."""
        return ", ".join(self._pairs(values, "="))

    def text(self, value: Any, level: int = 0) -> str:
        """A value."""
        try:
            text = self._text(value, level)
        except Exception:  # noqa: BLE001  # another thread changed it, or its class is a strange one
            text = "<changing>"
        self._left -= len(text) if type(value) not in BRACKETS and not isinstance(value, dict) else 2
        return text

    def _text(self, value: Any, level: int) -> str:
        kind = type(value)
        if kind in (str, bytes):
            most = max(0, min(LONG, self._left))
            return repr(value if len(value) <= most else value[:most] + ("…" if kind is str else b"..."))
        if kind is int:
            return repr(value) if value.bit_length() <= BITS else f"<int of {value.bit_length()} bits>"
        if kind in ATOMS or kind.__module__ in LIBRARY:
            return repr(value)
        if isinstance(value, enum.Enum):
            return f"{kind.__name__}.{value._name_}"
        if isinstance(value, (dict, *BRACKETS)):
            return self._collection(value, kind, level)
        if kind.__module__.startswith(LISP):
            return self._lisp(value, kind, level)
        return self._record(value, kind, level)

    def _lisp(self, value: Any, kind: type, level: int) -> str:
        """A keyword, symbol or collection of Basilisp; a sequence that is computed as it is read is left alone."""
        name = kind.__module__[len(LISP) :]
        if name in ("keyword", "symbol"):
            return str(value)
        if name not in LISP_BRACKETS or level >= LEVELS:
            return f"<{kind.__name__}>"
        size, pairs = len(value), value.items() if name == "map" else ()
        texts = [self.text(key, LEVELS) + " " + self._of_key(key, part, level) for key, part in self._some(iter(pairs))]
        texts = texts or [self.text(part, level + 1) for part in self._some(iter(value))]
        brackets = LISP_BRACKETS[name]
        return brackets[:-1] + " ".join(texts) + (f" …+{size - len(texts)}" if size > len(texts) else "") + brackets[-1]

    def _of_key(self, key: Any, part: Any, level: int) -> str:
        name = getattr(key, "name", "") or str(key)
        return HIDDEN if SECRET.search(name.replace("-", "_")) else self.text(part, level + 1)

    def _collection(self, value: Any, kind: type, level: int) -> str:
        base: Any = next(one for one in (dict, *BRACKETS) if isinstance(value, one))
        size = base.__len__(value)
        if size and level >= LEVELS:
            return f"<{kind.__name__} of {size}>"
        name = "" if kind is base else kind.__name__
        if base is dict:
            return name + "{" + ", ".join(self._pairs(dict.items(value), ": ", level + 1, size)) + "}"
        fields = vars(kind).get("_fields") if base is tuple else None
        if fields:
            return name + "(" + ", ".join(self._pairs(zip(fields, tuple.__iter__(value)), "=", level + 1)) + ")"
        before, after = BRACKETS[base]
        if not size:
            return name + ("set()" if base is set else before + after)
        texts = [self.text(part, level + 1) for part in self._some(base.__iter__(value))]
        texts += [f"…+{size - len(texts)}"] if size > len(texts) else []
        return name + before + ", ".join(texts) + (",)" if base is tuple and size == 1 else after)

    def _record(self, value: Any, kind: type, level: int) -> str:
        if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType)):
            return f"<{kind.__name__} {getattr(value, '__name__', '?')}>"
        fields = {name: part for name, part in fields_of(value).items() if not name.startswith("_")}
        if not fields or level >= LEVELS or isinstance(value, BaseException):
            return f"<{kind.__name__}>" if not isinstance(value, BaseException) else self.raised(value)
        return f"{kind.__name__}({', '.join(self._pairs(fields.items(), '=', level + 1, len(fields)))})"

    def raised(self, error: BaseException) -> str:
        """An exception: its class and its arguments."""
        arguments = BaseException.__dict__["args"].__get__(error)
        return f"{type(error).__name__}({', '.join([self.text(one, 1) for one in self._some(iter(arguments))])})"

    def _some(self, parts: Iterator[Any]) -> Iterator[Any]:
        return (part for part in itertools.islice(parts, ITEMS) if self._left > 0)

    def _pairs(self, pairs: Iterable[tuple[Any, Any]], between: str, level: int = 0, size: int = 0) -> list[str]:
        """Pairs of a name or key and a value; keys of a mapping are printed."""
        texts = []
        for key, part in itertools.islice(pairs, ITEMS if size else None):
            if self._left <= 0:
                texts.append("…")
                break
            shown = self.text(key, LEVELS) if between == ": " else str(key)
            text = HIDDEN if type(key) is str and SECRET.search(key) else self.text(part, level)
            self._left -= len(shown) + 4
            texts.append(shown + between + text)
        return [*texts, f"…+{size - len(texts)}"] if size > len(texts) and texts[-1:] != ["…"] else texts


def fields_of(value: Any) -> dict[str, Any]:
    """The fields that an object holds itself, without running its properties."""
    found: dict[str, Any] = {}
    for kind in reversed(type(value).__mro__):
        for name, held in vars(kind).items():
            if type(held) is types.MemberDescriptorType:
                try:
                    found[name] = held.__get__(value)
                except AttributeError:  # it has no value yet
                    continue
    try:
        own = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return found
    return {**found, **own} if type(own) is dict else found


def comparable(value: Any) -> Any:
    """A value that can be compared without running the application's code: itself, an Enum's value, a plain base.

    Raises:
        TypeError: there is none.
    """
    if isinstance(value, enum.Enum):
        value = value._value_
    kind = type(value)
    if kind in (str, int, bytes, *ATOMS) or kind.__module__ in LIBRARY:
        return value
    if kind in (list, tuple, dict, set, frozenset):
        if len(value) > MANY:
            raise TypeError(f"a {kind.__name__} of {len(value)} is not compared")
        for part in [*value.values(), *value] if kind is dict else value:
            comparable(part)
        return value
    if kind.__module__ == LISP + "keyword":
        return value.name
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, (int, float)):
        return int.__int__(value) if isinstance(value, int) else float.__float__(value)
    raise TypeError(f"a {kind.__name__} is not compared")
