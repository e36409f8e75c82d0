"""`codriver` on a disk that blocks. Linux only.

While `slow` lies in the folder `DISK`, each `fsync` of a history's files takes 5 seconds. While `blocked` does, no
`write` to one returns.
"""

import os
import sys
import time
from pathlib import Path

from codriver.commands.cli import main

DISK = Path(os.environ["DISK"])
SLOW, BLOCKED = DISK / "slow", DISK / "blocked"
FSYNC_S = 5
_fsync, _write = os.fsync, os.write


def is_of_history(descriptor):
    """Whether a descriptor is of a history's file, or of the file of its line numbers."""
    return "eval-history" in str(Path(f"/proc/self/fd/{descriptor}").readlink())


def fsync(descriptor):
    """Put a file on the disk, slowly."""
    if SLOW.exists() and is_of_history(descriptor):
        time.sleep(FSYNC_S)
    _fsync(descriptor)


def write(descriptor, content):
    """Write to a file; to a history only once the disk takes it."""
    while BLOCKED.exists() and is_of_history(descriptor):
        time.sleep(0.01)
    return _write(descriptor, content)


os.fsync, os.write = fsync, write

if __name__ == "__main__":
    sys.exit(main())
