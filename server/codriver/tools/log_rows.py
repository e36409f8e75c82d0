"""Truncate log rows to fit into an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from codriver.errors import format_count
from codriver.tools.answers.answer_budget import (
    FLOOD_FACTOR,
    default_budget,
    fit_rows,
    requested_budget,
    shorten,
    shorten_for_overview,
)
from codriver.tools.answers.answer_texts import FLOOD_HEAD_BYTES, FLOOD_TAIL_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from codriver.tools.calls.arguments import Arguments
    from codriver.tools.calls.call import Call

MIN_SHORTENED_ROWS: Final = 5
"""Minimum number of rows at which very long texts are shortened to their beginnings."""
MIN_FULLY_SHORTENED_ROWS: Final = 10
"""Minimum number of rows at which all long texts are shortened to their beginnings."""

Fitted: TypeAlias = tuple[object, list[str], int]
"""A truncated result, notes about the omitted parts, and the number of omitted rows."""
Fitting: TypeAlias = "Callable[[object], Fitted]"
"""A function that truncates a result to the size of an answer."""


def row_budgets(call: Call, tool: str, arguments: Arguments, requested_bytes: int | None) -> tuple[int, int]:
    """Return two size limits for an answer with rows, in bytes.

    The second limit applies if rows would have to be omitted although the caller passed `limit`. Such a caller needs
    all rows more than the long strings in them. If the caller requested a number of bytes, both limits have this value.
    """
    if requested_bytes:
        most = requested_budget(call, tool, requested_bytes)
        return most, most
    least = default_budget(call)
    return least, requested_budget(call, tool) if "limit" in arguments.model_fields_set else least


def _is_flood(rows: Sequence[object], max_bytes: int) -> bool:
    """Return whether most of the rows' text has to be omitted anyway. See `FLOOD_FACTOR`."""
    return sum(len(str(row)) for row in rows) > (FLOOD_FACTOR + 1) * max_bytes


def fit_newest(result: object, budgets: tuple[int, int], *, has_requested_bytes: bool = False) -> Fitted:
    """Shorten a result to the size limits returned by `row_budgets`. If it is a list, its last rows are returned.

    `has_requested_bytes` is true if the caller requested a number of bytes. Otherwise very long results are shortened
    as in the answer about an evaluation, and long strings are shortened if there are many rows.
    """
    least, most = budgets
    if not isinstance(result, list):
        shortened, note = shorten(result, most)
        return shortened, [note] if note else [], 0
    if not has_requested_bytes and _is_flood(result, least):
        least = min(least, FLOOD_HEAD_BYTES + FLOOD_TAIL_BYTES)
    rows, note, omitted = fit_rows(result, least, newest=True)
    if note and not has_requested_bytes and len(result) >= MIN_SHORTENED_ROWS:
        result, note = shorten_for_overview(result, is_of_all=len(result) >= MIN_FULLY_SHORTENED_ROWS)
        rows, more, omitted = fit_rows(result, least, newest=True)
        note = more or note
    if omitted and most > least:
        rows, more, omitted = fit_rows(result, most, newest=True)
        note = more or note
    notes = [note] if note else []
    if omitted:
        left_out = format_count(omitted, "earlier row is", "earlier rows are")
        notes.append(f"{left_out} omitted: pass a limit to get more rows, or select by line")
    return rows, notes, omitted
