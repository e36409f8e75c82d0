"""Whole files, read and replaced atomically by their paths, as the rules allow; and a cache of those read repeatedly.

Each is one walk and one place: the walk goes along a path part by part, each folder opened by a descriptor, so that no
link leads where it must not. That takes some twenty system calls, and the status of a file takes one: a file that is
looked at several times a second is read again only when its stamp has changed. A time stamp is too coarse to tell two
quick writes apart, so a file that was written shortly before the read is not cached.

The stamp of a file is equal as long as nobody wrote, replaced or renamed it. The time of the change of its status is a
part of it: a file of the same length that is put back with its old time, as `cp -p`, `rsync -t` and unpacked archives
do, has another one.
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

from codriver.files.place import (
    PRIVATE_FILE,
    DirectoryEntry,
    LinkRefusedError,
    Links,
    NotRegularError,
    Rules,
    UnsafeFileError,
)
from codriver.systems.file_system import HAS_DESCRIPTORS, OpenDirectory, is_trusted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

T = TypeVar("T")

SETTLED_NS: Final = 2 * 10**9
"""The age from which on a further write shows in the time stamp: FAT counts it in steps of two seconds."""
MAX_ENTRIES: Final = 10_000

Stamp = tuple[int, int, int, int, int]
"""Device, inode, length in bytes, and the times in ns at which content and status changed."""
MISSING: Stamp = (0, 0, 0, 0, 0)
"""The stamp of no file."""


def read(path: Path, rules: Rules, *, root: Path | None = None) -> bytes:
    """Return the whole file at `path`, walked to as `locate` does.

    Raises:
        FileNotFoundError: the file is missing.
        UnsafeFileError: the file breaks the rules; `strerror` says why.
        OSError: the file cannot be read.
    """
    with locate(path, rules.links, root=root) as entry:
        return entry.read(rules)


def read_chunks(path: Path, rules: Rules, *, root: Path | None = None) -> Iterator[bytes]:
    """The file at `path` in pieces of up to 1 MiB, for files that may be too large to be held whole.

    Raises like `read`: before the first piece, but for a file that grows meanwhile.
    """
    with locate(path, rules.links, root=root) as entry:
        yield from entry.read_chunks(rules)


def read_stamped(path: Path, rules: Rules, *, root: Path | None = None) -> tuple[bytes, os.stat_result]:
    """Return the whole file and the status of what was read. Raises like `read`."""
    with locate(path, rules.links, root=root) as entry:
        return entry.read_with_status(rules)


def read_head(path: Path, rules: Rules, *, root: Path | None = None) -> bytes:
    """Return the first `most_bytes` of a file of any size. Raises like `read`, but for TooLargeError."""
    with locate(path, rules.links, root=root) as entry:
        return entry.read_head(rules)


def read_text(path: Path, rules: Rules, *, root: Path | None = None) -> str:
    """Return the file as text: UTF-8, without its byte order mark.

    Raises UnicodeDecodeError, a ValueError, for no text.
    """
    return read(path, rules, root=root).decode("utf-8-sig")


def read_json(path: Path, rules: Rules) -> object:
    """The JSON value in a record of ours; None for a missing or unreadable record, which nobody has to have.

    Its shape is for the caller to check, as anybody may have written it.
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
    mode: int | None = PRIVATE_FILE,
    make_mode: int | None = None,
    is_durable: bool = True,
) -> None:
    """Write the whole file, so that no one ever sees half of it, also after a loss of power.

    Its directory must be there, unless `make_mode` says how to make what is missing.

    A write that is not durable outlives the process; it outlives the machine only if the system wrote it to the disk.

    Raises:
        UnsafeFileError: the path leads to no regular file, or through a link that is not followed.
        OSError: the file cannot be written.
    """
    with locate(path, links, root=root, make_mode=make_mode) as entry:
        now = entry.status()
        if now is not None and not stat.S_ISREG(now.st_mode) and not stat.S_ISLNK(now.st_mode):
            raise NotRegularError(entry.path, now.st_mode)
        entry.replace(data, mode=mode, is_durable=is_durable)


def open_for_writing(path: Path, *, links: Links, root: Path) -> int:
    """Return a descriptor of a private regular file to append to, made if missing; the caller closes it.

    Raises:
        UnsafeFileError: the path leads to a link, no regular file, or another user's.
    """
    with locate(path, links, root=root) as entry:
        return entry.open_private(os.O_WRONLY | os.O_APPEND | os.O_CREAT)


MAX_LINKS: Final = 40
"""Links followed for one path; Linux follows as many. Source: path_resolution(7)."""
MAX_DIRECTORIES: Final = 128
"""Folders on one path, each of which takes a descriptor; no source tree is half as deep."""


def locate(
    path: Path,
    links: Links,
    *,
    root: Path | None = None,
    make_mode: int | None = None,
    is_last_followed: bool = True,
) -> DirectoryEntry:
    """Return the place of a file, its directory held open; the caller closes it.

    `root` is the directory that the user named, whose own path is taken as it is; a relative `path` begins there.
    Without it the walk begins at the file system's root. The last part, too, is followed where `links` allow, so that a
    replacement changes the target and the link stays. Without `is_last_followed` the last part is only a name, and a
    link with that name is itself replaced or removed. `make_mode`: missing directories are made with this mode.

    Raises:
        FileNotFoundError: a directory on the way is missing.
        UnsafeFileError: a link on the way is not followed, or leads out of the root.
        OSError: a directory on the way cannot be opened.
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
    """One walk from a folder to a name below it, the folders on the way held open."""

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
        self._todo = deque(_below(path, root) if root is not None else absolute.parts[1:])
        self._directories = [OpenDirectory.at(self._start)]
        self._names: list[str] = []
        self._followed = 0

    @property
    def path(self) -> Path:
        """Return the directory that the walk has reached."""
        return self._start.joinpath(*self._names)

    def close(self) -> None:
        """Let all directories go."""
        while self._directories:
            self._directories.pop().close()

    def detach_last(self) -> OpenDirectory:
        """Return the directory that the walk has reached, now the caller's; the others are let go."""
        last = self._directories.pop()
        self.close()
        return last

    def run(self) -> str:
        """Return the last name of the path, in the directory that the walk has then reached."""
        while self._todo:
            part = self._todo.popleft()
            if part == "..":
                self._go_up()
            elif part not in ("", ".", os.sep):
                is_name = not self._todo and not self._is_last_followed
                target = None if is_name else self._target_of(part)
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
            raise LinkRefusedError(self._given, f"it leads out of {self._start}")

    def _go_down(self, part: str) -> None:
        current = self._directories[-1]
        if len(self._directories) > MAX_DIRECTORIES:
            raise UnsafeFileError(
                self._given, f"it leads through more than {MAX_DIRECTORIES} folders", errno.ENAMETOOLONG
            )
        if self._make_mode is not None:
            with contextlib.suppress(FileExistsError):
                current.make_directory(part, self._make_mode)
        try:
            self._directories.append(current.below(part))
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.path / part)) from None
        self._names.append(part)

    def _target_of(self, part: str) -> str | None:
        """Return the target of the link `part`; None when it is no link, or nothing."""
        try:
            return self._directories[-1].target_of(part)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.path / part)) from None

    def _follow(self, part: str, target: str) -> None:
        link = self.path / part
        self._followed += 1
        if self._followed > MAX_LINKS:
            raise LinkRefusedError(link, "it is a link to itself, or to a link of too many", errno.ELOOP)
        if self._links is Links.NEVER:
            raise LinkRefusedError(link, "it is a link, and none is followed here", errno.ELOOP)
        if self._links is Links.OF_USER and not is_trusted(self._directories[-1].status_of(part).st_uid):
            raise LinkRefusedError(link, "it is a link of another user")
        parts = Path(target).parts
        if Path(target).is_absolute():
            parts = _below(Path(target), self._start, link) if self._is_bounded else parts[1:]
            while self._names:
                self._go_up()
        self._todo.extendleft(reversed(parts))


def _below(path: Path, root: Path, link: Path | None = None) -> tuple[str, ...]:
    """Return the parts of `path` below `root`; a relative one begins there."""
    if not path.is_absolute():
        return path.parts
    for start in (root, Path(os.path.realpath(root))):
        if path.is_relative_to(start):
            return path.relative_to(start).parts
    raise LinkRefusedError(link or path, f"it leads out of {root}")


def _locate_by_path(
    path: Path, links: Links, root: Path | None, make_mode: int | None, *, is_last_followed: bool
) -> DirectoryEntry:
    """The place, where the system has no descriptors of folders: checked now, and believed until it is used."""
    start = Path(os.path.realpath(root or Path.cwd()))
    given = start.joinpath(*_below(path, root)) if root is not None else start / path
    real = Path(os.path.realpath(given if is_last_followed else given.parent))
    real = real if is_last_followed else real / given.name
    if root is not None and not real.is_relative_to(start):
        raise LinkRefusedError(path, f"it leads out of {root}")
    if links is Links.NEVER and real != Path(os.path.normpath(given)):
        raise LinkRefusedError(path, "it is reached by a link, and none is followed here", errno.ELOOP)
    if make_mode is not None:
        real.parent.mkdir(make_mode, parents=True, exist_ok=True)
    return DirectoryEntry(OpenDirectory.believed(real.parent), real.name, real)


class ReadCache(Generic[T]):
    """Cache of the findings in files, by path, for a caller that looks at the same files repeatedly.

    One caller at a time. The cache asks only for the status of a path, of a link itself; the caller's `read` opens the
    file. Links are read each time, as their targets change without them.
    """

    def __init__(self) -> None:
        self._entries: dict[Path, tuple[Stamp, T]] = {}

    def get(self, path: Path, read: Callable[[], T]) -> T:
        """The finding kept of this very file, else a new one by `read`, which raises for an unreadable file.

        Raises:
            FileNotFoundError, NotADirectoryError: nothing has this path.
        """
        try:
            status = os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            self._entries.pop(path, None)
            raise
        except OSError:  # `read` meets the error too, and explains it
            return read()
        stamp = stamp_of(status)
        known = self._entries.get(path)
        if known is not None and known[0] == stamp:
            return known[1]
        requested_ns = time.time_ns()
        found = read()
        newest_ns = max(status.st_mtime_ns, status.st_ctime_ns)
        # After the clock was set back, a file looks younger than now: it is read each time until then.
        if stat.S_ISREG(status.st_mode) and requested_ns - newest_ns > SETTLED_NS and len(self._entries) < MAX_ENTRIES:
            self._entries[path] = (stamp, found)
        else:
            self._entries.pop(path, None)
        return found


def stamp_of(status: os.stat_result) -> Stamp:
    """Return the stamp of a file of this status."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
