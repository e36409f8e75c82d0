"""Record the stamps of files when Python loads them, and ignore bytecode that may belong to an older source.

Stamps are taken when the loader gets the file's status, so Codriver's code is not on the stack during the import.

Python itself accepts bytecode for any file with the same modification second and size. For project files, bytecode is
ignored if it was written before its source, or so soon afterwards that a process may have read a previous version
within the same second as the edit.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys

from ..basics.definition_access import INSTALLED_DIRECTORIES
from ..basics.source_files import read_regular_file
from ..basics.systems import creation_ns

TYPE_CHECKING = False
if TYPE_CHECKING:
    import types
    from collections.abc import Callable
    from typing import Any, Dict, Tuple

    Stamp = Tuple[int, int, int, int]

    """The modification and status change times in ns, the size, and the inode."""

    Stats = Dict[str, Any]

LOADER_CLASS: Any = importlib.machinery.SourceFileLoader
STANDARD_LIBRARY_DIRECTORY = os.path.dirname(os.__file__) + os.sep
IMPOSSIBLE_SIZE = -1
"""A size that no file has, so that bytecode is ignored and rewritten. Source: `SourceLoader.get_code`."""
MAX_COMPILATION_NS = 10 * 10**9
"""The assumed maximum duration of a compilation, in ns.

Bytecode written this long after the source cannot be from a previous version.
"""
MAX_SEARCHED_FRAMES = 4
"""Maximum number of frames that are searched for `exec_module`, including those of subclasses of the loader."""


class ImportStamps:
    """Records the modification times and sizes of files when Python loads them, except for installed packages."""

    def __init__(self, notify: Callable[[], object]) -> None:
        self.count = 0
        """The number of loads so far, used to detect new ones."""
        self.of: dict[str, Stamp] = {}
        self._notify = notify
        self._is_project: dict[str, bool] = {}
        self._previous: Any = None
        self._installed: Any = None

    def install(self) -> None:
        """Start recording the stamps of loaded files."""
        previous = self._previous = LOADER_CLASS.path_stats
        is_pythons = previous.__code__.co_filename.startswith("<frozen ")

        def path_stats(loader: object, path: Any) -> Stats:
            if not self.is_project_file(path):
                stats: Stats = previous(loader, path)
                return stats
            status = os.stat(path)
            stats = {"mtime": status.st_mtime, "size": status.st_size} if is_pythons else previous(loader, path)
            caller = sys._getframe(1)  # noqa: SLF001  # no other way to it
            if _is_load(caller):
                self.of[path] = file_stamp(status)
                self.count += 1
                self._notify()
            if not _is_settled(path, caller, status):
                stats["size"] = IMPOSSIBLE_SIZE
            return stats

        self._installed = LOADER_CLASS.path_stats = path_stats

    def remove(self) -> None:
        """Stop recording stamps, unless other code has patched the loader in the meantime."""
        if LOADER_CLASS.path_stats is self._installed:
            LOADER_CLASS.path_stats = self._previous

    def is_project_file(self, file: object) -> bool:
        """Return whether a file may belong to a project, rather than to Python or an installed package."""
        if type(file) is not str:
            return False
        directory = file.rpartition(os.sep)[0]
        known = self._is_project.get(directory)
        if known is None:
            real = os.path.realpath(directory) + os.sep
            parts = real.split(os.sep)
            known = not real.startswith(STANDARD_LIBRARY_DIRECTORY) and not any(
                part in INSTALLED_DIRECTORIES for part in parts
            )
            self._is_project[directory] = known and os.path.isabs(file)
        return self._is_project[directory]


def file_stamp(status: os.stat_result) -> Stamp:
    """Return the stamp of a file, which changes whenever the file is written."""
    return status.st_mtime_ns, creation_ns(status), status.st_size, status.st_ino


def read_file(file: str) -> tuple[Stamp, bytes] | None:
    """Return the stamp and content of a regular file, or None if the file cannot be read or is too large."""
    try:
        found = read_regular_file(file)
    except (OSError, ValueError):
        return None
    return None if found is None else (file_stamp(found[0]), found[1])


def _is_load(frame: types.FrameType | None) -> bool:
    """Return whether a file's status is requested in order to load the file.

    Other callers only get its code without running it.
    """
    for _ in range(MAX_SEARCHED_FRAMES):
        if frame is None:
            return False
        if frame.f_code.co_name == "exec_module":
            return True
        frame = frame.f_back
    return False


def _is_settled(path: str, caller: types.FrameType, source: os.stat_result) -> bool:
    """Return whether bytecode is missing, or so much newer than its source that the timestamps can be trusted."""
    bytecode_path = caller.f_locals.get("bytecode_path") if caller.f_code.co_name == "get_code" else None
    try:
        compiled = os.stat(bytecode_path or importlib.util.cache_from_source(path))
    except (OSError, NotImplementedError, ValueError):
        return True
    return compiled.st_mtime_ns > max(source.st_mtime_ns, source.st_ctime_ns) + MAX_COMPILATION_NS
