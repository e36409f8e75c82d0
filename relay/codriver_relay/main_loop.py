"""The main loop of the relay, which connects to the server and forwards messages in both directions.

The client's lines go to the server, and the server's lines to the client. A single thread waits for both, because
passing a message between threads would take as long as all other work on it. The thread never blocks on either of them.
Lines that the server does not accept yet are queued, and lines that the client does not read yet are written by a
second thread. This way, a client that does not read can still send, and a server that does not read can still answer.

If the connection is lost, each request that was sent and not answered gets an error response, and unsent messages wait
for the next connection. Only `initialize` is ever sent twice. If the client has its result, it is repeated before
anything else. If it was not answered, it waits for the next connection. If it was refused, it is dropped. Stateless
requests (protocol 2026-07-28) do not need this. The error response to an open `subscriptions/listen` tells the client
that it must subscribe again.

While a server is starting, `initialize`, `server/discover` and `tools/list` are answered immediately with answers that
the workspace's last server has stored for this client, if nothing has changed since. The new server then receives the
repeated handshake, or the relay's own `tools/list`, whose answer is not forwarded. If the new list differs, the client
is notified. A client without a handshake is notified on its streams, and its cache does not store the list.

After it gives up, the relay keeps running, because clients rarely restart it. The next request starts another round of
attempts.
"""

from __future__ import annotations

import time

from codriver_relay.connection import Connection, Handshake
from codriver_relay.messages import Backlog, Message, classify_line, encode_error
from codriver_relay.server_verification import UnreachableError, workspace_from_port_file
from codriver_relay.streams import POLLIN, POLLOUT, READ_BYTES, Input, Output, PollSet

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket as socket
    from collections.abc import Callable

    from codriver_relay.durations import Durations
    from codriver_relay.roots import RootsDiscovery
    from codriver_relay.server_verification import Target
    from codriver_relay.starter import Starter
    from codriver_relay.stored_answers import StoredAnswers

START_METHODS = (b"initialize", b"server/discover")
"""The methods of clients' first requests. If one is refused, a client rarely tries again."""


class Conversation:
    """The exchange of messages between a client and its servers, one server at a time.

    `talk` contains the messages that were exchanged before the workspace was known.
    """

    def __init__(self, durations: Durations, log: Callable[[str], None], talk: RootsDiscovery | None = None) -> None:
        self.durations = durations
        self.log = log
        self.input, self.output = (talk.input, talk.output) if talk else (Input(), Output())
        self.handshake, self.backlog = (talk.handshake, talk.backlog) if talk else (Handshake(), Backlog())
        """The messages that a new server must receive, and those that have not been sent yet."""
        self.watch = PollSet(self.output)
        self.connection = Connection()
        self.stored_answers: StoredAnswers | None = None
        """The answers for the client while a server is starting, from the first start on."""
        self.has_received = False
        """Whether anything was received from the server on this connection."""
        self.line_bytes = 0
        """The maximum length of a line for the server, or 0 if unknown."""

    def start_session(self, server: socket.socket, address: str, line_bytes: int) -> None:
        """Perform the handshake with a new server, then allow requests to be sent to it.

        `line_bytes` is the longest line that the server accepts, or 0 if unknown.

        Raises:
            OSError: the connection was lost, or the server did not answer in time.
        """
        self.connection.reset(address)
        self.line_bytes = line_bytes
        self.handshake.reopen_session(server, self.connection, self.output, self.durations.handshake_s)
        if self.stored_answers:
            self.stored_answers.stop_answering(server, self.handshake, self.connection)
        server.setblocking(False)  # noqa: FBT003 - the standard library's own signature
        self.connection.socket = server

    def answer_while_starting(self, starter: Starter, *, wants_skills: bool) -> None:
        """Use stored answers for the client's first requests while a server is starting."""
        if self.stored_answers is None and starter.is_starting:
            from codriver_relay.stored_answers import StoredAnswers

            self.stored_answers = StoredAnswers(starter, wants_skills=wants_skills)

    def pause(self, seconds: float) -> None:
        """Wait for `seconds` while reading from the client. Return early once nothing is left to do."""
        end = time.monotonic() + seconds
        while not self.is_done() and (left := end - time.monotonic()) > 0:
            self.run_once(left)

    def wait_for_request(self) -> None:
        """Wait until the client sends a request, which triggers new attempts to connect, or until stdin ends."""
        while not self.input.is_at_end and not any(message.is_request for message in self.backlog.messages):
            if self.backlog.is_full:
                return  # stdin is no longer read
            self.run_once(None)

    def forward_messages(self) -> bool:
        """Forward messages in both directions until everything is done or the connection is lost.

        Return True if everything is done, or False if the connection was lost.
        """
        has_parted = self.has_received = False
        self.connection.record_progress()
        while self.connection.socket is not None:
            self.send_backlog()
            if not has_parted and self.is_done():
                has_parted = True
                self.connection.record_progress()
                self.connection.shut_down_sending()
            # While the client does not read, the server's answers are not read either.
            if self.input.is_at_end and not self.output.is_busy:
                longest = self.durations.goodbye_s if has_parted else self.durations.answers_s
                left = self.connection.last_step + longest - time.monotonic()
                if left <= 0:
                    self.stop_waiting()
                    return True
                self.run_once(left)
            else:
                self.run_once(None)
        return has_parted

    def run_once(self, seconds: float | None) -> None:
        """Wait at most `seconds` until data can be read or sent, and process it."""
        wants_client = not self.input.is_at_end and not self.backlog.is_full
        self.watch.set_events(self.input.fd, POLLIN if wants_client else 0)
        server = self.connection.socket
        if server is not None:
            events = 0 if self.output.is_busy else POLLIN
            self.watch.set_events(server.fileno(), events | POLLOUT if self.connection.unsent else events)
        for fd, events in self.watch.wait(seconds):
            if fd == self.input.fd:
                self.read_client()
            elif fd == self.output.bell:
                self.connection.record_progress()
            elif events & POLLOUT:
                self.send(None)
            else:
                self.read_server()

    def read_client(self) -> None:
        """Read lines from the client and queue them. Drop responses to a server that is gone."""
        for line in self.input.read_lines():
            message, is_connected = classify_line(line), self.connection.socket is not None
            if not is_connected and self.answer_from_stored(message):
                continue
            if is_connected or not message.is_response:
                self.backlog.add(message)
        if self.input.is_at_end:
            self.connection.record_progress()

    def answer_from_stored(self, message: Message) -> bool:
        """Try to answer a message with a stored answer, and return whether there was one."""
        is_behind = any(waiting.method == b"initialize" for waiting in self.backlog.messages)
        answer = self.stored_answers and self.stored_answers.answer(message, self.handshake, is_behind=is_behind)
        if answer:
            self.output.write(answer)
        return bool(answer)

    def send_backlog(self) -> None:
        """Send as many queued messages as the server accepts. A partially sent message counts as sent."""
        while self.backlog.messages and not self.connection.unsent and self.connection.socket is not None:
            messages = [message for message in self.backlog.pop(READ_BYTES) if not self.refuse_if_too_long(message)]
            lines = [message.line for message in messages]
            for message in messages:
                self.connection.number_line(message)
                self.record_sent(message)
            if lines:
                self.send(lines)

    def refuse_if_too_long(self, message: Message) -> bool:
        """Answer a message with an error if it is too long for the server. Return whether it was too long.

        No part of such a message is sent.
        """
        size = len(message.line) - 1
        if not self.line_bytes or size <= self.line_bytes:
            return False
        text = (
            f"this message was not sent, because it has {size} bytes and the server reads at most {self.line_bytes} "
            "bytes per line. Send less at once, or raise maxLineBytes in codriver.toml and restart the server"
        )
        self.log(text)
        for part in message.parts or (message,):
            if part.is_request:
                self.output.write(encode_error(part, text, "line-too-long"))
        return True

    def send(self, lines: list[bytes] | None) -> None:
        """Send lines, or continue a partially sent message if `lines` is None. Close the connection if it was lost."""
        try:
            self.connection.send_remaining() if lines is None else self.connection.send(lines)
        except OSError:
            while self.read_server():  # read what the server sent before it closed the connection
                pass
            self.close_lost_connection()

    def record_sent(self, message: Message) -> None:
        """Track a sent message that needs an answer, or that must be repeated if the connection is lost."""
        for part in message.parts:
            self.record_sent(part)
        self.handshake.record_sent(message)
        if self.stored_answers:
            self.stored_answers.record_sent(message)
        self.connection.record_sent(message)

    def read_server(self) -> bool:
        """Forward lines from the server to the client. Return False if there were none or the connection was lost."""
        try:
            lines = self.connection.receive()
        except OSError:
            self.close_lost_connection()
            return False
        if lines:
            self.has_received = True
            if self.stored_answers:
                lines = self.stored_answers.filter_server_lines(lines, self.connection.in_flight)
            lines = self.handshake.remove_level_reply(lines)
            self.output.write(b"".join(lines))
            self.connection.remove_answered(lines, self.handshake)
        return lines is not None

    def is_done(self) -> bool:
        """Return whether stdin has ended and all requests, except for subscriptions, have been answered.

        Unsent notifications are not a reason to wait for a connection.
        """
        unsent = self.backlog.messages
        if self.connection.socket is None:
            unsent = [message for message in unsent if not message.is_notification]
        return self.input.is_at_end and not unsent and not self.connection.awaits_answers

    def close_lost_connection(self) -> None:
        """Close a lost connection, and answer the requests that were sent over it with errors."""
        if self.connection.socket is None:
            return
        self.log(f"lost the connection to {self.connection.address}")
        self.watch.set_events(self.connection.socket.fileno(), 0)
        self.connection.close()
        self.backlog.drop(lambda message: message.is_response)
        unanswered = self.handshake.pop_unanswered()
        for message in unanswered:
            self.connection.in_flight.pop(message.key or b"", None)
        self.backlog.put_back(unanswered)
        cause = f"the connection to the Codriver server at {self.connection.address} was lost"
        self.write(self.connection.fail_requests(cause, "server-lost"))

    def pop_requests(self) -> list[Message]:
        """Remove and return the queued requests, except `initialize` and `server/discover`.

        A server that appears later may still answer those.
        """
        requests = [
            message for message in self.backlog.messages if message.is_request and message.method not in START_METHODS
        ]
        self.backlog.drop(lambda message: any(message is request for request in requests))
        return requests

    def stop_waiting(self) -> None:
        """Answer all remaining requests with errors, because stdin has ended and the server did not answer in time."""
        for message in self.backlog.messages:
            self.record_sent(message)
        cause = f"stdin ended, and the server did not answer within {self.durations.answers_s:g} s"
        self.write(self.connection.fail_requests(cause, "unanswered"))

    def write(self, lines: list[bytes]) -> None:
        """Write the relay's own responses to the client."""
        for line in lines:
            self.output.write(line)


class Relay:
    """A relay between one client and the server. It lives as long as the process."""

    def __init__(
        self,
        target: Target,
        conversation: Conversation,
        new_starter: Callable[[], Starter] | None,
        durations: Durations,
        log: Callable[[str], None],
    ) -> None:
        self.target = target
        self.conversation = conversation
        self.new_starter = new_starter
        self.starter: Starter | None = None
        """The starter of servers, created the first time that no server can be reached."""
        self.durations = durations
        self.log = log
        self.longest_s = durations.give_up_s
        """How long to wait for a server in the current round of attempts, in seconds."""
        self.round_start: float | None = None
        """The time at which the current round of attempts to connect started, or None."""

    def run(self) -> int:
        """Connect, and reconnect whenever the connection is lost, until stdin ends. Return the exit status."""
        while True:
            status = self.establish_connection()
            if status is None:
                start = time.monotonic()
                is_over = self.conversation.forward_messages()
                if self.conversation.has_received or time.monotonic() - start > self.durations.settled_s:
                    self.round_start = None
                if not is_over and not self.conversation.is_done():
                    continue
            self.conversation.output.wait()
            return status or 0

    def establish_connection(self) -> int | None:
        """Retry until a connection is ready for requests.

        Return None on success, or the exit status if a connection is no longer needed.
        """
        if self.round_start is not None:
            # The previous connection was lost at once, so the round continues. The listener may serve a different
            # workspace.
            self.start_server()
            self.conversation.pause(self.durations.retry_s)
            if time.monotonic() - self.round_start >= self.durations.give_up_s:
                self.give_up("the server closed the connection before it answered", self.round_start)
                if self.conversation.input.is_at_end:
                    return 1
                self.conversation.wait_for_request()
        while not self.conversation.is_done():
            if self.round_start is None:
                self.round_start = time.monotonic()
                if self.starter:
                    self.starter.reset()
            reason = self.connect()
            if not reason:
                return None
            self.start_server()
            self.log(f"{self.target.tried}: {reason}")
            has_failed = self.starter is not None and self.starter.has_failed
            # Without a starter, waiting is useless if the server's process has ended, or if there never was one.
            is_remote = bool(self.target.other_host)  # its process id means nothing on this host
            is_alive = None if self.starter or is_remote else self.target.is_alive()
            is_absent = is_alive is False or (
                self.starter is None and is_alive is None and (is_remote or self.target.is_port_file_missing())
            )
            if is_absent:
                gone = (
                    "the server's process has ended"
                    if is_alive is False
                    else "no server is running, and the relay does not start one"
                )
                text = self.unreachable_message(reason if is_remote else f"{reason}; {gone}", self.round_start)
                self.refuse_requests(self.conversation.pop_requests(), text)
            # A port that was given instead of a file has no record, but a server that was reached there may return.
            never_ran = self.starter is None and self.target.is_refused and not self.target.was_reached
            give_up_s = self.durations.give_up_s
            longest_s = self.durations.absent_s if is_absent or never_ran else give_up_s
            longest_s = self.durations.silent_s if is_alive else longest_s
            self.longest_s = min(give_up_s, longest_s)
            if has_failed or time.monotonic() - self.round_start >= self.longest_s:
                self.give_up(reason, self.round_start)
                if self.conversation.input.is_at_end:
                    return 1
                self.conversation.wait_for_request()
            else:
                self.conversation.pause(self.durations.retry_s)
        return 0

    def connect(self) -> str:
        """Try to connect to a server and perform the handshake.

        Return the reason if that fails, or "" on success.
        """
        try:
            server = self.target.connect()
        except UnreachableError as error:
            return str(error)
        try:
            self.conversation.start_session(server, self.target.tried, self.target.line_bytes)
        except OSError as error:
            server.close()
            return f"the connection broke: {error}"
        self.log(f"connected to {self.target.tried}")
        return ""

    def start_server(self) -> None:
        """Start a server if requested, at most once per round of attempts, and check whether it has failed."""
        if self.starter is None and self.new_starter:
            self.starter = self.new_starter()
        if self.starter:
            self.starter.start()
            self.starter.check_process()
            self.conversation.answer_while_starting(self.starter, wants_skills=self.target.wants_skills)

    def give_up(self, reason: str, start: float) -> None:
        """End this round of attempts, and answer all waiting requests with an error."""
        self.round_start = None
        waiting = self.conversation.backlog.pop_all()
        text = self.unreachable_message(reason, start)
        self.log(text)
        self.refuse_requests(waiting, text)

    def refuse_requests(self, waiting: list[Message], text: str) -> None:
        """Answer waiting requests with an error. `text` is the reason why there is no server."""
        for message in [part for line in waiting for part in line.parts or (line,)]:
            if message.is_request:
                self.conversation.output.write(encode_error(message, text, "server-unreachable"))
            else:
                self.conversation.handshake.store_unsent(message)

    def unreachable_message(self, reason: str, start: float) -> str:
        """Return an error message that says that no server can be reached, why, and what to do."""
        clock = time.strftime("%H:%M:%S", time.localtime(time.time() - (time.monotonic() - start)))
        has_port = self.target.file is not None and self.target.file not in self.target.tried
        where = f"{self.target.tried} (from {self.target.file})" if has_port else self.target.tried
        failure = f" {self.starter.failure}." if self.starter and self.starter.failure else ""
        workspace = workspace_from_port_file(self.target.file) or "DIR"
        waited = f"since {clock}, for {time.monotonic() - start:.0f} s (the limit is {self.longest_s:g} s)"
        advice = f" Run `codriver serve --workspace {workspace}`, or find the cause with `codriver doctor`."
        return (
            f"no Codriver server could be reached at {where} {waited}: {reason}.{failure} This request was not "
            f"carried out.{'' if self.target.other_host else advice} The relay tries again at the next request"
        )
