"""Rows of a query: tuples with the values of the bound variables that are not constant."""

from __future__ import annotations

from typing import Any

Row = tuple[Any, ...]


Rows = list[Row]
