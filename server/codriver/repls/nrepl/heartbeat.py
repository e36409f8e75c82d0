"""The heartbeat of a connection, which sends a small request to a REPL that has been silent for a long time.

TCP keep-alive is not enough. An SSH tunnel or a container's proxy answers it even if the REPL is gone.
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
    """The time limits of a heartbeat, which add up to 25 s by default.

    After `silence_s` without data, a request is sent. If the REPL does not answer within `answer_s`, it counts as gone.
    """

    silence_s: float = 10.0
    answer_s: float = 15.0


async def send_heartbeats(main: NreplSession, beat: Heartbeat, *, while_busy: bool) -> None:
    """Send heartbeats over the connection of `main`, and close the connection if the REPL does not answer.

    A REPL that processes one request at a time cannot answer while it is evaluating. Unless `while_busy` is set,
    heartbeats are only sent while no request is running.
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
            # With the session's turn, no evaluation can start concurrently. Some servers confuse two simultaneous
            # requests.
            async with contextlib.nullcontext() if while_busy else main.turn:
                await connection.request("describe", timeout_s=beat.answer_s)
        except OpTimedOutError:
            if connection.received_at >= requested_at or (connection.is_waiting and not while_busy):
                continue
            silent_s = monotonic() - connection.received_at
            await connection.abandon(f"the REPL has been silent for {silent_s:.0f} s and no longer answers")
        except ReplDisconnectedError:
            return
