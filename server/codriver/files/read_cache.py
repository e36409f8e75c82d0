"""Read cache for files that are looked at several times a second: read again only where their stamp has changed.

To open a file by the one safe way takes some twenty system calls, its status takes one. A time stamp is too coarse to
tell two quick writes apart, so nothing is kept of a file that had been written shortly before it was read.

The stamp of a file is equal as long as nobody wrote, replaced or renamed it. The time of the change of its status is a
part of it: a file of the same length that is put back with its old time, as `cp -p`, `rsync -t` and unpacked archives
do, has another one.
"""

from __future__ import annotations

import os
import stat
import time
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


T = TypeVar("T")

SETTLED_NS: Final = 2 * 10**9
"""The age from which on a further write shows in the time stamp: FAT counts it in steps of two seconds."""
MOST_KEPT: Final = 10_000


class ReadCache(Generic[T]):
    """Cache of what was made of files, by path, for the life of whoever looks at them again and again.

    One caller at a time. Only the status of a path is asked here, a link's own; a file is opened by the `read` that a
    caller gives. Links are read each time, as their targets change without them.
    """

    def __init__(self) -> None:
        self._kept: dict[Path, tuple[Stamp, T]] = {}

    def get(self, path: Path, read: Callable[[], T]) -> T:
        """The finding kept of this very file, else what `read` gives now, which raises for what cannot be read.

        Raises:
            FileNotFoundError, NotADirectoryError: nothing has this path.
        """
        try:
            status = os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            self._kept.pop(path, None)
            raise
        except OSError:  # `read` meets it too, and says what that means
            return read()
        stamp = stamp_of(status)
        known = self._kept.get(path)
        if known is not None and known[0] == stamp:
            return known[1]
        asked_ns = time.time_ns()
        found = read()
        newest_ns = max(status.st_mtime_ns, status.st_ctime_ns)
        # A clock that was set back makes a file look younger than now: it is read each time until then.
        if stat.S_ISREG(status.st_mode) and asked_ns - newest_ns > SETTLED_NS and len(self._kept) < MOST_KEPT:
            self._kept[path] = (stamp, found)
        else:
            self._kept.pop(path, None)
        return found


Stamp = tuple[int, int, int, int, int]
"""Device, inode, length in bytes, and the times in ns at which content and status changed."""
MISSING: Stamp = (0, 0, 0, 0, 0)
"""The stamp of no file."""


def stamp_of(status: os.stat_result) -> Stamp:
    """The stamp of a file of this status."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
