"""The stdio relay: what an MCP client starts to reach a running Codriver server.

::

    MCP client ──stdin, stdout──> relay ──TCP, one JSON-RPC message a line──> codriver serve

It passes whole lines on, untouched, and knows of each message only what it must: whether it is a request, and which
answer belongs to it. So it can survive the server. When the connection is lost, every request that was sent and has no
answer gets an error with its own id, nothing is ever sent twice, and what was not sent yet waits for the next
connection. There the client's handshake is repeated; an `initialize` that had no answer yet takes that of its
repetition. A client without a handshake (protocol 2026-07-28) only sees the errors, that of its open
`subscriptions/listen` among them: it tells such a client that its view is old and that it has to listen again.

While it starts a server, it answers `initialize`, `server/discover` and `tools/list` at once from what the last server
of the workspace kept for this client, where nothing has changed since. The new server learns of the client by the same
repeated handshake, or by a `tools/list` of the relay's own, whose answers go no further. When its list is another one,
the client is told that the list changed; one without a handshake is told on its streams, and no cache keeps its list.

With `--workspace auto` the relay finds the workspace itself, so that one entry without paths serves every project.
Where neither the environment nor the current folder tells, it greets the client in the server's place and asks for its
roots.

After giving up, the relay stays: clients seldom start a relay again by themselves, and a relay that lives takes the
next request as the reason for another round of attempts.

One thread waits for both sides: to hand a message from one thread to another takes as long as all else that is done
with it. It never waits for one side alone. What the server does not take yet waits in a backlog; what the client does
not read yet is written by a second thread, which lives only as long as that lasts. Thus a client that does not read is
still heard, and a server that does not read still gets its answers out.

This one file is all of the relay: it also runs as a script, copied anywhere. Clients start `__main__.py`, installed
beside it, as Python compiles a script at each start and keeps the bytecode of a module. They wait for it, so it keeps
to modules that cost nothing to import (hence no dataclasses, typing, pathlib, argparse or threading), and imports
`json` and `subprocess` only where they are needed.
"""

from __future__ import annotations

import errno
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
    from typing import Any

__all__ = ["Lines", "Message", "Relay", "Starter", "Target", "UnreachableError", "main", "survey"]

USAGE = """\
usage: codriver-relay <port | port-file> [host] [--start] [--workspace DIR] [--verbose]

Connects stdin and stdout to a Codriver server: a number is its port, anything else the file that holds it.
  --start          start a server for the workspace when none is running
  --workspace DIR  the workspace; without it, the one that the port file lies in. `auto` finds it: the folder that
                   CLAUDE_PROJECT_DIR names, else the nearest from the current one upward that has .calva/mcp-server,
                   codriver.toml, a project file or .git, else the client's first root that is such a folder, else its
                   first; once chosen, it stays. Never home, /, a folder for temporary files, one of another user or
                   to which others may write. A folder of the name is ./auto
  --verbose        say on stderr what happens to the connection
"""
CLIENT_IN, CLIENT_OUT, DIAGNOSTICS = 0, 1, 2
CAN_POLL = hasattr(select, "poll") and not os.environ.get("CODRIVER_RELAY_THREADS")
"""Whether pipes can be waited for. Where they cannot, as on Windows, a thread reads stdin, and one each writes."""
POLLIN, POLLOUT = getattr(select, "POLLIN", 1), getattr(select, "POLLOUT", 4)
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
STOPPED_FOR_GOOD = 5
"""The exit status of a started server that finds that its user wants none: no other one is coming."""
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
PLACE = (".calva", "mcp-server")
"""Where the port file of a workspace lies, below it. No link is followed there: it may have come with a checkout."""
CLIENTS_PATH = "PYTHONPATH_OF_CLIENT"
"""The variable with the PYTHONPATH that a client had, where a server was started with less of it."""
NOFOLLOW, CLOEXEC = getattr(os, "O_NOFOLLOW", 0), getattr(os, "O_CLOEXEC", 0)
FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | CLOEXEC
UNTOUCHED = NOFOLLOW | getattr(os, "O_NONBLOCK", 0) | CLOEXEC | getattr(os, "O_NOCTTY", 0)
"""To open a file without following a link, waiting for a pipe's other end, or taking a terminal."""
KIND, REGULAR, OTHERS = 0o170000, 0o100000, 0o077
"""The bits of a mode that say what a file is; a regular file; all that anybody but its user may. Source: inode(7)."""
TOKEN_LENGTH = 43
"""How long a token is that a server makes. Anything else is no token, but perhaps somebody's key."""
GONE = (-1, 0)
WORKSPACE_LINE = b'{"jsonrpc": "2.0", "method": "codriver/workspace", "params": {"workspace": "%s"}}\n'
LIST_CHANGED = b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n'
LIST_ID, LIST_KEY = "codriver-relay-list", b'"codriver-relay-list"'
LIST_QUESTION = b'{"jsonrpc":"2.0","id":%s,"method":"tools/list"}\n' % LIST_KEY
META = "io.modelcontextprotocol/"
"""How the names begin of what each request says in `_meta` of a client without a handshake. Source: MCP 2026-07-28."""
LEVEL_ID = "codriver-relay-level"
LEVEL_KEY = b'"codriver-relay-level"'
KEPT_BYTES = 1 << 20
"""What a server keeps of a workspace is a tenth of this."""
NOT_COMPARED = "_TOKEN"
"""The end of the names of variables of ours by which no list differs: they are secrets, and are written nowhere."""
ROOTS_S = 10.0
"""How long a client may take to name its roots. Some never answer; others ask their user first."""
ROOTS_KEY = b'"codriver-relay-roots"'
ROOTS_QUESTION = b'{"jsonrpc":"2.0","id":%s,"method":"roots/list"}\n' % ROOTS_KEY
MOST_ROOTS = 100
METHOD_NOT_FOUND = -32601
HANDSHAKE_VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""The protocol versions with a handshake, the newest first. Source: the Python SDK, HANDSHAKE_PROTOCOL_VERSIONS."""
GREETING = {
    "capabilities": {
        "completions": {},
        "logging": {},
        "prompts": {"listChanged": False},
        "resources": {"listChanged": True, "subscribe": True},
        "tools": {"listChanged": True},
    },
    "serverInfo": {"name": "codriver", "title": "Codriver", "version": "relay"},
    "instructions": "Codriver: live REPLs of this workspace, shared with the human and other agents. list_sessions "
    "names them; read skill://live-repl/SKILL.md first: how to work in one.",
}
"""What a client is told that is greeted before its workspace is known: what every server of ours can do."""
PROJECT_FILES = (
    "codriver.toml", "pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", "Pipfile", "deps.edn",
    "project.clj", "bb.edn", "shadow-cljs.edn", "nbb.edn", "squint.edn", "build.boot", "package.json",
)  # fmt: skip
"""Files that make a folder a workspace. Source: `codriver.repls.kinds`, project_marks."""
TEMPORARY = ("/tmp", "/var/tmp")  # noqa: S108 - compared, not written to
OTHERS_WRITE = 0o002


class UnreachableError(Exception):
    """An attempt to connect failed. Its text says why, without a full stop."""


class Message:
    """A line as the relay knows it. `id` is JSON text of the very value that came, `key` the same in one spelling.

    `parts`: the messages of a batch, which has no id and no method itself.
    """

    __slots__ = ("id", "is_response", "key", "line", "method", "parts")

    def __init__(
        self,
        line: bytes,
        method: bytes | None,
        id_: bytes | None,
        *,
        is_response: bool,
        parts: Sequence[Message] = (),
    ) -> None:
        self.line = line
        self.parts = parts
        self.method = method
        self.id = id_ if id_ and id_[0] in b'"-0123456789' else None
        self.key = self.id if self.id is None or is_plain(self.id) else respell(self.id)
        self.is_response = is_response and method is None

    @property
    def is_request(self) -> bool:
        """Whether the peer that sent it waits for an answer."""
        return (self.method is not None and self.id is not None) or any(part.is_request for part in self.parts)


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
    """The kind of message `line` is. It reads no further than it must; a line that is no object is only a line."""
    return walk(line) or parse(line)


def parse(line: bytes) -> Message:
    """The kind of message `line` is, by parsing all of it."""
    import json  # noqa: PLC0415 - see respell

    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, list):
        parts = [describe(json.dumps(item).encode(), item) for item in value]
        is_response = bool(parts) and all(part.is_response for part in parts)
        return Message(line, None, None, is_response=is_response, parts=parts)
    return describe(line, value)


def describe(line: bytes, value: object) -> Message:
    """The kind of message `line` is, whose JSON value is `value`."""
    import json  # noqa: PLC0415 - see respell

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
    """The kind of message `line` is, from its top-level members up to the one that decides.

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
    """The output to the client. A write never waits: what there is no room for is written by a thread, in order."""

    def __init__(self) -> None:
        self.room = room_of(CLIENT_OUT)
        self.lock = allocate_lock()
        self.ringing, self.button = socket_pair()
        self.bell = self.ringing.fileno()
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
            while data and self.room and self.room.poll(0):
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
                if room:
                    room.poll()  # the client's end may be one whose writes do not wait
                rest = rest[write_some(rest) :]
            with self.lock:
                data, self.waiting = b"".join(self.waiting), []
                self.is_busy = bool(data)
        self.button.send(b"!")

    def wait(self) -> None:
        """Return when all is written."""
        while self.is_busy:
            self.ringing.recv(READ_BYTES)


def room_of(fd: int) -> select.poll | None:
    """A poll that waits for room to write to `fd`; None where only a write can wait for it."""
    if not CAN_POLL:
        return None
    room = select.poll()
    room.register(fd, POLLOUT)
    return room


class Input:
    """The input from the client, at a descriptor that can be waited for: where stdin cannot, a thread passes it on."""

    def __init__(self) -> None:
        self.fd, self.passed = CLIENT_IN, None
        if not CAN_POLL:
            self.passed, other = socket_pair()
            self.fd = self.passed.fileno()
            start_new_thread(run_or_end, (lambda: pass_on(other),))

    def read(self) -> bytes | None:
        """The bytes that the client wrote; empty at its end, None when there is nothing after all."""
        return self.passed.recv(READ_BYTES) if self.passed else read_client()


def pass_on(other: socket.socket) -> None:
    """Send what comes from stdin, until its end; while that is not taken, nothing is read."""
    while (data := read_client()) != b"":
        if data is None:
            select.select([CLIENT_IN], [], [])
        else:
            other.sendall(data)
    other.shutdown(socket.SHUT_WR)


def socket_pair() -> tuple[socket.socket, socket.socket]:
    """Two sockets, each the other's end."""
    if hasattr(socket, "socketpair"):
        return socket.socketpair()
    from socket import socketpair  # noqa: PLC0415 - Windows has it in Python alone

    return socketpair()


class SocketPoll:
    """`select.poll` for sockets alone, by what every system has. Errors are not waited for."""

    def __init__(self) -> None:
        self.events: dict[int, int] = {}
        self.register, self.unregister = self.events.__setitem__, self.events.__delitem__

    def poll(self, wait_ms: float | None = None) -> list[tuple[int, int]]:
        """The descriptors that are ready, after waiting at most so long."""
        readers, writers = ([fd for fd, events in self.events.items() if events & kind] for kind in (POLLIN, POLLOUT))
        readers, writers, _ = select.select(readers, writers, [], None if wait_ms is None else wait_ms / 1000)
        return [(fd, POLLIN * (fd in readers) | POLLOUT * (fd in writers)) for fd in {*readers, *writers}]


def new_poll() -> select.poll:
    """A poll of what can be waited for."""
    return select.poll() if CAN_POLL else SocketPoll()  # type: ignore[return-value]  # as much of it as is used


def write_some(data: bytes | memoryview) -> int:
    """Write to the client; how much of it was written. Without a client there is nothing left to do."""
    try:
        return os.write(CLIENT_OUT, data)
    except BlockingIOError:
        return 0
    except OSError:
        os._exit(0)


def is_border(folder: str) -> bool:
    """Whether a folder is never a workspace that is found, nor any above it, as it is beyond the user's own ground.

    Such are the home folder, the root of all, those for temporary files, and those of other users or to which others
    may write.
    """
    given = (os.path.expanduser("~"), "/", *TEMPORARY, os.environ.get("TMPDIR") or "/")  # noqa: PTH111 - see Target
    try:
        status = os.stat(folder)  # noqa: PTH116 - see Target
    except (OSError, ValueError):
        return True
    is_others = hasattr(os, "geteuid") and status.st_uid != os.geteuid()
    if is_others or status.st_mode & OTHERS_WRITE:
        return True
    return os.path.realpath(folder) in {os.path.realpath(place) for place in given}


def is_workspace(folder: str) -> bool:
    """Whether a folder has, or had, a server, or has `codriver.toml`, a project file or `.git`."""
    join, is_file = os.path.join, os.path.isfile
    if os.path.isdir(join(folder, *PLACE)) or os.path.exists(join(folder, ".git")):  # noqa: PTH110, PTH112 - see Target
        return True
    return any(is_file(join(folder, name)) for name in PROJECT_FILES)


def find_workspace() -> str | None:
    """The workspace that the environment names, else the nearest from the current folder upward; None without any."""
    named = own_folder(os.environ.get("CLAUDE_PROJECT_DIR", ""))
    if named is not None:
        return named
    try:
        folder = os.getcwd()  # noqa: PTH109 - see Target
    except OSError:  # it was removed
        return None
    while not is_border(folder):
        if is_workspace(folder):
            return folder
        folder = os.path.dirname(folder)  # noqa: PTH120 - see Target
    return None


def own_folder(path: str) -> str | None:
    """The folder at an absolute path, links followed; None where there is none that may be a workspace."""
    if not path.startswith("/") or not os.path.isdir(path):  # noqa: PTH112 - see Target
        return None
    folder = os.path.realpath(path)
    return None if is_border(folder) else folder


class Target:
    """Where the server is: `given` is a port, or the file that holds it and is read anew at every attempt."""

    def __init__(self, given: str, host: str, *, starts: bool = False) -> None:
        self.starts = starts  # a server is started where none runs, which is told to the one that does
        self.port = int(given) if given.isdecimal() else None
        self.file = None if given.isdecimal() else os.path.abspath(given)  # noqa: PTH100 - pathlib costs milliseconds
        self.workspace = workspace_of(self.file)
        self.host = host
        self.met = ""  # the session of the server that it was connected to last
        self.tried = f"{host}:{self.port}" if self.port else f"the port that {self.file} names"

    def connect(self) -> socket.socket:
        """A connection to who is meant, over which nothing was sent yet but an introduction, where there is one.

        Raises:
            UnreachableError: it could not be made; `tried` then is the address that was tried.
        """
        if self.file is None:
            return self.reach(self.port or 0, None)
        folder = self.open_folder()
        try:
            return self.reach(self.read_port(folder), folder)
        finally:
            os.close(folder)

    def reach(self, port: int, folder: int | None) -> socket.socket:
        """A connection to one port, introduced; found in `folder` if that is given. Raises like `connect`."""
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
                        self.introduce(connection, port, folder)
                        connection.settimeout(None)
                        return connection
                    problem = "nobody listens there"
                except (UnreachableError, OSError) as error:
                    problem = str(error)
                connection.close()
        except (OSError, UnicodeError) as error:
            problem = f"the host {self.host!r} was not found: {error}"
        raise UnreachableError(problem)

    def open_folder(self) -> int:
        """A descriptor of the port file's folder. One in a workspace has to be this user's alone.

        Raises:
            UnreachableError: there is none whose word counts.
        """
        name = os.path.dirname(self.file or "")  # noqa: PTH120 - see __init__
        try:
            folder = open_below(self.workspace) if self.workspace else os.open(name, FOLDER)
        except OSError as error:
            raise UnreachableError(f"the port file cannot be read: {error.strerror}") from None
        status = os.fstat(folder)
        if self.workspace and (status.st_uid not in (os.geteuid(), 0) or status.st_mode & OTHERS):
            os.close(folder)
            raise UnreachableError(
                f"{name} counts for nothing, as others may enter it, or it is another user's; where it is your own, "
                "`codriver serve` makes it private"
            )
        return folder

    def read_port(self, folder: int) -> int:
        """The port that the file names now.

        Raises:
            UnreachableError: it names none.
        """
        try:
            text = read_file(folder, os.path.basename(self.file or "")).strip()  # noqa: PTH119 - see __init__
        except OSError as error:
            raise UnreachableError(f"the port file cannot be read: {error.strerror}") from None
        if not text.isdigit() or len(text) > len("65535") or not 0 < int(text) < 1 << 16:
            raise UnreachableError("the port file holds no port number")
        return int(text)

    def introduce(self, connection: socket.socket, port: int, folder: int | None) -> None:
        """Make sure who listens; then say which server of which workspace is meant, and show the token.

        A server that was killed leaves its port file, and its port may be another server's now, which has to hang up.
        What came from a file is nobody's word: the token goes to a port that was given by number, or to the process
        that holds the lock beside the file.

        Raises:
            UnreachableError: somebody else listens; nothing of the client's was sent.
        """
        is_server = is_listener_trusted(connection, folder)
        token = os.environ.get("CODRIVER_TOKEN", "") if is_server else ""
        session, ours = b"", ""
        if folder is not None:
            token = token or (read_token(folder) if is_server else "")
            session = session_of(read_beside(folder, "server.json"), port)
        if self.workspace:
            if not is_server:
                raise UnreachableError(
                    f"what listens on port {port} does not hold the lock of this workspace: it is another program, or "
                    "the server of another workspace; nothing was sent to it"
                )
            status = os.stat(self.workspace)  # noqa: PTH116 - see __init__
            ours = f"{status.st_dev}:{status.st_ino}"
        before, self.met = self.met, session.decode() or self.met
        given = {
            "token": token,
            "session": session.decode(),
            "before": before if before != self.met else "",
            "workspace": ours,
            "starts": "relay" if self.starts else "",
        }
        members = [f'"{name}": {quote(text)}' for name, text in given.items() if text]
        if members:
            line = f'{{"jsonrpc": "2.0", "method": "codriver/token", "params": {{{", ".join(members)}}}}}\n'
            connection.sendall(line.encode("utf-8", "replace"))
        if ours:
            hear_workspace(connection, ours.encode())


def hear_workspace(connection: socket.socket, ours: bytes) -> None:
    """Wait for the server's word on the workspace that it serves.

    Raises:
        UnreachableError: it is another one, or it hung up.
    """
    connection.settimeout(HANDSHAKE_S)
    said = b""
    while len(said) < RECORD_BYTES and not said.endswith(b"\n"):
        data = connection.recv(RECORD_BYTES)
        if not data:
            raise UnreachableError("it hung up when it was told the workspace: it is the server of another one")
        said += data
    if said != WORKSPACE_LINE % ours:
        raise UnreachableError("it does not say that it is the server of this workspace")


def quote(text: str) -> str:
    """`text` as JSON."""
    if text.replace("-", "").replace("_", "").replace(":", "").isalnum() and text.isascii():
        return f'"{text}"'
    import json  # noqa: PLC0415 - see respell

    return json.dumps(text)


def open_below(workspace: str) -> int:
    """A descriptor of the folder with the port file in a workspace, reached without a link."""
    folder = os.open(workspace, FOLDER)
    for name in PLACE:
        above = folder
        try:
            folder = os.open(name, FOLDER | NOFOLLOW, dir_fd=above)
        finally:
            os.close(above)
    return folder


def open_file(folder: int, name: str, flags: int = os.O_RDONLY) -> int:
    """A descriptor of this user's own regular file in a folder, made where `flags` say so.

    Raises:
        OSError: there is none, or it is something else.
    """
    try:  # asked before it is opened: to open some devices is to do something
        refuse_strange(os.stat(name, dir_fd=folder, follow_symlinks=False))
    except FileNotFoundError:
        if not flags & os.O_CREAT:
            raise
    file = os.open(name, flags | UNTOUCHED, 0o600, dir_fd=folder)
    try:
        refuse_strange(os.fstat(file))
    except OSError:
        os.close(file)
        raise
    return file


def refuse_strange(status: os.stat_result) -> None:
    """Raise OSError for what is no regular file, or not this user's own."""
    if status.st_mode & KIND != REGULAR:
        raise OSError(1, "it is a link, a pipe, a device or a folder, not a regular file")
    if status.st_uid not in (os.geteuid(), 0) or status.st_mode & 0o002 or status.st_nlink > 1:
        raise OSError(1, "it is another user's, or others may write to it, or it has another name by a hard link")


def read_file(folder: int, name: str, most: int = RECORD_BYTES) -> bytes:
    """The first bytes of such a file. Raises like `open_file`."""
    file = open_file(folder, name)
    try:
        return os.read(file, most)
    finally:
        os.close(file)


def envelope_of(line: bytes) -> dict[str, Any]:
    """The envelope of a request: all that each one has to say of a client without a handshake.

    Raises:
        LookupError, ValueError, TypeError: it does not say all of it, as in a handshake era.
    """
    import json  # noqa: PLC0415 - see respell

    meta = json.loads(line)["params"]["_meta"]
    return {META + name: meta[META + name] for name in ("protocolVersion", "clientInfo", "clientCapabilities")}


def read_kept(workspace: str, line: bytes, *, is_handshake: bool = True) -> dict[str, dict[str, object]] | None:
    """The kept greeting and list of tools of a workspace, for the client that says `line`: its `initialize`, or any.

    `greeting` and `tools` are the answers to `initialize`, or `server/discover`, and to `tools/list`. None where there
    is nothing, or anything has changed since: the Python, a file that settings or the version come from, a variable of
    ours. Source: `codriver.app.kept_lists`, which writes it.
    """
    import json  # noqa: PLC0415 - see respell

    try:
        about = json.loads(line)["params"] if is_handshake else envelope_of(line)
        prefix, shape = ("", "protocolVersion") if is_handshake else (META, "supportedVersions")
        name, version = about[prefix + "clientInfo"]["name"], about[prefix + "protocolVersion"]
        status = os.stat(workspace)  # noqa: PTH116 - see __init__
        folder = os.open(kept_folder(), FOLDER)
        try:
            if os.fstat(folder).st_uid != os.geteuid() or os.fstat(folder).st_mode & OTHERS:
                return None
            kept = json.loads(read_file(folder, f"{status.st_dev}-{status.st_ino}.json", KEPT_BYTES))
        finally:
            os.close(folder)
        named = {name: value for name, value in os.environ.items() if name.startswith("CODRIVER_")}
        ours = {name: value for name, value in named.items() if not name.endswith(NOT_COMPARED)}
        has_own_command = bool(ours.get("CODRIVER_SERVER_COMMAND"))
        is_same = kept["workspace"] == os.path.realpath(workspace) and kept["environment"] == ours
        if not is_same or not (has_own_command or kept["python"] == sys.executable):
            return None
        if any(stamp_of(path) != stamp for path, stamp in kept["files"].items()):
            return None
        for client in kept["clients"]:
            if (client["name"], client["protocol"]) == (name, version):
                found = {part: client[part] for part in ("greeting", "tools")}
                is_sound = all(isinstance(part, dict) for part in found.values()) and shape in found["greeting"]
                return found if is_sound else None
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None
    return None


def kept_folder() -> str:
    """Where servers keep lists, in the user's state folder. Source: `codriver.files.paths`, platformdirs."""
    mac = "~/Library/Application Support"
    given = os.environ.get("XDG_STATE_HOME", "")
    base = given if given.startswith("/") else mac if sys.platform == "darwin" else "~/.local/state"
    return os.path.join(os.path.expanduser(base), "codriver", "lists")  # noqa: PTH111, PTH118 - see Target


def stamp_of(path: str) -> list[int] | None:
    """When a file was written, how long it is and which one it is; None where there is none."""
    try:
        status = os.stat(path)  # noqa: PTH116 - see Target
    except OSError:
        return None
    return [status.st_mtime_ns, status.st_size, status.st_ino]


def read_beside(folder: int, name: str) -> bytes:
    """The first bytes of a file in a folder, as `read_file` reads it; empty when it cannot be had."""
    try:
        return read_file(folder, name)
    except OSError:
        return b""


def read_token(folder: int) -> str:
    """The token in a folder; empty where there is none, or no secret of this user's alone that looks like one."""
    text = read_beside(folder, "token").strip()
    if len(text) != TOKEN_LENGTH or not text.replace(b"-", b"").replace(b"_", b"").isalnum():
        return ""
    return "" if os.stat("token", dir_fd=folder, follow_symlinks=False).st_mode & OTHERS else text.decode()


def is_listener_trusted(connection: socket.socket, folder: int | None) -> bool:
    """Whether a token may be shown to who listens at the other end: the user named the port, or it holds the lock.

    Where no kernel tells who listens (it does on Linux), the lock has to be held by somebody.

    Raises:
        UnreachableError: another user listens; or nobody knows who, and the port was not given by number.
    """
    try:
        listener = listener_of(connection)
    except OSError:
        return folder is None or is_locked(folder)
    if listener is not None and listener[0] not in (os.geteuid(), 0):
        raise UnreachableError("it belongs to another user of this machine, so nothing was sent to it")
    if folder is None:
        return True
    if listener is None:
        raise UnreachableError(
            "the kernel knows nobody on this machine who listens there; to use it all the same, give its port by number"
        )
    return holds_lock(folder, listener[1])


def listener_of(connection: socket.socket) -> tuple[int, int] | None:
    """The user at the other end of a connection, and the inode of the socket that listened; None where it is elsewhere.

    The listener is asked for first: while the other end is not accepted yet, it has no user, and whoever listened
    before still does. Without an inode, no process has the socket any more.

    Raises:
        OSError: no kernel tells.
    """
    try:
        (there, port), (here, own) = [
            (plain(name[0]), name[1]) for name in (connection.getpeername(), connection.getsockname())
        ]
    except OSError:
        return GONE  # it has hung up already
    anywhere = bytes(len(there))
    listening = ask_kernel(there, port, anywhere, 0)
    other = ask_kernel(there, port, here, own)
    if other is None:
        return None
    if not other[1]:
        return listening or GONE
    return other[0], (listening or other)[1]


def plain(host: str) -> bytes:
    """An address as its bytes; one of IPv4 in the clothes of IPv6 as its own end has it."""
    host = host.partition("%")[0]
    host = host[7:] if host.startswith("::ffff:") and "." in host else host
    return socket.inet_pton(socket.AF_INET6 if ":" in host else socket.AF_INET, host)


def ask_kernel(there: bytes, port: int, here: bytes, own: int) -> tuple[int, int] | None:
    """User and inode of the socket with these two addresses, `own` 0 for who listens; None when there is none.

    Source: sock_diag(7), `struct inet_diag_req_v2` and `struct inet_diag_msg`.

    Raises:
        OSError: neither a socket nor a table of the kernel's tells.
    """
    if sys.platform != "linux":
        raise OSError(0, "only Linux tells who listens")
    family = socket.AF_INET if len(there) == 4 else socket.AF_INET6
    ends = port.to_bytes(2, "big") + own.to_bytes(2, "big") + there.ljust(16, b"\0") + here.ljust(16, b"\0")
    question = bytes([family, socket.IPPROTO_TCP, 0, 0]) + b"\xff" * 4 + ends + bytes(4) + b"\xff" * 8
    numbers = ((16 + len(question), 4), (20, 2), (1, 2), (1, 4), (0, 4))  # length, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST
    head = b"".join([number.to_bytes(size, sys.byteorder) for number, size in numbers])
    try:
        kernel = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 4)  # NETLINK_SOCK_DIAG
        try:
            kernel.settimeout(1)
            kernel.send(head + question)
            answer = kernel.recv(RECORD_BYTES)
        finally:
            kernel.close()
    except OSError:
        return look_up(there, port, here, own)
    kind, code = native(answer[4:6]), native(answer[16:20])
    if kind == 2 and code == (1 << 32) - 2:
        return None
    if kind != 20 or len(answer) < 88:
        return look_up(there, port, here, own)
    if own and answer[22:24] == b"\0\0":
        return None  # there is no such connection: it is who listens
    return native(answer[80:84]), native(answer[84:88])


def native(data: bytes) -> int:
    """A number as the kernel writes it."""
    return int.from_bytes(data, sys.byteorder)


def look_up(there: bytes, port: int, here: bytes, own: int) -> tuple[int, int] | None:
    """User and inode from the kernel's tables, where `ask_kernel` has no answer. Source: proc(5), /proc/net/tcp."""
    for name in ("tcp", "tcp6") if len(there) == 4 else ("tcp6",):
        mapped = bytes(10) + b"\xff\xff" if len(there) == 4 and name == "tcp6" else b""
        size = 16 if name == "tcp6" else 4
        wanted = [row_form(mapped + there, port), row_form(mapped + here if own else bytes(size), own)]
        try:
            with open(f"/proc/net/{name}", "rb") as table:  # noqa: PTH123 - see Target
                rows = [row.split() for row in table][1:]
        except FileNotFoundError:
            if name == "tcp":
                raise
            continue
        for row in rows:
            if row[1:3] == wanted or (not own and row[3] == b"0A" and row[1] == row_form(bytes(size), port)):
                return int(row[7]), int(row[9])
    return None


def row_form(address: bytes, port: int) -> bytes:
    """An address as the kernel's tables write it: hexadecimal, in the machine's byte order by 32-bit words."""
    words = [b"%08X" % native(address[start : start + 4]) for start in range(0, len(address), 4)]
    return b"".join(words) + b":%04X" % port


def holds_lock(folder: int, inode: int) -> bool:
    """Whether the process that has the socket `inode` holds the lock in a folder: it is the server of that workspace.

    The process is one that the kernel names for the lock, or the server's own files, and has both files open.
    Source: proc(5), /proc/locks: the 5th column is the process, the 6th ends with the file's inode.
    """
    try:
        lock = os.stat("lock", dir_fd=folder, follow_symlinks=False)
        with open("/proc/locks", "rb") as table:  # noqa: PTH123 - see Target
            rows = [row.split() for row in table]
    except OSError:
        return False
    found = [row[4] for row in rows if row[1] != b"->" and row[5].rpartition(b":")[2] == b"%d" % lock.st_ino]
    hint = value_of(read_beside(folder, "server.json"), b"pid")
    return any(has_both(process.decode(), lock, inode) for process in {*found, hint} if process.isdigit())


def has_both(process: str, lock: os.stat_result, inode: int) -> bool:
    """Whether a process has the socket, and the file with a lock on it."""
    has_socket = has_lock = False
    try:
        for name in os.listdir(f"/proc/{process}/fd"):  # noqa: PTH208 - see Target
            file = f"/proc/{process}/fd/{name}"
            try:
                has_socket = has_socket or os.readlink(file) == f"socket:[{inode}]"  # noqa: PTH115 - see Target
                if not has_lock and os.path.samestat(os.stat(file), lock):  # noqa: PTH116 - see Target
                    with open(f"/proc/{process}/fdinfo/{name}", "rb") as about:  # noqa: PTH123 - see Target
                        has_lock = b"FLOCK" in about.read()
            except OSError:
                continue  # closed meanwhile
    except OSError:
        return False  # it has ended, or is another user's
    return has_socket and has_lock


def is_locked(folder: int) -> bool:
    """Whether somebody holds the lock in a folder. To know, it is taken for a moment."""
    try:
        import fcntl  # noqa: PLC0415 - only where the kernel does not tell who listens
    except ImportError:
        return True  # as where the file system knows no locks
    try:
        lock = open_file(folder, "lock", os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True  # it is held, or the file system knows no locks
    finally:
        os.close(lock)
    return False


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
        self.log: int | None = None
        """What the server says, in `serve.log`."""
        self.reset()

    @property
    def is_starting(self) -> bool:
        """Whether a server was started in this round, and nothing is known of a failure."""
        return self.process is not None and self.failure is None

    def reset(self) -> None:
        """Begin a round of attempts, in which a server may be started again."""
        if self.log is not None:
            os.close(self.log)
        self.log = None
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
        # With -P it takes no module from the workspace, which is where it runs.
        own = [sys.executable, "-P", "-m", "codriver"]
        command = shlex.split(os.environ.get("CODRIVER_SERVER_COMMAND", "")) or own
        try:
            self.log = self.open_log()
            self.log_start = os.fstat(self.log).st_size
        except OSError as error:
            place = "/".join((self.workspace, *PLACE))
            cure = "make room" if error.errno == errno.ENOSPC else "make the folder one of yours that can be written"
            problem = f"serve.log in {place} could not be opened: {error.strerror}"
            self.fail(f"{problem}; {cure}, or choose another workspace", is_final=True)
            return
        try:
            self.process = subprocess.Popen(  # noqa: S603 - the command is the user's own
                [*command, *self.arguments],
                cwd=self.workspace,
                stdin=subprocess.DEVNULL,
                stdout=self.log,
                stderr=self.log,
                start_new_session=True,
                env=server_environment(self.workspace),
            )
        except OSError as error:
            self.fail(f"{command[0]} could not be started: {error}")

    def open_log(self) -> int:
        """A descriptor of the server's log, in a folder that is made private; nothing there is followed or waited for.

        Raises:
            OSError: it is something else, or cannot be written.
        """
        folder = os.open(self.workspace, FOLDER)
        for name in PLACE:
            above = folder
            try:
                if not has_name(above, name):
                    os.mkdir(name, dir_fd=above)
                folder = os.open(name, FOLDER | NOFOLLOW, dir_fd=above)
            finally:
                os.close(above)
        try:
            if os.fstat(folder).st_uid != os.geteuid():
                raise OSError(1, "the folder is another user's")
            if os.fstat(folder).st_mode & 0o077 and not is_locked(folder):
                remove_server_files(folder)
            os.fchmod(folder, 0o700)
            return open_file(folder, "serve.log", os.O_RDWR | os.O_APPEND | os.O_CREAT)
        finally:
            os.close(folder)

    def why_silent(self) -> str:
        """The likely reason why a server ended and left no words in its log."""
        room = getattr(os, "fstatvfs", None)
        if self.log is not None and room is not None and not room(self.log).f_bavail:
            return f"its words had no place, as the disk of {self.workspace} is full: make room there"
        return "it said nothing"

    def fail(self, failure: str, *, is_final: bool = False) -> None:
        """Note why there will be no server. Unless that is final, one that was just starting may still come."""
        self.failure, self.failed_at = failure, float("-inf") if is_final else time.monotonic()

    @property
    def has_failed(self) -> bool:
        """Whether the start failed, and so long ago that no other server can be expected either."""
        return self.failure is not None and time.monotonic() - self.failed_at > START_GRACE_S

    def check_process(self) -> None:
        """Note it if the started process failed. It ends well once the server, another one, can be reached."""
        if self.failure is None and self.process is not None and self.log is not None and self.process.poll():
            start = max(self.log_start, os.fstat(self.log).st_size - 1000)
            tail = os.pread(self.log, 1000, start).decode("utf-8", "replace").strip() or self.why_silent()
            is_final = (status := self.process.returncode) == STOPPED_FOR_GOOD
            ended = "" if is_final else f"the server that the relay started ended with status {status}: "
            self.fail(ended + tail, is_final=is_final)


def server_environment(workspace: str) -> dict[str, str]:
    """The environment for a server, whose Python is to run nothing of the workspace as it starts.

    PYTHONPATH loses its empty and relative entries, and those in the workspace or in its main checkout: each could hold
    a `sitecustomize`. What it was stands in `CLIENTS_PATH`, for the REPLs of a workspace that its user has accepted.
    """
    environ = dict(os.environ)
    given = environ.get("PYTHONPATH")
    if given is None:
        return environ
    inside = [os.path.realpath(folder) for folder in (workspace, main_checkout(workspace)) if folder]

    def is_outside(entry: str) -> bool:
        real = os.path.realpath(entry)
        return all(os.path.commonpath((folder, real)) != folder for folder in inside)

    kept = os.pathsep.join([entry for entry in given.split(os.pathsep) if os.path.isabs(entry) and is_outside(entry)])  # noqa: PTH117 - see __init__
    if kept != given:
        environ[CLIENTS_PATH] = given
        environ["PYTHONPATH"] = kept
        if not kept:
            del environ["PYTHONPATH"]  # one that is empty names the current folder
    return environ


def main_checkout(workspace: str) -> str:
    """The folder that a linked working tree says to be its main checkout; empty for any other folder."""
    try:
        folder = os.open(workspace, FOLDER)
        try:
            pointer = read_file(folder, ".git").decode().strip()
        finally:
            os.close(folder)
    except (OSError, ValueError):
        return ""
    own = os.path.normpath(os.path.join(workspace, pointer.removeprefix("gitdir:").strip()))  # noqa: PTH118 - see __init__
    return own.partition(os.path.join("", ".git", "worktrees", ""))[0].rstrip("/") if "worktrees" in own else ""  # noqa: PTH118 - see __init__


def remove_server_files(folder: int) -> None:
    """Remove a server's files from a folder that others could write to: made private, they would count."""
    for name in ("port", "server.json", "token"):
        try:  # noqa: SIM105 - contextlib costs the start
            os.unlink(name, dir_fd=folder)
        except (FileNotFoundError, IsADirectoryError, PermissionError):
            pass  # a folder of that name counts for nothing; macOS calls that a lack of permission


def has_name(folder: int, name: str) -> bool:
    """Whether something in a folder has the name."""
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def encode(**members: object) -> bytes:
    """A JSON-RPC message of ours as a line."""
    import json  # noqa: PLC0415 - see respell

    return json.dumps({"jsonrpc": "2.0", **members}).encode() + b"\n"


def encode_error(request: Message, message: str, reason: str) -> bytes:
    """The answer to `request` that says why there is none."""
    return encode_answer(request, error={"code": CONNECTION_CLOSED, "message": message, "data": {"reason": reason}})


def encode_answer(request: Message, **members: object) -> bytes:
    """The answer to `request` with these members."""
    line = encode(id=0, **members)
    return line.replace(b'"id": 0', b'"id": ' + (request.id or b"null"), 1)


def workspace_of_roots(answer: bytes) -> str | None:
    """The workspace of a client that answers `roots/list`: its first root that is one by its files, else its first.

    Roots bound where a server may work, so nothing above them is looked at. None where no root is a folder that may be
    a workspace.
    """
    import json  # noqa: PLC0415 - see respell

    try:
        roots = json.loads(answer)["result"]["roots"][:MOST_ROOTS]
        folders = [own_folder(path_of(root["uri"])) for root in roots]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None
    own = [folder for folder in folders if folder is not None]
    return next(filter(is_workspace, own), own[0] if own else None)


def path_of(uri: str) -> str:
    """The path that a `file:` URI of this machine names; empty for any other."""
    from urllib.parse import unquote, urlsplit  # noqa: PLC0415 - only where a client is asked for its roots

    try:
        parts = urlsplit(uri)
    except ValueError:
        return ""
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        return ""
    path = unquote(parts.path, errors="surrogateescape")
    return "" if "\0" in path else path


class RootsTalk:
    """The talk with a client before its workspace is known, until one of its roots is chosen.

    The client is greeted in the server's place, asked for its roots, and its requests wait. A client that names none,
    or does not answer in time, gets errors instead; what it answers later, or after its roots changed, still counts.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self.say = say
        self.input, self.output = Input(), Output()
        self.lines = Lines()
        self.has_ended = False
        self.handshake: Message | None = None
        self.initialized: Message | None = None
        self.waiting: list[Message] = []
        """What the server gets as soon as there is one."""
        self.waiting_bytes = 0
        self.deadline: float | None = None
        """Until when the client may answer the question for its roots; None while it is not asked."""
        self.failure = ""
        """Why no workspace is known, from when that is certain."""
        self.workspace: str | None = None

    def run(self) -> str | None:
        """The workspace; None when stdin ended before one was known."""
        while self.workspace is None and not self.has_ended:
            self.take_turn()
        if self.workspace is None:
            self.fail("stdin ended before the client named its roots")
            self.output.wait()
        return self.workspace

    def take_turn(self) -> None:
        """Wait until the client says something or its time is over."""
        poll = new_poll()
        poll.register(CLIENT_OUT, 0)
        poll.register(self.output.bell, POLLIN)
        if not self.output.is_busy:
            poll.register(self.input.fd, POLLIN)
        left = None if self.deadline is None else max(0.0, self.deadline - time.monotonic()) * 1000
        for fd, _ in poll.poll(left):
            if fd == CLIENT_OUT:
                os._exit(0)
            elif fd == self.input.fd:
                self.hear_client()
            else:
                self.output.ringing.recv(READ_BYTES)
        if self.deadline is not None and self.workspace is None:
            if time.monotonic() >= self.deadline:
                self.fail(f"the client did not answer roots/list within {ROOTS_S:g} s")
            elif self.waiting_bytes > BACKLOG_BYTES:
                self.fail("the client says too much and does not answer roots/list")

    def hear_client(self) -> None:
        """Take what the client wrote."""
        data = self.input.read()
        if data is None:
            return
        self.has_ended = not data
        lines = self.lines.feed(data) if data else [b"".join(self.lines.rest) + b"\n"] if self.lines.rest else []
        for line in lines:
            message = survey(line)
            if self.workspace is None:
                self.take(message)
            else:
                self.keep(message)

    def take(self, message: Message) -> None:
        """Take a message while no workspace is known."""
        if message.method == b"initialize" and message.is_request:
            self.greet(message)
        elif message.method == b"ping" and message.is_request:
            self.output.write(encode_answer(message, result={}))
        elif message.is_response:
            if message.key == ROOTS_KEY:
                self.hear_roots(message.line)
        elif message.method == b"notifications/roots/list_changed":
            self.ask()
        elif self.handshake is None or (self.failure and message.method != b"notifications/initialized"):
            self.refuse(message)
        else:
            if message.method == b"notifications/initialized":
                self.initialized = message
            elif message.method == b"notifications/cancelled":
                cancelled = cancelled_key(message.line)
                self.waiting = [other for other in self.waiting if other.key is None or other.key != cancelled]
            else:
                self.keep(message)
            if self.deadline is None and not self.failure:
                self.ask()

    def keep(self, message: Message) -> None:
        """Let a message wait for the server."""
        self.waiting.append(message)
        self.waiting_bytes += len(message.line) + MESSAGE_BYTES

    def greet(self, request: Message) -> None:
        """Answer `initialize` in the server's place, if the client has roots that it can be asked for."""
        import json  # noqa: PLC0415 - see respell

        try:
            params = json.loads(request.line)["params"]
            wanted, has_roots = params["protocolVersion"], isinstance(params["capabilities"].get("roots"), dict)
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            wanted, has_roots = "", False
        if not has_roots:
            self.refuse(request, "the client has no roots that it could be asked for")
            return
        version = wanted if wanted in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[0]
        self.handshake, self.initialized, self.failure = request, None, ""
        self.output.write(encode_answer(request, result={"protocolVersion": version, **GREETING}))

    def ask(self) -> None:
        """Ask the client for its roots."""
        if self.handshake is not None:
            self.deadline, self.failure = time.monotonic() + ROOTS_S, ""
            self.output.write(ROOTS_QUESTION)

    def hear_roots(self, line: bytes) -> None:
        """Take the client's answer."""
        self.workspace = workspace_of_roots(line)
        if self.workspace is None:
            self.fail("no root that the client names is a folder of this user that may be one")
        else:
            self.say(f"the workspace is {self.workspace}, a root of the client")

    def fail(self, why: str) -> None:
        """Answer all that waits for the workspace."""
        self.deadline, self.failure = None, why
        waiting, self.waiting, self.waiting_bytes = self.waiting, [], 0
        report(no_workspace(why))
        for message in waiting:
            self.refuse(message)

    def refuse(self, message: Message, why: str = "") -> None:
        """Answer each request of a message by what would let it be carried out.

        A client that asks `server/discover` first makes a handshake when it hears that there is no such method.
        """
        why = why or self.failure or "a client is asked for its roots only in a handshake"
        for request in message.parts or (message,):
            if request.method == b"server/discover":
                error = {"code": METHOD_NOT_FOUND, "message": f"Method not found: {no_workspace(why)}"}
                self.output.write(encode_answer(request, error=error))
            elif request.is_request:
                self.output.write(encode_error(request, no_workspace(why), "no-workspace"))


def no_workspace(why: str) -> str:
    """The sentence that says why no workspace is known, and what to do."""
    return (
        "codriver-relay --workspace auto found no workspace: CLAUDE_PROJECT_DIR names none, neither the current folder "
        "nor one above it has .calva/mcp-server, codriver.toml, a project file or .git (home, folders for temporary "
        f"files and those of others do not count), and {why}. This request was not carried out. Give the folder in the "
        "client's entry: --workspace DIR"
    )


def read_client() -> bytes | None:
    """The bytes that the client wrote; empty at its end, None when there is nothing after all."""
    try:
        return os.read(CLIENT_IN, READ_BYTES)
    except BlockingIOError:  # somebody else reads it too
        return None
    except OSError:  # a terminal that was hung up
        return b""


class Relay:
    """One client's way to the server, for the life of the process. `talk`: what was said before it was known which."""

    def __init__(
        self,
        target: Target,
        starter: Starter | None,
        *,
        give_up_s: float,
        say: Callable[[str], None],
        talk: RootsTalk | None = None,
    ) -> None:
        self.target = target
        self.starter = starter
        self.give_up_s = give_up_s
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
            if time.monotonic() - self.round_start >= self.give_up_s or (self.starter and self.starter.has_failed):
                self.give_up(problem, self.round_start)
                if self.has_ended:
                    return 1
                self.wait_for_request()
            else:
                self.pause(RETRY_S)
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
        import json  # noqa: PLC0415 - see respell

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
        import json  # noqa: PLC0415 - see respell

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
        for message in [part for line in waiting for part in line.parts or (line,)]:
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


def shut_down_sending(connection: socket.socket) -> None:
    """Tell the server that nothing more comes."""
    try:
        connection.shutdown(socket.SHUT_WR)
    except OSError:
        return


def workspace_of(port_file: str | None) -> str | None:
    """The workspace of a port file at `<workspace>/.calva/mcp-server/port`; None for any other."""
    if port_file is None:
        return None
    place, _, name = port_file.rpartition(f"/{'/'.join(PLACE)}/")
    return place if place and name and "/" not in name else None


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the relay; the exit status. Given `arguments` are those behind the command's name."""
    open_streams()
    words: list[str] = []
    flags: set[str] = set()
    given: str | None = None
    rest = list(sys.argv[1:] if arguments is None else arguments)
    while rest:
        word = rest.pop(0)
        if word == "--workspace" and rest:
            given = rest.pop(0)
        elif word in ("--start", "--verbose", "--help", "-h"):
            flags.add(word)
        elif word.startswith("-"):
            return refuse(f"unknown option, or one without its value: {word}")
        else:
            words.append(word)
    if flags & {"--help", "-h"}:
        os.write(CLIENT_OUT, USAGE.encode())
        return 0
    problem = fault_of(words, given)
    if problem:
        return refuse(problem)
    say = report if "--verbose" in flags else ignore
    workspace, talk = resolve(given, say)
    if talk and workspace is None:
        os._exit(1)
    if not words and workspace:
        words = [os.path.join(workspace, *PLACE, "port")]  # noqa: PTH118 - see Target
    target = Target(words[0], words[1] if len(words) > 1 else "127.0.0.1", starts="--start" in flags)
    workspace = workspace or workspace_of(target.file)
    if "--start" in flags and workspace is None:
        return refuse("--start needs --workspace, as the port file lies in no workspace")
    starter = Starter(workspace, target.port) if "--start" in flags and workspace else None
    give_up_s = float(os.environ.get("CODRIVER_RELAY_GIVE_UP_S", GIVE_UP_S))
    relay = Relay(target, starter, give_up_s=give_up_s, say=say, talk=talk)
    try:
        status = relay.run()
    except KeyboardInterrupt:
        status = 130
    os._exit(status)  # a thread may still be writing to a client that does not read


def fault_of(words: Sequence[str], workspace: str | None) -> str:
    """Why the relay cannot run with these words and this value of `--workspace`; empty when it can."""
    if len(words) > 2 or not (words or workspace):
        return "give the server's port or port file, and at most a host"
    if words and words[0].isdecimal() and not 0 < int(words[0]) < 1 << 16:
        return f"a port is a number from 1 to 65535, not {words[0]}"
    try:
        float(os.environ.get("CODRIVER_RELAY_GIVE_UP_S", GIVE_UP_S))
    except ValueError:
        return "CODRIVER_RELAY_GIVE_UP_S is no number of seconds"
    return ""


def resolve(given: str | None, say: Callable[[str], None]) -> tuple[str | None, RootsTalk | None]:
    """The workspace that `--workspace` gives, and the talk with the client that it took to find it.

    A variable that the client left as text, such as `${CLAUDE_PROJECT_DIR}`, is as good as `auto`.
    """
    if given is None:
        return None, None
    if given != "auto" and not given.startswith("${"):
        return os.path.abspath(given), None  # noqa: PTH100 - see Target
    workspace = find_workspace()
    if workspace is not None:
        say(f"the workspace is {workspace}")
        return workspace, None
    talk = RootsTalk(say)
    try:
        return talk.run(), talk
    except KeyboardInterrupt:
        os._exit(130)


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
    os.write(DIAGNOSTICS, f"codriver-relay: {problem}\n{USAGE}".encode("utf-8", "replace"))
    return 2


def report(text: str) -> None:
    """Say it on stderr, if anybody listens: what is only said must hold up nothing."""
    line, room = f"codriver-relay: {text}\n".encode("utf-8", "replace"), room_of(DIAGNOSTICS)
    try:
        if room is None:
            start_new_thread(os.write, (DIAGNOSTICS, line))
        elif room.poll(0):
            os.write(DIAGNOSTICS, line)
    except OSError:
        return


def ignore(_text: str) -> None:
    """Say nothing: a client shows what its servers write to stderr as if it were an error."""


if __name__ == "__main__":
    sys.exit(main())
