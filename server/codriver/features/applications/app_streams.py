"""The streams of applications' events that clients watch, from start to end.

A stream is renewed for as long as its client and the connection to its REPL last. The application ends a stream that no
one renews (see the lease in `codriver_seam.streams`).
"""

from __future__ import annotations

import json
import logging
from contextlib import ExitStack
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol

import anyio

from codriver.errors import CodriverError
from codriver.features.applications.app_log import AppEvent
from codriver.repls.contract.adapter import OpTimedOutError
from codriver.wire.untrusted import as_list, as_map

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anyio.abc import TaskGroup

    from codriver.core.dispatch import Core
    from codriver.core.state import State
    from codriver.features.applications.app_log import AppLog

logger = logging.getLogger(__name__)

CALLS: Final = "calls"
"""The topic of call traces. Unlike other streams, one on this topic ends on its own after a number of events."""
OPS: Final[Mapping[str, str]] = MappingProxyType({CALLS: "call"})
"""By topic: the op type of its events, if that differs from the topic."""
RENEW_S: Final = 20.0
"""A third of a stream's lease in the application, so that two renewals may be late."""


@dataclass(frozen=True, slots=True)
class AppStream:
    """A stream of an application's events that a client watches, over one connection of a REPL.

    `id` is the subscription, as the application's seam names it.
    """

    id: str
    repl: str
    generation: int
    client: str
    who: str
    topic: str


class QuerySeam(Protocol):
    """Query the seam of the application in a REPL, and return its answer as JSON."""

    async def __call__(self, repl: str, accessor: str, arguments: str) -> str:
        """Call an accessor. Raises a `CodriverError` if there is no answer."""


class AppStreams:
    """The active streams, in the order in which they were opened. Lives as long as the server."""

    def __init__(self, core: Core, log: AppLog, tasks: TaskGroup, query: QuerySeam) -> None:
        self._core = core
        self._log = log
        self._tasks = tasks
        self._query = query
        self._streams: tuple[AppStream, ...] = ()
        self._observing = ExitStack()
        """The observation of the core's state, only while there are streams."""

    def active(self) -> list[AppStream]:
        """Return the streams whose REPL is connected."""
        return [stream for stream in self._streams if _is_connected(self._core.state, stream)]

    def start(self, stream: AppStream) -> None:
        """Add a stream and renew it from now on. A stream whose client has left in the meantime is ended."""
        if stream.client not in self._core.state.clients:
            self._tasks.start_soon(self._end_in_application, stream)
            return
        if not self._streams:
            self._observing.enter_context(self._core.observed_by(self._observe))
        self._streams = (*self._streams, stream)
        self._tasks.start_soon(self._renew, stream)

    def forget(self, stream: AppStream) -> None:
        """Forget a stream that has ended."""
        self._streams = tuple(one for one in self._streams if one != stream)
        if not self._streams:
            self._observing.close()

    def _observe(self, before: State, after: State) -> None:
        """End the streams whose client has left or whose REPL has gone."""
        if before.repls is after.repls and before.clients is after.clients:
            return
        for stream in self._streams:
            if stream.client not in after.clients:
                self.forget(stream)
                self._tasks.start_soon(self._end_in_application, stream)
            elif not _is_connected(after, stream) and _is_connected(before, stream):
                repl = after.repls.get(stream.repl)
                key = before.repls[stream.repl].key
                is_restart = repl is not None and repl.phase == "starting"
                cause = repl.note if repl is not None else "it is gone"
                self._end(stream, f"the REPL {key} " + ("restarts" if is_restart else f"is lost ({cause})"))

    async def _renew(self, stream: AppStream) -> None:
        """Renew a stream until it is forgotten or the application has ended it."""
        while True:
            await anyio.sleep(RENEW_S)
            if stream not in self._streams:
                return
            if not await self._exists(stream):
                break
        if stream in self._streams:
            # A stream of call traces ends on its own.
            ended = "the application ended it"
            self._end(
                stream, f"it reached its maximum number of events, or {ended}" if stream.topic == CALLS else ended
            )

    async def _exists(self, stream: AppStream) -> bool:
        """Renew a stream, and return whether the application still has it."""
        if not _is_connected(self._core.state, stream):
            return False
        try:
            answer = json.loads(await self._query(stream.repl, "subscriptions", json.dumps({"renew": [stream.id]})))
            return any(as_map(row).get("id") == stream.id for row in as_list(as_map(answer).get("subs")))
        except OpTimedOutError:
            return True  # the REPL is busy, and is asked again
        except (CodriverError, ValueError) as error:
            logger.info("renewing the stream %s of %s: %s", stream.id, stream.repl, error)
            return False

    async def _end_in_application(self, stream: AppStream) -> None:
        """End a stream in the application, if it can still be reached."""
        if not _is_connected(self._core.state, stream):
            return
        try:
            await self._query(stream.repl, "unsubscribe", json.dumps({"subId": stream.id}))
        except CodriverError as error:
            logger.info("ending the stream %s of %s: %s", stream.id, stream.repl, error)

    def _end(self, stream: AppStream, why: str) -> None:
        """Record the end of a stream as an event of its topic, which wakes everyone who waits for its events."""
        self.forget(stream)
        repl = self._core.state.repls.get(stream.repl)
        text = f"{stream.id} ({stream.topic}) of {stream.who} is over: {why}; watch_app again once it is back"
        op = "stream" if stream.topic == "trace" else OPS.get(stream.topic, stream.topic)
        key = repl.key if repl else None
        self._log.record(AppEvent(text, self._core.now(), op=op, name="stream-over", session_key=key))


def _is_connected(state: State, stream: AppStream) -> bool:
    repl = state.repls.get(stream.repl)
    return repl is not None and repl.phase == "connected" and repl.generation == stream.generation
