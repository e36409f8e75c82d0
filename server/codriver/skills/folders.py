"""The directory of one skill, on disk or in a jar: its files and directories, and the content of each file.

Skills that exceed the limits which every client has to accept are not used, because clients read the list of all files
at once.
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
"""Matches a character because of which a file cannot be addressed by its name."""


class TooManyFilesError(ValueError):
    """A skill has more files, or more bytes in total, than clients have to accept."""


@dataclass(frozen=True, slots=True)
class SkillTree:
    """The files of a skill with their sizes, and its directories. Paths are relative and use `/`."""

    files: Mapping[str, int]
    folders: frozenset[str]


class SkillDirectory(Protocol):
    """The directory with the files of one skill."""

    def read(self, path: str) -> bytes | None:
        """Return the content of the file at a relative path, or None if it does not exist.

        Raises:
            PermissionError: a link leads out of the skill.
        """

    def tree(self) -> SkillTree:
        """Return all readable files and directories.

        Raises:
            TooManyFilesError: there are too many.
        """

    def stamp(self) -> object:
        """Return a value that differs when a file of the skill has changed."""


@dataclass(frozen=True, slots=True)
class DiskDirectory:
    """A directory on disk. Its links must stay inside `within`, such as the workspace for its own skills."""

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
        """See `SkillDirectory.tree`. Links to files count as files, links to directories are not followed."""
        sizes: dict[str, int] = {}
        folders: set[str] = set()
        for path, is_folder in self._entries(""):
            if is_folder:
                folders.add(path)
                _check(len(folders) <= MAX_FOLDERS)
            elif (size := self._size(path)) is not None:
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

    def _entries(self, folder: str) -> Iterator[tuple[str, bool]]:
        """Yield the path of each entry below a directory, and whether it is a directory."""
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
                    yield from self._entries(path)

    def _size(self, path: str) -> int | None:
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
    """A directory in a jar."""

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
            f"it has more than {MAX_FILES} files, {MAX_SKILL_BYTES >> 20} MiB in them, or {MAX_FOLDERS} folders, which "
            "not every client reads"
        )


def file_stamp(file: Path) -> tuple[str, Stamp]:
    """Return the name of a file and its stamp, which is zeros if the file does not exist."""
    try:
        return str(file), stamp_from_status(file.stat())
    except OSError:
        return str(file), MISSING


def resolve_links(path: Path) -> Path:
    """Return the path with all links resolved.

    Unlike `Path.resolve`, this treats a link to itself as a missing file.
    """
    return type(path)(os.path.realpath(path))
