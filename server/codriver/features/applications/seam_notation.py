"""Write data as literals of each language, for calls to an application's seam."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from codriver.repls import dialects

if TYPE_CHECKING:
    from collections.abc import Callable

PYTHON_HOSTED_DIALECTS: Final = frozenset({"basilisp", "hy", "python"})
"""Dialects that run in Python, and print and read strings as Python does."""
_KEYWORD_NAME: Final = re.compile(r"[A-Za-z][\w-]*")
_JSON_DIALECTS: Final = (
    dialects.CLOJURE, dialects.BABASHKA, dialects.NBB, dialects.CLOJURESCRIPT, dialects.BASILISP, dialects.HY,
)  # fmt: skip
"""Dialects whose literals look like EDN, and which convert values to JSON themselves."""
JSON_CODE_BY_DIALECT: Final[Mapping[str, Callable[[str], str]]] = {
    **{dialect.name: dialect.as_json_code for dialect in _JSON_DIALECTS},
    "python": "__import__('json').dumps({})".format,
}
"""Functions that wrap an expression in code that converts its value to a JSON string, by dialect."""


def encode_data(dialect: str, value: object) -> str:
    """Encode data for a dialect: as JSON for dialects hosted on Python, and as EDN for others."""
    return json.dumps(value, ensure_ascii=False) if dialect in PYTHON_HOSTED_DIALECTS else to_edn(value)


def to_edn(value: object) -> str:
    """Convert JSON data to EDN. Keys of objects become keywords.

    Source: https://github.com/edn-format/edn, "Built-in elements".
    """
    if value is None:
        return "nil"
    if isinstance(value, Mapping):
        keys = {key: f":{key}" if _KEYWORD_NAME.fullmatch(key) else json.dumps(key) for key in value}
        return "{" + " ".join([f"{keys[key]} {to_edn(item)}" for key, item in value.items()]) + "}"
    if isinstance(value, list | tuple):
        return "[" + " ".join([to_edn(item) for item in value]) + "]"
    return json.dumps(value)


def string_literal(dialect: str, text: str) -> str:
    """Return a string literal for a dialect."""
    if dialect == "python":
        return repr(text)
    # Servers on Node count characters instead of bytes when a request is split, so it should be ASCII.
    return json.dumps(text, ensure_ascii=dialect not in PYTHON_HOSTED_DIALECTS)


def read_string(dialect: str, printed: str) -> str:
    """Parse a string literal in the notation of a dialect.

    Raises:
        ValueError, SyntaxError: the text is not a string literal.
    """
    # Clojure prints control characters in strings unescaped, which strict JSON forbids.
    return str(ast.literal_eval(printed) if dialect in PYTHON_HOSTED_DIALECTS else json.loads(printed, strict=False))
