"""String and regular expression functions of queries. Texts stay bounded in length."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from codriver.datalog import regexes
from codriver.datalog.arithmetic import as_number
from codriver.datalog.edn import Keyword
from codriver.datalog.regexes import Clock, Pattern, compile_pattern
from codriver.datalog.sequences import as_sequence
from codriver.datalog.signature import Function
from codriver.datalog.value_printing import printed, text_of
from codriver.datalog.value_types import MAX_CHARACTERS, kind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a string is needed, not {kind(value)}")
    return value


def _on_string(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, for one or two strings."""

    def checked(*values: Any) -> Any:
        return function(*map(_string, values))

    return checked


def _bounded_text(text: str) -> str:
    if len(text) > MAX_CHARACTERS:
        raise ValueError(f"the text gets longer than {MAX_CHARACTERS} characters")
    return text


def _str(*values: Any) -> str:
    return _bounded_text("".join(map(text_of, values)))


def _pr_str(*values: Any) -> str:
    return _bounded_text(" ".join(map(printed, values)))


def _subs(text: Any, start: Any, end: Any = None) -> str:
    end = len(_string(text)) if end is None else as_number(end)
    if not 0 <= as_number(start) <= end <= len(text):
        raise ValueError(f"the range {start} to {end} is not inside a text of {len(text)} characters")
    return str(text)[int(start) : int(end)]


def _index_of(text: Any, part: Any) -> int | None:
    place = _string(text).find(_string(part))
    return None if place < 0 else place


def _join(*values: Any) -> str:
    return _bounded_text((text_of(values[0]) if len(values) == 2 else "").join(map(text_of, as_sequence(values[-1]))))


def _name(value: Any) -> str:
    return _string(value).removeprefix(":").rpartition("/")[2]


def _namespace(value: Any) -> str | None:
    return _string(value).removeprefix(":").rpartition("/")[0] or None


def _keyword(*parts: Any) -> Keyword:
    return Keyword(":" + "/".join(_string(part).removeprefix(":") for part in parts))


def _pattern(value: Any) -> Pattern:
    return value if isinstance(value, Pattern) else compile_pattern(_string(value))


def _searched(function: Callable[..., Any]) -> Callable[..., Any]:
    def search(clock: Clock, pattern: Any, text: Any) -> Any:
        return function(clock, _pattern(pattern), _string(text))

    return search


def _split(clock: Clock, text: Any, pattern: Any, limit: Any = 0) -> tuple[str, ...]:
    return regexes.split(clock, _pattern(pattern), _string(text), int(as_number(limit)))


_CLOJURE_STRING: Mapping[str, Function] = {
    "includes?": Function(_on_string(str.__contains__), 2, 2),
    "starts-with?": Function(_on_string(str.startswith), 2, 2),
    "ends-with?": Function(_on_string(str.endswith), 2, 2),
    "blank?": Function(lambda value: value is None or not _string(value).strip(), 1, 1),
    "lower-case": Function(_on_string(str.lower), 1, 1),
    "upper-case": Function(_on_string(str.upper), 1, 1),
    "trim": Function(_on_string(str.strip), 1, 1),
    "index-of": Function(_index_of, 2, 2),
    "join": Function(_join, 1, 2),
    "split": Function(_split, 2, 3, is_timed=True),
    "split-lines": Function(lambda clock, text: _split(clock, text, r"\r?\n"), 1, 1, is_timed=True),
}
STRINGS: Mapping[str, Function] = {
    "str": Function(_str, 0, None),
    "pr-str": Function(_pr_str, 0, None),
    "subs": Function(_subs, 2, 3),
    "name": Function(_name, 1, 1),
    "namespace": Function(_namespace, 1, 1),
    "keyword": Function(_keyword, 1, 2),
    "re-pattern": Function(_pattern, 1, 1),
    "re-find": Function(_searched(regexes.find), 2, 2, is_timed=True),
    "re-matches": Function(_searched(regexes.matches), 2, 2, is_timed=True),
    "re-seq": Function(_searched(regexes.find_all), 2, 2, is_timed=True),
    **{f"clojure.string/{name}": function for name, function in _CLOJURE_STRING.items()},
    **{f"str/{name}": function for name, function in _CLOJURE_STRING.items()},
}
"""By the names that queries call them by."""
