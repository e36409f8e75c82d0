"""The heartbeat of a connection: a REPL that is silent for long is sent a small request.

TCP's own keep-alive ends at the next host: an SSH tunnel or a container's proxy answers it locally, whatever became of
the REPL. So the REPL itself is asked something small after a silence.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING

import anyio

from codriver.errors import ReplDisconnectedError
from codriver.repls.contract.adapter import OpTimedOutError

if TYPE_CHECKING:
    from codriver.repls.nrepl.session_pool import NreplSession


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The silence after which a REPL is asked, and the further one after which it counts as gone: 25 s together."""

    silence_s: float = 10.0
    answer_s: float = 15.0


async def watch(main: NreplSession, beat: Heartbeat, *, while_busy: bool) -> None:
    """Watch the connection of the session `main` until its end, and end it when the REPL does not answer.

    A REPL that does one thing at a time does not answer while it works: unless `while_busy`, the REPL is asked only
    while none of our code runs.
    """
    connection = main.connection
    while connection.cause is None:
        quiet_s = monotonic() - connection.received_at
        if quiet_s < beat.silence_s:
            await anyio.sleep(beat.silence_s - quiet_s)
            continue
        if connection.is_waiting and not while_busy:
            await anyio.sleep(beat.silence_s)
            continue
        requested_at = monotonic()
        try:
            # With the session's turn no evaluation begins meanwhile: some servers mix up two requests at once.
            async with contextlib.nullcontext() if while_busy else main.turn:
                await connection.request("describe", timeout_s=beat.answer_s)
        except OpTimedOutError:
            if connection.received_at >= requested_at or (connection.is_waiting and not while_busy):
                continue
            silent_s = monotonic() - connection.received_at
            await connection.abandon(f"the REPL has been silent for {silent_s:.0f} s and does not answer any more")
        except ReplDisconnectedError:
            return
