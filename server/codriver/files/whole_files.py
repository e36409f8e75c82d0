"""Read and atomically replace files by path, and cache files that are read repeatedly.

Each call resolves the path one part at a time and opens each directory as a descriptor, so that no link can redirect
it. That takes about twenty system calls, while checking the status of a file takes one. So a file that is checked
several times a second is only read again when its stamp has changed. A file that was written shortly before it was read
is not cached, because time stamps are too coarse to distinguish two quick writes.

A stamp stays the same as long as nobody writes, replaces or renames the file. It includes the time of the last status
change, so it differs even if a file of the same length is restored with its old modification time, as `cp -p`, `rsync
-t` and archives do.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from codriver.files.directory_entry import PRIVATE_FILE_MODE, DirectoryEntry
from codriver.files.file_rules import FileRules, LinkRefusedError, Links, NotRegularError, UnsafeFileError
from codriver.systems.file_system import HAS_DESCRIPTORS, OpenDirectory, is_trusted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

T = TypeVar("T")

SETTLED_AGE_NS: Final = 2 * 10**9
"""Age after which another write certainly changes the timestamp. FAT stores times in steps of two seconds."""
MAX_CACHED_FILES: Final = 10_000
"""Maximum number of files in a cache. All others are read each time."""

Stamp = tuple[int, int, int, int, int]
"""Device, inode, length in bytes, and the times of the last content and status changes in nanoseconds."""
MISSING: Stamp = (0, 0, 0, 0, 0)
"""The stamp of a file that does not exist."""


def read(path: Path, rules: FileRules, *, root: Path | None = None) -> bytes:
    """Return the content of a file. `root` has the same meaning as for `locate`.

    Raises:
        FileNotFoundError: the file does not exist.
        UnsafeFileError: the file violates the rules; `strerror` is the reason.
        OSError: the file cannot be read.
    """
    with locate(path, rules.links, root=root) as entry:
        return entry.read(rules)


def read_chunks(path: Path, rules: FileRules, *, root: Path | None = None) -> Iterator[bytes]:
    """Yield the content of a file in chunks of up to 1 MiB.

    The same errors as for `read` are raised before the first chunk, unless the file grows while it is being read.
    """
    with locate(path, rules.links, root=root) as entry:
        yield from entry.read_chunks(rules)


def read_with_status(path: Path, rules: FileRules, *, root: Path | None = None) -> tuple[bytes, os.stat_result]:
    """Return the content of a file and its `stat` result. Raises the same errors as `read`."""
    with locate(path, rules.links, root=root) as entry:
        return entry.read_with_status(rules)


def read_head(path: Path, rules: FileRules, *, root: Path | None = None) -> bytes:
    """Return the first `rules.max_bytes` of a file, which may be larger.

    Raises the same errors as `read`, except TooLargeError.
    """
    with locate(path, rules.links, root=root) as entry:
        return entry.read_head(rules)


def read_text(path: Path, rules: FileRules, *, root: Path | None = None) -> str:
    """Return the content of a UTF-8 file without a byte order mark.

    Raises:
        UnicodeDecodeError: the file is not UTF-8.
        OSError: the file cannot be read, as for `read`.
    """
    return read(path, rules, root=root).decode("utf-8-sig")


def read_json(path: Path, rules: FileRules) -> object:
    """Return the value in one of Codriver's JSON files, or None if the file does not exist or cannot be read.

    The caller must validate the value, because anybody may have written the file.
    """
    try:
        found: object = json.loads(read(path, rules).decode("utf-8-sig"))
    except (OSError, ValueError, RecursionError):
        return None
    return found


def replace(
    path: Path,
    data: bytes | Iterable[bytes],
    *,
    links: Links,
    root: Path | None = None,
    mode: int | None = PRIVATE_FILE_MODE,
    make_mode: int | None = None,
    is_durable: bool = True,
) -> None:
    """Replace a file atomically. Readers see either the old or the new content, even after a power failure.

    The directory must exist, unless `make_mode` is the mode for missing directories. Without `is_durable`, the data is
    not synced to disk, so it survives a crash of the process but perhaps not of the machine.

    Raises:
        UnsafeFileError: the path is not a regular file, or contains a link that must not be followed.
        OSError: the file cannot be written.
    """
    with locate(path, links, root=root, make_mode=make_mode) as entry:
        now = entry.status()
        if now is not None and not stat.S_ISREG(now.st_mode) and not stat.S_ISLNK(now.st_mode):
            raise NotRegularError(entry.path, now.st_mode)
        entry.replace(data, mode=mode, is_durable=is_durable)


def open_for_writing(path: Path, *, links: Links, root: Path) -> int:
    """Open a private file for appending, and create it if necessary. The caller must close the descriptor.

    Raises:
        UnsafeFileError: the path is a link, not a regular file, or another user's file.
    """
    with locate(path, links, root=root) as entry:
        return entry.open_private(os.O_WRONLY | os.O_APPEND | os.O_CREAT)


MAX_LINKS: Final = 40
"""Maximum number of links followed for one path, as on Linux. Source: path_resolution(7)."""
MAX_DIRECTORIES: Final = 128
"""Maximum number of directories in a path, each of which needs a descriptor. Source trees need less than half."""


def locate(
    path: Path,
    links: Links,
    *,
    root: Path | None = None,
    make_mode: int | None = None,
    is_last_followed: bool = True,
) -> DirectoryEntry:
    """Open the directory of a path, following links as `links` allows, and return the entry. The caller must close it.

    `root` is a directory that the user named. Links in its own path are followed, and a relative `path` starts there.
    Without it, resolution starts at the root of the file system. `links` also applies to the last part, so that a file
    is replaced at the target of a link. If `is_last_followed` is false, the last part is not resolved, so that a link
    itself is replaced or removed. `make_mode` is the mode for creating missing directories.

    Raises:
        FileNotFoundError: a directory in the path does not exist.
        UnsafeFileError: a link must not be followed, or leads outside the root.
        OSError: a directory cannot be opened.
    """
    if not HAS_DESCRIPTORS:
        return _locate_by_path(path, links, root, make_mode, is_last_followed=is_last_followed)
    walk = _Walk(path, links, root, make_mode, is_last_followed=is_last_followed)
    try:
        name = walk.run()
    except BaseException:
        walk.close()
        raise
    return DirectoryEntry(walk.detach_last(), name, walk.path / name)


class _Walk:
    """Resolves one path part by part, keeping the directories on the way open."""

    def __init__(
        self, path: Path, links: Links, root: Path | None, make_mode: int | None, *, is_last_followed: bool
    ) -> None:
        absolute = Path.cwd() / path
        self._start = root or Path(absolute.anchor)
        self._links = links
        self._is_bounded = root is not None
        self._make_mode = make_mode
        self._is_last_followed = is_last_followed
        self._given = path
        self._todo = deque(_relative_parts(path, root) if root is not None else absolute.parts[1:])
        self._directories = [OpenDirectory.open_path(self._start)]
        self._names: list[str] = []
        self._followed = 0

    @property
    def path(self) -> Path:
        """Return the path of the current directory."""
        return self._start.joinpath(*self._names)

    def close(self) -> None:
        """Close the descriptors of all open directories."""
        while self._directories:
            self._directories.pop().close()

    def detach_last(self) -> OpenDirectory:
        """Close all directories except the current one, and return that one. The caller must close it."""
        last = self._directories.pop()
        self.close()
        return last

    def run(self) -> str:
        """Resolve the path up to its last name, and return the name. The current directory then contains it."""
        while self._todo:
            part = self._todo.popleft()
            if part == "..":
                self._go_up()
            elif part not in ("", ".", os.sep):
                is_name = not self._todo and not self._is_last_followed
                target = None if is_name else self._link_target(part)
                if target is not None:
                    self._follow(part, target)
                elif not self._todo:
                    return part
                else:
                    self._go_down(part)
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(self._given))

    def _go_up(self) -> None:
        if self._names:
            self._names.pop()
            self._directories.pop().close()
        elif self._is_bounded:
            raise LinkRefusedError(self._given, f"the path leads outside of {self._start}")

    def _go_down(self, part: str) -> None:
        current = self._directories[-1]
        if len(self._directories) > MAX_DIRECTORIES:
            raise UnsafeFileError(
                self._given, f"the path has more than {MAX_DIRECTORIES} directories", errno.ENAMETOOLONG
            )
        if self._make_mode is not None:
            with contextlib.suppress(FileExistsError):
                current.make_directory(part, self._make_mode)
        try:
            self._directories.append(current.open_subdirectory(part))
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.path / part)) from None
        self._names.append(part)

    def _link_target(self, part: str) -> str | None:
        """Return the target of a link, or None if the entry does not exist or is not a link."""
        try:
            return self._directories[-1].link_target(part)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.path / part)) from None

    def _follow(self, part: str, target: str) -> None:
        link = self.path / part
        self._followed += 1
        if self._followed > MAX_LINKS:
            raise LinkRefusedError(
                link, "the path is a link to itself, or part of a chain of links that is too long", errno.ELOOP
            )
        if self._links is Links.NEVER:
            raise LinkRefusedError(link, "the path is a link, and links are not followed", errno.ELOOP)
        if self._links is Links.OF_USER and not is_trusted(self._directories[-1].entry_status(part).st_uid):
            raise LinkRefusedError(link, "the path is a link that belongs to another user")
        parts = Path(target).parts
        if Path(target).is_absolute():
            parts = _relative_parts(Path(target), self._start, link) if self._is_bounded else parts[1:]
            while self._names:
                self._go_up()
        self._todo.extendleft(reversed(parts))


def _relative_parts(path: Path, root: Path, link: Path | None = None) -> tuple[str, ...]:
    """Return the parts of a path below `root`, or all parts of a relative path."""
    if not path.is_absolute():
        return path.parts
    for start in (root, Path(os.path.realpath(root))):
        if path.is_relative_to(start):
            return path.relative_to(start).parts
    raise LinkRefusedError(link or path, f"the path leads outside of {root}")


def _locate_by_path(
    path: Path, links: Links, root: Path | None, make_mode: int | None, *, is_last_followed: bool
) -> DirectoryEntry:
    """Locate a file like `locate`, but on systems without directory descriptors.

    The path is only checked once, and could be changed before it is used.
    """
    start = Path(os.path.realpath(root or Path.cwd()))
    given = start.joinpath(*_relative_parts(path, root)) if root is not None else start / path
    real = Path(os.path.realpath(given if is_last_followed else given.parent))
    real = real if is_last_followed else real / given.name
    if root is not None and not real.is_relative_to(start):
        raise LinkRefusedError(path, f"the path leads outside of {root}")
    if links is Links.NEVER and real != Path(os.path.normpath(given)):
        raise LinkRefusedError(path, "the path contains a link, and links are not followed", errno.ELOOP)
    if make_mode is not None:
        real.parent.mkdir(make_mode, parents=True, exist_ok=True)
    return DirectoryEntry(OpenDirectory.from_path(real.parent), real.name, real)


class ReadCache(Generic[T]):
    """Caches values that were computed from files, by path. Not thread-safe.

    The cache only calls `stat`; the caller's `read` opens the file. Values of symbolic links are not cached, because
    their targets may change.
    """

    def __init__(self) -> None:
        self._entries: dict[Path, tuple[Stamp, T]] = {}

    def get(self, path: Path, read: Callable[[], T]) -> T:
        """Return the cached value for a file. If the file has changed, return the result of `read` and cache it.

        Raises:
            FileNotFoundError, NotADirectoryError: the path does not exist.
            Exception: any exception from `read`.
        """
        try:
            status = os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            self._entries.pop(path, None)
            raise
        except OSError:  # `read` raises the same error with an explanation
            return read()
        stamp = stamp_from_status(status)
        known = self._entries.get(path)
        if known is not None and known[0] == stamp:
            return known[1]
        requested_ns = time.time_ns()
        found = read()
        newest_ns = max(status.st_mtime_ns, status.st_ctime_ns)
        # If the clock was set back, the file seems to be from the future and is not cached until then.
        if (
            stat.S_ISREG(status.st_mode)
            and requested_ns - newest_ns > SETTLED_AGE_NS
            and len(self._entries) < MAX_CACHED_FILES
        ):
            self._entries[path] = (stamp, found)
        else:
            self._entries.pop(path, None)
        return found


def stamp_from_status(status: os.stat_result) -> Stamp:
    """Return a stamp that changes when the file does, from the `stat` result of the file."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
