"""The finding of a comparison with a fresh import: where a process differs from one that imports the same modules now.

A REPL of Python gives it on request, or with the answer of an evaluation after a load.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, Literal

from codriver.repls.contract.questions import Query
from codriver.wire.untrusted import as_int, as_list, as_map, as_text

if TYPE_CHECKING:
    from collections.abc import Mapping

RowKind = Literal["leaf", "code", "cache", "failed"]
KINDS: Final[tuple[RowKind, ...]] = ("leaf", "code", "cache", "failed")
DEMANDED_S: Final = 150.0
"""The time for a comparison on request: two imports of everything that imports the edited modules."""
_DIGEST: Final = re.compile(r" [0-9a-f]{16}$")
_KINDS_OF_CODE: Final[Mapping[str, str]] = {
    "function": "somebody holds a function",
    "generator": "a generator is suspended in code",
    "coroutine": "a coroutine is suspended in code",
    "frame": "a thread runs code",
}


@dataclass(frozen=True, slots=True)
class FreshRow:
    """One difference. `name` is a path, such as `shop.TABLE['a'].price`.

    `leaf`: a fresh import has the text `fresh` there and the process `live`, None for nothing; `why` is `previous` for
    what was there before the edit, `undone` for what the load removed or replaced, `other` for anything else. `code`:
    a living function, generator, coroutine or running frame (`of`) has code that its file no longer has. `cache`: a
    filled cache has `count` results that were computed with the previous `of`. `failed`: the modules `name` were not
    compared, as the comparison failed with the error `of`.
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
    """All differences: the first `rows`, the number of `more`, and `why` something could not be compared."""

    rows: tuple[FreshRow, ...] = ()
    more: int = 0
    why: str = ""


@dataclass(frozen=True, slots=True)
class FreshImport(Query[FreshFinding | None]):
    """Compare the modules that were loaded again with a fresh import; None if the REPL cannot.

    `wait_ms`: only the finding about the last loads, if it is there within that time.
    """

    name: ClassVar[str] = "fresh"
    timeout_s: ClassVar[float] = DEMANDED_S
    wait_ms: int | None = None

    def request_fields(self, namespace: str) -> dict[str, str | int]:
        """Return the wait, or the request to compare now."""
        del namespace
        return {"demand": 1} if self.wait_ms is None else {"wait": self.wait_ms}

    def read(self, answer: Mapping[str, object]) -> FreshFinding | None:
        """Return the finding, which is JSON."""
        return read_finding(as_text(answer.get("finding")))


def read_finding(text: str | None) -> FreshFinding | None:
    """Return the finding in a text of a worker; None for no finding."""
    try:
        data = as_map(json.loads(text or "null"))
    except (ValueError, RecursionError):
        return None
    rows = tuple(row for one in as_list(data.get("rows")) if (row := _row(as_map(one))) is not None)
    return FreshFinding(rows, as_int(data.get("more")) or 0, as_text(data.get("why")) or "") if data else None


def finding_lines(finding: FreshFinding) -> tuple[str, ...]:
    """Return a finding in words, a line for each row, and one for the number of further rows."""
    lines = [_line(row) for row in finding.rows]
    if finding.more:
        lines.append(f"and {finding.more} more: what_changed with fresh: true")
    return tuple(lines)


def _row(answer: Mapping[str, object]) -> FreshRow | None:
    kind = next((one for one in KINDS if one == answer.get("kind")), None)
    name = as_text(answer.get("name"))
    if kind is None or not name:
        return None
    why, of = (as_text(answer.get(key)) or "" for key in ("why", "of"))
    count = int(as_text(answer.get("count")) or 0)
    fresh, live = (as_text(answer.get(key)) for key in ("fresh", "live"))
    return FreshRow(kind, name, why, fresh, live, of, count)


def _line(row: FreshRow) -> str:
    if row.kind == "code":
        return f"{_KINDS_OF_CODE.get(row.of, 'somebody holds code')} of {row.name} that its file no longer has"
    if row.kind == "failed":
        return f"{row.name} was not compared with a fresh import, as the comparison failed: {row.of}"
    if row.kind == "cache":
        results = "1 result" if row.count == 1 else f"{row.count} results"
        return f"{row.name} has cached {results} computed with the previous {row.of}: clear it"
    fresh, live = _value_text(row.fresh), _value_text(row.live)
    if fresh == live:
        fresh, live = "other code", "its previous code" if row.why == "previous" else "another"
    if row.why == "previous":
        return f"{row.name} is still {live}, a fresh import has {fresh}"
    if row.why == "undone":
        return f"{row.name} is {live} since this load, a fresh import has {fresh}"
    return f"{row.name} is {live}, a fresh import has {fresh}"


def _value_text(text: str | None) -> str:
    return "missing" if text is None else _DIGEST.sub("", text)
