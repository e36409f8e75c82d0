"""Recognize the project's code by its file, which is below the project's directories but not in an environment."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import CodeType
    from typing import Any

STDLIB_PREFIX = os.path.dirname(os.__file__) + os.sep
"""Path of the standard library's directory, with a separator at its end."""
FUNCTION_CODE_FLAG = 1
"""Flag of code objects that belong to functions. Source: `inspect.CO_OPTIMIZED`."""
TOOL_IDS = (4, 3, 5, 2)
"""`sys.monitoring` ids to claim, in order: those that Python does not assign, then the profiler's.

The ids of debuggers and of coverage are never claimed.
"""
TOOL_NAME = "codriver"
"""Name under which a tool id of `sys.monitoring` is claimed."""
NO_FREE_TOOL_MESSAGE = "all tool ids of sys.monitoring are in use by a debugger or by profilers"


class ProjectCode:
    """Determines whether files belong to the project."""

    def __init__(self, roots: Iterable[str]) -> None:
        self._roots = tuple(os.path.realpath(root) + os.sep for root in roots)
        self._known: dict[str, str] = {}

    def path(self, file: str) -> str:
        """Return the real path of a project file, or an empty string for other files."""
        known = self._known.get(file)
        if known is None:
            known = self._known[file] = self._find_path(file)
        return known

    def _find_path(self, file: str) -> str:
        """Determine the result of `path` without the cache."""
        if not os.path.isabs(file) or file.startswith(STDLIB_PREFIX) or "-packages" + os.sep in file:
            return ""
        real = os.path.realpath(file)
        root = next((candidate for candidate in self._roots if real.startswith(candidate)), None)
        # A hidden directory, such as an environment, contains no project code.
        if root is None or any(part.startswith(".") for part in real[len(root) :].split(os.sep)[:-1]):
            return ""
        return real


def is_function(code: CodeType) -> bool:
    """Return whether a code object belongs to a named function, and not to a class body or a module."""
    return code.co_name[0] != "<" and bool(code.co_flags & FUNCTION_CODE_FLAG)


def claim_tool(monitoring: Any) -> int:
    """Claim a free tool id of `sys.monitoring`. Return -1 if there is none."""
    tool = next((identity for identity in TOOL_IDS if monitoring.get_tool(identity) is None), -1)
    if tool >= 0:
        monitoring.use_tool_id(tool, TOOL_NAME)
    return tool
