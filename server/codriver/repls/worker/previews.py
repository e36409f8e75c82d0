"""Previews of values that have a shape: arrays, tables and columns of libraries that the program itself has loaded."""

from __future__ import annotations

import collections
import itertools
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ROWS = 3
"""Rows of a table that its preview shows."""
COLUMNS = 10


def _is(value: object, module: str, *names: str) -> bool:
    """Whether a value is of one of a module's classes. What the program has not loaded is not loaded for this."""
    loaded = sys.modules.get(module)
    kinds = tuple(kind for name in names if isinstance(kind := getattr(loaded, name, None), type))
    return bool(kinds) and issubclass(type(value), kinds)


def is_table(value: object) -> bool:
    """Whether a value is a table of pandas or polars."""
    return _is(value, "pandas", "DataFrame") or _is(value, "polars", "DataFrame")


def is_column(value: object) -> bool:
    """Whether a value is one column of such a table."""
    return _is(value, "pandas", "Series", "Index") or _is(value, "polars", "Series")


def is_array(value: object) -> bool:
    """Whether a value is an array with axes."""
    return (_is(value, "numpy", "ndarray") or _is(value, "torch", "Tensor")) and len(value.shape) > 0  # type: ignore[attr-defined]  # both have one


def title_of(value: Any) -> str:
    """The kind of an array, a table or a column with its shape; empty for any other value, and for kinds of the user's.

    Nothing of its contents is looked at.
    """
    kind = type(value)
    module = type.__dict__["__module__"].__get__(kind)  # a class of the class could make up an attribute
    if type(module) is not str or module.partition(".")[0] not in ("numpy", "torch", "pandas", "polars"):
        return ""
    if is_table(value) or is_column(value):
        return f"{kind.__name__} {_shape(value)}"
    return f"{kind.__name__} {_shape(value)} {value.dtype}" if is_array(value) else ""


def preview_of(value: Any, start: int, length: int) -> tuple[str, str] | None:
    """A value with a shape as text, and in words what that leaves out; None for any that is printed as it is.

    With `start` its rows from there on are told instead of its first ones.
    """
    if is_table(value):
        return _table(value, start, length)
    if not (is_array(value) or is_column(value)):
        return None
    count, name = len(value), type(value).__name__
    size = 1
    for axis in value.shape:
        size *= int(axis)
    if not start and size <= length:
        return None
    title = f"{name} {_shape(value)} {value.dtype}"
    rows = max(1, length // max(1, size // count))
    shown = value[start : start + rows].tolist() if len(value.shape) == 1 or start else []
    words = f"{count - len(shown)} of {count} {'elements' if len(value.shape) == 1 else 'rows'}"
    listed = ": [" + ("..., " if start else "") + str(shown)[1:-1] if shown else ""
    if shown:
        listed += ", ...]" if start + len(shown) < count else "]"
    return title + listed, words if len(shown) < count else ""


def _shape(value: Any) -> str:
    return str(tuple(int(axis) for axis in value.shape))


def _table(value: Any, start: int, length: int) -> tuple[str, str] | None:
    rows, columns = int(value.shape[0]), int(value.shape[1])
    if not start and rows <= 2 * ROWS and columns <= COLUMNS:
        return None
    kinds = [f"{name} {kind}" for name, kind in zip(value.columns[:COLUMNS], value.dtypes[:COLUMNS])]
    if columns > COLUMNS:
        kinds.append(f"and {columns - COLUMNS} more columns")
    wanted = length if start else min(ROWS, length)
    part = value[start : start + wanted]
    text = part.to_string(max_cols=COLUMNS) if hasattr(part, "to_string") else str(part)
    words = f"{rows - len(part)} of {rows} rows" if len(part) < rows else ""
    return f"{type(value).__name__} {_shape(value)}: {', '.join(kinds)}\n{text}", words


def rows_of(value: Any, step: object) -> list[Any] | None:
    """The part of a value with a shape at one step of a path, in a list; None where the value has no shape.

    A table's steps are the names of its columns and the places of its rows.
    """
    if is_table(value):
        if isinstance(step, int) and hasattr(value, "iloc"):
            return [value.iloc[step]]
        return [value[step]]
    if is_column(value) and hasattr(value, "iloc") and isinstance(step, int):
        return [value.iloc[step]]
    return [value[step]] if is_array(value) or is_column(value) else None


GLIMPSED = 10
"""Elements of a collection that are told in one line, and levels in it."""
LEVELS = 3
NUMBER_BITS = 2000
TEXT_CHARACTERS = 60
WHOLE_CHARACTERS = 2000
AROUND: dict[type, tuple[str, str]] = {
    list: ("[", "]"), tuple: ("(", ")"), dict: ("{", "}"), set: ("{", "}"), frozenset: ("frozenset({", "})"),
    collections.deque: ("deque([", "])"),
}  # fmt: skip


def glimpse_of(value: Any) -> dict[str, str]:
    """The class of a value, its shape or count, and the value in one line. Nothing is asked of classes of the user."""
    kind = type(value)
    found = {"class": class_name(kind)}
    if is_table(value) or is_column(value) or is_array(value):
        found["shape"] = _shape(value)
        kinds = zip(value.columns[:COLUMNS], value.dtypes[:COLUMNS]) if is_table(value) else ()
        found["value"] = ", ".join(f"{name} {one}" for name, one in kinds) or str(value.dtype)
        return found
    if kind in AROUND:
        found["count"] = str(len(value))
    text = _in_line(value, LEVELS, is_whole=True)
    return found if text == f"<{found['class']}>" else {**found, "value": text}


def class_name(kind: type) -> str:
    """The name of a class, with its module where that is not Python's own."""
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _in_line(value: Any, levels: int, *, is_whole: bool = False) -> str:
    kind = type(value)
    if kind is int and value.bit_length() > NUMBER_BITS:
        return f"<int of {value.bit_length()} bits>"
    if kind in (str, bytes):
        if len(value) > (WHOLE_CHARACTERS if is_whole else TEXT_CHARACTERS):
            return repr(value[:WHOLE_CHARACTERS]) if is_whole else f"<{kind.__name__} of {len(value)}>"
        return repr(value)
    if kind in (int, float, complex, bool, type(None)):
        return repr(value)
    if kind not in AROUND or not levels:
        return f"<{class_name(kind)}>"
    if not value and kind not in (list, tuple, dict):
        return f"{kind.__name__}()"
    before, after = AROUND[kind]
    shown = itertools.islice(value.items() if kind is dict else value, GLIMPSED)
    if kind is dict:
        parts = [f"{_in_line(key, levels - 1)}: {_in_line(one, levels - 1)}" for key, one in shown]
    else:
        parts = [_in_line(one, levels - 1) for one in shown]
    if len(value) > GLIMPSED:
        parts.append("...")
    return before + ", ".join(parts) + ("," if kind is tuple and len(value) == 1 else "") + after
