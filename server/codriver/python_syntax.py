"""Parse Python source in any thread of the server.

Python 3.11 and 3.12.0 keep the parser's recursion depth in one place for all threads. If two threads parse at the same
time, one of them can get a `SystemError` about the depth, regardless of the source.

Source: https://github.com/python/cpython/issues/106905, fixed in Python 3.11.9, 3.12.3 and 3.13.
"""

from __future__ import annotations

import ast
from typing import Final

MAX_ATTEMPTS: Final = 5
"""Number of attempts before the error is passed on. Two collisions in a row are already unlikely."""


def parse_source(text: str) -> ast.Module:
    """Return the syntax tree of a module, like `ast.parse`.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: as for `ast.parse`.
    """
    for _ in range(MAX_ATTEMPTS - 1):
        try:
            return ast.parse(text)
        except SystemError:  # another thread parsed at the same time
            continue
    return ast.parse(text)
