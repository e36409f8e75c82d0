"""The loop of the relay: connect, converse, and connect again. It survives the server.

When the connection is lost, every request that was sent and has no answer gets an error with its own id, nothing is
ever sent twice, and what was not sent yet waits for the next connection. There the client's handshake is repeated; an
`initialize` that had no answer yet takes that of its repetition. A client without a handshake (protocol 2026-07-28)
only sees the errors, that of its open `subscriptions/listen` among them: it tells such a client that its view is old
and that it has to listen again.

While it starts a server, it answers `initialize`, `server/discover` and `tools/list` at once from what the last server
of the workspace kept for this client, where nothing has changed since. The new server learns of the client by the same
repeated handshake, or by a `tools/list` of the relay's own, whose answers go no further. When its list is another one,
the client is told that the list changed; one without a handshake is told on its streams, and no cache keeps its list.

After giving up, the relay stays: clients seldom start a relay again by themselves, and a relay that lives takes the
next request as the reason for another round of attempts.

One thread waits for both sides: to hand a message from one thread to another takes as long as all else that is done
with it. It never waits for one side alone. What the server does not take yet waits in a backlog; what the client does
not read yet is written by a second thread. Thus a client that does not read is still heard, and a server that does not
read still gets its answers out.
"""

from __future__ import annotations

import _socket as socket
import os
import time

from codriver_relay.messages import (
    BACKLOG_BYTES,
    MESSAGE_BYTES,
    META,
    Lines,
    Message,
    cancelled_key,
    encode,
    encode_answer,
    encode_error,
    respell,
    survey,
)
from codriver_relay.streams import (
    CLIENT_OUT,
    POLLIN,
    POLLOUT,
    READ_BYTES,
    READ_ON_BYTES,
    Input,
    Output,
    new_poll,
)
from codriver_relay.target import UnreachableError
from codriver_relay.workspace import workspace_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from codriver_relay.durations import Durations
    from codriver_relay.roots import RootsTalk
    from codriver_relay.starter import Starter
    from codriver_relay.target import Target


LIST_CHANGED = b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n'
LIST_ID, LIST_KEY = "codriver-relay-list", b'"codriver-relay-list"'
LIST_QUESTION = b'{"jsonrpc":"2.0","id":%s,"method":"tools/list"}\n' % LIST_KEY
LEVEL_ID = "codriver-relay-level"
LEVEL_KEY = b'"codriver-relay-level"'


class Relay:
    """One client's way to the server, for the life of the process. `talk`: what was said before it was known which."""

    def __init__(
        self,
        target: Target,
        starter: Starter | None,
        *,
        durations: Durations,
        say: Callable[[str], None],
        talk: RootsTalk | None = None,
    ) -> None:
        self.target = target
        self.starter = starter
        self.durations = durations
        self.say = say
        self.input, self.output = (talk.input, talk.output) if talk else (Input(), Output())
        self.poll = new_poll()
        self.poll.register(CLIENT_OUT, 0)  # errors are always reported: the client is gone
        self.poll.register(self.output.bell, POLLIN)
        self.watched: dict[int, int] = {}
        """For what stdin and the connection are polled now."""
        self.connection: socket.socket | None = None
        """Where requests go now; None while there is no connection, or none that is ready."""
        self.client_lines = Lines()
        self.server_lines = Lines()
        self.backlog: list[Message] = []
        """What was not sent yet, not even in part."""
        self.backlog_bytes = 0
        self.unsent = memoryview(b"")
        """The rest of what was sent in part."""
        self.in_flight: dict[bytes, Message] = {}
        """Requests that were sent, if only in part, and have no answer yet, by key."""
        self.has_ended = False
        """stdin is over."""
        self.handshake: Message | None = None
        self.initialized: Message | None = None
        self.kept: dict[str, dict[str, object]] | None = None
        """What was kept for this client, from when its first request was answered from it until a server is there."""
        self.told: dict[str, object] | None = None
        """The list of tools that it was given of that, until it is known whether the server's is another."""
        self.question = LIST_QUESTION
        """What asks the server for its list, to compare it."""
        self.owes_change = False
        """The server's is another, and no stream of the client's is open on which it could hear of it."""
        self.streams: dict[bytes, object] = {}
        """The ids of its streams over this connection on which it could, by key, while it may have to."""
        self.level: bytes | None = None
        """Its request for log messages, once it made one."""
        self.awaits_level = False
        """The server was asked for them once more, and has not answered that."""
        self.round_start: float | None = None
        self.last_step = 0.0
        """When an answer came, or either side last took something."""
        if talk:
            self.client_lines, self.has_ended = talk.lines, talk.has_ended
            self.handshake, self.initialized = talk.handshake, talk.initialized
            self.backlog, self.backlog_bytes = talk.waiting, talk.waiting_bytes

    def run(self) -> int:
        """Connect, and connect again, until stdin has ended; the exit status."""
        while True:
            status = self.reach()
            if status is None and not self.converse() and not self.is_done():
                continue
            self.output.wait()
            return status or 0

    # Reaching a server

    def reach(self) -> int | None:
        """Get a connection that is ready for requests; the exit status when none is wanted any more."""
        if self.round_start is not None:
            # The last connection broke at once: the round goes on. What hung up may be another workspace's server.
            self.start_server()
            self.pause(self.durations.retry_s)
        while not self.is_done():
            if self.round_start is None:
                self.round_start = time.monotonic()
                if self.starter:
                    self.starter.reset()
            try:
                connection = self.target.connect()
            except UnreachableError as error:
                problem = str(error)
            else:
                try:
                    self.repeat_handshake(connection)
                except OSError as error:
                    connection.close()
                    problem = f"the connection broke: {error}"
                else:
                    self.say(f"connected to {self.target.tried}")
                    return None
            self.start_server()
            self.say(f"{self.target.tried}: {problem}")
            if time.monotonic() - self.round_start >= self.durations.give_up_s or (
                self.starter and self.starter.has_failed
            ):
                self.give_up(problem, self.round_start)
                if self.has_ended:
                    return 1
                self.wait_for_request()
            else:
                self.pause(self.durations.retry_s)
        return 0

    def start_server(self) -> None:
        """Have a server started, if that was asked for, once in a round of attempts; and note it if that failed."""
        if self.starter:
            self.starter.start()
            self.starter.check_process()

    def repeat_handshake(self, connection: socket.socket) -> None:
        """Introduce the client to a server that does not know it, and let requests through.

        Raises:
            OSError: the connection broke, or the server did not answer in time.
        """
        handshake, self.server_lines, self.streams = self.handshake, Lines(), {}
        if handshake is not None:
            end = time.monotonic() + self.durations.handshake_s
            connection.settimeout(self.durations.handshake_s)
            connection.sendall(handshake.line)
            while handshake is not None:
                data = connection.recv(READ_BYTES)
                if not data or time.monotonic() > end:
                    raise ConnectionResetError("the server ended it, or said other things, during the handshake")
                for line in self.server_lines.feed(data):
                    message = survey(line)
                    if handshake is not None and message.is_response and message.key == handshake.key:
                        if self.in_flight.pop(handshake.key or b"", None):
                            self.output.write(line)
                        handshake = None
                    else:
                        self.output.write(line)
            if self.initialized is not None:
                connection.sendall(self.initialized.line)
                self.repeat_level(connection)
                self.output.write(LIST_CHANGED)
                self.told = None
        if self.told is not None:
            connection.sendall(self.question)
        connection.setblocking(False)  # noqa: FBT003 - the standard library's own signature
        self.connection, self.kept = connection, None

    def repeat_level(self, connection: socket.socket) -> None:
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
        connection.sendall(line + b"\n")
        self.awaits_level = True

    def pause(self, seconds: float) -> None:
        """Wait so long, while the client is heard. The end of all work also ends it."""
        end = time.monotonic() + seconds
        while not self.is_done() and (left := end - time.monotonic()) > 0:
            self.take_turn(left)

    def wait_for_request(self) -> None:
        """Wait for what makes another round of attempts worth while."""
        while not self.has_ended and not any(message.is_request for message in self.backlog):
            if self.backlog_bytes >= BACKLOG_BYTES:
                return  # stdin is not heard any more
            self.take_turn(None)

    # Conversing with it

    def converse(self) -> bool:
        """Pass on what comes from both sides, until the connection ends (False) or all is said (True)."""
        start = time.monotonic()
        has_parted = False
        self.last_step = start
        while self.connection is not None:
            self.send_backlog()
            if not has_parted and self.is_done():
                has_parted = True
                self.last_step = time.monotonic()
                shut_down_sending(self.connection)
            # As long as the client does not read, its answers are not read either.
            if self.has_ended and not self.output.is_busy:
                longest = self.durations.goodbye_s if has_parted else self.durations.answers_s
                left = self.last_step + longest - time.monotonic()
                if left <= 0:
                    self.stop_waiting()
                    return True
                self.take_turn(left)
            else:
                self.take_turn(None)
        if time.monotonic() - start > self.durations.settled_s:
            self.round_start = None
        return has_parted

    def take_turn(self, seconds: float | None) -> None:
        """Wait until something comes or can be sent, at most so long, and take it."""
        wants_client = not self.has_ended and self.backlog_bytes < BACKLOG_BYTES
        self.watch(self.input.fd, POLLIN if wants_client else 0)
        connection = self.connection
        if connection is not None:
            events = 0 if self.output.is_busy else POLLIN
            self.watch(connection.fileno(), events | POLLOUT if self.unsent else events)
        for fd, events in self.poll.poll(None if seconds is None else seconds * 1000):
            if fd == self.input.fd:
                self.hear_client()
            elif fd == self.output.bell:
                self.output.ringing.recv(READ_BYTES)
                self.last_step = time.monotonic()
            elif fd == CLIENT_OUT:
                os._exit(0)
            elif events & POLLOUT:
                self.send_on()
            else:
                self.hear_server()

    def watch(self, fd: int, events: int) -> None:
        """Poll `fd` for these events from now on; without any, not at all, as errors would be reported all the same."""
        if self.watched.get(fd, 0) == events:
            return
        if events:
            self.poll.register(fd, events)
        else:
            self.poll.unregister(fd)
        self.watched[fd] = events

    def hear_client(self) -> None:
        """Take what the client wrote."""
        data = self.input.read()
        if data is None:
            return
        if data:
            self.queue(self.client_lines.feed(data))
        else:
            rest = b"".join(self.client_lines.rest)
            self.queue([rest + b"\n"] if rest else [])
            self.has_ended = True
            self.last_step = time.monotonic()

    def queue(self, lines: list[bytes]) -> None:
        """Queue the client's lines. What answers a server that is gone is dropped."""
        for line in lines:
            message = survey(line)
            if self.connection is None and self.answer_from_kept(message):
                continue
            if self.connection is not None or not message.is_response:
                self.backlog.append(message)
                self.backlog_bytes += len(line) + MESSAGE_BYTES

    def answer_from_kept(self, message: Message) -> bool:
        """Answer, while a server is being started, what is kept from the last one; whether it was answered."""
        if self.starter is None or not self.starter.is_starting or message.id is None:
            return False
        is_first, is_list = message.method == b"initialize", message.method == b"tools/list"
        if not (is_first or is_list or message.method == b"server/discover") or b'"cursor"' in message.line:
            return False
        from codriver_relay.kept_lists import envelope_of, read_kept

        if self.handshake is None:
            kept = read_kept(self.starter.workspace, message.line, is_handshake=is_first)
            if kept is None or (is_first and (self.kept or self.backlog)):
                return False
            self.kept = kept
            if is_first:
                self.handshake = message  # for the server that comes
            else:
                self.question = encode(id=LIST_ID, method="tools/list", params={"_meta": envelope_of(message.line)})
        elif self.kept is None or not is_list:
            return False
        if is_list or self.handshake is None:
            self.told = self.kept["tools"]
        result = self.kept["tools" if is_list else "greeting"]
        self.output.write(encode_answer(message, result=result if self.handshake else {**result, "ttlMs": 0}))
        return True

    def is_about_level(self, line: bytes) -> bool:
        """Whether `line` answers what was repeated of the client's, which has its answer."""
        message = survey(line)
        if not message.is_response or message.key != LEVEL_KEY:
            return False
        self.awaits_level = False
        return True

    def compare_list(self, lines: list[bytes]) -> list[bytes]:
        """The lines for the client out of these, while the list that it was told may not be the server's.

        They are without the server's list, asked for to compare it, and with the word that it is another one.
        """
        import json

        passed: list[bytes] = []
        for line in lines:
            message = survey(line)
            is_list = message.is_response and message.key == LIST_KEY
            try:
                if is_list and self.told is not None:
                    told, self.told, self.owes_change = self.told, None, True
                    self.owes_change = json.loads(line)["result"]["tools"] != told["tools"]
                elif message.method == b"notifications/subscriptions/acknowledged":
                    params = json.loads(line)["params"]
                    if params["notifications"].get("toolsListChanged"):
                        stream = params["_meta"][META + "subscriptionId"]
                        self.streams[respell(json.dumps(stream).encode())] = stream
            except (ValueError, LookupError, TypeError, AttributeError):
                pass  # it is another list, or no stream
            passed += [] if is_list else [line]
            passed += self.tell_change() if self.owes_change else []
        return passed

    def tell_change(self) -> list[bytes]:
        """The notifications of another list: one, or one for each stream; it is owed on while there is none."""
        if self.handshake is not None:
            self.owes_change = False
            return [LIST_CHANGED]
        streams = [stream for key, stream in self.streams.items() if key in self.in_flight]
        self.owes_change = not streams
        method = "notifications/tools/list_changed"
        return [encode(method=method, params={"_meta": {META + "subscriptionId": stream}}) for stream in streams]

    def send_backlog(self) -> None:
        """Send what waits, as far as the server takes it. What is sent in part counts as sent."""
        while self.backlog and not self.unsent and self.connection is not None:
            lines: list[bytes] = []
            size = 0
            for message in self.backlog:
                lines.append(message.line)
                size += len(message.line)
                self.note_sent(message)
                if size >= READ_BYTES:
                    break
            del self.backlog[: len(lines)]
            self.backlog_bytes -= size + MESSAGE_BYTES * len(lines)
            self.unsent = memoryview(lines[0] if len(lines) == 1 else b"".join(lines))
            self.send_on()

    def send_on(self) -> None:
        """Send more of what was sent in part."""
        if self.connection is None:
            return
        try:
            self.unsent = self.unsent[self.connection.send(self.unsent) :]
            self.last_step = time.monotonic()
        except BlockingIOError:
            return
        except OSError:
            while self.hear_server():  # what it said before it went counts
                pass
            self.lose()

    def note_sent(self, message: Message) -> None:
        """Remember what a lost connection would ask for: open requests, and the handshake."""
        for part in message.parts:
            self.note_sent(part)
        if message.key is not None and message.method is not None:
            self.in_flight[message.key] = message
            if message.method == b"initialize":
                self.handshake, self.initialized, self.level = message, None, None
            else:
                if message.method == b"logging/setLevel":
                    self.level = message.line
                elif message.method == b"tools/list":
                    self.owes_change = False  # it gets the server's own
                message.line = b""  # it is never sent again
        elif message.method == b"notifications/initialized":
            self.initialized = message
        elif message.method == b"notifications/cancelled":  # such a request gets no answer
            self.in_flight.pop(cancelled_key(message.line), None)

    def hear_server(self) -> bool:
        """Pass on what the server wrote; False when there was nothing more. Its end is the connection's."""
        if self.connection is None:
            return False
        try:
            data = self.connection.recv(READ_ON_BYTES if self.server_lines.rest else READ_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self.lose()
            return False
        lines = self.server_lines.feed(data)
        if lines:
            self.round_start = None
            if self.told is not None or self.owes_change:
                lines = self.compare_list(lines)
            if self.awaits_level:
                lines = [line for line in lines if not self.is_about_level(line)]
            self.output.write(b"".join(lines))
            self.strike_out_answered(lines)
        else:
            self.last_step = time.monotonic()  # a long line is on its way
        return True

    def strike_out_answered(self, lines: list[bytes]) -> None:
        """Strike out the requests that these lines answer."""
        for line in lines:
            if self.in_flight:
                message = survey(line)
                for answer in message.parts or (message,):
                    if answer.is_response and answer.key is not None:
                        self.in_flight.pop(answer.key, None)
                        self.last_step = time.monotonic()

    def is_done(self) -> bool:
        """Whether stdin has ended and every request has its answer. A subscription never gets one."""
        return (
            self.has_ended
            and not self.unsent
            and not self.backlog
            and not any(message.method != b"subscriptions/listen" for message in self.in_flight.values())
        )

    # When there is none

    def lose(self) -> None:
        """Give up a connection that has ended."""
        if self.connection is None:
            return
        self.say(f"lost the connection to {self.target.tried}")
        self.watch(self.connection.fileno(), 0)
        self.connection.close()
        self.connection, self.unsent = None, memoryview(b"")
        self.backlog = [message for message in self.backlog if not message.is_response]
        self.backlog_bytes = sum([len(message.line) + MESSAGE_BYTES for message in self.backlog])
        self.fail_in_flight(f"the connection to the Codriver server at {self.target.tried} was lost", "server-lost")

    def fail_in_flight(self, cause: str, reason: str) -> None:
        """Answer what was sent and has no answer; an `initialize` is left for the next connection to answer."""
        lost = [message for message in self.in_flight.values() if message is not self.handshake]
        text = (
            f"{cause} before this request was answered. It is not sent again, and a tool call may have run, in whole "
            "or in part: see what has run before you call it again, by get_evaluation or repl_output_log. A server "
            "that was started since has only the code of before, but for its last half second: repl_output_log with "
            "query [:find ?line ?code :where [$history ?e :output/line ?line] [$history ?e :output/text ?code]]. The "
            "relay reconnects by itself"
        )
        for message in lost:
            del self.in_flight[message.key or b""]
            self.output.write(encode_error(message, text, reason))

    def stop_waiting(self) -> None:
        """Answer all that the server left unanswered, or never took, after stdin has ended."""
        for message in self.backlog:
            self.note_sent(message)
        self.handshake = None  # no other connection will answer it
        self.fail_in_flight(f"stdin ended, and {self.durations.answers_s:g} s passed", "unanswered")

    def give_up(self, problem: str, start: float) -> None:
        """Answer all that waits for a server, and end the round."""
        self.round_start = None
        waiting, self.backlog, self.backlog_bytes = [*self.in_flight.values(), *self.backlog], [], 0
        if self.in_flight:  # an initialize that was never answered: the client has made no handshake
            self.in_flight.clear()
            self.handshake = None
        clock = time.strftime("%H:%M:%S", time.localtime(time.time() - (time.monotonic() - start)))
        where = f"{self.target.tried} (from {self.target.file})" if self.target.file else self.target.tried
        failure = f" {self.starter.failure}." if self.starter and self.starter.failure else ""
        workspace = workspace_of(self.target.file) or "DIR"
        text = (
            f"no Codriver server could be reached at {where} since {clock}: {problem}.{failure} This request was not "
            f"carried out. Run `codriver serve --workspace {workspace}`, or `codriver doctor` to see what is wrong; "
            "the next request makes the relay try again"
        )
        self.say(text)
        for message in [part for line in waiting for part in line.parts or (line,)]:
            if message.is_request:
                self.output.write(encode_error(message, text, "server-unreachable"))
            elif message.method == b"notifications/initialized" and self.handshake:
                self.initialized = message


def shut_down_sending(connection: socket.socket) -> None:
    """Tell the server that nothing more comes."""
    try:
        connection.shutdown(socket.SHUT_WR)
    except OSError:
        return
