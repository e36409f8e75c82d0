"""Previews of arrays, tables and columns from libraries that the program itself has loaded."""

from __future__ import annotations

import collections
import contextlib
import itertools
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

DEFAULT_ROWS = 25
"""Number of rows that are printed if the caller does not request a number."""
MAX_GLIMPSE_COLUMNS = 10
"""Maximum number of columns described in one line."""
MAX_PRINTED_ROWS = 1000
"""Maximum number of rows printed, even if the library's own limit is higher."""
MAX_PRINTED_ELEMENTS = 10_000
"""Maximum number of elements printed if the library would print all of them. Answers cannot hold more."""
INDEX_END_ITEMS = 10
"""Number of elements displayed at each end of a truncated pandas index. Source: pandas, `format_object_summary`."""
POLARS_ROWS, POLARS_COLUMNS = 10, 8
"""Number of rows and columns of a table that polars prints by default.

Source: polars, `Config.set_tbl_rows` and `set_tbl_cols`.
"""


def _is_instance_of(value: object, module: str, *names: str) -> bool:
    """Return whether a value is an instance of one of the named classes in a module. The module is not imported."""
    loaded = sys.modules.get(module)
    kinds = tuple(kind for name in names if isinstance(kind := getattr(loaded, name, None), type))
    return bool(kinds) and issubclass(type(value), kinds)


def is_table(value: object) -> bool:
    """Return whether a value is a pandas or polars data frame."""
    return _is_instance_of(value, "pandas", "DataFrame") or _is_instance_of(value, "polars", "DataFrame")


def is_column(value: object) -> bool:
    """Return whether a value is a pandas or polars series, or a pandas index."""
    return _is_instance_of(value, "pandas", "Series", "Index") or _is_instance_of(value, "polars", "Series")


def is_array(value: Any) -> bool:
    """Return whether a value is a NumPy array or PyTorch tensor with at least one axis."""
    is_of_library = _is_instance_of(value, "numpy", "ndarray") or _is_instance_of(value, "torch", "Tensor")
    return is_of_library and len(value.shape) > 0


def describe_shape(value: Any) -> str:
    """Describe the class and shape of an array, table or column. Return "" for any other value.

    Only the classes in numpy, torch, pandas and polars themselves are supported, not subclasses. The contents are not
    accessed.
    """
    kind = type(value)
    module = type.__dict__["__module__"].__get__(kind)  # a metaclass could override the attribute
    if type(module) is not str or module.partition(".")[0] not in ("numpy", "torch", "pandas", "polars"):
        return ""
    if is_table(value) or is_column(value):
        return f"{kind.__name__} {_shape(value)}"
    return f"{kind.__name__} {_shape(value)} {value.dtype}" if is_array(value) else ""


def preview_value(value: Any, start: int, requested_rows: int | None) -> tuple[str, str] | None:
    """Print an array, table or column as its library does, and describe what was omitted.

    Returns None for other values. If `requested_rows` or `start` is set, that part is printed completely.
    """
    if not (is_table(value) or is_array(value) or is_column(value)):
        return None
    if not start and requested_rows is None:
        with _limit_printing(MAX_PRINTED_ROWS, MAX_PRINTED_ELEMENTS):
            return repr(value), _describe_omitted(value)
    count, size = len(value), 1
    for axis in value.shape:
        size *= int(axis)
    most_rows = requested_rows if requested_rows is not None else DEFAULT_ROWS
    rows = most_rows if is_table(value) else max(1, most_rows // max(1, size // max(1, count)))
    part = value[start : start + rows]
    with _limit_printing(sys.maxsize, sys.maxsize, is_whole=True):
        text = repr(part)
    return text, f"{count - len(part)} of {count} {_unit(value)}" if len(part) < count else ""


def _unit(value: Any) -> str:
    """Return the word for the items along the first axis of a value."""
    return "rows" if is_table(value) or len(value.shape) > 1 else "elements"


@contextlib.contextmanager
def _limit_printing(rows: int, elements: int, *, is_whole: bool = False) -> Iterator[None]:
    """Limit how much libraries print while the context is active.

    Limits that the program has set are never raised, unless `is_whole` is set.
    """
    pandas, numpy, torch = map(sys.modules.get, ("pandas", "numpy", "torch"))
    with contextlib.ExitStack() as stack:
        for library, name, most in ((pandas, "display.max_rows", rows), (pandas, "display.max_seq_items", elements)):
            if library is not None and hasattr(library, "option_context"):
                current = library.get_option(name)
                bound = most if is_whole or not current else min(current, most)
                stack.enter_context(library.option_context(name, bound))
        if is_whole and pandas is not None and hasattr(pandas, "option_context"):
            stack.enter_context(pandas.option_context("display.max_columns", None, "display.max_colwidth", None))
        if numpy is not None and hasattr(numpy, "printoptions"):
            current = numpy.get_printoptions()["threshold"]
            stack.enter_context(numpy.printoptions(threshold=elements if is_whole else min(current, elements)))
        options = getattr(sys.modules.get("torch._tensor_str"), "PRINT_OPTS", None) if torch is not None else None
        if options is not None:
            stack.callback(setattr, options, "threshold", options.threshold)
            options.threshold = elements if is_whole else min(options.threshold, elements)
        polars = sys.modules.get("polars")
        if is_whole and polars is not None and hasattr(polars, "Config"):
            stack.enter_context(polars.Config(tbl_rows=-1, tbl_cols=-1, fmt_str_lengths=MAX_WHOLE_CHARACTERS))
        yield


def _describe_omitted(value: Any) -> str:
    """Describe the rows, elements or columns that the library omits when it prints a value."""
    count, visible = len(value), _visible_rows(value)
    if visible < count:
        return f"{count - visible} of {count} {_unit(value)}"
    if is_table(value):
        columns, most = int(value.shape[1]), _visible_columns(value)
        return f"{columns - most} of {columns} columns" if most < columns else ""
    size = 1
    for axis in value.shape:
        size *= int(axis)
    return f"some of {size} elements" if is_array(value) and size > _max_full_elements(value) else ""


def _visible_rows(value: Any) -> int:
    """Return the number of rows or elements that the library prints, within the limits of `_limit_printing`."""
    count = len(value)
    if _is_instance_of(value, "polars", "DataFrame", "Series"):
        return min(count, _max_polars_rows())
    if is_array(value):
        size = 1
        for axis in value.shape:
            size *= int(axis)
        edges = 2 * _print_options(value)[1]
        return min(count, edges) if size > _max_full_elements(value) else count
    get = sys.modules["pandas"].get_option
    if _is_instance_of(value, "pandas", "Index"):
        most = min(get("display.max_seq_items") or MAX_PRINTED_ELEMENTS, MAX_PRINTED_ELEMENTS)
        return count if count <= most else min(most, 2 * INDEX_END_ITEMS)
    most = min(get("display.max_rows") or MAX_PRINTED_ROWS, MAX_PRINTED_ROWS)
    return count if count <= most else min(most, get("display.min_rows") or most)


def _visible_columns(value: Any) -> int:
    columns = int(value.shape[1])
    if _is_instance_of(value, "polars", "DataFrame"):
        return min(columns, POLARS_COLUMNS)
    return min(columns, sys.modules["pandas"].get_option("display.max_columns") or columns)


def _max_polars_rows() -> int:
    """Return the maximum number of rows of a table that polars prints."""
    setting = os.environ.get("POLARS_FMT_MAX_ROWS", "")
    return int(setting) if setting.isdigit() else POLARS_ROWS


def _print_options(value: Any) -> tuple[int, int]:
    """Return the size above which the library omits elements of an array, and how many it prints at each end."""
    if _is_instance_of(value, "torch", "Tensor"):
        options: Any = getattr(sys.modules.get("torch._tensor_str"), "PRINT_OPTS", None)
        return (int(options.threshold), int(options.edgeitems)) if options is not None else (1000, 3)
    setting = sys.modules["numpy"].get_printoptions()
    return setting["threshold"], setting["edgeitems"]


def _max_full_elements(value: Any) -> int:
    """Return the maximum number of elements of an array that is printed in full."""
    return min(_print_options(value)[0], MAX_PRINTED_ELEMENTS)


def _shape(value: Any) -> str:
    return str(tuple(int(axis) for axis in value.shape))


def select_part(value: Any, step: object) -> list[Any] | None:
    """Return the part of a value at one step of a path, in a list, or None if the value is not a table or array.

    The steps into a table are its column names and row positions.
    """
    if is_table(value):
        if isinstance(step, int) and hasattr(value, "iloc"):
            return [value.iloc[step]]
        return [value[step]]
    if is_column(value) and hasattr(value, "iloc") and isinstance(step, int):
        return [value.iloc[step]]
    return [value[step]] if is_array(value) or is_column(value) else None


MAX_GLIMPSE_ELEMENTS = 10
"""Maximum number of elements of a collection that are printed in one line."""
MAX_GLIMPSE_LEVELS = 3
"""Maximum nesting of a collection that is printed in one line."""
MAX_GLIMPSE_BITS = 2000
"""Maximum number of bits of an integer that is printed in one line."""
MAX_NESTED_CHARACTERS = 60
"""Maximum length of a string inside a collection."""
MAX_WHOLE_CHARACTERS = 2000
"""Maximum length of a string that is not inside a collection."""
BRACKETS_BY_TYPE: dict[type, tuple[str, str]] = {
    list: ("[", "]"), tuple: ("(", ")"), dict: ("{", "}"), set: ("{", "}"), frozenset: ("frozenset({", "})"),
    collections.deque: ("deque([", "])"),
}  # fmt: skip
"""The brackets of a collection, by its type."""


def describe_value(value: Any) -> dict[str, str]:
    """Describe a value by its class, its shape or size, and its text in one line. No user code runs."""
    kind = type(value)
    found = {"class": qualified_class_name(kind)}
    if is_table(value) or is_column(value) or is_array(value):
        found["shape"] = _shape(value)
        kinds = zip(value.columns[:MAX_GLIMPSE_COLUMNS], value.dtypes[:MAX_GLIMPSE_COLUMNS]) if is_table(value) else ()
        found["value"] = ", ".join(f"{name} {count}" for name, count in kinds) or str(value.dtype)
        return found
    if kind in BRACKETS_BY_TYPE:
        found["count"] = str(len(value))
    text = _in_line(value, MAX_GLIMPSE_LEVELS, is_whole=True)
    return found if text == f"<{found['class']}>" else {**found, "value": text}


def qualified_class_name(kind: type) -> str:
    """Return the name of a class, qualified by its module unless it is a builtin."""
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _in_line(value: Any, levels: int, *, is_whole: bool = False) -> str:
    """Print a plain value in one line, with at most `levels` levels of nested collections."""
    kind = type(value)
    if kind is int and value.bit_length() > MAX_GLIMPSE_BITS:
        return f"<int of {value.bit_length()} bits>"
    if kind in (str, bytes):
        if len(value) > (MAX_WHOLE_CHARACTERS if is_whole else MAX_NESTED_CHARACTERS):
            return repr(value[:MAX_WHOLE_CHARACTERS]) if is_whole else f"<{kind.__name__} of {len(value)}>"
        return repr(value)
    if kind in (int, float, complex, bool, type(None)):
        return repr(value)
    if kind not in BRACKETS_BY_TYPE or not levels:
        return f"<{qualified_class_name(kind)}>"
    if not value and kind not in (list, tuple, dict):
        return f"{kind.__name__}()"
    before, after = BRACKETS_BY_TYPE[kind]
    visible = itertools.islice(value.items() if kind is dict else value, MAX_GLIMPSE_ELEMENTS)
    if kind is dict:
        parts = [f"{_in_line(key, levels - 1)}: {_in_line(item, levels - 1)}" for key, item in visible]
    else:
        parts = [_in_line(item, levels - 1) for item in visible]
    if len(value) > MAX_GLIMPSE_ELEMENTS:
        parts.append("...")
    return before + ", ".join(parts) + ("," if kind is tuple and len(value) == 1 else "") + after
