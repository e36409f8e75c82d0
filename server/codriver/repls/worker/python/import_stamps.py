"""Stamps of the files that modules are loaded from, taken where the loader asks for them; no frame of it stays.

Python itself takes compiled code for that of a file whose second and size are the same. Of the project's files, code
that is not settled is not believed: written before its source, or so soon after that a process may have read a former
text, or read it again, within the second of an edit.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys

from ..basics.class_spaces import INSTALLED

TYPE_CHECKING = False
if TYPE_CHECKING:
    import types
    from collections.abc import Callable
    from typing import Any, Dict, Tuple

    Stamp = Tuple[int, int, int, int]
    """Time of the content and of the status in ns, size, number of the file."""
    Stats = Dict[str, Any]

LOADER: Any = importlib.machinery.SourceFileLoader
STANDARD = os.path.dirname(os.__file__) + os.sep
NO_SIZE = -1
"""No file has it, so that compiled code of any is passed over, and written anew. Source: `SourceLoader.get_code`."""
SETTLED_NS = 10 * 10**9
"""From the write of a source to that of its compiled code: no compilation of what stood there before takes as long."""
FRAMES = 4
"""Between the loader's question and its `exec_module`, also where a subclass has functions of its own."""


class ImportStamps:
    """The stamp of each file as it was loaded last, from `install` on. Files of what is installed are left out."""

    def __init__(self, tell: Callable[[], object]) -> None:
        self.count = 0
        """Of loads, for who wants to know whether there were any."""
        self.of: dict[str, Stamp] = {}
        self._tell = tell
        self._is_own: dict[str, bool] = {}
        self._former: Any = None
        self._ours: Any = None

    def install(self) -> None:
        """Begin to take stamps."""
        former = self._former = LOADER.path_stats
        is_pythons = former.__code__.co_filename.startswith("<frozen ")

        def path_stats(loader: object, path: Any) -> Stats:
            if not self.is_own(path):
                stats: Stats = former(loader, path)
                return stats
            status = os.stat(path)
            stats = {"mtime": status.st_mtime, "size": status.st_size} if is_pythons else former(loader, path)
            caller = sys._getframe(1)  # noqa: SLF001  # no other way to it
            if _is_load(caller):
                self.of[path] = stamp_of(status)
                self.count += 1
                self._tell()
            if not _is_settled(path, caller, status):
                stats["size"] = NO_SIZE
            return stats

        self._ours = LOADER.path_stats = path_stats

    def remove(self) -> None:
        """Take no more stamps, unless somebody else has come in between."""
        if LOADER.path_stats is self._ours:
            LOADER.path_stats = self._former

    def is_own(self, file: object) -> bool:
        """True if a file may be a project's: neither Python's own nor installed."""
        if type(file) is not str:
            return False
        folder = file.rpartition(os.sep)[0]
        known = self._is_own.get(folder)
        if known is None:
            real = os.path.realpath(folder) + os.sep
            parts = real.split(os.sep)
            known = not real.startswith(STANDARD) and not any(part in INSTALLED for part in parts)
            self._is_own[folder] = known and os.path.isabs(file)
        return self._is_own[folder]


def stamp_of(status: os.stat_result) -> Stamp:
    """The stamp of a file's status: another one, the file was written since."""
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino


def _is_load(frame: types.FrameType | None) -> bool:
    """True if the loader asks because it loads: others ask it for code as well, and run none."""
    for _ in range(FRAMES):
        if frame is None:
            return False
        if frame.f_code.co_name == "exec_module":
            return True
        frame = frame.f_back
    return False


def _is_settled(path: str, caller: types.FrameType, source: os.stat_result) -> bool:
    """True if compiled code was written well after its source; true where there is none."""
    place = caller.f_locals.get("bytecode_path") if caller.f_code.co_name == "get_code" else None
    try:
        compiled = os.stat(place or importlib.util.cache_from_source(path))
    except (OSError, NotImplementedError, ValueError):
        return True
    return compiled.st_mtime_ns > max(source.st_mtime_ns, source.st_ctime_ns) + SETTLED_NS
