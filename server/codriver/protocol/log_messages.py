"""Log messages for clients: `notifications/message` with the server's warnings and events from the REPLs.

A client that performs the handshake enables them with `logging/setLevel`, until it disconnects. A client that uses
protocol version 2026-07-28 enables them with a level in the `_meta` of a request. It receives the messages since its
last such request, and then new ones until the request is answered.

The newest `MAX_STORED_MESSAGES` messages are stored for clients that enable messages later. A client receives at most
`MAX_BURST_MESSAGES` messages at once, and then one per second. If messages were omitted, the next one contains their
number.

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

from codriver.protocol.error_messages import INVALID_PARAMS, LOG_LEVELS, RequestRefusedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from codriver.core.effects import SendLogMessage
    from codriver.log.redaction import Redactor
    from codriver.net.client_sessions import ClientSession

LEVEL_BY_LOGGING_LEVEL = ((logging.CRITICAL, "critical"), (logging.ERROR, "error"), (logging.WARNING, "warning"))
"""Levels of MCP's log messages, by standard library level, highest first."""
ROOT_LOGGER_NAME = "codriver"
MAX_STORED_MESSAGES = 64
"""Maximum number of messages stored for clients that enable messages later."""
MAX_MESSAGE_CHARACTERS = 1000
"""Maximum length of the text of a log message. Longer texts are cut."""
MAX_BURST_MESSAGES = 20
"""Maximum number of messages that a client receives at once."""
MAX_MESSAGES_PER_S = 1.0
"""Maximum number of messages per second that a client receives after a burst."""


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A log message.

    `number` is its position among all messages of its level, and `rank` is the level's index in `LOG_LEVELS`.
    """

    rank: int
    number: int
    logger: str
    text: str


@dataclass(slots=True)
class MessageListener:
    """A client that receives log messages, for the lifetime of its connection."""

    sent_numbers: list[int]
    """Number of the last message that was sent to the client, or that it did not request, by level."""
    ranks: list[int] = field(default_factory=list)
    """Levels requested by the client's unanswered requests."""
    set_rank: int | None = None
    """Level that the client has set for its session."""
    allowance: float = MAX_BURST_MESSAGES
    """Number of messages that may currently be sent to the client."""
    filled_at: float = 0.0
    left_out: int = 0


class LogMessages:
    """Sends log messages to the clients that have enabled them, for the lifetime of a server."""

    def __init__(self, redactor: Redactor, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._redactor = redactor
        self._clock = clock
        self._stored: deque[StoredMessage] = deque(maxlen=MAX_STORED_MESSAGES)
        self._counts = [0] * len(LOG_LEVELS)
        self._listeners: dict[ClientSession, MessageListener] = {}

    def send(self, level: str, text: str, logger: str = ROOT_LOGGER_NAME) -> None:
        """Send a message to the clients that have enabled its level, and store it for clients that enable it later."""
        rank = LOG_LEVELS.index(level)
        self._counts[rank] += 1
        redacted = (
            self._redactor(text[: 10 * MAX_MESSAGE_CHARACTERS])[:MAX_MESSAGE_CHARACTERS]
            .encode("utf-8", "replace")
            .decode()
        )
        self._stored.append(StoredMessage(rank, self._counts[rank], logger, redacted))
        for client, listener in tuple(self._listeners.items()):
            self._send_new(client, listener)

    def perform(self, effect: SendLogMessage) -> None:
        """Perform the effect that sends a message from the core."""
        self.send(effect.level, effect.text, f"{ROOT_LOGGER_NAME}.repls" if effect.repl else ROOT_LOGGER_NAME)

    def set_level(self, client: ClientSession, level: str) -> None:
        """Send a client messages of this level and above from now on."""
        self._listener(client).set_rank = LOG_LEVELS.index(level)

    def remove_client(self, client: ClientSession) -> None:
        """Remove a client that has disconnected."""
        self._listeners.pop(client, None)

    @contextmanager
    def sending_to(self, client: ClientSession, level: object) -> Iterator[None]:
        """Send a client the messages that its request enabled, while the context is active.

        Raises:
            RequestRefusedError: the request has an unknown level.
        """
        if level not in LOG_LEVELS:
            text = f"there is no log level {level!r}. The log levels are {', '.join(LOG_LEVELS)}"
            raise RequestRefusedError(INVALID_PARAMS, text)
        listener, rank = self._listener(client), LOG_LEVELS.index(str(level))
        listener.ranks.append(rank)
        self._send_new(client, listener)
        try:
            yield
        finally:
            listener.ranks.remove(rank)

    @contextmanager
    def forwarding_log_records(self) -> Iterator[None]:
        """Send warnings and errors of the server's loggers to clients while the context is active."""
        handler = _LogRecordHandler(self, asyncio.get_running_loop())
        logging.getLogger(ROOT_LOGGER_NAME).addHandler(handler)
        try:
            yield
        finally:
            logging.getLogger(ROOT_LOGGER_NAME).removeHandler(handler)

    def _listener(self, client: ClientSession) -> MessageListener:
        if client not in self._listeners:
            self._listeners[client] = MessageListener(list(self._counts), filled_at=self._clock())
        return self._listeners[client]

    def _send_new(self, client: ClientSession, listener: MessageListener) -> None:
        """Send a client all enabled messages that it has not received yet."""
        ranks = [*listener.ranks, *(() if listener.set_rank is None else (listener.set_rank,))]
        if not ranks:
            return
        least, sent_numbers = min(ranks), listener.sent_numbers
        new_messages = [
            stored for stored in self._stored if stored.rank >= least and stored.number > sent_numbers[stored.rank]
        ]
        listener.left_out += sum(self._counts[least:]) - sum(sent_numbers[least:]) - len(new_messages)
        listener.sent_numbers = list(self._counts)
        for message in new_messages:
            self._send(client, listener, message)

    def _send(self, client: ClientSession, listener: MessageListener, message: StoredMessage) -> None:
        now = self._clock()
        listener.allowance = min(
            MAX_BURST_MESSAGES, listener.allowance + (now - listener.filled_at) * MAX_MESSAGES_PER_S
        )
        listener.filled_at = now
        if listener.allowance < 1:
            listener.left_out += 1
            return
        listener.allowance -= 1
        before = f" ({listener.left_out} messages before this one were left out)" if listener.left_out else ""
        listener.left_out = 0
        params = {"level": LOG_LEVELS[message.rank], "logger": message.logger, "data": message.text + before}
        notification = {"jsonrpc": "2.0", "method": "notifications/message", "params": params}
        client.outbox.offer(json.dumps(notification).encode() + b"\n")


class _LogRecordHandler(logging.Handler):
    """A log handler that sends records as messages. It may be called in any thread."""

    def __init__(self, messages: LogMessages, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(logging.WARNING)
        self._messages = messages
        self._loop = loop
        self._thread = threading.get_ident()

    def emit(self, record: logging.LogRecord) -> None:
        """Send a record as a message, without the traceback, which would reveal internals."""
        level = next(level for number, level in LEVEL_BY_LOGGING_LEVEL if record.levelno >= number)
        allowance = ".".join(record.name.split(".")[:2])
        record_message = level, record.getMessage(), allowance
        if threading.get_ident() == self._thread:
            self._messages.send(*record_message)
        else:
            with suppress(RuntimeError):  # the server has ended
                self._loop.call_soon_threadsafe(self._messages.send, *record_message)
