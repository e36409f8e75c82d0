"""Copy the package `codriver_seam` into a project, for Python or Clojure.

A record in the copy contains the digest of each file, so that a later version can replace and remove unchanged files
without touching any others.
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
from codriver.files import FileRules, Links
from codriver.files.codriver_paths import cache_directory

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

PACKAGE_NAME: Final = "codriver_seam"
PACKAGE_DIRECTORY: Final = Path(codriver.__file__).resolve().parents[1] / PACKAGE_NAME
"""The directory of the package `codriver_seam`, which is installed next to Codriver's package."""
CLOJURE_DIRECTORY: Final = PACKAGE_DIRECTORY / "clojure"
"""A directory for the classpath that contains only the seam."""
WORKER_DIRECTORY: Final = Path(codriver.__file__).resolve().parent / "repls" / "worker"
RECORD_NAME: Final = "copied-files.txt"
"""File name of the record of copied files, which has the format that `sha256sum --check` reads."""
SOURCE_RULES: Final = FileRules(Links.ANY, files.MEBIBYTE)
COPY_RULES: Final = FileRules(Links.NEVER, files.MEBIBYTE)
_RECORD_HEADER: Final = "# Files of codriver "
"""Beginning of the record's first line. The version follows."""
_RECORD_LINE: Final = re.compile(r"([0-9a-f]{64})  ((?:[\w-]+/)*[\w-]+\.(?:py|cljc))")
"""Matches a line of the record. Paths contain no `..`, so they cannot leave the directory."""


@dataclass(frozen=True, slots=True)
class CopyResult:
    """The result of copying the package. File names are relative to `package`."""

    package: Path
    written: tuple[str, ...]
    removed: tuple[str, ...]
    unchanged: tuple[str, ...]


def python_path() -> Path:
    """Return a directory for `PYTHONPATH` in the user's cache, creating or updating it if necessary.

    It contains only the seam. The directory in which Codriver is installed also contains Codriver's dependencies, which
    might shadow those of the application.
    """
    directory = cache_directory() / f"seam-{codriver.__version__}"
    directory.mkdir(mode=files.PRIVATE_DIRECTORY_MODE, parents=True, exist_ok=True)
    copy_seam(directory, may_replace_all=True)
    return directory


def copy_seam(directory: Path, *, may_replace_all: bool = False) -> CopyResult:
    """Copy the package into a directory, or update the copy. With `may_replace_all`, replace changed files as well.

    Raises:
        StartError: a file was changed or is not from a copy, or the directory contains the original. Nothing is copied.
        OSError: a file cannot be read or written.
    """
    directory = directory.resolve()
    if directory == PACKAGE_DIRECTORY.parent:
        raise StartError(
            f"nothing was copied: {directory} contains the original codriver_seam. Name a folder in your project"
        )
    sources = {name: files.read(path, SOURCE_RULES) for name, path in _source_files().items()}
    existing = _read_existing(directory, (RECORD_NAME,))
    recorded = _parse_record(existing.get(RECORD_NAME, b""))
    existing |= _read_existing(directory, sources.keys() | recorded.keys())
    unchanged_names = {
        name for name, data in existing.items() if name in sources and _digest(data) == _digest(sources[name])
    }
    conflicts = [
        name for name in existing.keys() - unchanged_names if not _is_unchanged_copy(name, existing[name], recorded)
    ]
    if conflicts and not may_replace_all:
        first, *others = sorted(conflicts)
        more_text = f" (and {len(others)} more)" if others else ""
        raise StartError(
            f"nothing was copied: {directory / PACKAGE_NAME / first}{more_text} already exists, and it was not "
            "written by Codriver or has been changed since. Move it away, or name another folder"
        )
    removed_names = tuple(sorted(existing.keys() - sources.keys() - {RECORD_NAME}))
    written_names = tuple(name for name in sources if name not in unchanged_names)
    for name in written_names:
        _write(directory, name, sources[name])
    for name in removed_names:
        with files.locate(Path(PACKAGE_NAME, name), Links.NEVER, root=directory) as stale_file:
            stale_file.remove()
    record = _format_record(sources)
    if record != existing.get(RECORD_NAME):
        _write(directory, RECORD_NAME, record)
    return CopyResult(directory / PACKAGE_NAME, written_names, removed_names, tuple(sorted(unchanged_names)))


def _source_files() -> Mapping[str, Path]:
    """Return the files to copy, by their names in the copy.

    The REPL is copied to `worker`, where `codriver_seam.repl` expects it.
    """
    return {
        **{path.name: path for path in sorted(PACKAGE_DIRECTORY.glob("*.py"))},
        **{path.relative_to(PACKAGE_DIRECTORY).as_posix(): path for path in sorted(CLOJURE_DIRECTORY.glob("*/*.cljc"))},
        **{
            f"worker/{path.relative_to(WORKER_DIRECTORY).as_posix()}": path
            for path in sorted(WORKER_DIRECTORY.rglob("*.py"))
        },
    }


def _read_existing(directory: Path, names: Iterable[str]) -> dict[str, bytes]:
    """Return the contents of the existing files of a copy, by name."""
    contents: dict[str, bytes] = {}
    for name in names:
        try:
            contents[name] = files.read(Path(PACKAGE_NAME, name), COPY_RULES, root=directory)
        except FileNotFoundError:
            continue
    return contents


def _is_unchanged_copy(name: str, data: bytes, recorded: Mapping[str, str]) -> bool:
    return data.startswith(_RECORD_HEADER.encode()) if name == RECORD_NAME else recorded.get(name) == _digest(data)


def _digest(data: bytes) -> str:
    """Return a digest of a file that does not depend on its line endings, which git may change."""
    return hashlib.sha256(data.replace(b"\r\n", b"\n")).hexdigest()


def _parse_record(record: bytes) -> Mapping[str, str]:
    """Parse a copy's record. Return the digests by file name."""
    lines = map(_RECORD_LINE.fullmatch, record.decode("utf-8", "replace").splitlines())
    return {line[2]: line[1] for line in lines if line}


def _format_record(sources: Mapping[str, bytes]) -> bytes:
    header = (
        f"{_RECORD_HEADER}{codriver.__version__} (MIT License, Copyright (c) 2026 The Codriver authors), written by\n"
        "# `codriver seam copy`, which replaces only files that have not been changed.\n"
    )
    return (header + "".join(f"{_digest(data)}  {name}\n" for name, data in sources.items())).encode()


def _write(directory: Path, name: str, data: bytes) -> None:
    files.replace(Path(PACKAGE_NAME, name), data, links=Links.NEVER, root=directory, mode=None, make_mode=0o777)
