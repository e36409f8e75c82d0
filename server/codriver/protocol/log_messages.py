"""Log messages for clients: `notifications/message` with the server's warnings and its news of the REPLs.

A client of the handshake eras asks by `logging/setLevel`, until it leaves. A client of 2026-07-28 asks by a level in
the `_meta` of a request, and gets messages from the request's arrival until its answer, first those since the last such
request. Of messages that nobody asked for, the newest `KEPT` are stored. A client gets `BURST` messages at once and
then one a second. The next message counts those left out.

Source: MCP 2025-11-25 and 2026-07-28, logging.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections import deque
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from codriver.protocol.error_messages import INVALID_PARAMS, LEVELS, RequestRefusedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from codriver.core.dispatch import LogMessage
    from codriver.log.redaction import Redactor
    from codriver.net.client_sessions import ClientSession

OF_RECORDS = ((logging.CRITICAL, "critical"), (logging.ERROR, "error"), (logging.WARNING, "warning"))
ROOT = "codriver"
KEPT = 64
CHARACTERS = 1000
BURST = 20
PER_S = 1.0


@dataclass(frozen=True, slots=True)
class Message:
    """One message. `number` counts the messages of its level; `rank` is the level's place in `LEVELS`."""

    rank: int
    number: int
    logger: str
    text: str


@dataclass(slots=True)
class Listener:
    """One client that asked, for the life of its connection."""

    told: list[int]
    """By level: the number of the last message that the client was told, or did not ask for."""
    ranks: list[int] = field(default_factory=list)
    """The levels that the client's unanswered requests ask for."""
    set_rank: int | None = None
    """The level that the client has set for its session."""
    room: float = BURST
    """The number of messages that the client may be sent now."""
    filled_at: float = 0.0
    left_out: int = 0


class LogMessages:
    """The messages of one server to all its clients. Lives as long as the server."""

    def __init__(self, redactor: Redactor, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._redactor = redactor
        self._clock = clock
        self._kept: deque[Message] = deque(maxlen=KEPT)
        self._counts = [0] * len(LEVELS)
        self._listeners: dict[ClientSession, Listener] = {}

    def note(self, level: str, text: str, logger: str = ROOT) -> None:
        """Tell each listener at this level now, and keep the message for clients that ask later."""
        rank = LEVELS.index(level)
        self._counts[rank] += 1
        shown = self._redactor(text[: 10 * CHARACTERS])[:CHARACTERS].encode("utf-8", "replace").decode()
        self._kept.append(Message(rank, self._counts[rank], logger, shown))
        for client, listener in tuple(self._listeners.items()):
            self._tell(client, listener)

    def perform(self, effect: LogMessage) -> None:
        """Tell the core's message."""
        self.note(effect.level, effect.text, f"{ROOT}.repls" if effect.repl else ROOT)

    def set_level(self, client: ClientSession, level: str) -> None:
        """Send one client the messages of `level` and above from now on."""
        self._listener(client).set_rank = LEVELS.index(level)

    def forget(self, client: ClientSession) -> None:
        """Forget a client that has left."""
        self._listeners.pop(client, None)

    @contextmanager
    def heard_by(self, client: ClientSession, wanted: object) -> Iterator[None]:
        """Within this context, that of a request, the client is told the messages that the request asks for.

        Raises:
            RequestRefusedError: the request asks for an unknown level.
        """
        if wanted not in LEVELS:
            text = f"there is no log level {wanted!r}: the levels are {', '.join(LEVELS)}"
            raise RequestRefusedError(INVALID_PARAMS, text)
        listener, rank = self._listener(client), LEVELS.index(str(wanted))
        listener.ranks.append(rank)
        self._tell(client, listener)
        try:
            yield
        finally:
            listener.ranks.remove(rank)

    @contextmanager
    def hearing_records(self) -> Iterator[None]:
        """Within this context the records of the server's own loggers, warnings and worse, are messages, too."""
        handler = _Records(self, asyncio.get_running_loop())
        logging.getLogger(ROOT).addHandler(handler)
        try:
            yield
        finally:
            logging.getLogger(ROOT).removeHandler(handler)

    def _listener(self, client: ClientSession) -> Listener:
        if client not in self._listeners:
            self._listeners[client] = Listener(list(self._counts), filled_at=self._clock())
        return self._listeners[client]

    def _tell(self, client: ClientSession, listener: Listener) -> None:
        """Tell a client the messages that it has not seen, if it asks for them now."""
        ranks = [*listener.ranks, *(() if listener.set_rank is None else (listener.set_rank,))]
        if not ranks:
            return
        least, told = min(ranks), listener.told
        news = [one for one in self._kept if one.rank >= least and one.number > told[one.rank]]
        listener.left_out += sum(self._counts[least:]) - sum(told[least:]) - len(news)
        listener.told = list(self._counts)
        for message in news:
            self._send(client, listener, message)

    def _send(self, client: ClientSession, listener: Listener, message: Message) -> None:
        now = self._clock()
        listener.room = min(BURST, listener.room + (now - listener.filled_at) * PER_S)
        listener.filled_at = now
        if listener.room < 1:
            listener.left_out += 1
            return
        listener.room -= 1
        before = f" ({listener.left_out} messages before this one were left out)" if listener.left_out else ""
        listener.left_out = 0
        params = {"level": LEVELS[message.rank], "logger": message.logger, "data": message.text + before}
        said = {"jsonrpc": "2.0", "method": "notifications/message", "params": params}
        client.outbox.offer(json.dumps(said).encode() + b"\n")


class _Records(logging.Handler):
    """Makes messages of log records from any thread."""

    def __init__(self, messages: LogMessages, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(logging.WARNING)
        self._messages = messages
        self._loop = loop
        self._thread = threading.get_ident()

    def emit(self, record: logging.LogRecord) -> None:
        """Note a record: the event without its traceback, which tells of our insides."""
        level = next(level for number, level in OF_RECORDS if record.levelno >= number)
        room = ".".join(record.name.split(".")[:2])
        said = level, record.getMessage(), room
        if threading.get_ident() == self._thread:
            self._messages.note(*said)
        else:
            with suppress(RuntimeError):  # the server has ended
                self._loop.call_soon_threadsafe(self._messages.note, *said)
