"""The place where a process stands that did not end in time, by its dump of Python's `faulthandler`."""

from __future__ import annotations

import linecache
import os
import re

from ..basics.error_report import is_library, is_worker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

FRAME = re.compile(r'^  File "(?P<file>.+)", line (?P<line>\d+) in (?P<function>.+)$', re.MULTILINE)
WAITS = {
    "threading.py": {"wait", "wait_for", "join", "_wait_for_tstate_lock", "acquire", "__enter__"},
    "queue.py": {"get", "put", "join"},
    "_base.py": {"result", "exception", "wait"},
    "synchronize.py": {"acquire", "wait", "__enter__"},
    "pool.py": {"get", "wait", "join"},
}
"""Functions of the standard library in which a thread waits for another, by the names of their files."""
WAITING_LINE = re.compile(r"\.(?:acquire|get|put|result|join|wait)\(|^(?:async )?with ")
"""Lines that call what waits in C: a lock, or a queue."""


class Stop:
    """The place of the innermost frame of the main thread, as `file:line in function`.

    `waits`: it waits for another thread there.
    """

    def __init__(self, dump: str, sources: Mapping[str, str]) -> None:
        """`sources`: the texts of code that is in no file here, or in another version, by name."""
        threads = re.split(r"^(?=(?:Current thread|Thread) )", dump, flags=re.MULTILINE)
        frames = [one.groupdict() for one in FRAME.finditer(threads[-1])]
        own = [one for one in frames if not (is_worker(one["file"]) or is_library(one["file"]))]
        told = (own or frames)[:1]
        self.place = "".join(f"{one['file']}:{one['line']} in {one['function']}" for one in told)
        self.waits = bool(frames) and _is_waiting(**frames[0], sources=sources)


def _is_waiting(file: str, line: str, function: str, sources: Mapping[str, str]) -> bool:
    if is_library(file):
        return function in WAITS.get(os.path.basename(file), ())
    if file in sources:
        shown = "".join(sources[file].splitlines()[int(line) - 1 : int(line)])
    else:
        shown = linecache.getline(file, int(line))
    return WAITING_LINE.search(shown.strip()) is not None
