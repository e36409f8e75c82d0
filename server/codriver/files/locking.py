"""A lock on a file, which one process holds at a time, and which the system frees when that process ends, however."""

from __future__ import annotations

try:
    import fcntl

    def _lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

except ImportError:  # Windows
    import msvcrt

    def _lock(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]  # as seen from other systems


def try_lock(descriptor: int) -> bool:
    """Whether the lock on this open file is held now. It is freed when the file is closed.

    Raises:
        OSError: its file system knows no locks.
    """
    try:
        _lock(descriptor)
    except (BlockingIOError, PermissionError):
        return False
    return True
