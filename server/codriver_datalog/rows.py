"""The rows of a query: tuples with a value for each bound variable that has no constant value."""

from __future__ import annotations

from typing import Any

Row = tuple[Any, ...]


Rows = list[Row]
