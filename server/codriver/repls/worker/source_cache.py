"""Source text of code that is in no file, for tracebacks and `inspect.getsource`."""

from __future__ import annotations

import collections
import linecache
import os

KEPT = 2000
"""How many evaluated texts are kept."""


class Sources:
    """The evaluated texts of one worker, the oldest dropped first."""

    def __init__(self) -> None:
        self._files: collections.deque[str] = collections.deque()

    def keep(self, file: str, text: str) -> None:
        """Let tracebacks show the lines of code that is in no file; None as its time keeps it from being looked for."""
        if file.startswith("<") or not os.path.exists(file):
            linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
            self._files.append(file)
            if len(self._files) > KEPT:
                linecache.cache.pop(self._files.popleft(), None)
