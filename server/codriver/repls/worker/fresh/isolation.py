"""Isolate a process in its own Linux namespaces, where files written to some directories stay in memory.

Sources: unshare(2), user_namespaces(7), mount_namespaces(7), prctl(2); the kernel's documentation of overlayfs.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import stat
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


assert sys.platform == "linux"  # noqa: S101  # for type checkers, as this is only imported on Linux

CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWNET = 0x20000, 0x10000000, 0x40000000
MS_REC, MS_PRIVATE = 16384, 1 << 18
MNT_DETACH = 2
"""The flag of umount2 that detaches a mount and releases it once it is unused. Source: umount2(2)."""
PR_SET_PDEATHSIG = 1
"""The prctl option that requests a signal when the parent process ends. Source: prctl(2)."""
MAX_WRITTEN_SIZE = "256m"
"""Maximum number of bytes that the process may write, in the notation of mount(8)."""
SCRATCH_DIRECTORIES = ("/mnt", "/media", "/srv", "/opt", "/run", "/home")
"""Directories that exist on most systems.

The memory for the upper layers is briefly mounted at the first one that does not overlap the overlaid directories.
"""


@functools.lru_cache(maxsize=1)
def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def set_process_option(option: int, value: int) -> None:
    """Set an option of this process with prctl(2)."""
    _libc().prctl(option, value)


def _check(status: int, step: str) -> None:
    """Raise an error if a system call has failed. `step` describes the call in the message.

    Raises:
        OSError: the status is not 0.
    """
    if status:
        number = ctypes.get_errno()
        raise OSError(number, f"{step}: {os.strerror(number)}")


def enter_namespace() -> None:
    """Enter a new user namespace and a new mount namespace.

    Raises:
        OSError: the system does not allow it.
    """
    user, group = os.getuid(), os.getgid()
    _check(_libc().unshare(CLONE_NEWNS | CLONE_NEWUSER), "unshare")
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)
    _check(_libc().mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None), "mount")


def isolate_network() -> None:
    """Enter a network namespace without any interfaces. The process must be in its own user namespace.

    Raises:
        OSError: the system does not allow it.
    """
    _check(_libc().unshare(CLONE_NEWNET), "unshare")


def outermost_directories(directories: Sequence[str]) -> list[str]:
    """Return the real paths of the directories that are not inside another of these directories."""
    real = sorted({os.path.realpath(directory) for directory in directories if os.path.isdir(directory)})
    return [item for item in real if not any(is_below(item, other) for other in real if other != item)]


def is_below(path: str, directory: str) -> bool:
    """Return whether a path is the directory itself or inside it."""
    return path == directory or path.startswith(directory.rstrip(os.sep) + os.sep)


def mount_overlays(directories: Sequence[str]) -> None:
    """Mount an overlay over each directory, so that files written there stay in memory.

    Raises:
        OSError: the system does not allow it.
    """
    scratch = next(
        (path for path in SCRATCH_DIRECTORIES if os.path.isdir(path) and not _overlaps(path, directories)),
        "",
    )
    if not scratch:
        raise OSError(f"none of {', '.join(SCRATCH_DIRECTORIES)} can hold the upper directory of an overlay")
    target = os.fsencode(scratch)
    _check(_libc().mount(b"tmpfs", target, b"tmpfs", 0, f"size={MAX_WRITTEN_SIZE}".encode()), "mount tmpfs")
    try:
        for number, directory in enumerate(directories):
            upper, work = f"{scratch}/u{number}", f"{scratch}/w{number}"
            os.mkdir(upper)
            os.mkdir(work)
            status = os.stat(directory)
            with contextlib.suppress(OSError):
                os.chmod(upper, stat.S_IMODE(status.st_mode))
            data = f"lowerdir={_escape(directory)},upperdir={upper},workdir={work},userxattr"
            at = os.fsencode(directory)
            _check(_libc().mount(b"overlay", at, b"overlay", 0, os.fsencode(data)), f"overlay {directory}")
    finally:
        _libc().umount2(target, MNT_DETACH)


def _overlaps(scratch: str, directories: Sequence[str]) -> bool:
    return any(is_below(directory, scratch) or is_below(scratch, directory) for directory in directories)


def _escape(path: str) -> str:
    """Escape a path for use in mount options."""
    return "".join("\\" + item if item in "\\:," else item for item in path)
