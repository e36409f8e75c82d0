"""Changed statements: what of a Python file has to run again after it was edited, told by code and not by text."""

from __future__ import annotations

import ast
import io
import tokenize
from collections import Counter
from typing import TYPE_CHECKING

from codriver.editing.python_source import PythonSource

if TYPE_CHECKING:
    from collections.abc import Iterator


def changed_statements(before: bytes, after: bytes) -> tuple[str, tuple[tuple[int, str], ...] | None]:
    """The text of a file as it is now, and its top-level statements that were not there before.

    Each by its line, which is not that of a decorator, and its text. Comments and layout do not count; None where
    nothing else changed.

    Raises:
        SyntaxError, ValueError: the file cannot be read.
    """
    text = decoded(after)
    source = PythonSource(text, compiles=False)
    now = [ast.dump(node) for node in source.tree.body]
    was = _dumped(before)
    if was == now:
        return text, None
    left = Counter(was)
    found = []
    for node, dumped in zip(source.tree.body, now, strict=True):
        left[dumped] -= 1
        if left[dumped] < 0:
            first, last = source.span(node)
            found.append((node.lineno, "".join(source.lines[first - 1 : last])))
    return text, tuple(found)


def imported_names(text: str) -> Iterator[str]:
    """The last parts of the modules that a text may import, at any place."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from (alias.name.rpartition(".")[2] for alias in node.names)
            if isinstance(node, ast.ImportFrom) and node.module:
                yield node.module.rpartition(".")[2]


def decoded(data: bytes) -> str:
    """The text of a Python file, in the encoding that it declares, without its mark."""
    encoding = tokenize.detect_encoding(io.BytesIO(data).readline)[0]
    return data.decode(encoding)


def _dumped(data: bytes) -> list[str]:
    """The statements that a file had; none for an unreadable file."""
    try:
        return [ast.dump(node) for node in PythonSource(decoded(data), compiles=False).tree.body]
    except (SyntaxError, ValueError):
        return []
