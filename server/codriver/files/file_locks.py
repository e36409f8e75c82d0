"""Locks on files, which only one process holds at a time. The system releases a lock when its process ends."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from codriver.systems.file_system import remove

if TYPE_CHECKING:
    from pathlib import Path

if sys.platform == "win32":
    from codriver_relay.windows import try_lock as _try
else:
    from codriver_relay.peer import try_flock as _try


def try_lock(descriptor: int) -> bool:
    """Try to lock an open file, and return whether it is locked now. Closing the file releases the lock.

    Raises:
        OSError: the file system does not support locks.
    """
    try:
        return _try(descriptor)
    except PermissionError:
        return False


def remove_locked_file(file: Path, descriptor: int) -> None:
    """Remove a file whose lock is held by `descriptor`, and then close the descriptor.

    In this order, the next holder of the lock can see that the file is gone.

    Raises:
        OSError: the file cannot be removed. The descriptor is closed anyway. On Windows, which cannot
            remove an open file, another process may have locked the file by then.
    """
    if sys.platform == "win32":
        os.close(descriptor)
        remove(file)
    else:
        try:
            remove(file)
        finally:
            os.close(descriptor)
