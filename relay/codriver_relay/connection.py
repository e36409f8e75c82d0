"""The connection to the server: the sent messages, and the requests without an answer at its end.

A handshake whose result the client has is repeated to each new server. An `initialize` that was refused opened no
session, and is never repeated. One without an answer waits, as any request that was not sent yet.
"""

from __future__ import annotations

import _socket as socket
import time

from codriver_relay.messages import Lines, Message, cancelled_key, encode_error, survey
from codriver_relay.streams import READ_BYTES, READ_ON_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from codriver_relay.streams import Output


LOST = (
    "{} before this request was answered. It is not sent again, and a tool call may have run, in whole or in part. "
    'Check what ran before you repeat it: status with about: "activity" lists it, also after a new server has started. '
    "The relay reconnects by itself"
)


class Connection:
    """The connection while there is one, and the client's messages under way on it.

    It lives as long as the relay: sockets come and go.
    """

    def __init__(self) -> None:
        self.socket: socket.socket | None = None
        """The socket for requests; None while no connection is ready."""
        self.address = ""
        self.lines = Lines()
        self.unsent = memoryview(b"")
        """The rest of a message sent in part."""
        self.in_flight: dict[bytes, Message] = {}
        """Requests that were sent, if only in part, and have no answer yet, by key."""
        self.last_step = 0.0
        """The time of the last answer, or of the last bytes that either side took."""

    @property
    def awaits_answers(self) -> bool:
        """Return true if a message was not sent whole, or has no answer yet. A subscription never gets one."""
        return bool(self.unsent) or any(
            message.method != b"subscriptions/listen" for message in self.in_flight.values()
        )

    def start_anew(self, address: str) -> None:
        """Forget the beginning of a line left by another server; the next server has this address."""
        self.address, self.lines = address, Lines()

    def note_step(self) -> None:
        """Note a step of progress."""
        self.last_step = time.monotonic()

    def note_sent(self, message: Message) -> None:
        """Remember a request until it is answered: its line only if the request may be repeated."""
        if message.key is not None and message.method is not None:
            self.in_flight[message.key] = message
            if message.method != b"initialize":
                message.line = b""  # such a request is never sent again
        elif message.method == b"notifications/cancelled":  # such a request gets no answer
            self.in_flight.pop(cancelled_key(message.line), None)

    def send(self, lines: list[bytes]) -> None:
        """Send these lines, as far as the server takes them now. Raises like `send_on`."""
        self.unsent = memoryview(lines[0] if len(lines) == 1 else b"".join(lines))
        self.send_on()

    def send_on(self) -> None:
        """Send more of a message sent in part.

        Raises:
            OSError: the connection has ended.
        """
        if self.socket is None:
            return
        try:
            self.unsent = self.unsent[self.socket.send(self.unsent) :]
            self.note_step()
        except BlockingIOError:
            return

    def receive(self) -> list[bytes] | None:
        """Return the lines that the server's bytes complete; None if the server wrote nothing more.

        Raises:
            OSError: the connection has ended.
        """
        if self.socket is None:
            return None
        try:
            data = self.socket.recv(READ_ON_BYTES if self.lines.rest else READ_BYTES)
        except BlockingIOError:
            return None
        if not data:
            raise ConnectionResetError("the server has ended it")
        lines = self.lines.feed(data)
        if not lines:
            self.note_step()  # a long line is on its way
        return lines

    def strike_out_answered(self, lines: list[bytes], handshake: Handshake) -> None:
        """Strike out the requests that these lines answer, which have been delivered."""
        for line in lines:
            if self.in_flight:
                message = survey(line)
                for answer in message.parts or (message,):
                    if answer.is_response and answer.key is not None:
                        self.in_flight.pop(answer.key, None)
                        handshake.note_answered(answer)
                        self.note_step()

    def part(self) -> None:
        """Tell the server that no more lines come."""
        try:
            if self.socket is not None:
                self.socket.shutdown(socket.SHUT_WR)
        except OSError:
            return

    def close(self) -> None:
        """Release an ended connection, and of messages sent over it in part."""
        if self.socket is not None:
            self.socket.close()
        self.socket, self.unsent = None, memoryview(b"")

    def take_lost(self, cause: str, reason: str) -> list[bytes]:
        """Return errors that answer the sent requests, which get no answer from the server."""
        lost = list(self.in_flight.values())
        self.in_flight.clear()
        return [encode_error(message, LOST.format(cause), reason) for message in lost]


LIST_CHANGED = b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n'
LEVEL_ID = "codriver-relay-level"
LEVEL_KEY = b'"codriver-relay-level"'


class Handshake:
    """The client's handshake, and the log messages that it asked for. Lives as long as the relay."""

    def __init__(self) -> None:
        self.unanswered: dict[bytes, Message] = {}
        """Each `initialize` that was sent and has no answer yet, by key."""
        self.initialize: Message | None = None
        """The `initialize` whose result was delivered last: it opened the client's session."""
        self.initialized: Message | None = None
        self.level: bytes | None = None
        """The client's request for log messages, once it made one."""
        self.awaits_level = False
        """Whether the server still owes an answer to the repeated request for log messages."""

    def note_sent(self, message: Message) -> None:
        """Remember the messages that a new connection needs again."""
        if message.key is None:
            if message.method == b"notifications/initialized":
                self.initialized = message
            elif message.method == b"notifications/cancelled" and self.unanswered:
                self.unanswered.pop(cancelled_key(message.line), None)
        elif message.method == b"initialize":
            self.unanswered[message.key] = message
        elif message.method == b"logging/setLevel":
            self.level = message.line

    def note_answered(self, answer: Message) -> None:
        """Open the client's session with the delivered result of its `initialize`; an error opens none."""
        asked = self.unanswered.pop(answer.key or b"", None)
        if asked is None:
            return
        if answer.is_result:
            self.initialize = asked
        elif self.initialize is None and not self.unanswered:
            self.initialized = None

    def take_unanswered(self) -> list[Message]:
        """Return the handshake that a lost server left without an answer, to be sent to the next."""
        unanswered = list(self.unanswered.values())
        self.unanswered.clear()
        if unanswered and self.initialize is None and self.initialized is not None:
            unanswered.append(self.initialized)
            self.initialized = None
        return unanswered

    def note_unsent(self, message: Message) -> None:
        """Remember the end of the handshake, if it waited in vain for a server that heard the beginning."""
        if message.method == b"notifications/initialized" and self.initialize:
            self.initialized = message

    def repeat(self, server: socket.socket, connection: Connection, output: Output, longest_s: float) -> None:
        """Open the client's session at a server that does not know the client, if it has one.

        Raises:
            OSError: the connection broke, or the server refused the session, or did not answer in time.
        """
        if self.initialize is None:
            return
        server.settimeout(longest_s)
        server.sendall(self.initialize.line)
        self.await_answer(self.initialize, server, connection, output, time.monotonic() + longest_s)
        if self.initialized is not None:
            server.sendall(self.initialized.line)
            self.repeat_level(server)
            output.write(LIST_CHANGED)

    def await_answer(
        self, asked: Message, server: socket.socket, connection: Connection, output: Output, end: float
    ) -> None:
        """Pass on lines that come with the repeated request's answer, without that answer, which the client has.

        Raises:
            OSError: the connection broke, or the server refused the request, or did not answer until `end`.
        """
        is_answered = False
        while not is_answered:
            data = server.recv(READ_BYTES)
            if not data or time.monotonic() > end:
                raise ConnectionResetError("the server ended it, or said other things, during the handshake")
            for line in connection.lines.feed(data):
                message = survey(line)
                if not is_answered and message.is_response and message.key == asked.key:
                    if not message.is_result:
                        raise ConnectionResetError("the server refused the repeated handshake")
                    is_answered = True
                else:
                    output.write(line)

    def repeat_level(self, server: socket.socket) -> None:
        """Ask a server that does not know the client for the client's log messages, if it wants any.

        Raises:
            OSError: the connection broke.
        """
        import json

        if self.level is None:
            return
        try:
            asked = {"jsonrpc": "2.0", "id": LEVEL_ID, "method": "logging/setLevel"}
            line = json.dumps({**asked, "params": json.loads(self.level)["params"]}).encode()
        except (ValueError, LookupError, TypeError):  # the last server did not understand it either
            return
        server.sendall(line + b"\n")
        self.awaits_level = True

    def without_level(self, lines: list[bytes]) -> list[bytes]:
        """Return these lines without the answer to the repeated request, which the client has already."""
        if not self.awaits_level:
            return lines
        passed = []
        for line in lines:
            message = survey(line)
            if message.is_response and message.key == LEVEL_KEY:
                self.awaits_level = False
            else:
                passed.append(line)
        return passed
