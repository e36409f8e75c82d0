"""Port files of REPLs that somebody else started: found in a workspace, and watched.

Known places are looked at four times a second, which costs one `stat` each; folders are searched for new ones every few
seconds. A port file is a claim: whether a REPL listens is for the connection to find out.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence

PORT_FILES: Final = (".nrepl-port", ".shadow-cljs/nrepl.port")
"""Where nREPL, Leiningen, babashka, nbb, Basilisp, and shadow-cljs write their port, relative to a project's folder."""

MAX_DEPTH: Final = 3
"""How deep projects of a monorepo are looked for, below the workspace."""

MAX_FOLDERS: Final = 2000
"""Folders looked at in one search: above this the workspace is no project, and a search would take seconds."""

RESCAN_INTERVALS: Final = 12
"""A search for new folders at each so many looks: every 3 s at four looks a second."""

SKIPPED: Final = frozenset({
    "node_modules", "target", "build", "dist", "out", "venv", "__pycache__", "site-packages", "vendor",
})  # fmt: skip
"""Folders that hold no project of the user's; hidden ones are skipped too."""

PORT_CHARS: Final = 32
HIGHEST_PORT: Final = 65535


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


def scan(workspace: Path, names: Sequence[str] = PORT_FILES) -> tuple[Found, ...]:
    """The port files in `workspace` now, in the order of their paths."""
    return _read_all(workspace, _places(workspace, names))


async def watch(
    workspace: Path, names: Sequence[str] = PORT_FILES, *, interval_s: float = 0.25
) -> AsyncIterator[tuple[Found, ...]]:
    """The port files in `workspace`: at once, and again at each change.

    `names` are paths relative to each folder that is looked at.
    """
    before: tuple[Found, ...] | None = None
    places: tuple[Path, ...] = ()
    look = 0
    while True:
        if look % RESCAN_INTERVALS == 0:
            places = await anyio.to_thread.run_sync(_places, workspace, names)
        found = _read_all(workspace, places)
        if found != before:
            before = found
            yield found
        look += 1
        await anyio.sleep(interval_s)


def _places(workspace: Path, names: Sequence[str]) -> tuple[Path, ...]:
    """Where a port file may appear. The workspace's own places always count, those of other folders once they exist.

    A folder below the workspace is named by its existence alone: its files are then looked for at each look.
    """
    deadline = time.monotonic() + 1.0
    folders, queue = [workspace], [(workspace, 0)]
    while queue and len(folders) < MAX_FOLDERS and time.monotonic() < deadline:
        folder, depth = queue.pop(0)
        if depth == MAX_DEPTH:
            continue
        for child in _subfolders(folder):
            folders.append(child)
            queue.append((child, depth + 1))
    own = [workspace / name for name in names]
    return (*own, *(path for folder in folders[1:] for name in names if (path := folder / name).exists()))


def _subfolders(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            return sorted(
                Path(entry.path)
                for entry in entries
                if not entry.name.startswith(".") and entry.name not in SKIPPED and entry.is_dir(follow_symlinks=False)
            )
    except OSError:
        # A folder that may not be read, or is gone by now, holds nothing for us.
        return []


def _read_all(workspace: Path, places: Iterable[Path]) -> tuple[Found, ...]:
    return tuple(sorted((found for path in places if (found := _read(workspace, path))), key=lambda found: found.path))


def _read(workspace: Path, path: Path) -> Found | None:
    """What the file at `path` says; None when there is none."""
    key = _suggest_key(workspace, path)
    try:
        written_ns = path.stat().st_mtime_ns
        with path.open("rb") as file:
            text = file.read(PORT_CHARS + 1).decode("utf-8", "replace").strip()
    except FileNotFoundError:
        return None
    except OSError as error:
        return Found(path, None, f"it cannot be read: {error.strerror}", key)
    if not text:
        return Found(path, None, "it is empty; a REPL that is starting writes it in a moment", key, written_ns)
    if not (text.isascii() and text.isdecimal() and 0 < int(text) <= HIGHEST_PORT):
        problem = f"it should hold a port number, and begins with {text[:PORT_CHARS]!r}"
        return Found(path, None, problem, key, written_ns)
    return Found(path, int(text), None, key, written_ns)


def _suggest_key(workspace: Path, path: Path) -> str:
    shadow = path.parent.name == ".shadow-cljs"
    folder = path.parent.parent if shadow else path.parent
    kind = "cljs" if shadow else "nrepl"
    return kind if folder == workspace else f"{folder.name}-{kind}"
