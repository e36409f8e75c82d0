"""Watch the port files of REPLs that others start.

The known port file paths in the workspace and its projects are checked every 0.75 s, which costs one `lstat` each if
nothing has changed. Every few seconds, directories are searched for new projects. A port file is only a claim:
connecting shows whether a REPL is listening.
"""

from __future__ import annotations

import itertools
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codriver import files
from codriver.files import FileRules, Links
from codriver.files.polling import PORT_FILE_CHECK_INTERVAL_S, Poller
from codriver.files.tree_walk import walk
from codriver.files.whole_files import ReadCache
from codriver.net.server_record import MAX_PORT
from codriver.repls import kinds

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence


MAX_PROJECT_DEPTH: Final = 3
"""Maximum depth below the workspace at which a monorepo's projects are found."""
MAX_SEARCHED_DIRECTORIES: Final = 2000
"""Maximum number of directories per search. A larger workspace is not a project, and a search would take seconds."""
MAX_WATCHED_PROJECTS: Final = 200
"""Maximum number of projects whose port files are watched."""
SEARCH_TIMEOUT_S: Final = 1.0
"""Seconds after which a search ends, even on a slow disk."""
CHECKS_PER_RESCAN: Final = 4
"""Number of port file checks per search for new directories, which makes one search every 3 s."""
MAX_PORT_CHARS: Final = 32
"""Maximum number of characters considered in a port file."""
PORT_FILE_RULES: Final = FileRules(Links.NEVER, 4 * files.KIBIBYTE)
"""Rules for reading a port file.

The file decides where code is sent, so it must be small and in the workspace itself.
"""


@dataclass(frozen=True, slots=True)
class FoundPortFile:
    """A port file and its port. If the port is None, `error` is the reason."""

    path: Path
    port: int | None
    error: str | None = None
    key: str = "nrepl"
    """The default session key. For a project below the workspace, it starts with the name of the project's directory.
    """
    written_ns: int = 0
    """The time at which the file was written. A file rewritten with the same port belongs to a restarted REPL."""

    @property
    def address(self) -> str:
        """Return the address of the REPL that wrote this file."""
        return kinds.join_address(kinds.protocol_for_port_file(_known_name(self.path)), f"127.0.0.1:{self.port}")


async def watch_port_files(
    workspace: Path, names: Sequence[str], *, interval_s: float = PORT_FILE_CHECK_INTERVAL_S
) -> AsyncIterator[tuple[FoundPortFile, ...]]:
    """Yield the port files in `workspace`, immediately and then after each change.

    `names` are paths relative to each searched directory.
    """
    before: tuple[FoundPortFile, ...] | None = None
    candidates: Mapping[str, Sequence[Path]] = {}
    rounds = itertools.count()
    known: ReadCache[FoundPortFile | None] = ReadCache()

    def read_all() -> tuple[FoundPortFile, ...]:
        nonlocal candidates
        if next(rounds) % CHECKS_PER_RESCAN == 0:
            candidates = _candidates(workspace, names)
        return _read_all(workspace, candidates, known)

    def is_changed(found: tuple[FoundPortFile, ...]) -> bool:
        return found != before

    poller = Poller(read_all, interval_s=interval_s)
    while True:
        before = await poller.next_result(is_changed)
        yield before


def find_port_files(workspace: Path, names: Sequence[str]) -> tuple[FoundPortFile, ...]:
    """Return the port files in `workspace`. `names` are paths relative to each searched directory."""
    return _read_all(workspace, _candidates(workspace, names), ReadCache())


def _candidates(workspace: Path, names: Sequence[str]) -> Mapping[str, Sequence[Path]]:
    """Return the possible paths of port files, grouped by directory.

    The directories are the workspace, its projects, and any other directory that contains a port file.
    """
    deadline = time.monotonic() + SEARCH_TIMEOUT_S
    candidates = [workspace / name for name in names]
    marks = kinds.project_file_names()
    projects = 0
    for directory, depth, entries in itertools.islice(
        walk(workspace, max_depth=MAX_PROJECT_DEPTH), MAX_SEARCHED_DIRECTORIES
    ):
        is_watched = projects < MAX_WATCHED_PROJECTS and any(file.name in marks for file in entries)
        projects += is_watched
        if depth:
            # Path.exists would raise for an inaccessible directory.
            expected = [Path(directory, name) for name in names]
            candidates += expected if is_watched else [path for path in expected if os.path.exists(path)]  # noqa: PTH110  # see above
        if time.monotonic() > deadline:
            break
    by_directory: dict[str, list[Path]] = {}
    for path in candidates:
        by_directory.setdefault(str(path.parent), []).append(path)
    return by_directory


def _read_all(
    workspace: Path, candidates: Mapping[str, Sequence[Path]], known: ReadCache[FoundPortFile | None]
) -> tuple[FoundPortFile, ...]:
    all_found: list[FoundPortFile] = []
    for directory, paths in candidates.items():
        if len(paths) > 1 and not os.path.exists(directory):  # noqa: PTH110  # as in `_places`
            continue
        for path in paths:
            with suppress(FileNotFoundError, NotADirectoryError):
                if found := known.get(path, partial(_read, workspace, path)):
                    all_found.append(found)
    return tuple(sorted(all_found, key=attrgetter("path")))


def _read(workspace: Path, path: Path) -> FoundPortFile | None:
    """Read a port file. Return None if the file does not exist."""
    key = _suggest_key(workspace, path)
    try:
        data, status = read_port_file(path, workspace)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return FoundPortFile(path, None, f"the file cannot be read: {error.strerror}", key)
    text, written_ns = data.decode("utf-8", "replace").strip(), status.st_mtime_ns
    if not text:
        return FoundPortFile(path, None, "the file is empty, because the REPL may still be starting", key, written_ns)
    if not (text.isascii() and text.isdecimal() and len(text) <= MAX_PORT_CHARS and 0 < int(text) <= MAX_PORT):
        why = f"the file does not contain a port, but begins with {text[:MAX_PORT_CHARS]!r}"
        return FoundPortFile(path, None, why, key, written_ns)
    return FoundPortFile(path, int(text), None, key, written_ns)


def read_port_file(path: Path, workspace: Path) -> tuple[bytes, os.stat_result]:
    """Return the content and status of a port file. A file configured by the user may be outside the workspace.

    Raises:
        OSError: the file is missing, a link, or not a regular file.
    """
    is_inside = Path(os.path.normpath(path)).is_relative_to(workspace)
    return files.read_with_status(path, PORT_FILE_RULES, root=workspace if is_inside else path.parent)


def _known_name(path: Path) -> str:
    """Return the path of a port file as listed in `REPL_KINDS`, or its base name if it is not listed."""
    known = (name for name in kinds.port_file_names() if path.parts[-len(Path(name).parts) :] == Path(name).parts)
    return next(known, path.name)


def _suggest_key(workspace: Path, path: Path) -> str:
    name = _known_name(path)
    directory, key = path.parents[len(Path(name).parts) - 1], kinds.session_key_for_port_file(name)
    return key if directory == workspace else f"{directory.name}-{key}"
