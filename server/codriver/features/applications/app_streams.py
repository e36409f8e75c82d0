"""Streams of application events, which clients start with `watch_app`.

A stream is renewed as long as its client and its REPL are connected. The application ends streams that are not renewed
(see the lease in `codriver_seam.streams`).
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
from codriver.wire.untrusted import list_or_empty, mapping_or_empty

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anyio.abc import TaskGroup

    from codriver.core.dispatch import Core
    from codriver.core.state import State
    from codriver.features.applications.app_log import AppLog

logger = logging.getLogger(__name__)

CALLS_TOPIC: Final = "calls"
"""The topic of call traces. A stream with this topic ends after a maximum number of events."""
OPS_BY_TOPIC: Final[Mapping[str, str]] = MappingProxyType({CALLS_TOPIC: "call"})
"""Maps topics to the op types of their events. The op type of any other topic is the topic's name."""
RENEWAL_INTERVAL_S: Final = 20.0
"""Interval between renewals: a third of a stream's lease in the application, which allows two renewals to fail."""


@dataclass(frozen=True, slots=True)
class AppStream:
    """A stream of application events that a client is watching. It ends when the REPL disconnects.

    `id` is the id of the subscription in the application's seam.
    """

    id: str
    repl: str
    generation: int
    client: str
    who: str
    topic: str


class QuerySeam(Protocol):
    """A function that calls an accessor of an application's seam in a REPL, and returns the result as JSON."""

    async def __call__(self, repl: str, accessor: str, arguments: str) -> str:
        """Call an accessor with arguments in JSON.

        Raises:
            CodriverError: the REPL did not answer.
        """


class AppStreams:
    """The streams of application events that clients are watching. Regular renewal keeps them from expiring."""

    def __init__(self, core: Core, log: AppLog, tasks: TaskGroup, query: QuerySeam) -> None:
        self._core = core
        self._log = log
        self._tasks = tasks
        self._query = query
        self._streams: tuple[AppStream, ...] = ()
        self._observing = ExitStack()
        """Observes the core's state while there are streams."""

    def active(self) -> list[AppStream]:
        """Return the streams whose REPLs are connected, in the order in which they were started."""
        return [stream for stream in self._streams if _is_connected(self._core.state, stream)]

    def start(self, stream: AppStream) -> None:
        """Add a stream and renew it regularly. End it instead if its client has disconnected in the meantime."""
        if stream.client not in self._core.state.clients:
            self._tasks.start_soon(self._end_in_application, stream)
            return
        if not self._streams:
            self._observing.enter_context(self._core.observed_by(self._end_disconnected))
        self._streams = (*self._streams, stream)
        self._tasks.start_soon(self._renew, stream)

    def remove(self, stream: AppStream) -> None:
        """Remove a stream that has ended."""
        self._streams = tuple(other for other in self._streams if other != stream)
        if not self._streams:
            self._observing.close()

    def _end_disconnected(self, old: State, state: State) -> None:
        """End the streams whose client or REPL has disconnected."""
        if old.repls is state.repls and old.clients is state.clients:
            return
        for stream in self._streams:
            if stream.client not in state.clients:
                self.remove(stream)
                self._tasks.start_soon(self._end_in_application, stream)
            elif not _is_connected(state, stream) and _is_connected(old, stream):
                repl = state.repls.get(stream.repl)
                key = old.repls[stream.repl].key
                is_restart = repl is not None and repl.phase == "starting"
                cause = repl.note if repl is not None else "the application has exited"
                self._end(stream, f"the REPL {key} " + ("restarts" if is_restart else f"is lost ({cause})"))

    async def _renew(self, stream: AppStream) -> None:
        """Renew a stream regularly until it is removed or the application has ended it."""
        while True:
            await anyio.sleep(RENEWAL_INTERVAL_S)
            if stream not in self._streams:
                return
            if not await self._renew_once(stream):
                break
        if stream in self._streams:
            # A stream of call traces ends on its own.
            cause = "the application ended the stream"
            self._end(
                stream, f"{cause}, or it reached its maximum number of events" if stream.topic == CALLS_TOPIC else cause
            )

    async def _renew_once(self, stream: AppStream) -> bool:
        """Renew a stream. Return False if the application has ended it or cannot be reached."""
        if not _is_connected(self._core.state, stream):
            return False
        try:
            answer = json.loads(await self._query(stream.repl, "subscriptions", json.dumps({"renew": [stream.id]})))
            return any(
                mapping_or_empty(row).get("id") == stream.id
                for row in list_or_empty(mapping_or_empty(answer).get("subs"))
            )
        except OpTimedOutError:
            return True  # the REPL is busy, so try again later
        except (CodriverError, ValueError) as error:
            logger.info("could not renew the stream %s of %s: %s", stream.id, stream.repl, error)
            return False

    async def _end_in_application(self, stream: AppStream) -> None:
        if not _is_connected(self._core.state, stream):
            return
        try:
            await self._query(stream.repl, "unsubscribe", json.dumps({"subId": stream.id}))
        except CodriverError as error:
            logger.info("could not end the stream %s of %s: %s", stream.id, stream.repl, error)

    def _end(self, stream: AppStream, cause: str) -> None:
        """Remove a stream, and record an event about its end, so that calls waiting for events return."""
        self.remove(stream)
        repl = self._core.state.repls.get(stream.repl)
        text = (
            f"{stream.id} ({stream.topic}) of {stream.who} ended because {cause}. Call watch_app again once the "
            "application is running"
        )
        op = "stream" if stream.topic == "trace" else OPS_BY_TOPIC.get(stream.topic, stream.topic)
        key = repl.key if repl else None
        self._log.record(AppEvent(text, self._core.now(), op=op, name="stream-over", session_key=key))


def _is_connected(state: State, stream: AppStream) -> bool:
    repl = state.repls.get(stream.repl)
    return repl is not None and repl.phase == "connected" and repl.generation == stream.generation
