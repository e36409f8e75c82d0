"""Directories of skills, on disk or in a jar.

Skills that exceed the limits that every client must support are not used, because clients read the list of all files at
once.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final, Protocol

from codriver import files
from codriver.files import FileRules, LinkRefusedError, Links, NotRegularError, TooLargeError
from codriver.files.whole_files import MISSING, stamp_from_status
from codriver.skills.jars import entry_sizes, read_entry

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from codriver.files import Stamp


GUIDE_FILE: Final = "SKILL.md"
MAX_FILES: Final = 512
MAX_SKILL_BYTES: Final = 16 * files.MEBIBYTE
"""Maximum total size of a skill's files. Source, also of `MAX_FILES`: MCP Skills extension, limits."""
MAX_FOLDERS: Final = 512
_FILE_RULES: Final = FileRules(Links.WITHIN, MAX_SKILL_BYTES)
_UNSERVED_CHARACTER: Final = re.compile(r"[\\\x00-\x1f\x7f:\ud800-\udfff]")
"""Matches a character that prevents a file from being addressed by its name."""


class TooManyFilesError(ValueError):
    """Raised when a skill has too many files or bytes for clients to accept."""


@dataclass(frozen=True, slots=True)
class SkillTree:
    """A skill's files with their sizes, and its subdirectories. Paths are relative and use `/`."""

    files: Mapping[str, int]
    folders: frozenset[str]


class SkillDirectory(Protocol):
    """A directory with the files of one skill."""

    def read(self, path: str) -> bytes | None:
        """Return the content of a file, or None if it does not exist. The path is relative.

        Raises:
            PermissionError: a link leads out of the skill.
        """

    def tree(self) -> SkillTree:
        """Return all files and subdirectories that can be read.

        Raises:
            TooManyFilesError: the skill has too many files or bytes.
        """

    def stamp(self) -> object:
        """Return a value that changes when a file in the skill does."""


@dataclass(frozen=True, slots=True)
class DiskDirectory:
    """The directory of a skill on disk. Links must not lead out of `within`, such as the workspace."""

    root: Path
    within: Path

    def read(self, path: str) -> bytes | None:
        """See `SkillDirectory.read`."""
        try:
            return files.read(self.root / path, _FILE_RULES, root=self.within)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError, NotRegularError, TooLargeError):
            return None
        except LinkRefusedError as error:
            raise PermissionError(path) from error

    def tree(self) -> SkillTree:
        """See `SkillDirectory.tree`. Links to files are included as files. Links to directories are not followed."""
        sizes: dict[str, int] = {}
        folders: set[str] = set()
        for path, is_folder in self._walk(""):
            if is_folder:
                folders.add(path)
                _check(len(folders) <= MAX_FOLDERS)
            elif (size := self._file_size(path)) is not None:
                sizes[path] = size
                _check(len(sizes) <= MAX_FILES and sum(sizes.values()) <= MAX_SKILL_BYTES)
        return SkillTree(dict(sorted(sizes.items())), frozenset(folders))

    def stamp(self) -> object:
        """See `SkillDirectory.stamp`."""
        try:
            tree = self.tree()
        except TooManyFilesError:
            return None
        return tuple(file_stamp(self.root / path) for path in (*tree.files, *sorted(tree.folders)))

    def _walk(self, folder: str) -> Iterator[tuple[str, bool]]:
        """Yield the path of each entry below a directory, and whether the entry is a directory."""
        try:
            with os.scandir(self.root / folder) as entries:
                few = islice(entries, MAX_FILES + MAX_FOLDERS + 1)
                found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in few]
        except OSError:
            return
        _check(len(found) <= MAX_FILES + MAX_FOLDERS)
        for name, is_folder in found:
            if not _UNSERVED_CHARACTER.search(name):
                path = f"{folder}/{name}" if folder else name
                yield path, is_folder
                if is_folder:
                    yield from self._walk(path)

    def _file_size(self, path: str) -> int | None:
        """Return the size of a file, or None if it is not a regular file or is too large."""
        file = self.root / path
        try:
            status = file.stat()
        except OSError:
            return None
        is_inside = resolve_links(file).is_relative_to(resolve_links(self.within))
        return status.st_size if stat.S_ISREG(status.st_mode) and is_inside else None


@dataclass(frozen=True, slots=True)
class JarDirectory:
    """The directory of a skill in a jar."""

    jar: Path
    prefix: str
    workspace: Path

    def read(self, path: str) -> bytes | None:
        """See `SkillDirectory.read`."""
        return read_entry(self.jar, self.workspace, self.prefix + path, MAX_SKILL_BYTES)

    def tree(self) -> SkillTree:
        """See `SkillDirectory.tree`."""
        sizes: dict[str, int] = {}
        folders: set[str] = set()
        for name, size in entry_sizes(self.jar, self.workspace).items():
            path = name.removeprefix(self.prefix)
            names = path.rstrip("/").split("/")
            if path in ("", name) or {"", ".", ".."} & {*names} or _UNSERVED_CHARACTER.search(path):
                continue
            folders.update("/".join(names[:end]) for end in range(1, len(names)))
            if path.endswith("/"):
                folders.add(path.rstrip("/"))
            else:
                sizes[path] = size
            _check(len(sizes) <= MAX_FILES and sum(sizes.values()) <= MAX_SKILL_BYTES and len(folders) <= MAX_FOLDERS)
        return SkillTree(dict(sorted(sizes.items())), frozenset(folders))

    def stamp(self) -> object:
        """See `SkillDirectory.stamp`."""
        return file_stamp(self.jar)


def _check(is_within_limits: bool) -> None:  # noqa: FBT001
    if not is_within_limits:
        raise TooManyFilesError(
            f"the skill has more than {MAX_FILES} files, {MAX_FOLDERS} folders or {MAX_SKILL_BYTES >> 20} MiB, which "
            "is more than some clients read"
        )


def file_stamp(file: Path) -> tuple[str, Stamp]:
    """Return the name of a file and its stamp. The stamp consists of zeros if the file does not exist."""
    try:
        return str(file), stamp_from_status(file.stat())
    except OSError:
        return str(file), MISSING


def resolve_links(path: Path) -> Path:
    """Return a path with all links resolved.

    Unlike `Path.resolve`, this treats a link to itself as a file that does not exist.
    """
    return type(path)(os.path.realpath(path))
