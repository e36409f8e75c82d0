"""Record which of the given lines run, with `sys.monitoring` in Python 3.12 and later.

Only lines in functions count, because others run when a file is imported and not in a test. Each line is recorded once,
since its event is then disabled.
"""

from __future__ import annotations

import os
import sys

from .project_code import FUNCTION_CODE_FLAG, NO_FREE_TOOL_MESSAGE, claim_tool

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import CodeType
    from typing import Any

TOO_OLD_MESSAGE = "recording the lines that tests execute needs sys.monitoring, which was added in Python 3.12"


def recorder(options: Mapping[str, Any]) -> LinesRecorder:
    """Create the recorder for a run."""
    return LinesRecorder(options["lines"])


class LinesRecorder:
    """Records which of the requested lines are executed.

    `lines` maps absolute paths to the requested lines, or to None for all lines in a file.
    """

    name = "lines"

    def __init__(self, lines: Mapping[str, Sequence[int] | None]) -> None:
        self._lines = {os.path.realpath(path): None if some is None else set(some) for path, some in lines.items()}
        self._monitoring: Any = getattr(sys, "monitoring", None)
        self._tool = -1
        self._error = ""
        self._real: dict[str, str] = {}
        self._seen: dict[str, set[int]] = {}
        self._codes: list[CodeType] = []

    def start(self) -> None:
        """Start recording."""
        monitoring = self._monitoring
        if monitoring is None:
            self._error = TOO_OLD_MESSAGE
            return
        self._tool = claim_tool(monitoring)
        if self._tool < 0:
            self._error = NO_FREE_TOOL_MESSAGE
            return
        events = monitoring.events
        monitoring.register_callback(self._tool, events.PY_START, self._on_start)
        monitoring.register_callback(self._tool, events.LINE, self._on_line)
        monitoring.set_events(self._tool, events.PY_START)

    def set_context(self, *context: str) -> None:
        """Do nothing, because lines are not recorded separately for each test."""

    def record_test(self, nodeid: str, file: str, fixtures: object) -> None:
        """Do nothing, because lines are not recorded separately for each test."""

    def finish(self) -> dict[str, Any]:
        """Stop recording. For each file, return the requested lines in functions, and those that were executed."""
        monitoring, tool = self._monitoring, self._tool
        if tool >= 0:
            events = monitoring.events
            monitoring.set_events(tool, 0)
            for code in self._codes:
                monitoring.set_local_events(tool, code, 0)
            for event in (events.PY_START, events.LINE):
                monitoring.register_callback(tool, event, None)
            monitoring.free_tool_id(tool)
            self._tool = -1
        data = {}
        for path, some in self._lines.items():
            requested = function_lines(path)
            requested = requested if some is None else requested & some
            data[path] = {"lines": sorted(requested), "ran": sorted(requested & self._seen.get(path, set()))}
        return {"data": data, "problem": self._error}

    def _on_start(self, code: CodeType, _offset: int) -> Any:
        """Start recording the lines of a function if its file was requested. A `sys.monitoring` callback."""
        real = self._real.get(code.co_filename)
        if real is None:
            real = self._real[code.co_filename] = os.path.realpath(code.co_filename)
        if real in self._lines:
            self._codes.append(code)
            self._monitoring.set_local_events(self._tool, code, self._monitoring.events.LINE)
        return self._monitoring.DISABLE

    def _on_line(self, code: CodeType, line: int) -> Any:
        """Record that a line was executed. A `sys.monitoring` callback."""
        self._seen.setdefault(self._real.get(code.co_filename, ""), set()).add(line)
        return self._monitoring.DISABLE


def function_lines(path: str) -> set[int]:
    """Return the lines in the functions of a file, or an empty set if the file cannot be read."""
    try:
        with open(path, "rb") as file:
            waiting: list[Any] = [compile(file.read(), path, "exec", dont_inherit=True)]
    except (OSError, SyntaxError, ValueError):
        return set()
    lines: set[int] = set()
    while waiting:
        code = waiting.pop()
        waiting += [const for const in code.co_consts if isinstance(const, type(code))]
        if code.co_flags & FUNCTION_CODE_FLAG and hasattr(code, "co_lines"):
            lines.update(line for _, _, line in code.co_lines() if line and line != code.co_firstlineno)
    return lines
