"""Kill the process group of a test run if the server exits before the run has ended."""

from __future__ import annotations

import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import anyio

from codriver.systems.other_processes import HAS_GROUPS
from codriver.testing.exit_deadlines import KILL_TIMEOUT_S

if TYPE_CHECKING:
    from pathlib import Path

    from anyio.abc import Process


GUARD_SCRIPT: Final = 'read -r line || { kill -s KILL -- "-$1"; rm -rf -- "$2"; }'
"""Shell script that kills a process group and removes its files when its stdin ends without a line.

The stdin ends in this way when the server has exited.
"""


async def start_guard(pid: int, directory: Path) -> Process | None:
    """Start a process that kills a process group when the server exits.

    Return None on Windows, where the process tree ends together with the server.
    """
    if not HAS_GROUPS:
        return None
    try:
        return await anyio.open_process(
            ["/bin/sh", "-c", GUARD_SCRIPT, "sh", str(pid), str(directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        return None


async def release_guard(guard: Process | None) -> None:
    """End the guard of a process group that has ended."""
    if guard is None or guard.stdin is None:
        return
    with suppress(OSError, anyio.BrokenResourceError):
        await guard.stdin.send(b"\n")
    with anyio.move_on_after(KILL_TIMEOUT_S):
        await guard.wait()
    await guard.aclose()
