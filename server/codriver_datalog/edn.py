"""Read, compare and print values in EDN, the data format in which queries are written.

Source: the EDN format (edn-format/edn), with `#"…"` from Clojure's reader. Tagged elements are refused, because queries
do not need them. Error messages state what was expected, what was found, and where.

A value is None, a boolean, a number, a string (keywords are strings), or an immutable collection: a tuple for vectors
and lists, a frozenset, or a `ValueMap`. All values are hashable, so that rows can be compared. They can be converted
from and to JSON.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cmp_to_key
from typing import Any, Literal

from codriver_datalog.errors import InvalidPatternError, QueryError
from codriver_datalog.regexes import Pattern, compile_pattern

MAX_TEXT_CHARACTERS = 64 * 2**10
"""Maximum length of an EDN text. Queries are written by hand or by a model, and are never this long."""
MAX_DEPTH = 64
"""Maximum nesting depth of the forms in an EDN text."""
MAX_NUMBER_DIGITS = 400
"""Maximum number of digits in a number in an EDN text."""

Tag = Literal[
    "nil",
    "boolean",
    "number",
    "string",
    "regex",
    "character",
    "keyword",
    "symbol",
    "list",
    "vector",
    "set",
    "map",
]


class Keyword(str):
    """An EDN keyword, including its colon.

    It equals the string with the same text, because JSON inputs have no keywords.
    """

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Form:
    """An EDN form and its position in the text, from offset `start` up to but not including `end`.

    `value` is the value of an atom, the text of a symbol or regex, or the tuple of forms in a collection. The forms in
    a map alternate between keys and values.
    """

    tag: Tag
    value: Any
    start: int
    end: int

    def is_symbol(self, name: str) -> bool:
        """Return whether this is the symbol `name`."""
        return self.tag == "symbol" and self.value == name

    @property
    def items(self) -> tuple[Form, ...]:
        """Return the forms in a collection."""
        items: tuple[Form, ...] = self.value
        return items


class Text:
    """A string that contains EDN forms. Creates errors that refer to positions in the string."""

    def __init__(self, text: str, part: str = "query") -> None:
        self.text = text
        self.part = part

    def error(self, reason: str, form: Form) -> QueryError:
        """Return an error about this form, with a `reason` such as "expected a vector"."""
        return self.error_at(reason, self.text[form.start : form.end], form.start)

    def error_at(self, reason: str, found: str, offset: int) -> QueryError:
        """Return an error about the text `found` at this offset."""
        line = self.text.count("\n", 0, offset) + 1
        column = offset - self.text.rfind("\n", 0, offset)
        return QueryError(reason, found, line=line, column=column, part=self.part)


def read_form(text: Text) -> Form:
    """Parse a string that contains exactly one form.

    Raises:
        QueryError: the text is not valid EDN, does not contain exactly one form, or exceeds a limit.
    """
    if len(text.text) > MAX_TEXT_CHARACTERS:
        raise text.error_at(f"expected at most {MAX_TEXT_CHARACTERS} characters of text", f"{len(text.text)}", 0)
    reader = _Reader(text)
    form = reader.next_form(0)
    if form is None:
        raise text.error_at("expected a form", "nothing", 0)
    more = reader.next_form(0)
    if more is not None:
        raise text.error("expected the end of the text after one form", more)
    return form


TOKEN_PATTERN = re.compile(
    r"""(?P<blank>[\s,]+|;[^\n]*)
      | (?P<open>\#\{|[(\[{])
      | (?P<close>[)\]}])
      | (?P<regex>\#"(?:[^"\\]|\\.)*")
      | (?P<string>"(?:[^"\\]|\\.)*")
      | (?P<discard>\#_)
      | (?P<character>\\(?:u[0-9a-fA-F]{4}|[a-z]+|.))
      | (?P<number>[+-]?[0-9][^\s,;"()\[\]{}]*)
      | (?P<special>\#\#(?:Inf|-Inf|NaN))
      | (?P<atom>[^\s,;"()\[\]{}\\\#][^\s,;"()\[\]{}\\]*)
    """,
    re.VERBOSE | re.DOTALL,
)
"""Matches one EDN token. The name of the matching group is the token's kind."""
CLOSERS_BY_OPENER = {"(": ")", "[": "]", "{": "}", "#{": "}"}
"""Closing brackets, by opening bracket."""
COLLECTION_KINDS: dict[str, Tag] = {"(": "list", "[": "vector", "{": "map", "#{": "set"}
"""Kinds of collections, by opening bracket."""
CONSTANTS_BY_NAME: dict[str, tuple[Tag, Any]] = {
    "nil": ("nil", None),
    "true": ("boolean", True),
    "false": ("boolean", False),
}
"""The tags and values of symbols that are constants."""
SPECIAL_NUMBERS = {"##Inf": float("inf"), "##-Inf": float("-inf"), "##NaN": float("nan")}
CHARACTERS_BY_NAME = {"newline": "\n", "space": " ", "tab": "\t", "return": "\r", "formfeed": "\f", "backspace": "\b"}
"""The characters that EDN can write by name, such as `\\newline`."""
ESCAPED_CHARACTERS = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "\\": "\\", '"': '"'}
"""The characters that escapes in a string represent, by the character after the backslash."""
INTEGER_PATTERN = re.compile(r"[+-]?[0-9]+N?")
DECIMAL_PATTERN = re.compile(r"[+-]?[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?M?")
CODE_POINT_PATTERN = re.compile(r"u[0-9a-fA-F]{4}")
ESCAPE_PATTERN = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)


class _Reader:
    """Parses the forms in a string one after another."""

    def __init__(self, text: Text) -> None:
        self._text = text
        self._offset = 0

    def next_form(self, depth: int, closer: str = "") -> Form | None:
        """Parse the next form. Return None at the end of the text, or before `closer`, the end of a collection."""
        while True:
            if self._offset >= len(self._text.text) and not closer:
                return None
            match = TOKEN_PATTERN.match(self._text.text, self._offset)
            if match is None:
                raise self._unreadable_error(closer)
            self._offset = match.end()
            token = match[0]
            match match.lastgroup:
                case "blank":
                    continue
                case "discard":
                    if self.next_form(self._increase_depth(depth, match.start()), closer) is None:
                        raise self._text.error_at("expected a form after `#_`, which discards it", token, match.start())
                case "open":
                    return self._read_collection(token, match.start(), self._increase_depth(depth, match.start()))
                case "close":
                    if token == closer:
                        return None
                    reason = f"expected `{closer}`, which closes the open form" if closer else "expected a form"
                    raise self._text.error_at(reason, f"`{token}`", match.start())
                case kind:
                    return self._read_atom(str(kind), token, match.start())

    def _increase_depth(self, depth: int, start: int) -> int:
        """Return the depth of a form nested in one of `depth`.

        Raises:
            QueryError: the form is nested too deeply.
        """
        if depth >= MAX_DEPTH:
            raise self._text.error_at(f"expected at most {MAX_DEPTH} levels of nesting", "one more", start)
        return depth + 1

    def _unreadable_error(self, closer: str) -> QueryError:
        rest = self._text.text[self._offset :]
        if not rest:
            return self._text.error_at(f"expected `{closer}`", "the end of the text", self._offset)
        if rest.startswith(('"', '#"')):
            return self._text.error_at('expected a closing `"`', rest, self._offset)
        return self._text.error_at("expected a form without reader tags", rest.split(maxsplit=1)[0], self._offset)

    def _read_collection(self, opener: str, start: int, depth: int) -> Form:
        forms: list[Form] = []
        while True:
            form = self.next_form(depth, CLOSERS_BY_OPENER[opener])
            if form is None:
                break
            forms.append(form)
        tag = COLLECTION_KINDS[opener]
        collection = Form(tag, tuple(forms), start, self._offset)
        if tag == "map" and len(forms) % 2:
            raise self._text.error("expected a value for every key in the map", collection)
        return collection

    def _read_atom(self, kind: str, token: str, start: int) -> Form:
        tag, value = self._parse_value(kind, token, start)
        return Form(tag, value, start, self._offset)

    def _parse_value(self, kind: str, token: str, start: int) -> tuple[Tag, Any]:
        """Return the tag and the value of an atom."""
        match kind:
            case "string":
                return "string", ESCAPE_PATTERN.sub(lambda escape: self._unescape(escape[1], start), token[1:-1])
            case "regex":
                return "regex", token[2:-1]
            case "character":
                return "character", self._parse_character(token[1:], start)
            case "number":
                return "number", self._parse_number(token, start)
            case "special":
                return "number", SPECIAL_NUMBERS[token]
        if token.startswith(":"):
            if token.strip(":") == "" or token.startswith("::"):
                raise self._text.error_at("expected a keyword such as `:output/line`", token, start)
            return "keyword", Keyword(token)
        return CONSTANTS_BY_NAME.get(token) or ("symbol", token)

    def _parse_number(self, token: str, start: int) -> int | float:
        if len(token) <= MAX_NUMBER_DIGITS:
            if INTEGER_PATTERN.fullmatch(token):
                return int(token.rstrip("N"))
            if DECIMAL_PATTERN.fullmatch(token):
                return float(token.rstrip("M"))
        raise self._text.error_at("expected a whole or decimal number", token, start)

    def _parse_character(self, name: str, start: int) -> str:
        if len(name) == 1:
            return name
        if name in CHARACTERS_BY_NAME:
            return CHARACTERS_BY_NAME[name]
        if CODE_POINT_PATTERN.fullmatch(name):
            return chr(int(name[1:], 16))
        raise self._text.error_at("expected a character such as `\\a` or `\\newline`", f"\\{name}", start)

    def _unescape(self, escape: str, start: int) -> str:
        if escape.startswith("u") and len(escape) == 5:
            return chr(int(escape[1:], 16))
        if escape in ESCAPED_CHARACTERS:
            return ESCAPED_CHARACTERS[escape]
        raise self._text.error_at(
            'expected a string whose only escapes are \\n \\t \\r \\b \\f \\\\ \\" \\uXXXX', f"\\{escape}", start
        )


MAX_COLLECTION_ITEMS = 100_000
"""Maximum number of items in a collection that a function or a binding creates."""
MAX_STRING_CHARACTERS = 2**20
"""Maximum number of characters in a string that a function creates."""
MAX_NESTING_DEPTH = 32
"""Maximum nesting depth of a collection that a function creates."""
INTEGER_LIMIT = 2**1024
"""Exclusive upper limit for the absolute value of a computed integer. Floats have about the same limit."""

TYPE_RANKS = {"nil": 0, "a boolean": 1, "a number": 2, "a string": 3, "a collection": 4, "a regex": 5}
"""The rank of each kind of value, by which values of different kinds are sorted."""


class Boolean(Enum):
    """A boolean value. Unlike Python's `True`, it does not equal a number."""

    FALSE = "false"
    TRUE = "true"

    def __str__(self) -> str:
        return self.value


class ValueMap(dict[Any, Any]):
    """A map value. It is hashable, and must not be modified."""

    __slots__ = ()

    def __hash__(self) -> int:  # type: ignore[override]  # dict sets it to None because dicts can change
        return hash(frozenset(self.items()))


def constant_value(text: Text, form: Form) -> object:
    """Return the value of a form without variables.

    Raises:
        QueryError: the form contains a variable or an invalid regex.
    """
    match form.tag:
        case "vector" | "list":
            return tuple(constant_value(text, item) for item in form.items)
        case "set":
            return frozenset(constant_value(text, item) for item in form.items)
        case "map":
            values = [constant_value(text, item) for item in form.items]
            return ValueMap(zip(values[::2], values[1::2], strict=True))
        case "symbol":
            raise text.error("expected a value", form)
        case "regex":
            try:
                return compile_pattern(form.value)
            except InvalidPatternError as error:
                raise text.error(f"expected a valid regex ({error})", form) from None
    return from_python(form.value)


def from_python(value: object) -> object:
    """Convert the result of a Python function to a query value."""
    return (Boolean.TRUE if value else Boolean.FALSE) if isinstance(value, bool) else value


def from_json(value: object) -> object:
    """Convert a JSON value to a query value."""
    if isinstance(value, list | tuple):
        return tuple(from_json(item) for item in value)
    if isinstance(value, Mapping):
        return ValueMap((key, from_json(item)) for key, item in value.items())
    return from_python(value)


def to_json(value: object) -> object:
    """Convert a query value to JSON. Vectors, lists and sets become lists, and NaN and infinity become strings."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, tuple):
        return [to_json(item) for item in value]
    if isinstance(value, frozenset):
        return [to_json(item) for item in sort_values(value)]
    if isinstance(value, dict):
        return {key if isinstance(key, str) else str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, Pattern):
        return value.text
    return value is Boolean.TRUE if isinstance(value, Boolean) else value


def kind_name(value: object) -> str:
    """Return the kind of a value for error messages, such as "a number"."""
    if isinstance(value, Boolean):
        return "a boolean"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "a string"
    return "nil" if value is None else "a regex" if isinstance(value, Pattern) else "a collection"


def compare_values(left: Any, right: Any) -> int:
    """Compare two values of any kind. Return a negative number, 0 or a positive number, like C's `strcmp`.

    Kinds are ordered as in `TYPE_RANKS`. Collections are compared by length and then item by item, as in Clojure.
    """
    left_kind, right_kind = kind_name(left), kind_name(right)
    if left_kind != right_kind:
        return TYPE_RANKS[left_kind] - TYPE_RANKS[right_kind]
    if left_kind == "a collection":
        if len(left) != len(right):
            return len(left) - len(right)
        pairs = zip(_items(left), _items(right), strict=True)
        return next((order for order in (compare_values(a, b) for a, b in pairs) if order), 0)
    if left_kind in ("nil", "a regex"):
        return 0
    if left_kind == "a boolean":
        return (left is Boolean.TRUE) - (right is Boolean.TRUE)
    return int(left > right) - int(left < right)


def sort_values(values: Iterable[object]) -> list[Any]:
    """Sort values of any kind with `compare_values`."""
    return sorted(values, key=cmp_to_key(compare_values))


def nesting_depth(value: object, levels: int = 0) -> int:
    """Return the depth to which collections are nested in a value. Counting stops above `MAX_NESTING_DEPTH`."""
    if isinstance(value, str) or not isinstance(value, Iterable) or levels > MAX_NESTING_DEPTH:
        return levels
    return max((nesting_depth(item, levels + 1) for item in _items(value)), default=levels + 1)


def text_length(value: object) -> int:
    """Return the total length of all strings in a value, in characters."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(text_length(key) + text_length(item) for key, item in value.items())
    return sum(map(text_length, value)) if isinstance(value, Iterable) else 0


def quotient(dividend: float, divisor: float) -> float:
    """Divide two numbers. Return an int if both are ints and the result is a whole number."""
    if isinstance(dividend, int) and isinstance(divisor, int) and dividend % divisor == 0:
        return dividend // divisor
    return dividend / divisor


def _items(value: Iterable[object]) -> Iterable[object]:
    """Return the items of a collection, or the pairs of a map. Sets are sorted."""
    if isinstance(value, frozenset):
        return sort_values(value)
    return value.items() if isinstance(value, dict) else value


def print_str(value: Any) -> str:
    """Return a value as text, as the query function `str` does."""
    if value is None:
        return ""
    return str(value) if isinstance(value, str) else print_edn(value)


def print_edn(value: Any) -> str:
    """Return a value in EDN syntax, as the query function `pr-str` does."""
    match value:
        case None:
            return "nil"
        case Keyword():
            return str(value)
        case str():
            return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
        case Pattern():
            return f'#"{value.text}"'
        case tuple():
            return "[" + " ".join(map(print_edn, value)) + "]"
        case frozenset():
            return "#{" + " ".join(sorted(map(print_edn, value))) + "}"
        case dict():
            return "{" + ", ".join(f"{print_edn(k)} {print_edn(v)}" for k, v in value.items()) + "}"
    return str(value)
