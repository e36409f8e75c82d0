"""Pipes between processes of this machine, or between a signal and a loop."""

from __future__ import annotations

import os
import sys


def never_block(end: int) -> None:
    """Have reads from and writes to this end of a pipe fail where they would wait. On Windows they go on waiting."""
    if sys.platform != "win32":
        os.set_blocking(end, False)  # the standard library takes it by position only
