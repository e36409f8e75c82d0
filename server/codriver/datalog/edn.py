"""EDN reader: from text to forms that know their place.

Source: the EDN format (edn-format/edn), with `#"…"` from Clojure's reader. Tagged elements are refused, as there is no
use for them in a query.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

from codriver.datalog.errors import QueryError

MAX_CHARACTERS = 64 * 2**10  # a query is written by hand or by a model, and none of those is this long
MAX_DEPTH = 64
MAX_DIGITS = 400

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
    """A keyword, colon included; equal to the string of the same text, as inputs from JSON can only be strings."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Form:
    """A form and where it stands in the text: from offset `start` up to `end`.

    `value` is the value of an atom (a symbol's and a regex's text), or a collection's forms as a tuple; a map's come in
    turn, key and value.
    """

    tag: Tag
    value: Any
    start: int
    end: int

    def is_symbol(self, name: str) -> bool:
        """Whether this is the symbol of that name."""
        return self.tag == "symbol" and self.value == name

    @property
    def items(self) -> tuple[Form, ...]:
        """The forms of a collection."""
        items: tuple[Form, ...] = self.value
        return items


class Text:
    """A text with forms in it, for errors that point into it."""

    def __init__(self, text: str, part: str = "query") -> None:
        self.text = text
        self.part = part

    def error(self, expected: str, form: Form) -> QueryError:
        """The error that at this form something else was expected."""
        return self.error_at(expected, self.text[form.start : form.end], form.start)

    def error_at(self, expected: str, found: str, offset: int) -> QueryError:
        """The error that at this offset something else was expected."""
        line = self.text.count("\n", 0, offset) + 1
        column = offset - self.text.rfind("\n", 0, offset)
        return QueryError(expected, found, line=line, column=column, part=self.part)


def read(text: Text) -> Form:
    """The one form in a text.

    Raises:
        QueryError: it is no EDN, holds no form or more than one, or is too long or too deep.
    """
    if len(text.text) > MAX_CHARACTERS:
        raise text.error_at(f"at most {MAX_CHARACTERS} characters", f"{len(text.text)}", 0)
    reader = _Reader(text)
    form = reader.next_form(0)
    if form is None:
        raise text.error_at("a form", "nothing", 0)
    more = reader.next_form(0)
    if more is not None:
        raise text.error("the end after one form", more)
    return form


TOKEN = re.compile(
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
CLOSERS = {"(": ")", "[": "]", "{": "}", "#{": "}"}
COLLECTIONS: dict[str, Tag] = {"(": "list", "[": "vector", "{": "map", "#{": "set"}
NAMES: dict[str, tuple[Tag, Any]] = {"nil": ("nil", None), "true": ("boolean", True), "false": ("boolean", False)}
SPECIAL = {"##Inf": float("inf"), "##-Inf": float("-inf"), "##NaN": float("nan")}
CHARACTERS = {"newline": "\n", "space": " ", "tab": "\t", "return": "\r", "formfeed": "\f", "backspace": "\b"}
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "\\": "\\", '"': '"'}
INTEGER = re.compile(r"[+-]?[0-9]+N?")
DECIMAL = re.compile(r"[+-]?[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?M?")
CODE_POINT = re.compile(r"u[0-9a-fA-F]{4}")
ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)


class _Reader:
    def __init__(self, text: Text) -> None:
        self._text = text
        self._offset = 0

    def next_form(self, depth: int, closer: str = "") -> Form | None:
        """The next form; None at the end of the text or, inside a collection, at its closer."""
        while True:
            if self._offset >= len(self._text.text) and not closer:
                return None
            match = TOKEN.match(self._text.text, self._offset)
            if match is None:
                raise self._unreadable(closer)
            self._offset = match.end()
            token = match[0]
            match match.lastgroup:
                case "blank":
                    continue
                case "discard":
                    if self.next_form(self._deeper(depth, match.start()), closer) is None:
                        raise self._text.error_at("a form to leave out", token, match.start())
                case "open":
                    return self._collection(token, match.start(), self._deeper(depth, match.start()))
                case "close":
                    if token == closer:
                        return None
                    wanted = f"`{closer}`, which closes what is open" if closer else "a form"
                    raise self._text.error_at(wanted, f"`{token}`", match.start())
                case kind:
                    return self._atom(str(kind), token, match.start())

    def _deeper(self, depth: int, start: int) -> int:
        if depth >= MAX_DEPTH:
            raise self._text.error_at(f"at most {MAX_DEPTH} levels", "one more", start)
        return depth + 1

    def _unreadable(self, closer: str) -> QueryError:
        rest = self._text.text[self._offset :]
        if not rest:
            return self._text.error_at(f"`{closer}`", "the end of the text", self._offset)
        if rest.startswith(('"', '#"')):
            return self._text.error_at('a closing `"`', rest, self._offset)
        return self._text.error_at("a form without reader tags", rest.split(maxsplit=1)[0], self._offset)

    def _collection(self, opener: str, start: int, depth: int) -> Form:
        forms: list[Form] = []
        while True:
            form = self.next_form(depth, CLOSERS[opener])
            if form is None:
                break
            forms.append(form)
        tag = COLLECTIONS[opener]
        collection = Form(tag, tuple(forms), start, self._offset)
        if tag == "map" and len(forms) % 2:
            raise self._text.error("a value for every key of the map", collection)
        return collection

    def _atom(self, kind: str, token: str, start: int) -> Form:
        tag, value = self._value(kind, token, start)
        return Form(tag, value, start, self._offset)

    def _value(self, kind: str, token: str, start: int) -> tuple[Tag, Any]:
        match kind:
            case "string":
                return "string", ESCAPE.sub(lambda escape: self._unescape(escape[1], start), token[1:-1])
            case "regex":
                return "regex", token[2:-1]
            case "character":
                return "character", self._character(token[1:], start)
            case "number":
                return "number", self._number(token, start)
            case "special":
                return "number", SPECIAL[token]
        if token.startswith(":"):
            if token.strip(":") == "" or token.startswith("::"):
                raise self._text.error_at("a keyword such as `:output/line`", token, start)
            return "keyword", Keyword(token)
        return NAMES.get(token) or ("symbol", token)

    def _number(self, token: str, start: int) -> int | float:
        if len(token) <= MAX_DIGITS:
            if INTEGER.fullmatch(token):
                return int(token.rstrip("N"))
            if DECIMAL.fullmatch(token):
                return float(token.rstrip("M"))
        raise self._text.error_at("a whole or decimal number", token, start)

    def _character(self, name: str, start: int) -> str:
        if len(name) == 1:
            return name
        if name in CHARACTERS:
            return CHARACTERS[name]
        if CODE_POINT.fullmatch(name):
            return chr(int(name[1:], 16))
        raise self._text.error_at("a character such as `\\a` or `\\newline`", f"\\{name}", start)

    def _unescape(self, escape: str, start: int) -> str:
        if escape.startswith("u") and len(escape) == 5:
            return chr(int(escape[1:], 16))
        if escape in ESCAPES:
            return ESCAPES[escape]
        raise self._text.error_at(
            'a string with the escapes \\n \\t \\r \\b \\f \\\\ \\" \\uXXXX', f"\\{escape}", start
        )
