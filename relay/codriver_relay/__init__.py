"""The stdio relay: what an MCP client starts to reach a running Codriver server.

::

    MCP client ──stdin, stdout──> relay ──TCP, one JSON-RPC message a line──> codriver serve

It passes whole lines on, untouched, and knows of each message only what it must: whether it is a request, and which
answer belongs to it. So it can survive the server. When the connection is lost, every request that was sent and has no
answer gets an error with its own id, nothing is ever sent twice, and what was not sent yet waits for the next
connection. There the client's handshake is repeated; an `initialize` that had no answer yet takes that of its
repetition. A client without a handshake (protocol 2026-07-28) only sees the errors, that of its open
`subscriptions/listen` among them: it tells such a client that its view is old and that it has to listen again.

After giving up, the relay stays: clients seldom start a relay again by themselves, and a relay that lives takes the
next request as the reason for another round of attempts.

One thread waits for both sides: to hand a message from one thread to another takes as long as all else that is done
with it. It never waits for one side alone. What the server does not take yet waits in a backlog; what the client does
not read yet is written by a second thread, which lives only as long as that lasts. Thus a client that does not read is
still heard, and a server that does not read still gets its answers out.

This one file is all of the relay: it also runs as a script, copied anywhere. A client waits for it at every start, so
it keeps to modules that cost nothing to import (hence no dataclasses, typing, pathlib, argparse or threading), and
imports `json` and `subprocess` only where they are needed.
"""

from __future__ import annotations

import os
import select
import sys
import time
from _thread import allocate_lock, start_new_thread

try:  # `socket` would load `enum` and `selectors`: as much time again as the interpreter needs to start
    import _socket as socket
except ImportError:  # an interpreter that is not CPython
    import socket  # type: ignore[no-redef]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from subprocess import Popen

__all__ = ["Lines", "Message", "Relay", "Starter", "Target", "UnreachableError", "main", "survey"]

USAGE = """\
usage: codriver-relay <port | port-file> [host] [--start] [--workspace DIR] [--verbose]

Connects stdin and stdout to a Codriver server: a number is its port, anything else the file that holds it.
  --start          start a server for the workspace when none is running
  --workspace DIR  the workspace; without it, the one that the port file lies in
  --verbose        say on stderr what happens to the connection
"""
CLIENT_IN, CLIENT_OUT, DIAGNOSTICS = 0, 1, 2
RETRY_S = 0.25
GIVE_UP_S = 60.0
CONNECT_S = 5.0
HANDSHAKE_S = 10.0
"""A server answers `initialize` in milliseconds; one that takes longer than this is stuck."""
ANSWERS_S = 5.0
"""How long answers are waited for after stdin has ended, counted anew whenever anything got further."""
GOODBYE_S = 1.0
"""How long the server may take to end the connection when everything is answered."""
SETTLED_S = 1.0
"""A connection that lived this long, or over which anything came, was real: the time to give up starts anew."""
START_GRACE_S = 5.0
"""How long to go on after the started command ended: it may have met a server that was just starting."""
READ_BYTES, READ_ON_BYTES = 1 << 16, 1 << 20
"""What a pipe holds; what is read of a long line at once, in fewer steps."""
SURVEY_BYTES = 1 << 16
"""How far a line is walked through in Python. Beyond it, parsing the whole line in C is faster."""
BACKLOG_BYTES = 64 << 20
"""When more than this waits to be sent, stdin is not read on: the client then waits in its own write."""
MESSAGE_BYTES = 256
"""What a message that waits takes beside its line: empty lines, too, have to end somewhere."""
CONNECTION_CLOSED = -32000
"""The code MCP clients give to a closed connection. Source: the TypeScript SDK, `ErrorCode.ConnectionClosed`."""
NAMES = (b"id", b"method", b"result", b"error")
"""The members that tell requests, responses and notifications apart."""
RECORD_BYTES = 4096
"""What a server writes beside its port file is a tenth of this."""
SESSION_LINE = b'{"jsonrpc": "2.0", "method": "codriver/token", "params": {"session": "%s"}}\n'
LIST_CHANGED = b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n'


class UnreachableError(Exception):
    """An attempt to connect failed. Its text says why, without a full stop."""


class Message:
    """What the relay knows of a line. `id` is JSON text of the very value that came, `key` the same in one spelling."""

    __slots__ = ("id", "is_response", "key", "line", "method")

    def __init__(self, line: bytes, method: bytes | None, id_: bytes | None, *, is_response: bool) -> None:
        self.line = line
        self.method = method
        self.id = id_ if id_ and id_[0] in b'"-0123456789' else None
        self.key = self.id if self.id is None or is_plain(self.id) else respell(self.id)
        self.is_response = is_response and method is None

    @property
    def is_request(self) -> bool:
        """Whether the peer that sent it waits for an answer."""
        return self.method is not None and self.id is not None


def is_plain(token: bytes) -> bool:
    """Whether the JSON string or number `token` can only be spelt like this."""
    return token.isdigit() or (token[:1] == b'"' and b"\\" not in token)


def respell(token: bytes) -> bytes:
    """The JSON string or number `token` as every peer would spell it; unchanged when it is none."""
    import json  # noqa: PLC0415 - costs as much as the interpreter's start, and plain ids never need it

    try:
        value = json.loads(token)
    except ValueError:
        return token
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


def survey(line: bytes) -> Message:
    """What kind of message `line` is. It reads no further than it must; a line that is no object is only a line."""
    return walk(line) or parse(line)


def parse(line: bytes) -> Message:
    """What kind of message `line` is, by parsing all of it."""
    import json  # noqa: PLC0415 - see respell

    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        return Message(line, None, None, is_response=False)
    method = value.get("method")
    return Message(
        line,
        method.encode("utf-8", "surrogatepass") if isinstance(method, str) else None,
        json.dumps(value.get("id")).encode(),
        is_response="result" in value or "error" in value,
    )


def walk(line: bytes) -> Message | None:
    """What kind of message `line` is, from its top-level members up to the one that decides.

    Without its escaped quotes, a line split at the others is by turns text outside and inside of strings, so a member's
    name is a string at depth 1 with a colon behind it. None when `SURVEY_BYTES` do not decide, or a name or an id has
    escapes.
    """
    if line[:1] != b"{":
        return None
    parts = line[:SURVEY_BYTES].replace(b"\\\\", b"\\_").replace(b'\\"', b"\\_").split(b'"')
    found: dict[bytes, bytes] = {}
    depth = 0
    for index in range(0, len(parts) - 2, 2):
        outside, name, behind = parts[index], parts[index + 1], parts[index + 2]
        if outside not in b",:":  # most are one of these
            depth += outside.count(b"{") + outside.count(b"[") - outside.count(b"}") - outside.count(b"]")
        if depth != 1 or behind.lstrip()[:1] != b":":
            continue
        if b"\\" in name:
            return None
        if name in NAMES:
            scalar, comma, _ = behind.strip()[1:].replace(b"}", b",").partition(b",")
            is_string = not scalar.strip() and index + 4 < len(parts)
            value = b'"' + parts[index + 3] + b'"' if is_string else scalar.strip()
            if name in (b"id", b"method") and (b"\\" in value or not (is_string or comma)):
                return None  # the end of a value may lie beyond the limit
            found[name] = value
        if b"id" in found and len(found) > 1:
            break
    else:
        if len(line) > SURVEY_BYTES or not line.rstrip().endswith(b"}"):
            return None
    method = found.get(b"method")
    if method is not None and method[:1] != b'"':
        return None
    is_response = b"result" in found or b"error" in found
    return Message(line, method and method[1:-1], found.get(b"id"), is_response=is_response)


class Lines:
    """Whole lines, newline included, out of pieces as they come. Lives as long as its stream."""

    def __init__(self) -> None:
        self.rest: list[bytes] = []

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that `data` completes. A line is copied once, however many pieces it came in."""
        newline = data.find(b"\n")
        if newline < 0:
            self.rest.append(data)
            return []
        if newline == len(data) - 1:
            lines, tail = [data], b""
        else:
            *whole, tail = data.split(b"\n")
            lines = [line + b"\n" for line in whole]
        if self.rest:
            lines[0] = b"".join([*self.rest, lines[0]])
        self.rest = [tail] if tail else []
        return lines


class Output:
    """What goes to the client. A write never waits: what there is no room for is written by a thread, in order."""

    def __init__(self) -> None:
        self.room = room_of(CLIENT_OUT)
        self.lock = allocate_lock()
        self.bell, self.button = os.pipe()
        """It rings when a thread has written all."""
        self.is_busy = False
        """A thread is writing: what comes has to wait, so no more of it should be read."""
        self.waiting: list[bytes] = []

    def write(self, data: bytes) -> None:
        """Write whole lines to the client; without a client there is nothing left to do."""
        with self.lock:
            if self.is_busy:
                self.waiting.append(data)
                return
        if len(data) <= READ_BYTES:
            # Where there is room at all, there is room for so much.
            while data and self.room.poll(0):
                data = data[write_some(data[: select.PIPE_BUF]) :]
        if data:
            self.is_busy = True
            start_new_thread(run_or_end, (lambda: self.write_rest(data),))

    def write_rest(self, data: bytes) -> None:
        """Write `data`, and then all that is to be written meanwhile."""
        room = room_of(CLIENT_OUT)  # one of its own: the other may be in use
        while data:  # not `is_busy`: the next thread may have set that already
            rest = memoryview(data)
            while rest:
                room.poll()  # the client's end may be one whose writes do not wait
                rest = rest[write_some(rest) :]
            with self.lock:
                data, self.waiting = b"".join(self.waiting), []
                self.is_busy = bool(data)
        os.write(self.button, b"!")

    def wait(self) -> None:
        """Return when all is written."""
        while self.is_busy:
            os.read(self.bell, READ_BYTES)


def room_of(fd: int) -> select.poll:
    """What waits for room to write to `fd`."""
    room = select.poll()
    room.register(fd, select.POLLOUT)
    return room


def write_some(data: bytes | memoryview) -> int:
    """Write to the client; how much of it was written. Without a client there is nothing left to do."""
    try:
        return os.write(CLIENT_OUT, data)
    except BlockingIOError:
        return 0
    except OSError:
        os._exit(0)


class Target:
    """Where the server is: `given` is a port, or the file that holds it and is read anew at every attempt."""

    def __init__(self, given: str, host: str) -> None:
        self.port = int(given) if given.isdecimal() else None
        self.file = None if given.isdecimal() else os.path.abspath(given)  # noqa: PTH100 - pathlib costs milliseconds
        self.host = host
        self.tried = f"{host}:{self.port}" if self.port else f"the port that {self.file} names"

    def connect(self) -> socket.socket:
        """A connection over which nothing was sent yet but an introduction, where there is one.

        Raises:
            UnreachableError: it could not be made; `tried` then is the address that was tried.
        """
        port = self.port or self.read_port()
        self.tried = f"{self.host}:{port}"
        problem = "the host has no address"
        host = self.host.encode() if self.host.isascii() else self.host  # a str would load the codec for Unicode names
        try:
            for family, kind, protocol, _, address in socket.getaddrinfo(host, port, 0, socket.SOCK_STREAM):
                connection = socket.socket(family, kind, protocol)
                try:
                    connection.settimeout(CONNECT_S)
                    connection.connect(address)
                    # Where nobody listens on a port that the system also gives out, a socket can meet itself.
                    if connection.getsockname() != connection.getpeername():
                        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                        connection.settimeout(None)
                        connection.sendall(self.introduce(port))
                        return connection
                    problem = "nobody listens there"
                except OSError as error:
                    problem = str(error)
                connection.close()
        except (OSError, UnicodeError) as error:
            problem = f"the host {self.host!r} was not found: {error}"
        raise UnreachableError(problem)

    def read_port(self) -> int:
        """The port that the file names now.

        Raises:
            UnreachableError: it names none.
        """
        try:
            with open(self.file or "", "rb") as file:  # noqa: PTH123 - see __init__
                text = file.read(64).strip()
        except OSError as error:
            raise UnreachableError(f"the port file cannot be read: {error.strerror}") from None
        if not text.isdigit() or not 0 < int(text) < 1 << 16:
            raise UnreachableError("the port file holds no port number")
        return int(text)

    def introduce(self, port: int) -> bytes:
        """The line that says which server is meant and shows its token; empty where neither is known.

        A server that was killed leaves its port file, and its port may be another server's now, which has to hang up.
        """
        token = os.fsencode(os.environ.get("CODRIVER_TOKEN", "")) or self.read_beside("token").strip()
        session = session_of(self.read_beside("server.json"), port)
        if token:
            named = {"session": session.decode()} if session else {}
            return encode(method="codriver/token", params={"token": token.decode("utf-8", "replace"), **named})
        return SESSION_LINE % session if session else b""

    def read_beside(self, name: str) -> bytes:
        """A file beside the port file; empty when it cannot be had."""
        if self.file is None:
            return b""
        try:
            with open(os.path.join(os.path.dirname(self.file), name), "rb") as file:  # noqa: PTH118, PTH120, PTH123 - see __init__
                return file.read(RECORD_BYTES)
        except OSError:
            return b""


def session_of(record: bytes, port: int) -> bytes:
    """The id of the server that wrote `record`, if it wrote the port file too; empty when it names none."""
    if value_of(record, b"port") != b"%d" % port:
        return b""  # somebody else wrote the port file since
    session = value_of(record, b"sessionId")[1:-1]
    return session if session.isalnum() else b""


def value_of(record: bytes, name: bytes) -> bytes:
    """The plain value of a member of a JSON object, as it is written there; `json` would take too long to load."""
    behind = record.partition(b'"%s":' % name)[2]
    return behind.partition(b",")[0].partition(b"}")[0].strip()


class Starter:
    """Starts a server for `workspace`, detached, so that it outlives the relay; once in a round of attempts."""

    def __init__(self, workspace: str, port: int | None) -> None:
        self.workspace = workspace
        self.arguments = ["serve", "--workspace", workspace, "--on-demand", "--detach"]
        if port is not None:
            self.arguments += ["--port", str(port)]
        self.log = os.path.join(workspace, ".calva", "mcp-server", "serve.log")  # noqa: PTH118 - see Target
        self.reset()

    def reset(self) -> None:
        """Begin a round of attempts, in which a server may be started again."""
        self.process: Popen[bytes] | None = None
        self.log_start = 0
        self.failure: str | None = None
        self.failed_at = 0.0

    def start(self) -> None:
        """Start the server, unless that was done. A server that lives already makes the new one end by its own lock."""
        import shlex  # noqa: PLC0415 - both cost more than the interpreter's start, and most relays start nothing
        import subprocess  # noqa: PLC0415

        if self.process is not None or self.failure is not None:
            return
        command = shlex.split(os.environ.get("CODRIVER_SERVER_COMMAND", "")) or [sys.executable, "-m", "codriver"]
        try:
            os.makedirs(os.path.dirname(self.log), exist_ok=True)  # noqa: PTH103, PTH120 - see Target
            log = os.open(self.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                self.log_start = os.fstat(log).st_size
                self.process = subprocess.Popen(  # noqa: S603 - the command is the user's own
                    [*command, *self.arguments],
                    cwd=self.workspace,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            finally:
                os.close(log)
        except OSError as error:
            self.fail(f"{command[0]} could not be started: {error}")

    def fail(self, failure: str) -> None:
        """Note why there will be no server."""
        self.failure, self.failed_at = failure, time.monotonic()

    def has_failed(self) -> bool:
        """Whether the start failed, and so long ago that no other server can be expected either.

        The process that was started ends well once the server can be reached, which then has another: see `--detach`.
        """
        if self.failure is None and self.process is not None and self.process.poll():
            with open(self.log, "rb") as file:  # noqa: PTH123 - see Target
                file.seek(max(self.log_start, os.fstat(file.fileno()).st_size - 1000))
                tail = file.read().decode("utf-8", "replace").strip()
            self.fail(f"the server that the relay started ended with status {self.process.returncode}: {tail}")
        return self.failure is not None and time.monotonic() - self.failed_at > START_GRACE_S


def encode(**members: object) -> bytes:
    """A JSON-RPC message of ours as a line."""
    import json  # noqa: PLC0415 - see respell

    return json.dumps({"jsonrpc": "2.0", **members}).encode() + b"\n"


def encode_error(request: Message, message: str, reason: str) -> bytes:
    """The answer to `request` that says why there is none."""
    line = encode(id=0, error={"code": CONNECTION_CLOSED, "message": message, "data": {"reason": reason}})
    return line.replace(b'"id": 0', b'"id": ' + (request.id or b"null"), 1)


class Relay:
    """One client's way to the server, for the life of the process."""

    def __init__(
        self, target: Target, starter: Starter | None, *, give_up_s: float, say: Callable[[str], None]
    ) -> None:
        self.target = target
        self.starter = starter
        self.give_up_s = give_up_s
        self.say = say
        self.output = Output()
        self.poll = select.poll()
        self.poll.register(CLIENT_OUT, 0)  # errors are always reported: the client is gone
        self.poll.register(self.output.bell, select.POLLIN)
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
        self.round_start: float | None = None
        self.last_step = 0.0
        """When an answer came, or either side last took something."""

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
            self.pause(RETRY_S)
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
            if time.monotonic() - self.round_start >= self.give_up_s or (self.starter and self.starter.has_failed()):
                self.give_up(problem, self.round_start)
                if self.has_ended:
                    return 1
                self.wait_for_request()
            else:
                self.pause(RETRY_S)
        return 0

    def start_server(self) -> None:
        """Have a server started, if that was asked for and was not done in this round of attempts."""
        if self.starter:
            self.starter.start()

    def repeat_handshake(self, connection: socket.socket) -> None:
        """Introduce the client to a server that does not know it, and let requests through.

        Raises:
            OSError: the connection broke, or the server did not answer in time.
        """
        handshake, self.server_lines = self.handshake, Lines()
        if handshake is not None:
            end = time.monotonic() + HANDSHAKE_S
            connection.settimeout(HANDSHAKE_S)
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
                self.output.write(LIST_CHANGED)
        connection.setblocking(False)  # noqa: FBT003 - the standard library's own signature
        self.connection = connection

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
                part(self.connection)
            # As long as the client does not read, its answers are not read either.
            if self.has_ended and not self.output.is_busy:
                left = self.last_step + (GOODBYE_S if has_parted else ANSWERS_S) - time.monotonic()
                if left <= 0:
                    self.stop_waiting()
                    return True
                self.take_turn(left)
            else:
                self.take_turn(None)
        if time.monotonic() - start > SETTLED_S:
            self.round_start = None
        return has_parted

    def take_turn(self, seconds: float | None) -> None:
        """Wait until something comes or can be sent, at most so long, and take it."""
        wants_client = not self.has_ended and self.backlog_bytes < BACKLOG_BYTES
        self.watch(CLIENT_IN, select.POLLIN if wants_client else 0)
        connection = self.connection
        if connection is not None:
            events = 0 if self.output.is_busy else select.POLLIN
            self.watch(connection.fileno(), events | select.POLLOUT if self.unsent else events)
        for fd, events in self.poll.poll(None if seconds is None else seconds * 1000):
            if fd == CLIENT_IN:
                self.hear_client()
            elif fd == self.output.bell:
                os.read(fd, READ_BYTES)
                self.last_step = time.monotonic()
            elif fd == CLIENT_OUT:
                os._exit(0)
            elif events & select.POLLOUT:
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
        try:
            data = os.read(CLIENT_IN, READ_BYTES)
        except BlockingIOError:  # somebody else reads it too
            return
        except OSError:  # a terminal that was hung up
            data = b""
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
            if self.connection is not None or not message.is_response:
                self.backlog.append(message)
                self.backlog_bytes += len(line) + MESSAGE_BYTES

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
        if message.key is not None and message.method is not None:
            self.in_flight[message.key] = message
            if message.method == b"initialize":
                self.handshake, self.initialized = message, None
            else:
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
            self.output.write(lines[0] if len(lines) == 1 else b"".join(lines))
            self.settle(lines)
        else:
            self.last_step = time.monotonic()  # a long line is on its way
        return True

    def settle(self, lines: list[bytes]) -> None:
        """Strike out the requests that these lines answer."""
        for line in lines:
            if self.in_flight:
                message = survey(line)
                if message.is_response and message.key is not None:
                    self.in_flight.pop(message.key, None)
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
            "or in part: call get_evaluation or repl_output_log to see what has run before you call it again. The "
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
        self.fail_in_flight(f"stdin ended, and {ANSWERS_S:g} s passed", "unanswered")

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
        for message in waiting:
            if message.is_request:
                self.output.write(encode_error(message, text, "server-unreachable"))
            elif message.method == b"notifications/initialized" and self.handshake:
                self.initialized = message


def cancelled_key(line: bytes) -> bytes:
    """The key of the request that a `notifications/cancelled` names; empty when it names none."""
    import json  # noqa: PLC0415 - see respell

    try:
        return respell(json.dumps(json.loads(line)["params"]["requestId"]).encode())
    except (ValueError, LookupError, TypeError):
        return b""


def part(connection: socket.socket) -> None:
    """Tell the server that nothing more comes."""
    try:
        connection.shutdown(socket.SHUT_WR)
    except OSError:
        return


def workspace_of(port_file: str | None) -> str | None:
    """The workspace of a port file at `<workspace>/.calva/mcp-server/port`; None for any other."""
    if port_file is None:
        return None
    place, _, name = port_file.rpartition("/.calva/mcp-server/")
    return place if place and "/" not in name else None


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the relay; the exit status. Given `arguments` are those behind the command's name."""
    open_streams()
    words: list[str] = []
    flags: set[str] = set()
    workspace: str | None = None
    rest = list(sys.argv[1:] if arguments is None else arguments)
    while rest:
        word = rest.pop(0)
        if word == "--workspace" and rest:
            workspace = os.path.abspath(rest.pop(0))  # noqa: PTH100 - see Target
        elif word in ("--start", "--verbose", "--help", "-h"):
            flags.add(word)
        elif word.startswith("-"):
            return refuse(f"unknown option, or one without its value: {word}")
        else:
            words.append(word)
    if flags & {"--help", "-h"}:
        os.write(CLIENT_OUT, USAGE.encode())
        return 0
    if not words and workspace:
        words = [os.path.join(workspace, ".calva", "mcp-server", "port")]  # noqa: PTH118 - see Target
    if not 1 <= len(words) <= 2:
        return refuse("give the server's port or port file, and at most a host")
    if words[0].isdecimal() and not 0 < int(words[0]) < 1 << 16:
        return refuse(f"a port is a number from 1 to 65535, not {words[0]}")
    try:
        give_up_s = float(os.environ.get("CODRIVER_RELAY_GIVE_UP_S", GIVE_UP_S))
    except ValueError:
        return refuse("CODRIVER_RELAY_GIVE_UP_S is no number of seconds")
    target = Target(words[0], words[1] if len(words) > 1 else "127.0.0.1")
    workspace = workspace or workspace_of(target.file)
    if "--start" in flags and workspace is None:
        return refuse("--start needs --workspace, as the port file lies in no workspace")
    starter = Starter(workspace, target.port) if "--start" in flags and workspace else None
    relay = Relay(target, starter, give_up_s=give_up_s, say=report if "--verbose" in flags else ignore)
    try:
        status = relay.run()
    except KeyboardInterrupt:
        status = 130
    os._exit(status)  # a thread may still be writing to a client that does not read


def run_or_end(work: Callable[[], None]) -> None:
    """Run what a thread has to do, and end the process if that fails: half a relay would only look alive."""
    try:
        work()
    except BaseException:  # noqa: BLE001 - whatever it is, it is shown and ends the process
        sys.excepthook(*sys.exc_info())
        os._exit(1)


def open_streams() -> None:
    """Open what is closed of stdin, stdout and stderr, or the next that is opened would be taken for it."""
    for fd in (CLIENT_IN, CLIENT_OUT, DIAGNOSTICS):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free: this one


def refuse(problem: str) -> int:
    """Say why the command line cannot be used; the exit status."""
    report(problem)
    os.write(DIAGNOSTICS, USAGE.encode())
    return 2


def report(text: str) -> None:
    """Say it on stderr, if anybody listens: what is only said must hold up nothing."""
    try:
        if room_of(DIAGNOSTICS).poll(0):
            os.write(DIAGNOSTICS, f"codriver-relay: {text}\n".encode("utf-8", "replace"))
    except OSError:
        return


def ignore(_text: str) -> None:
    """Say nothing: a client shows what its servers write to stderr as if it were an error."""


if __name__ == "__main__":
    sys.exit(main())
