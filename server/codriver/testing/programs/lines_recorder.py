"""Records which of the given lines ran, by `sys.monitoring`, which Python has from 3.12 on.

The lines belong to functions: those outside of functions run when a file is imported, not in a test, and are left out.
Each line is noted once, as its event is then disabled.
"""

from __future__ import annotations

import os
import sys

from .own_code import ALL_TAKEN, OPTIMIZED, take_tool

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import CodeType
    from typing import Any

TOO_OLD = "the lines that tests execute are recorded by sys.monitoring, which Python has from 3.12 on"


def recorder(options: Mapping[str, Any]) -> LinesRecorder:
    """Return the recorder for a run."""
    return LinesRecorder(options["lines"])


class LinesRecorder:
    """The lines that ran. `lines`: those of interest by absolute path, None for all of a file."""

    name = "lines"

    def __init__(self, lines: Mapping[str, Sequence[int] | None]) -> None:
        self._lines = {os.path.realpath(path): None if some is None else set(some) for path, some in lines.items()}
        self._monitoring: Any = getattr(sys, "monitoring", None)
        self._tool = -1
        self._problem = ""
        self._real: dict[str, str] = {}
        self._seen: dict[str, set[int]] = {}
        self._codes: list[CodeType] = []

    def start(self) -> None:
        """Record from now on."""
        monitoring = self._monitoring
        if monitoring is None:
            self._problem = TOO_OLD
            return
        self._tool = take_tool(monitoring)
        if self._tool < 0:
            self._problem = ALL_TAKEN
            return
        events = monitoring.events
        monitoring.register_callback(self._tool, events.PY_START, self._started)
        monitoring.register_callback(self._tool, events.LINE, self._line)
        monitoring.set_events(self._tool, events.PY_START)

    def enter(self, *place: str) -> None:
        """Nothing to do: the test that runs a line does not matter."""

    def uses(self, nodeid: str, file: str, fixtures: object) -> None:
        """Nothing to do."""

    def finish(self) -> dict[str, Any]:
        """Stop recording, and return the lines of functions by file, and those of them that ran."""
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
            own = lines_of_functions(path)
            own = own if some is None else own & some
            data[path] = {"lines": sorted(own), "ran": sorted(own & self._seen.get(path, set()))}
        return {"data": data, "problem": self._problem}

    def _started(self, code: CodeType, _offset: int) -> Any:
        real = self._real.get(code.co_filename)
        if real is None:
            real = self._real[code.co_filename] = os.path.realpath(code.co_filename)
        if real in self._lines:
            self._codes.append(code)
            self._monitoring.set_local_events(self._tool, code, self._monitoring.events.LINE)
        return self._monitoring.DISABLE

    def _line(self, code: CodeType, line: int) -> Any:
        self._seen.setdefault(self._real.get(code.co_filename, ""), set()).add(line)
        return self._monitoring.DISABLE


def lines_of_functions(path: str) -> set[int]:
    """Return the lines of a file's functions that a call may run; none for a file that cannot be read."""
    try:
        with open(path, "rb") as file:
            waiting: list[Any] = [compile(file.read(), path, "exec", dont_inherit=True)]
    except (OSError, SyntaxError, ValueError):
        return set()
    lines: set[int] = set()
    while waiting:
        code = waiting.pop()
        waiting += [one for one in code.co_consts if isinstance(one, type(code))]
        if code.co_flags & OPTIMIZED and hasattr(code, "co_lines"):
            lines.update(line for _, _, line in code.co_lines() if line and line != code.co_firstlineno)
    return lines
