"""Printing of values as Clojure prints them."""

from __future__ import annotations

from typing import Any

from codriver.datalog.edn import Keyword
from codriver.datalog.regexes import Pattern


def text_of(value: Any) -> str:
    """The value as `str` prints it."""
    if value is None:
        return ""
    return str(value) if isinstance(value, str) else printed(value)


def printed(value: Any) -> str:
    """The value as `pr-str` prints it."""
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
            return "[" + " ".join(map(printed, value)) + "]"
        case frozenset():
            return "#{" + " ".join(sorted(map(printed, value))) + "}"
        case dict():
            return "{" + ", ".join(f"{printed(k)} {printed(v)}" for k, v in value.items()) + "}"
    return str(value)
