"""The client's handshake, which is repeated to each server that does not know the client."""

from __future__ import annotations

import time

from codriver_relay.messages import Message, survey
from codriver_relay.streams import READ_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket as socket

    from codriver_relay.connection import Connection
    from codriver_relay.streams import Output

LIST_CHANGED = b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n'
LEVEL_ID = "codriver-relay-level"
LEVEL_KEY = b'"codriver-relay-level"'


class Handshake:
    """The client's handshake so far, and the log messages that it asked for. Lives as long as the relay."""

    def __init__(self) -> None:
        self.initialize: Message | None = None
        self.initialized: Message | None = None
        self.level: bytes | None = None
        """The client's request for log messages, once it made one."""
        self.awaits_level = False
        """The server was asked for them once more, and has not answered that."""

    def note_sent(self, message: Message) -> None:
        """Remember what a new connection would ask for."""
        if message.key is None:
            if message.method == b"notifications/initialized":
                self.initialized = message
        elif message.method == b"initialize":
            self.initialize, self.initialized, self.level = message, None, None
        elif message.method == b"logging/setLevel":
            self.level = message.line

    def note_unsent(self, message: Message) -> None:
        """Remember the end of the handshake, where it waited in vain for a server that has heard the beginning."""
        if message.method == b"notifications/initialized" and self.initialize:
            self.initialized = message

    def repeat(self, server: socket.socket, connection: Connection, output: Output, longest_s: float) -> None:
        """Introduce the client to a server that does not know it.

        Raises:
            OSError: the connection broke, or the server did not answer in time.
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
        """Pass on what comes with the answer to the repeated request, which goes on only if the client has none yet.

        Raises:
            OSError: the connection broke, or the server did not answer until `end`.
        """
        is_answered = False
        while not is_answered:
            data = server.recv(READ_BYTES)
            if not data or time.monotonic() > end:
                raise ConnectionResetError("the server ended it, or said other things, during the handshake")
            for line in connection.lines.feed(data):
                message = survey(line)
                if not is_answered and message.is_response and message.key == asked.key:
                    is_answered = True
                    if not connection.in_flight.pop(asked.key or b"", None):
                        continue
                output.write(line)

    def repeat_level(self, server: socket.socket) -> None:
        """Ask a server that does not know the client for the log messages that it wants, if it wants any.

        Raises:
            OSError: the connection broke.
        """
        import json

        if self.level is None:
            return
        try:
            asked = {"jsonrpc": "2.0", "id": LEVEL_ID, "method": "logging/setLevel"}
            line = json.dumps({**asked, "params": json.loads(self.level)["params"]}).encode()
        except (ValueError, LookupError, TypeError):  # nor did the last server understand it
            return
        server.sendall(line + b"\n")
        self.awaits_level = True

    def without_level(self, lines: list[bytes]) -> list[bytes]:
        """These lines without the answer to what was repeated of the client's, which has its answer."""
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
