"""The stamp of a file: equal as long as nobody wrote, replaced or renamed it.

The time of the change of its status is a part of it: a file of the same length that is put back with its old time, as
`cp -p`, `rsync -t` and unpacked archives do, has another one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os

Stamp = tuple[int, int, int, int, int]
"""Device, inode, length in bytes, and the times in ns at which content and status changed."""
MISSING: Stamp = (0, 0, 0, 0, 0)
"""The stamp of no file."""


def stamp_of(status: os.stat_result) -> Stamp:
    """The stamp of a file of this status."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
