"""Omit the parts of a test run's answer that its caller already knows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from codriver.errors import truncate

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from codriver.tools.calls.arguments import Json

MAX_ACTUAL_CHARACTERS: Final = 500
"""Maximum number of characters in a result's message. The stack trace contains the rest."""
MAX_SHORT_ACTUAL_CHARACTERS: Final = 100
"""Maximum number of characters in the first line of a message, for all results except the first."""
UNINFORMATIVE_LINE_PATTERN: Final = re.compile(
    r"\n *(?:Use -v to get more diff|self=<[^\n]* object at 0x[0-9a-f]+>,)?(?=\n|$)"
)
"""Matches a line without information in a pytest or hypothesis failure."""


def lean_run_fields(fields: Mapping[str, object], workspace: Path, named: str = "") -> dict[str, object]:
    """Shorten the fields of a test run: omit zero counts, the requested namespace, and fields that follow from others.

    If passed tests are listed, their namespaces are not omitted, because programs read each result by itself.
    """
    rows = fields.get("results")
    rows = _combine_equal_rows([_lean_row(row, workspace, named) for row in rows]) if isinstance(rows, list) else []
    rows = [*rows[:1], *map(_short_row, rows[1:])]
    known = {
        "failed": not fields.get("failed"),
        "errors": not fields.get("errors"),
        "results": not rows,
        "count": "omitted" not in fields,
    }
    unknown_fields = {name: value for name, value in fields.items() if not known.get(name)}
    return {name: rows if name == "results" else value for name, value in unknown_fields.items()}


def _short_row(row: dict[str, object]) -> dict[str, object]:
    """Shorten a failed test after the first one to its name, its location and the beginning of its message."""
    short = {name: value for name, value in row.items() if name != "frames"}
    return (
        {**short, "actual": truncate(str(row["actual"]).partition("\n")[0], MAX_SHORT_ACTUAL_CHARACTERS)}
        if "actual" in row
        else short
    )


def _combine_equal_rows(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    """Combine the descriptions of failed tests with the same message into the first one, which names the others."""
    combined: list[dict[str, object]] = []
    first: dict[tuple[object, ...], dict[str, object]] = {}
    for row in rows:
        known = tuple(row.get(name) for name in ("outcome", "ns", "file", "actual", "expected", "message"))
        if row.get("outcome") == "pass" or not row.get("actual") or known not in first:
            first.setdefault(known, row)
            combined.append(row)
            continue
        others = first[known].setdefault("alike", [])
        if isinstance(others, list):
            others.append(f"{row['test']}:{row['line']}" if "line" in row else row["test"])
    return combined


def _lean_row(row: Json, workspace: Path, named: str) -> dict[str, object]:
    """Return a result without the file if it equals the namespace, and without the frame of the result's own line."""
    result = dict(row)
    if "file" in row:
        result["file"] = file = str(row["file"]).removeprefix(f"{workspace}/")
        if file == row.get("ns"):
            del result["file"]
        frame_prefix = f"{file}:{row.get('line')} in "
        result["frames"] = [frame for frame in row.get("frames", ()) if not frame.startswith(frame_prefix)]
    if "actual" in row:
        result["actual"] = truncate(UNINFORMATIVE_LINE_PATTERN.sub("", str(row["actual"])), MAX_ACTUAL_CHARACTERS)
    known = {"frames": not result.get("frames"), "ns": named == row.get("ns")}
    return {name: value for name, value in result.items() if not known.get(name)}
