"""Copies of `codriver_seam` in projects: the seam for Python and Clojure, and the REPL of `start_repl`.

A file next to the copy records the digest of each file, so that a later version replaces and removes unchanged files
and leaves all others alone.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import codriver
from codriver import files
from codriver.errors import StartError
from codriver.files import Links, Rules
from codriver.files.own_folders import cache_directory

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

NAME: Final = "codriver_seam"
PACKAGE: Final = Path(codriver.__file__).resolve().parents[1] / NAME
"""The directory of the package, next to Codriver's."""
CLOJURE: Final = PACKAGE / "clojure"
"""A directory for the classpath that contains only the seam."""
WORKER: Final = Path(codriver.__file__).resolve().parent / "repls" / "worker"
RECORD: Final = "copied-files.txt"
"""The name of the record, which has the format of `sha256sum --check`."""
SOURCE_RULES: Final = Rules(Links.ANY, files.MEBIBYTE)
RULES: Final = Rules(Links.NEVER, files.MEBIBYTE)
_HEADER: Final = "# Files of codriver "
_LINE: Final = re.compile(r"([0-9a-f]{64})  ((?:[\w-]+/)*[\w-]+\.(?:py|cljc))")
"""Matches a line of the record. Its paths have no dots but the last, so they stay in the directory."""


@dataclass(frozen=True, slots=True)
class Copied:
    """The result of creating or updating a copy. Names are relative to `package`."""

    package: Path
    written: tuple[str, ...]
    removed: tuple[str, ...]
    same: tuple[str, ...]


def python_path() -> Path:
    """Return a directory for PYTHONPATH that contains only the seam, after creating or updating it in the user's cache.

    Codriver's own directory also has its dependencies, which would replace those of the application.
    """
    folder = cache_directory() / f"seam-{codriver.__version__}"
    folder.mkdir(mode=files.PRIVATE_DIRECTORY_MODE, parents=True, exist_ok=True)
    copy_seam(folder, may_replace_all=True)
    return folder


def copy_seam(folder: Path, *, may_replace_all: bool = False) -> Copied:
    """Copy the package into `folder`, or update the copy there. If `may_replace_all`, all its files may be replaced.

    Raises:
        StartError: a file was changed or is not from a copy, or `folder` contains the original. Nothing is changed.
        OSError: a file cannot be read or written.
    """
    folder = folder.resolve()
    if folder == PACKAGE.parent:
        raise StartError(
            f"nothing was copied: {folder} contains the original codriver_seam; name a folder of your project"
        )
    sources = {name: files.read(path, SOURCE_RULES) for name, path in _sources().items()}
    found = _found(folder, (RECORD,))
    recorded = _recorded(found.get(RECORD, b""))
    found |= _found(folder, sources.keys() | recorded.keys())
    same = {name for name, data in found.items() if name in sources and _digest(data) == _digest(sources[name])}
    strangers = [name for name in found.keys() - same if not _is_unchanged_copy(name, found[name], recorded)]
    if strangers and not may_replace_all:
        first, *others = sorted(strangers)
        more = f" and {len(others)} more" if others else ""
        raise StartError(
            f"nothing was copied: {folder / NAME / first}{more} would be replaced, but was not written by codriver, or "
            "was changed; move it away, or name another folder"
        )
    gone = tuple(sorted(found.keys() - sources.keys() - {RECORD}))
    new = tuple(name for name in sources if name not in same)
    for name in new:
        _write(folder, name, sources[name])
    for name in gone:
        with files.locate(Path(NAME, name), Links.NEVER, root=folder) as place:
            place.remove()
    record = _record(sources)
    if record != found.get(RECORD):
        _write(folder, RECORD, record)
    return Copied(folder / NAME, new, gone, tuple(sorted(same)))


def _sources() -> Mapping[str, Path]:
    """Return the files to copy by their names in the copy. `codriver_seam.repl` expects the REPL at this path."""
    return {
        **{path.name: path for path in sorted(PACKAGE.glob("*.py"))},
        **{path.relative_to(PACKAGE).as_posix(): path for path in sorted(CLOJURE.glob("*/*.cljc"))},
        **{f"worker/{path.relative_to(WORKER).as_posix()}": path for path in sorted(WORKER.rglob("*.py"))},
    }


def _found(folder: Path, names: Iterable[str]) -> dict[str, bytes]:
    """Return the content of the files that exist."""
    found: dict[str, bytes] = {}
    for name in names:
        try:
            found[name] = files.read(Path(NAME, name), RULES, root=folder)
        except FileNotFoundError:
            continue
    return found


def _is_unchanged_copy(name: str, data: bytes, recorded: Mapping[str, str]) -> bool:
    """Return whether a file is unchanged since it was copied."""
    return data.startswith(_HEADER.encode()) if name == RECORD else recorded.get(name) == _digest(data)


def _digest(data: bytes) -> str:
    """Return the digest of a file with normalized line endings, which git may change."""
    return hashlib.sha256(data.replace(b"\r\n", b"\n")).hexdigest()


def _recorded(record: bytes) -> Mapping[str, str]:
    """Return the digests in a record by file name."""
    lines = map(_LINE.fullmatch, record.decode("utf-8", "replace").splitlines())
    return {line[2]: line[1] for line in lines if line}


def _record(sources: Mapping[str, bytes]) -> bytes:
    header = (
        f"{_HEADER}{codriver.__version__} (MIT License, Copyright (c) 2026 The Codriver authors), written by\n"
        "# `codriver seam copy`, which replaces those that nobody has changed.\n"
    )
    return (header + "".join(f"{_digest(data)}  {name}\n" for name, data in sources.items())).encode()


def _write(folder: Path, name: str, data: bytes) -> None:
    files.replace(Path(NAME, name), data, links=Links.NEVER, root=folder, mode=None, make_mode=0o777)
