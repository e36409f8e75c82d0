"""Notices that a REPL elsewhere can no longer be reached, where the kernel cannot.

TCP's own keep-alive ends at the next host: behind an SSH tunnel or a container's proxy it is answered by what listens
here, whatever became of the REPL. So the REPL itself is asked something small when it was silent for a while.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio

from codriver.errors import ReplDisconnectedError
from codriver.repls.errors import OpTimedOutError

if TYPE_CHECKING:
    from codriver.repls.nrepl.session_pool import NreplSession


@dataclass(frozen=True, slots=True)
class Beat:
    """How long a REPL may be silent before it is asked, and then before it counts as gone: 25 s together."""

    silence_s: float = 10.0
    answer_s: float = 15.0


async def watch(main: NreplSession, beat: Beat, *, while_busy: bool) -> None:
    """Look after the connection of the session `main` until it is over, and end it when the REPL does not answer.

    A REPL that does one thing at a time does not answer while it works: unless `while_busy`, it is asked only while
    nothing of ours runs there.
    """
    connection = main.connection
    while connection.cause is None:
        quiet_s = anyio.current_time() - connection.heard_at
        if quiet_s < beat.silence_s:
            await anyio.sleep(beat.silence_s - quiet_s)
            continue
        if connection.is_waiting and not while_busy:
            await anyio.sleep(beat.silence_s)
            continue
        asked_at = anyio.current_time()
        try:
            # With the session's lock no evaluation begins meanwhile: some servers mix up two requests at once.
            async with contextlib.nullcontext() if while_busy else main.lock:
                await connection.ask("describe", timeout_s=beat.answer_s)
        except OpTimedOutError:
            if connection.heard_at >= asked_at or (connection.is_waiting and not while_busy):
                continue
            silent_s = anyio.current_time() - connection.heard_at
            await connection.abandon(f"the REPL has been silent for {silent_s:.0f} s and does not answer any more")
        except ReplDisconnectedError:
            return
