"""Lines of functions that changed since the last commit, and those of them that ran: noted by `sys.monitoring`.

A line is noted once, as its event is disabled then. Lines outside of functions run when a file is loaded, which no test
has to do, and are left out.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import types

from ..basics.source_files import bytes_of
from .call_monitor import ALL_TAKEN, NAME, TOOL_IDS
from .recorded_calls import OPTIMIZED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

TOO_OLD = "coverage needs sys.monitoring, which Python has from 3.12 on; what each test executes was noted for affected"
NO_GIT = "changed lines are told from a Git repository, and this folder is in none: "
GIT_S = 20
HUNK = re.compile(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@")
MOST_FILES = 200


class LineCoverage:
    """The changed lines of one run's project that no code ran, between `begin` and `end`."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._monitoring: Any = getattr(sys, "monitoring", None)
        self._tool = -1
        self._wanted: dict[str, set[int] | None] = {}
        """By real path the changed lines; None for all."""
        self._real: dict[str, str] = {}
        self._seen: dict[str, set[int]] = {}
        self._codes: list[types.CodeType] = []
        self._others: list[types.CodeType] = []

    def begin(self) -> str:
        """Note lines from now on; else in words why that cannot be."""
        monitoring = self._monitoring
        if monitoring is None:
            return TOO_OLD
        try:
            self._wanted = changed_lines(self._root)
        except (OSError, subprocess.SubprocessError) as error:
            return NO_GIT + str(getattr(error, "stderr", None) or error).strip()
        self._tool = next((one for one in TOOL_IDS if monitoring.get_tool(one) is None), -1)
        if self._tool < 0:
            return ALL_TAKEN
        events = monitoring.events
        monitoring.use_tool_id(self._tool, NAME)
        monitoring.register_callback(self._tool, events.PY_START, self._started)
        monitoring.register_callback(self._tool, events.LINE, self._line)
        monitoring.set_events(self._tool, events.PY_START)
        return ""

    def end(self) -> list[list[Any]]:
        """Note no more; the files with the lines that nothing ran."""
        monitoring, tool = self._monitoring, self._tool
        if tool < 0:
            return []
        events = monitoring.events
        monitoring.set_events(tool, 0)
        for code in self._others:
            monitoring.set_local_events(tool, code, events.LINE)
        for code in [*self._codes, *self._others]:
            monitoring.set_local_events(tool, code, 0)
        for event in (events.PY_START, events.LINE):
            monitoring.register_callback(tool, event, None)
        monitoring.free_tool_id(tool)
        self._tool = -1
        found = []
        for file, lines in sorted(self._wanted.items()):
            own = set(lines_of_functions(file))
            left = (own if lines is None else own & lines) - self._seen.get(file, set())
            if left:
                found.append([file, sorted(left)])
        return found

    def _started(self, code: types.CodeType, _offset: int) -> Any:
        real = self._real.get(code.co_filename)
        if real is None:
            real = self._real[code.co_filename] = os.path.realpath(code.co_filename)
        if real in self._wanted:
            self._codes.append(code)
            self._monitoring.set_local_events(self._tool, code, self._monitoring.events.LINE)
        else:
            self._others.append(code)
        return self._monitoring.DISABLE

    def _line(self, code: types.CodeType, line: int) -> Any:
        self._seen.setdefault(self._real.get(code.co_filename, ""), set()).add(line)
        return self._monitoring.DISABLE


def changed_lines(root: str) -> dict[str, set[int] | None]:
    """By real path of a file of Python the lines that differ from the last commit; of a file that is in none, None.

    Raises:
        OSError, subprocess.SubprocessError: there is no Git, or no repository.
    """
    plain = ["diff", "HEAD", "--unified=0", "--no-ext-diff", "--no-textconv", "--no-color", "--relative", "--", "*.py"]
    found: dict[str, set[int] | None] = {}
    file = ""
    for line in _git(root, plain).splitlines():
        if line.startswith("+++ "):
            file = os.path.realpath(os.path.join(root, line[6:].strip())) if line[4:6] == "b/" else ""
        elif file and (hunk := HUNK.match(line)):
            first, count = int(hunk[1]), int(hunk[2] or 1)
            found[file] = {*(found.get(file) or ()), *range(first, first + count)}
    for name in _git(root, ["ls-files", "--others", "--exclude-standard", "--", "*.py"]).splitlines():
        found[os.path.realpath(os.path.join(root, name))] = None
    return dict(list(found.items())[:MOST_FILES])


def _git(root: str, words: list[str]) -> str:
    done = subprocess.run(  # noqa: S603  # in the project's own process, which runs its tests
        ["git", *words],  # noqa: S607  # as the user's shell finds it
        cwd=root or None, capture_output=True, text=True, errors="replace", timeout=GIT_S, check=True,
    )  # fmt: skip
    return done.stdout


def lines_of_functions(file: str) -> Iterator[int]:
    """The lines of a file's functions that run where these are called; none of a file that cannot be read."""
    try:
        found = bytes_of(file)
        waiting = [] if found is None else [compile(found[1], file, "exec", dont_inherit=True)]
    except (OSError, SyntaxError, ValueError):
        return
    while waiting:
        code = waiting.pop()
        waiting += [one for one in code.co_consts if isinstance(one, types.CodeType)]
        if code.co_flags & OPTIMIZED:
            yield from (line for _, _, line in code.co_lines() if line and line != code.co_firstlineno)
