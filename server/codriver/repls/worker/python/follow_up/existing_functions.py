"""Find the functions in this process that were defined by a statement."""

from __future__ import annotations

import gc
import types

from ..statements import line_range

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class ExistingFunctions:
    """All functions that existed in the process at the first lookup, by the position of their definition."""

    def __init__(self) -> None:
        self._live_by_node: dict[tuple[str, str, int], list[types.FunctionType]] | None = None

    def close(self) -> None:
        """Drop all references to functions."""
        (self._live_by_node or {}).clear()
        self._live_by_node = None

    def find(self, file: str, node: Any) -> list[Any]:
        """Return the functions in this process that were defined by a statement."""
        if self._live_by_node is None:
            self._live_by_node = {}
            for candidate in gc.get_objects():
                if type(candidate) is types.FunctionType:
                    code = candidate.__code__
                    key = code.co_filename, code.co_name, code.co_firstlineno
                    self._live_by_node.setdefault(key, []).append(candidate)
        return self._live_by_node.get((file, node.name, line_range(node)[0]), [])
