"""Rows of the log as they fit into an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from codriver.tools.answers.answer_budget import FLOODS, budget, budget_asked, fit, overviewed, shorten
from codriver.tools.answers.answer_texts import FLOOD_HEAD_BYTES, FLOOD_TAIL_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from codriver.tools.calls.arguments import Arguments
    from codriver.tools.calls.call import Call

SEVERAL_ROWS: Final = 5
"""For so many rows, an overview shows the beginnings of floods; a reader asks for one of them whole."""
MANY_ROWS: Final = 10
"""For so many rows, the beginnings of all long texts are shown."""

Fitted: TypeAlias = tuple[object, list[str], int]
"""A cut result, with notes on the parts left out, and the number of rows left out."""
Fitting: TypeAlias = "Callable[[object], Fitted]"


def row_budgets(call: Call, tool: str, arguments: Arguments, asked: int | None) -> tuple[int, int]:
    """The bytes of an answer with rows, and the bytes if rows would be left out although the caller names a limit.

    A caller that names a limit asks for rows, and not for long texts in them; a caller that asks for bytes gets them.
    """
    if asked:
        most = budget_asked(call, tool, asked)
        return most, most
    least = budget(call)
    return least, budget_asked(call, tool) if "limit" in arguments.model_fields_set else least


def _is_flood(rows: Sequence[object], max_bytes: int) -> bool:
    """True if most of the rows' text is left out in any case, so that nobody reads it here: see `FLOODS`."""
    return sum(len(str(row)) for row in rows) > (FLOODS + 1) * max_bytes


def fit_newest(result: object, budgets: tuple[int, int], *, is_asked: bool = False) -> Fitted:
    """The result, for a list its newest rows that fit; notes on the parts left out, and the number of rows left out.

    `budgets`: see `row_budgets`. Unless the caller asked for so many bytes (`is_asked`), as much of a flood is shown as
    in an evaluation's answer, and the beginning of a long text among many rows.
    """
    least, most = budgets
    if not isinstance(result, list):
        shown, note = shorten(result, most)
        return shown, [note] if note else [], 0
    if not is_asked and _is_flood(result, least):
        least = min(least, FLOOD_HEAD_BYTES + FLOOD_TAIL_BYTES)
    rows, note, omitted = fit(result, least, newest=True)
    if note and not is_asked and len(result) >= SEVERAL_ROWS:
        result, note = overviewed(result, is_of_all=len(result) >= MANY_ROWS)
        rows, more, omitted = fit(result, least, newest=True)
        note = more or note
    if omitted and most > least:
        rows, more, omitted = fit(result, most, newest=True)
        note = more or note
    notes = [note] if note else []
    if omitted:
        notes.append(f"{omitted} rows before these are left out: name a limit for more of them, or ask by line")
    return rows, notes, omitted
