"""Rows of a query: tuples of the values of its bound variables, except for constant ones."""

from __future__ import annotations

from typing import Any

Row = tuple[Any, ...]


Rows = list[Row]
