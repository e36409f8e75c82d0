"""The connection to the server, with the messages sent over it and the handshake that a new server needs.

A completed handshake is repeated for each new server. A refused `initialize` opened no session and is never repeated.
An `initialize` without a reply is sent again, like any request that has not been sent yet.
"""

from __future__ import annotations

import _socket as socket
import time

from codriver_relay.messages import (
    LineBuffer,
    Message,
    cancelled_request_key,
    classify_line,
    encode_error,
    refused_line_number,
)
from codriver_relay.streams import READ_BYTES, READ_ON_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from codriver_relay.streams import Output


LOST_CONNECTION_TEMPLATE = (
    "{} before this request was answered. It is not sent again, but a tool call may have run completely or in part. "
    'Check what ran before you repeat the call. status with about: "activity" lists evaluations and edits, even '
    "after a new server has started. A test run ends with its server. The relay reconnects automatically"
)
"""Template of the error for a request whose connection was lost, with a placeholder for the cause."""


class Connection:
    """The connection to the current server, if any, and the client's unanswered requests.

    One instance lives as long as the relay and uses one socket after another.
    """

    def __init__(self) -> None:
        self.socket: socket.socket | None = None
        """The socket for requests, or None while no connection is ready."""
        self.address = ""
        self.lines = LineBuffer()
        self.unsent = memoryview(b"")
        """The rest of a partially sent message."""
        self.in_flight: dict[bytes, Message] = {}
        """Requests that were sent, at least partially, and have no reply yet, by key."""
        self.lines_sent = 0
        """The number of lines sent over this connection. Blank lines are not counted."""
        self.last_step = 0.0
        """The time of the last reply, or when either side last accepted data."""

    @property
    def awaits_answers(self) -> bool:
        """Return whether any data is unsent or any request, except for subscriptions, is unanswered."""
        return bool(self.unsent) or any(
            message.method != b"subscriptions/listen" for message in self.in_flight.values()
        )

    def reset(self, address: str) -> None:
        """Prepare for a new server at `address`, discarding an incomplete line received from the previous server."""
        self.address, self.lines, self.lines_sent = address, LineBuffer(), 0

    def record_progress(self) -> None:
        """Store the time of the latest progress, from which timeouts are measured."""
        self.last_step = time.monotonic()

    def record_sent(self, message: Message) -> None:
        """Track a sent request until it is answered. Its line is kept only if the request may have to be sent again."""
        if message.key is not None and message.method is not None:
            self.in_flight[message.key] = message
            if message.method != b"initialize":
                message.line = b""  # such a request is never sent again
        elif message.method == b"notifications/cancelled":  # a cancelled request gets no reply
            self.in_flight.pop(cancelled_request_key(message.line), None)

    def number_line(self, message: Message) -> None:
        """Give a message and its parts the number of the next line, as the server counts them."""
        if not message.line.isspace():
            self.lines_sent += 1
        for part in (message, *message.parts):
            part.line_number = self.lines_sent

    def send_relay_line(self, server: socket.socket, line: bytes) -> None:
        """Send a line of the relay itself to a new server, before `socket` is set.

        Raises:
            OSError: the connection was lost.
        """
        server.sendall(line)
        self.lines_sent += 1

    def send(self, lines: list[bytes]) -> None:
        """Send as much of these lines as the server accepts now. Keep the rest for `send_remaining`.

        Raises:
            OSError: the connection was lost.
        """
        self.unsent = memoryview(lines[0] if len(lines) == 1 else b"".join(lines))
        self.send_remaining()

    def send_remaining(self) -> None:
        """Continue to send a partially sent message.

        Raises:
            OSError: the connection was lost.
        """
        if self.socket is None:
            return
        try:
            self.unsent = self.unsent[self.socket.send(self.unsent) :]
            self.record_progress()
        except BlockingIOError:
            return

    def receive(self) -> list[bytes] | None:
        """Return the lines completed by newly received data, or None if no data was received.

        Raises:
            OSError: the connection was lost.
        """
        if self.socket is None:
            return None
        try:
            data = self.socket.recv(READ_ON_BYTES if self.lines.rest else READ_BYTES)
        except BlockingIOError:
            return None
        if not data:
            raise ConnectionResetError("the server closed the connection")
        lines = self.lines.feed(data)
        if not lines:
            self.record_progress()  # part of a long line
        return lines

    def remove_answered(self, lines: list[bytes], handshake: Handshake) -> None:
        """Stop tracking the requests that these lines answer. The lines were already delivered to the client."""
        for line in lines:
            if not self.in_flight:
                return
            message = classify_line(line)
            for answer in message.parts or (message,):
                if not answer.is_response:
                    continue
                if answer.key is None:  # the server could not read the id
                    self.remove_line(refused_line_number(answer.line), handshake)
                    continue
                request = self.in_flight.pop(answer.key, None)
                handshake.record_answered(answer)
                self.record_progress()
                if message.parts and request is not None:  # all answers to a batch are in the same line
                    self.remove_line(request.line_number, handshake)

    def remove_line(self, number: int, handshake: Handshake) -> None:
        """Stop tracking the requests in a line that the server has answered. `number` is 0 if it is unknown."""
        for key, request in list(self.in_flight.items()) if number else ():
            if request.line_number == number:
                del self.in_flight[key]
                handshake.unanswered.pop(key, None)
        self.record_progress()

    def shut_down_sending(self) -> None:
        """Shut down the sending side of the socket to signal the server that no more lines follow."""
        try:
            if self.socket is not None:
                self.socket.shutdown(socket.SHUT_WR)
        except OSError:
            return

    def close(self) -> None:
        """Close the socket and discard the rest of a partially sent message."""
        if self.socket is not None:
            self.socket.close()
        self.socket, self.unsent = None, memoryview(b"")

    def fail_requests(self, cause: str, reason: str) -> list[bytes]:
        """Stop tracking all unanswered requests, and return an error response for each.

        `cause` starts the error message, for example "the connection was lost". `reason` is the code in the error's
        data.
        """
        lost = list(self.in_flight.values())
        self.in_flight.clear()
        return [encode_error(message, LOST_CONNECTION_TEMPLATE.format(cause), reason) for message in lost]


LIST_CHANGED_NOTIFICATION = b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n'
"""Notification that makes a client list the tools again, because a new server may have different ones."""
LEVEL_REQUEST_ID = "codriver-relay-level"
"""The id of the relay's own request that sets the level of log messages."""
LEVEL_REQUEST_KEY = b'"codriver-relay-level"'
"""`LEVEL_REQUEST_ID` as JSON."""


class Handshake:
    """The client's handshake and log level, which are sent again to each new server."""

    def __init__(self) -> None:
        self.unanswered: dict[bytes, Message] = {}
        """Each `initialize` that was sent and has no reply yet, by key."""
        self.initialize: Message | None = None
        """The last `initialize` whose result was delivered, which opened the client's session."""
        self.initialized: Message | None = None
        self.level: bytes | None = None
        """The client's request for log messages, if it sent one."""
        self.awaits_level = False
        """Whether the server has not yet answered the repeated request for log messages."""

    def record_sent(self, message: Message) -> None:
        """Keep a sent message if it must be repeated for a new server."""
        if message.key is None:
            if message.method == b"notifications/initialized":
                self.initialized = message
            elif message.method == b"notifications/cancelled" and self.unanswered:
                self.unanswered.pop(cancelled_request_key(message.line), None)
        elif message.method == b"initialize":
            self.unanswered[message.key] = message
        elif message.method == b"logging/setLevel":
            self.level = message.line

    def record_answered(self, answer: Message) -> None:
        """Handle the answer to an `initialize` request. A result opens the client's session, and an error does not."""
        request = self.unanswered.pop(answer.key or b"", None)
        if request is None:
            return
        if answer.is_result:
            self.initialize = request
        elif self.initialize is None and not self.unanswered:
            self.initialized = None

    def pop_unanswered(self) -> list[Message]:
        """Remove and return the handshake messages that a lost server did not answer, so the next server gets them."""
        unanswered = list(self.unanswered.values())
        self.unanswered.clear()
        if unanswered and self.initialize is None and self.initialized is not None:
            unanswered.append(self.initialized)
            self.initialized = None
        return unanswered

    def store_unsent(self, message: Message) -> None:
        """Keep an `initialized` notification that no server received although `initialize` was answered."""
        if message.method == b"notifications/initialized" and self.initialize:
            self.initialized = message

    def reopen_session(self, server: socket.socket, connection: Connection, output: Output, longest_s: float) -> None:
        """Repeat the client's handshake with a new server, if the client has opened a session.

        Raises:
            OSError: the connection was lost, or the server refused the handshake or did not answer in time.
        """
        if self.initialize is None:
            return
        server.settimeout(longest_s)
        connection.send_relay_line(server, self.initialize.line)
        self.await_answer(self.initialize, server, connection, output, time.monotonic() + longest_s)
        if self.initialized is not None:
            connection.send_relay_line(server, self.initialized.line)
            self.repeat_level(server, connection)
            output.write(LIST_CHANGED_NOTIFICATION)

    def await_answer(
        self, request: Message, server: socket.socket, connection: Connection, output: Output, end: float
    ) -> None:
        """Wait for the reply to a repeated request and discard the reply, because the client already has one.

        Other lines received in the meantime are forwarded to the client.

        Raises:
            OSError: the connection was lost, or the server refused the request or did not answer before `end`.
        """
        is_answered = False
        while not is_answered:
            data = server.recv(READ_BYTES)
            if not data or time.monotonic() > end:
                raise ConnectionResetError(
                    "the server closed the connection or did not answer in time during the handshake"
                )
            for line in connection.lines.feed(data):
                message = classify_line(line)
                if not is_answered and message.is_response and message.key == request.key:
                    if not message.is_result:
                        raise ConnectionResetError("the server refused the repeated handshake")
                    is_answered = True
                else:
                    output.write(line)

    def repeat_level(self, server: socket.socket, connection: Connection) -> None:
        """Send the client's log level to a new server, if the client has set one.

        Raises:
            OSError: the connection was lost.
        """
        import json

        if self.level is None:
            return
        try:
            request = {"jsonrpc": "2.0", "id": LEVEL_REQUEST_ID, "method": "logging/setLevel"}
            line = json.dumps({**request, "params": json.loads(self.level)["params"]}).encode()
        except (ValueError, LookupError, TypeError):  # the previous server did not understand it either
            return
        connection.send_relay_line(server, line + b"\n")
        self.awaits_level = True

    def remove_level_reply(self, lines: list[bytes]) -> list[bytes]:
        """Return these lines without the reply to the repeated `logging/setLevel` request."""
        if not self.awaits_level:
            return lines
        passed = []
        for line in lines:
            message = classify_line(line)
            if message.is_response and message.key == LEVEL_REQUEST_KEY:
                self.awaits_level = False
            else:
                passed.append(line)
        return passed
