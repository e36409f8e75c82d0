"""`codriver` on a disk that blocks. Linux only.

While a file `slow` exists in the directory `DISK`, each `fsync` of a history file takes 5 seconds. While `blocked`
exists, no `write` to one returns.
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
    """Return whether a descriptor belongs to a history file or to the file of its line numbers."""
    return "eval-history" in str(Path(f"/proc/self/fd/{descriptor}").readlink())


def fsync(descriptor):
    """Flush a file to the disk, slowly."""
    if SLOW.exists() and is_of_history(descriptor):
        time.sleep(FSYNC_S)
    _fsync(descriptor)


def write(descriptor, content):
    """Write to a file; to a history only once the disk accepts it."""
    while BLOCKED.exists() and is_of_history(descriptor):
        time.sleep(0.01)
    return _write(descriptor, content)


os.fsync, os.write = fsync, write

if __name__ == "__main__":
    sys.exit(main())
