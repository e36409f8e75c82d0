"""The one safe way to open and replace a file of a workspace, a state folder or a client's configuration.

Such a file may be a stranger's words, and its name may lead anywhere: a link to a private key, a pipe that nobody
writes to, a device without end, a folder that is exchanged for a link at the moment it is used. So a path is walked
part by part, each folder opened by a descriptor, and everything is done by the last of them: read, replace, remove.
Only regular files are opened, without waiting, and read up to a bound that the caller names.

Everything here may wait for a disk: call it in a thread, not on the event loop.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections import deque
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

KIBIBYTE: Final = 1 << 10
MEBIBYTE: Final = 1 << 20
MAX_LINKS: Final = 40
"""Links followed for one path; Linux follows as many. Source: path_resolution(7)."""
MAX_FOLDERS: Final = 128
"""Folders on one path, each of which takes a descriptor; no source tree is half as deep."""
PRIVATE_FILE: Final = 0o600
PRIVATE_FOLDER: Final = 0o700
OTHERS: Final = 0o077
"""The mode bits by which anybody but the owner may do anything."""

_HAS_FOLDER_DESCRIPTORS = os.open in os.supports_dir_fd and os.stat in os.supports_follow_symlinks
_CLOEXEC = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
_READ = os.O_RDONLY | _CLOEXEC | _NOFOLLOW | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
_FOLDER = os.O_RDONLY | _CLOEXEC | getattr(os, "O_DIRECTORY", 0)
# To walk through a folder takes no right to list it, where the system knows the difference.
_STEP = getattr(os, "O_PATH", getattr(os, "O_SEARCH", os.O_RDONLY)) | _CLOEXEC | getattr(os, "O_DIRECTORY", 0)
_READ_BYTES: Final = 1 << 20
_SHAPES: Final = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISLNK, "a link"),
)


class Links(Enum):
    """The links that a path may lead through, below its root."""

    NEVER = "never"
    """None: for files that say where to send code and secrets."""
    WITHIN = "within"
    """Those that stay below the root: for what a project may arrange as it likes."""
    OWN = "own"
    """Those of this user or root that lead to a file of this user or root: for the user's own home."""
    ANY = "any"
    """All: where the user has allowed that edits leave the workspace."""


class UnsafeFileError(OSError):
    """A file is not opened, since it is not what a file in its place may be. `strerror` says why, without the path."""

    def __init__(self, path: str | os.PathLike[str], why: str, number: int = errno.EPERM) -> None:
        super().__init__(number, why, os.fspath(path))


class LinkRefusedError(UnsafeFileError):
    """The path leads through a link that is not followed here."""


class NotRegularError(UnsafeFileError):
    """The path leads to something that is no regular file."""

    def __init__(self, path: str | os.PathLike[str], mode: int) -> None:
        shape = next((name for is_shape, name in _SHAPES if is_shape(mode)), "something else")
        super().__init__(path, f"it is {shape}, not a regular file", errno.EINVAL)


class TooLargeError(UnsafeFileError):
    """The file has more bytes than are read of such a file."""

    def __init__(self, path: str | os.PathLike[str], most_bytes: int, size: int | None = None) -> None:
        found = f"{size:,} bytes" if size is not None and size > most_bytes else "more"
        super().__init__(path, f"it has {found}, and {most_bytes:,} bytes are the most that is read", errno.EFBIG)


class NotOwnError(UnsafeFileError):
    """The file is another user's, or open to others, where only this user's own counts."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What a file has to be to be read.

    `links`: the links that the path may lead through. `most_bytes`: the most that is read. `is_granting`: what it says
    is trusted, so it must be this user's (or root's) and writable by nobody else. `is_secret`: nobody else may even
    read it.
    """

    links: Links
    most_bytes: int
    is_granting: bool = False
    is_secret: bool = False


class Place:
    """A name in a folder that is held open: whatever happens to the path, everything is done in that very folder.

    Lives until it is closed, or the `with` block ends. `path` is where it was found, for people.
    """

    def __init__(self, folder: int | None, name: str, path: Path) -> None:
        self._folder = folder
        self.name = name
        self.path = path

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Let the folder go. Again is harmless."""
        if self._folder is not None:
            os.close(self._folder)
            self._folder = None

    def status(self) -> os.stat_result | None:
        """The status of what has the name now, a link's own; None when nothing has it."""
        with contextlib.suppress(FileNotFoundError):
            return os.stat(self.name, dir_fd=self._folder, follow_symlinks=False)
        return None

    def folder_status(self) -> os.stat_result:
        """The status of the folder."""
        return self.path.parent.stat() if self._folder is None else os.fstat(self._folder)

    def make_folder_private(self) -> None:
        """Let nobody but this user into the folder.

        Raises:
            NotOwnError: it is another user's, or its file system does not keep its mode.
        """
        if not hasattr(os, "geteuid"):
            return
        if self.folder_status().st_uid != os.geteuid():
            raise NotOwnError(self.path.parent, "it is another user's folder")
        if is_private(self.folder_status()):
            return
        where = str(self.path.parent) if self._folder is None else "."
        os.chmod(where, PRIVATE_FOLDER, dir_fd=self._folder)  # by its descriptor
        if not is_private(self.folder_status()):
            raise NotOwnError(self.path.parent, "it stays open to others: its file system keeps no modes")

    def open(self, rules: Rules) -> int:
        """A descriptor of the file for reading, checked by `rules` but for its size; the caller closes it.

        Raises:
            FileNotFoundError: nothing has the name.
            UnsafeFileError: it is not what the rules want.
        """
        # Asked before it is opened: to open some devices is to do something.
        _check(os.stat(self.name, dir_fd=self._folder, follow_symlinks=False), rules, self.path)
        descriptor = os.open(self.name, _READ, dir_fd=self._folder)
        try:
            _check(os.fstat(descriptor), rules, self.path)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def open_private(self, flags: int) -> int:
        """A descriptor of this user's own regular file to write or lock; others lose what they may do with it.

        Raises:
            FileNotFoundError: nothing has the name, and `flags` do not say to make it.
            UnsafeFileError: it is a link, no regular file, another user's, or has another name too.
        """
        now = self.status()
        if now is not None:
            _check_writable(now, self.path)
        flags |= _CLOEXEC | _NOFOLLOW | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
        descriptor = os.open(self.name, flags, PRIVATE_FILE, dir_fd=self._folder)
        try:
            status = os.fstat(descriptor)
            _check_writable(status, self.path)
            if hasattr(os, "fchmod") and stat.S_IMODE(status.st_mode) & OTHERS:
                os.fchmod(descriptor, PRIVATE_FILE)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def read(self, rules: Rules) -> bytes:
        """The whole file. Raises like `open`, and TooLargeError."""
        return self.read_with_status(rules)[0]

    def read_with_status(self, rules: Rules) -> tuple[bytes, os.stat_result]:
        """The whole file, and the status of that very file. Raises like `read`."""
        descriptor = self.open(rules)
        try:
            return _read_up_to(descriptor, rules.most_bytes, self.path), os.fstat(descriptor)
        finally:
            os.close(descriptor)

    def is_writable(self) -> bool:
        """Whether mode and file system let this user write to what has the name."""
        return os.access(self.name, os.W_OK, dir_fd=self._folder)

    def stage(
        self,
        data: bytes | Iterable[bytes],
        *,
        mode: int | None = PRIVATE_FILE,
        owner: tuple[int, int] | None = None,
        is_durable: bool = True,
    ) -> str:
        """Write `data` to a new file beside the name; its name, for `put` or `discard`.

        `mode` None leaves what the user's umask leaves to a new file. `owner`: user and group, kept where we may.
        `is_durable`: it is on the disk for good, whenever the machine ends, when this is over.
        """
        temporary = self._beside(f".{Path(self.name).name[:100]}.{os.urandom(6).hex()}.tmp")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _CLOEXEC | _NOFOLLOW
        descriptor = os.open(temporary, flags, 0o666 if mode is None else PRIVATE_FILE, dir_fd=self._folder)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.writelines((data,) if isinstance(data, bytes) else data)
                file.flush()
                _give(descriptor, mode, owner)
                if is_durable:
                    os.fsync(descriptor)
        except BaseException:
            self.discard(temporary)
            raise
        return temporary

    def put(self, temporary: str) -> None:
        """Give a staged file the name, in place of what has it. A folder is not replaced."""
        os.replace(temporary, self.name, src_dir_fd=self._folder, dst_dir_fd=self._folder)

    def put_new(self, temporary: str) -> None:
        """Give a staged file the name if nothing has it.

        Raises:
            FileExistsError: something has it.
        """
        try:
            os.link(temporary, self.name, src_dir_fd=self._folder, dst_dir_fd=self._folder, follow_symlinks=False)
        except FileExistsError:
            raise
        except (OSError, NotImplementedError):  # not every file system has links
            if self.status() is not None:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(self.path)) from None
            self.put(temporary)

    def discard(self, temporary: str) -> None:
        """Remove a staged file, if it is still there."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=self._folder)

    def remove(self) -> None:
        """Remove what has the name: a link itself, not where it leads.

        Raises:
            FileNotFoundError: nothing has it.
        """
        os.unlink(self.name, dir_fd=self._folder)

    def make_folder(self, mode: int = 0o777) -> None:
        """Make a folder of this name, with the mode that the user's umask leaves.

        Raises:
            FileExistsError: something has the name.
        """
        os.mkdir(self.name, mode, dir_fd=self._folder)

    def remove_folder(self) -> None:
        """Remove the folder that has the name, if it is empty; OSError if it is not, or is no folder."""
        os.rmdir(self.name, dir_fd=self._folder)

    def sync(self) -> None:
        """Put the folder's entries on the disk for good, where the file system can do that with folders."""
        with contextlib.suppress(OSError):
            where = str(self.path.parent) if self._folder is None else "."
            descriptor = os.open(where, _FOLDER, dir_fd=self._folder)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def _beside(self, name: str) -> str:
        return str(Path(self.name).with_name(name)) if self._folder is None else name


def locate(
    path: Path,
    links: Links,
    *,
    root: Path | None = None,
    make_mode: int | None = None,
    is_last_followed: bool = True,
) -> Place:
    """The place of a file, its folder held open; the caller closes it.

    `root` is the folder that the user named, whose own path is taken as it is; a relative `path` begins there. Without
    it the walk begins at the file system's root. The last part, too, is followed where `links` allow, so that what is
    replaced is the target and the link stays; without `is_last_followed` it is only a name, and a link with that name
    is replaced or removed itself. `make_mode`: missing folders are made with this mode.

    Raises:
        FileNotFoundError: a folder on the way is missing.
        UnsafeFileError: a link on the way is not followed, or leads out of the root.
        OSError: a folder on the way cannot be opened.
    """
    if not _HAS_FOLDER_DESCRIPTORS:
        return _locate_by_path(path, links, root, make_mode, is_last_followed=is_last_followed)
    walk = _Walk(path, links, root, make_mode, is_last_followed=is_last_followed)
    try:
        name = walk.run()
    except BaseException:
        walk.close()
        raise
    return Place(walk.keep_last(), name, walk.path / name)


def read(path: Path, rules: Rules, *, root: Path | None = None) -> bytes:
    """The whole file at `path`, walked to as `locate` does.

    Raises:
        FileNotFoundError: there is none.
        UnsafeFileError: it is not what the rules want; `strerror` says why.
        OSError: it cannot be read.
    """
    with locate(path, rules.links, root=root) as place:
        return place.read(rules)


def read_pieces(path: Path, rules: Rules, *, root: Path | None = None) -> Iterator[bytes]:
    """The same in pieces of up to 1 MiB, for a file that may be larger than what is to be held of it.

    Raises like `read`: before the first piece, but for a file that grows meanwhile.
    """
    with locate(path, rules.links, root=root) as place:
        descriptor = place.open(rules)
        try:
            size = os.fstat(descriptor).st_size
            if size > rules.most_bytes:
                raise TooLargeError(place.path, rules.most_bytes, size)
            yield from _pieces(descriptor, rules.most_bytes, place.path)
        finally:
            os.close(descriptor)


def read_stamped(path: Path, rules: Rules, *, root: Path | None = None) -> tuple[bytes, os.stat_result]:
    """The whole file and the status of what was read. Raises like `read`."""
    with locate(path, rules.links, root=root) as place:
        descriptor = place.open(rules)
        try:
            return _read_up_to(descriptor, rules.most_bytes, place.path), os.fstat(descriptor)
        finally:
            os.close(descriptor)


def read_head(path: Path, rules: Rules, *, root: Path | None = None) -> bytes:
    """The first `most_bytes` of a file of any size. Raises like `read`, but for TooLargeError."""
    with locate(path, rules.links, root=root) as place:
        descriptor = place.open(rules)
        try:
            return os.read(descriptor, rules.most_bytes)
        finally:
            os.close(descriptor)


def read_text(path: Path, rules: Rules, *, root: Path | None = None) -> str:
    """The same as text: UTF-8, its byte order mark left out. Raises UnicodeDecodeError, a ValueError, for no text."""
    return read(path, rules, root=root).decode("utf-8-sig")


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
    """Write the whole file, so that nobody ever sees half of it, also after a loss of power.

    Its folder must be there, unless `make_mode` says how to make what is missing.

    What is not durable outlives the process, and the machine only when the system has written it meanwhile.

    Raises:
        UnsafeFileError: what is there is no regular file, or is reached by a link that is not followed.
        OSError: it cannot be written.
    """
    with locate(path, links, root=root, make_mode=make_mode) as place:
        now = place.status()
        if now is not None and not stat.S_ISREG(now.st_mode) and not stat.S_ISLNK(now.st_mode):
            raise NotRegularError(place.path, now.st_mode)
        temporary = place.stage(data, mode=mode, is_durable=is_durable)
        try:
            place.put(temporary)
        except BaseException:
            place.discard(temporary)
            raise
        if is_durable:
            place.sync()


def open_for_writing(path: Path, *, links: Links, root: Path | None = None, truncate: bool = False) -> int:
    """A descriptor of a private regular file to append to, made where there is none; the caller closes it.

    Raises:
        UnsafeFileError: what is there is a link, no regular file, or another user's.
    """
    with locate(path, links, root=root) as place:
        descriptor = place.open_private(os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    if truncate:
        os.ftruncate(descriptor, 0)
    return descriptor


def is_own(status: os.stat_result) -> bool:
    """Whether a file is this user's or root's, who has everything already, and nobody else may write to it."""
    return not hasattr(os, "geteuid") or (
        status.st_uid in (os.geteuid(), 0) and not stat.S_IMODE(status.st_mode) & 0o022
    )


def is_private(folder: os.stat_result) -> bool:
    """Whether a folder is this user's or root's, and nobody else may enter it."""
    return is_own(folder) and not (hasattr(os, "geteuid") and stat.S_IMODE(folder.st_mode) & OTHERS)


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
        self._folders = [os.open(self._start, _STEP)]
        self._names: list[str] = []
        self._followed = 0

    @property
    def path(self) -> Path:
        """The folder that the walk has reached."""
        return self._start.joinpath(*self._names)

    def close(self) -> None:
        """Let all folders go."""
        while self._folders:
            os.close(self._folders.pop())

    def keep_last(self) -> int:
        """The folder that the walk has reached, now the caller's; the others are let go."""
        last = self._folders.pop()
        self.close()
        return last

    def run(self) -> str:
        """The last name of the path, in the folder that the walk has then reached."""
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
            os.close(self._folders.pop())
        elif self._is_bounded:
            raise LinkRefusedError(self._given, f"it leads out of {self._start}")

    def _go_down(self, part: str) -> None:
        here = self._folders[-1]
        if len(self._folders) > MAX_FOLDERS:
            raise UnsafeFileError(self._given, f"it leads through more than {MAX_FOLDERS} folders", errno.ENAMETOOLONG)
        if self._make_mode is not None:
            with contextlib.suppress(FileExistsError):
                os.mkdir(part, self._make_mode, dir_fd=here)
        try:
            self._folders.append(os.open(part, _STEP | _NOFOLLOW, dir_fd=here))
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.path / part)) from None
        self._names.append(part)

    def _target_of(self, part: str) -> str | None:
        """Where the link `part` leads; None when it is no link, or nothing."""
        try:
            return os.readlink(part, dir_fd=self._folders[-1])
        except OSError as error:
            if error.errno in (errno.EINVAL, errno.ENOENT):
                return None
            raise OSError(error.errno, error.strerror, str(self.path / part)) from None

    def _follow(self, part: str, target: str) -> None:
        link = self.path / part
        self._followed += 1
        if self._followed > MAX_LINKS:
            raise LinkRefusedError(link, "it is a link to itself, or to a link of too many", errno.ELOOP)
        if self._links is Links.NEVER:
            raise LinkRefusedError(link, "it is a link, and none is followed here", errno.ELOOP)
        if self._links is Links.OWN:
            status = os.stat(part, dir_fd=self._folders[-1], follow_symlinks=False)
            if status.st_uid not in (os.geteuid(), 0):
                raise LinkRefusedError(link, "it is a link of another user")
        parts = Path(target).parts
        if Path(target).is_absolute():
            parts = _below(Path(target), self._start, link) if self._is_bounded else parts[1:]
            while self._names:
                self._go_up()
        self._todo.extendleft(reversed(parts))


def _below(path: Path, root: Path, link: Path | None = None) -> tuple[str, ...]:
    """The parts of `path` below `root`; a relative one begins there."""
    if not path.is_absolute():
        return path.parts
    for start in (root, Path(os.path.realpath(root))):
        if path.is_relative_to(start):
            return path.relative_to(start).parts
    raise LinkRefusedError(link or path, f"it leads out of {root}")


def _locate_by_path(
    path: Path, links: Links, root: Path | None, make_mode: int | None, *, is_last_followed: bool
) -> Place:
    """The same where the system has no descriptors of folders: checked now, and believed until it is used."""
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
    real.parent.stat()
    return Place(None, str(real), real)


def _check(status: os.stat_result, rules: Rules, path: Path) -> None:
    """Refuse what the rules do not allow, by its status."""
    if not stat.S_ISREG(status.st_mode):
        raise NotRegularError(path, status.st_mode)
    if (rules.is_granting or rules.is_secret) and not is_own(status):
        raise NotOwnError(path, "it is another user's, or others may write to it")
    if rules.is_secret and hasattr(os, "geteuid") and stat.S_IMODE(status.st_mode) & OTHERS:
        raise NotOwnError(path, "others may read it: its mode has to be 0600")
    if rules.links is Links.OWN and hasattr(os, "geteuid") and status.st_uid not in (os.geteuid(), 0):
        raise NotOwnError(path, "it is another user's")


def _check_writable(status: os.stat_result, path: Path) -> None:
    """Refuse to write to what is not this user's file alone."""
    if stat.S_ISLNK(status.st_mode):
        raise LinkRefusedError(path, "it is a link, and none is followed here", errno.ELOOP)
    if not stat.S_ISREG(status.st_mode):
        raise NotRegularError(path, status.st_mode)
    if hasattr(os, "geteuid") and status.st_uid != os.geteuid():
        raise NotOwnError(path, "it is another user's")
    if status.st_nlink > 1:
        raise NotOwnError(path, "it has another name too, by a hard link")


def _read_up_to(descriptor: int, most_bytes: int, path: Path) -> bytes:
    size = os.fstat(descriptor).st_size
    if size > most_bytes:
        raise TooLargeError(path, most_bytes, size)
    return b"".join(_pieces(descriptor, most_bytes, path))


def _pieces(descriptor: int, most_bytes: int, path: Path) -> Iterator[bytes]:
    left = most_bytes
    while piece := os.read(descriptor, min(_READ_BYTES, left + 1)):
        left -= len(piece)
        if left < 0:  # it has grown, or its file system tells no sizes
            raise TooLargeError(path, most_bytes)
        yield piece


def _give(descriptor: int, mode: int | None, owner: tuple[int, int] | None) -> None:
    if owner is not None and hasattr(os, "fchown") and owner != (os.geteuid(), os.getegid()):
        with contextlib.suppress(PermissionError):
            os.fchown(descriptor, *owner)
    if mode is not None and hasattr(os, "fchmod"):
        os.fchmod(descriptor, mode)
