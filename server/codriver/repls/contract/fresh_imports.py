"""Differences between a Python process and a fresh import of the modules that it has loaded.

A REPL returns them on request, or with the answer to an evaluation that follows a load.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, Literal

from codriver.errors import format_count
from codriver.repls.contract.queries import Query
from codriver.wire.untrusted import int_or_none, list_or_empty, mapping_or_empty, text_or_none

if TYPE_CHECKING:
    from collections.abc import Mapping

RowKind = Literal["leaf", "code", "cache", "failed"]
"""The kinds of differences that `FreshRow` describes."""
DIFFERENCE_KINDS: Final[tuple[RowKind, ...]] = ("leaf", "code", "cache", "failed")
"""The kinds of differences, for validating an answer."""
REQUESTED_COMPARISON_TIMEOUT_S: Final = 150.0
"""Seconds that a requested comparison may take.

The comparison imports everything that depends on the edited modules twice.
"""
_DIGEST_PATTERN: Final = re.compile(r" [0-9a-f]{16}$")
"""Matches a digest at the end of a description."""
_CODE_USE_DESCRIPTIONS: Final[Mapping[str, str]] = {
    "function": "another object holds a function",
    "generator": "a generator is suspended in code",
    "coroutine": "a coroutine is suspended in code",
    "frame": "a thread is running code",
}
"""Descriptions of what still uses old code, by the field `of` in rows of the kind `code`."""


@dataclass(frozen=True, slots=True)
class FreshRow:
    """A difference between the running process and a fresh import. `name` is a path such as `shop.TABLE['a'].price`.

    - `leaf`: a value differs. `fresh` is its text after a fresh import, and `live` is its text in the process. Either
      text is None if the value is missing there. `why` is `previous` if the process has the value from before the edit,
      `undone` if the load removed or replaced the value, and `other` otherwise.
    - `code`: a function, generator, coroutine or running frame (see `of`) has code that its file no longer contains.
    - `cache`: a cache has `count` results that were computed with the previous `of`.
    - `failed`: the modules `name` were not compared because of the error `of`.
    """

    kind: RowKind
    name: str
    why: str = ""
    fresh: str | None = None
    live: str | None = None
    of: str = ""
    count: int = 0


@dataclass(frozen=True, slots=True)
class FreshFinding:
    """The result of a comparison with a fresh import.

    `more` is the number of differences omitted from `rows`. `why` is the reason if something was not compared.
    """

    rows: tuple[FreshRow, ...] = ()
    more: int = 0
    why: str = ""


@dataclass(frozen=True, slots=True)
class FreshImport(Query[FreshFinding | None]):
    """A query that compares reloaded modules with a fresh import of the same modules.

    The answer is None if the REPL cannot compare them. With `wait_ms`, no new comparison is started, and the answer is
    the finding about the last loads if it is available in time.
    """

    name: ClassVar[str] = "fresh"
    timeout_s: ClassVar[float] = REQUESTED_COMPARISON_TIMEOUT_S
    wait_ms: int | None = None

    def request_fields(self, namespace: str) -> dict[str, str | int]:
        """Return a field that requests a new comparison, or one that limits how long to wait for an existing one."""
        del namespace
        return {"demand": 1} if self.wait_ms is None else {"wait": self.wait_ms}

    def read(self, answer: Mapping[str, object]) -> FreshFinding | None:
        """Parse the finding from JSON."""
        return read_finding(text_or_none(answer.get("finding")))


def read_finding(text: str | None) -> FreshFinding | None:
    """Parse a finding from a worker's JSON. Return None if it is missing or invalid."""
    try:
        data = mapping_or_empty(json.loads(text or "null"))
    except (ValueError, RecursionError):
        return None
    rows = tuple(row for item in list_or_empty(data.get("rows")) if (row := _row(mapping_or_empty(item))) is not None)
    return FreshFinding(rows, int_or_none(data.get("more")) or 0, text_or_none(data.get("why")) or "") if data else None


def finding_lines(finding: FreshFinding) -> tuple[str, ...]:
    """Describe a finding, with one line per difference and one for the number of omitted differences."""
    lines = [_line(row) for row in finding.rows]
    if finding.more:
        lines.append(f"and {finding.more} more: call what_changed with fresh: true")
    return tuple(lines)


def _row(answer: Mapping[str, object]) -> FreshRow | None:
    kind = next((known for known in DIFFERENCE_KINDS if known == answer.get("kind")), None)
    name = text_or_none(answer.get("name"))
    if kind is None or not name:
        return None
    why, of = (text_or_none(answer.get(key)) or "" for key in ("why", "of"))
    count = int(text_or_none(answer.get("count")) or 0)
    fresh, live = (text_or_none(answer.get(key)) for key in ("fresh", "live"))
    return FreshRow(kind, name, why, fresh, live, of, count)


def _line(row: FreshRow) -> str:
    if row.kind == "code":
        use = _CODE_USE_DESCRIPTIONS.get(row.of, "another object holds code")
        return f"{use} from {row.name} that its file no longer has"
    if row.kind == "failed":
        return f"{row.name} was not compared with a fresh import, because the comparison failed: {row.of}"
    if row.kind == "cache":
        results = format_count(row.count, "result")
        return f"{row.name} has cached {results} computed with the previous {row.of}. Clear the cache"
    fresh, live = _value_text(row.fresh), _value_text(row.live)
    if fresh == live:
        fresh, live = "different code", "its previous code" if row.why == "previous" else "different"
    if row.why == "previous":
        return f"{row.name} is still {live}; a fresh import has {fresh}"
    if row.why == "undone":
        return f"{row.name} is {live} since this load; a fresh import has {fresh}"
    return f"{row.name} is {live}; a fresh import has {fresh}"


def _value_text(text: str | None) -> str:
    return "missing" if text is None else _DIGEST_PATTERN.sub("", text)
