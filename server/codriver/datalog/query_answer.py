"""Query answer: the result, its number of rows, and what cut it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Cut = Literal["rows", "time"]


@dataclass(frozen=True, slots=True)
class QueryAnswer:
    """The answer of a query, as JSON values.

    `result` has the shape that `:find` asks for. `count` is the number of rows in it. `cut` says what ended the query
    before its end; the rows given are then right, but not all.
    """

    result: object
    count: int
    cut: Cut | None = None
