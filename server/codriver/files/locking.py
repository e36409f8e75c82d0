"""A lock on a file, which one process holds at a time, and which the system frees when that process ends, however."""

from __future__ import annotations

import sys

if sys.platform == "win32":
    from codriver_relay.windows import try_lock as _try
else:
    from codriver_relay.peer import try_flock as _try


def try_lock(descriptor: int) -> bool:
    """Whether the lock on this open file is held now. It is freed when the file is closed.

    Raises:
        OSError: its file system knows no locks.
    """
    try:
        return _try(descriptor)
    except PermissionError:
        return False
