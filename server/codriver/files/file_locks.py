"""Locks on files. Only one process can hold a lock, and the system releases it when the process ends."""

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
    """Lock an open file without waiting, and return whether this succeeded. Closing the file releases the lock.

    Raises:
        OSError: the file system does not support locks.
    """
    try:
        return _try(descriptor)
    except PermissionError:
        return False


def remove_locked_file(file: Path, descriptor: int) -> None:
    """Remove a file that `descriptor` has locked, and then close the descriptor.

    In this order, the next process that locks the file can detect that it was removed.

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
