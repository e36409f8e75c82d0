"""Port files of REPLs that somebody else started: found in a workspace, and watched.

Known places, those of the workspace and of the projects in it, are looked at every 0.6 s, which costs one `lstat` each
where nothing has changed; folders are searched for new ones every few seconds. A port file is a claim:
whether a REPL listens is for the connection to find out.
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
from codriver.files import Links, Rules
from codriver.files.polling import Poller
from codriver.files.read_cache import ReadCache
from codriver.files.workspace_walk import walk
from codriver.net.server_record import LARGEST_PORT
from codriver.repls import kinds

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence

MAX_DEPTH: Final = 3
"""How deep projects of a monorepo are looked for, below the workspace."""

MAX_FOLDERS: Final = 2000
"""Folders looked at in one search: above this the workspace is no project, and a search would take seconds."""

MAX_PROJECTS: Final = 200
"""Projects whose places are looked at each time."""

SEARCH_S: Final = 1.0
"""A search ends by then, on a slow disk too."""

RESCAN_INTERVALS: Final = 5
"""A search for new folders at each so many looks: every 3 s."""

PORT_CHARS: Final = 32
PORT_FILE_RULES: Final = Rules(Links.NEVER, 4 * files.KIBIBYTE)
"""A port file says where code is sent: it is a file of the workspace itself, and holds some digits."""


@dataclass(frozen=True, slots=True)
class Found:
    """A port file: the port it names, or in `problem` why it names none."""

    path: Path
    port: int | None
    problem: str | None = None
    key: str = "nrepl"
    """A session key to suggest: `cljs` for shadow-cljs, with the folder's name before it when it is no root project."""
    written_ns: int = 0
    """When it was written: a file written again with the same port belongs to a REPL that was started again."""

    @property
    def address(self) -> str:
        """The address of the REPL that writes such files, on this machine."""
        return kinds.address_of(kinds.protocol_of_port_file(_known_name(self.path)), f"127.0.0.1:{self.port}")


async def watch(workspace: Path, names: Sequence[str], *, interval_s: float = 0.6) -> AsyncIterator[tuple[Found, ...]]:
    """The port files in `workspace`: at once, and again at each change.

    `names` are paths relative to each folder that is looked at.
    """
    before: tuple[Found, ...] | None = None
    places: tuple[Path, ...] = ()
    looks = itertools.count()
    known: ReadCache[Found | None] = ReadCache()

    def look() -> tuple[Found, ...]:
        nonlocal places
        if next(looks) % RESCAN_INTERVALS == 0:
            places = _places(workspace, names)
        return _read_all(workspace, places, known)

    def is_news(found: tuple[Found, ...]) -> bool:
        return found != before

    poller = Poller(look, interval_s=interval_s)
    while True:
        before = await poller.next(is_news)
        yield before


def find(workspace: Path, names: Sequence[str]) -> tuple[Found, ...]:
    """The port files that are in `workspace` now; `names` as for `watch`."""
    return _read_all(workspace, _places(workspace, names), ReadCache())


def _places(workspace: Path, names: Sequence[str]) -> tuple[Path, ...]:
    """The places where a port file may appear: the workspace, its projects, and any other folder that has one now."""
    deadline = time.monotonic() + SEARCH_S
    places = [workspace / name for name in names]
    marks = kinds.project_marks()
    projects = 0
    for path, depth, files_there in itertools.islice(walk(workspace, max_depth=MAX_DEPTH), MAX_FOLDERS):
        is_watched = projects < MAX_PROJECTS and any(file.name in marks for file in files_there)
        projects += is_watched
        if depth:
            # Path.exists would raise for a folder that may not be entered.
            here = [Path(path, name) for name in names]
            places += here if is_watched else [place for place in here if os.path.exists(place)]  # noqa: PTH110  # see above
        if time.monotonic() > deadline:
            break
    return tuple(places)


def _read_all(workspace: Path, places: Iterable[Path], known: ReadCache[Found | None]) -> tuple[Found, ...]:
    all_found: list[Found] = []
    folders = {path.parent for path in places} - {workspace}
    there = {workspace, *(folder for folder in folders if os.path.exists(folder))}  # noqa: PTH110  # as in `_places`
    for path in places:
        if path.parent not in there:
            continue
        with suppress(FileNotFoundError, NotADirectoryError):
            if found := known.get(path, partial(_read, workspace, path)):
                all_found.append(found)
    return tuple(sorted(all_found, key=attrgetter("path")))


def _read(workspace: Path, path: Path) -> Found | None:
    """The port that the file at `path` tells; None when there is none."""
    key = _suggest_key(workspace, path)
    try:
        data, status = read_port_file(path, workspace)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return Found(path, None, f"it cannot be read: {error.strerror}", key)
    text, written_ns = data.decode("utf-8", "replace").strip(), status.st_mtime_ns
    if not text:
        return Found(path, None, "it is empty; a REPL that is starting writes it in a moment", key, written_ns)
    if not (text.isascii() and text.isdecimal() and len(text) <= PORT_CHARS and 0 < int(text) <= LARGEST_PORT):
        problem = f"it should hold a port number, and begins with {text[:PORT_CHARS]!r}"
        return Found(path, None, problem, key, written_ns)
    return Found(path, int(text), None, key, written_ns)


def read_port_file(path: Path, workspace: Path) -> tuple[bytes, os.stat_result]:
    """The bytes of a port file, and its status. One that the user's settings name may lie outside of the workspace.

    Raises:
        OSError: there is none, or it is a link or no regular file.
    """
    is_inside = Path(os.path.normpath(path)).is_relative_to(workspace)
    return files.read_stamped(path, PORT_FILE_RULES, root=workspace if is_inside else path.parent)


def _known_name(path: Path) -> str:
    """The end of a port file's path that is in the table of kinds, else its name."""
    known = (name for name in kinds.port_files() if path.parts[-len(Path(name).parts) :] == Path(name).parts)
    return next(known, path.name)


def _suggest_key(workspace: Path, path: Path) -> str:
    name = _known_name(path)
    folder, key = path.parents[len(Path(name).parts) - 1], kinds.key_of_port_file(name)
    return key if folder == workspace else f"{folder.name}-{key}"
