"""The shield around a forked process: descriptors, shared memory and files become its own.

Sources: unshare(2), user_namespaces(7), mount_namespaces(7), prctl(2), mmap(2), proc(5); the kernel's documentation of
overlayfs.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import functools
import os
import stat
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

assert sys.platform == "linux"  # noqa: S101  # for type checkers: elsewhere nobody gets here

CLONE_NEWNS, CLONE_NEWUSER = 0x20000, 0x10000000
MS_REC, MS_PRIVATE = 16384, 1 << 18
MNT_DETACH = 2
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER = 1, 4, 36
READ_WRITE, PRIVATE_FIXED_ANONYMOUS = 3, 0x32
UPPER_BYTES = "256m"
"""Of all that a candidate writes."""
SCRATCH = ("/mnt", "/media", "/srv", "/opt", "/run", "/home")
"""Folders that nearly every system has; one that holds nothing of the overlaid ones is covered for a moment."""


@functools.lru_cache(maxsize=1)
def _libc() -> Any:
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    return library


def control(option: int, value: int) -> None:
    """Set an option of this process."""
    _libc().prctl(option, value)


def _check(status: int, step: str) -> None:
    if status:
        number = ctypes.get_errno()
        raise OSError(number, f"{step}: {os.strerror(number)}")


def nothing() -> int:
    """A descriptor of nowhere."""
    return os.open(os.devnull, os.O_RDWR)


def memory_bytes() -> int:
    """The size of this process' address space."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def part_descriptors(kept: set[int]) -> None:
    """Make every inherited descriptor harmless: a file that is read has an offset of its own, any other is nowhere.

    None is closed, as its number would be given to another file.
    """
    nowhere = nothing()
    for name in os.listdir("/proc/self/fd"):
        number = int(name)
        if number in kept or number == nowhere:
            continue
        own = nowhere
        with contextlib.suppress(OSError):
            own = _reopened(number, nowhere)
        with contextlib.suppress(OSError):  # that of the folder which is listed here
            os.dup2(own, number, inheritable=os.get_inheritable(number))
        if own != nowhere:
            os.close(own)
    if nowhere not in kept:
        os.close(nowhere)


def _reopened(number: int, nowhere: int) -> int:
    """A descriptor of the same file with an offset of its own, if it is only read."""
    is_read = fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY
    if not (is_read and stat.S_ISREG(os.fstat(number).st_mode)):
        return nowhere
    own = os.open(f"/proc/self/fd/{number}", os.O_RDONLY)
    os.lseek(own, os.lseek(number, 0, os.SEEK_CUR), os.SEEK_SET)
    return own


def maps() -> Iterator[tuple[int, int, str, str]]:
    """The maps of this process: first and last address, permissions, and name."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
        for line in file:
            fields = line.split(maxsplit=5)
            first, last = (int(one, 16) for one in fields[0].split("-"))
            yield first, last, fields[1], fields[5].strip() if len(fields) > 5 else ""


def shared_maps() -> list[tuple[int, int, str]]:
    """The maps that a write would change for other processes, as `numpy.memmap` and locks of `multiprocessing` have."""
    return [(first, last, name) for first, last, flags, name in maps() if flags[:2] == "rw" and flags[3] == "s"]


def copy_shared_maps() -> None:
    """Put a copy of one's own in the place of each shared map."""
    for first, last, _ in shared_maps():
        size = last - first
        content = ctypes.string_at(first, size)
        if _libc().mmap(first, size, READ_WRITE, PRIVATE_FIXED_ANONYMOUS, -1, 0) != first:
            raise OSError(ctypes.get_errno(), "mmap")
        ctypes.memmove(first, content, size)


def own_space() -> None:
    """Enter a user and mount namespace of one's own.

    Raises:
        OSError: the system does not allow that.
    """
    user, group = os.getuid(), os.getgid()
    _check(_libc().unshare(CLONE_NEWNS | CLONE_NEWUSER), "unshare")
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)
    _check(_libc().mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None), "mount")


def outermost(folders: Sequence[str]) -> list[str]:
    """The folders that lie in none of the others, with their real paths."""
    real = sorted({os.path.realpath(one) for one in folders if os.path.isdir(one)})
    return [one for one in real if not any(is_below(one, other) for other in real if other != one)]


def is_below(path: str, folder: str) -> bool:
    """True for the folder itself and all in it."""
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def overlay(folders: Sequence[str]) -> None:
    """Have whatever is written, edited or removed in the folders from now on be this process's and its children's.

    It has to come before this process has a second thread.

    Raises:
        OSError: the system does not allow that.
    """
    here = os.getcwd()
    _check(_libc().unshare(CLONE_NEWNS), "unshare")
    lay(folders)
    os.chdir(here)


def lay(folders: Sequence[str]) -> None:
    """Lay an overlay, whose upper layer is in memory, over each folder.

    Raises:
        OSError: the system does not allow that.
    """
    scratch = next((one for one in SCRATCH if os.path.isdir(one) and not _touches(one, folders)), "")
    if not scratch:
        raise OSError(f"none of {', '.join(SCRATCH)} is free for the upper layer")
    place = os.fsencode(scratch)
    _check(_libc().mount(b"tmpfs", place, b"tmpfs", 0, f"size={UPPER_BYTES}".encode()), "mount tmpfs")
    try:
        for number, folder in enumerate(folders):
            upper, work = f"{scratch}/u{number}", f"{scratch}/w{number}"
            os.mkdir(upper)
            os.mkdir(work)
            status = os.stat(folder)
            with contextlib.suppress(OSError):
                os.chmod(upper, stat.S_IMODE(status.st_mode))
            data = f"lowerdir={_escaped(folder)},upperdir={upper},workdir={work},userxattr"
            at = os.fsencode(folder)
            _check(_libc().mount(b"overlay", at, b"overlay", 0, os.fsencode(data)), f"overlay {folder}")
    finally:
        _libc().umount2(place, MNT_DETACH)


def lift(folders: Sequence[str]) -> None:
    """Take the overlays off again."""
    for folder in folders:
        _libc().umount2(os.fsencode(folder), MNT_DETACH)


def _touches(scratch: str, folders: Sequence[str]) -> bool:
    return any(is_below(one, scratch) or is_below(scratch, one) for one in folders)


def _escaped(path: str) -> str:
    """A path as the options of a mount have it."""
    return "".join("\\" + one if one in "\\:," else one for one in path)


def children() -> list[int]:
    """The children of this process, those of its threads too."""
    found: list[int] = []
    for task in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError), open(f"/proc/self/task/{task}/children", encoding="ascii") as file:
            found += map(int, file.read().split())
    return found
