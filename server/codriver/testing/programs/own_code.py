"""The project's own code, by its file: below the directories of the project, and not in an environment."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import CodeType
    from typing import Any

LIBRARY = os.path.dirname(os.__file__) + os.sep
OPTIMIZED = 1
"""The flag of a function's code. Source: `inspect`."""
TOOL_IDS = (4, 3, 5, 2)
"""The ids of `sys.monitoring` without an owner in Python, then the profiler's; never the debugger's or coverage's."""
TOOL_NAME = "codriver"
ALL_TAKEN = "all ids of sys.monitoring are taken, by a debugger or by profilers"


class OwnCode:
    """The files of a project."""

    def __init__(self, roots: Iterable[str]) -> None:
        self._roots = tuple(os.path.realpath(one) + os.sep for one in roots)
        self._known: dict[str, str] = {}

    def path(self, file: str) -> str:
        """Return the real path of a project's file; nothing for any other."""
        known = self._known.get(file)
        if known is None:
            known = self._known[file] = self._path(file)
        return known

    def _path(self, file: str) -> str:
        if not os.path.isabs(file) or file.startswith(LIBRARY) or "-packages" + os.sep in file:
            return ""
        real = os.path.realpath(file)
        root = next((one for one in self._roots if real.startswith(one)), None)
        # A hidden directory, such as an environment, has nothing of the project's own.
        if root is None or any(part.startswith(".") for part in real[len(root) :].split(os.sep)[:-1]):
            return ""
        return real


def is_function(code: CodeType) -> bool:
    """Whether a code is that of a named function: the body of a class has no variables of its own."""
    return code.co_name[0] != "<" and bool(code.co_flags & OPTIMIZED)


def take_tool(monitoring: Any) -> int:
    """Return a free tool id of `sys.monitoring`, which is taken now; -1 if there is none."""
    tool = next((one for one in TOOL_IDS if monitoring.get_tool(one) is None), -1)
    if tool >= 0:
        monitoring.use_tool_id(tool, TOOL_NAME)
    return tool
