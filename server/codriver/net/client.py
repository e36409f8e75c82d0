"""A small MCP client for one-shot commands: the standard library alone, so that a command starts in no time.

It speaks the 2025-11-25 handshake, one JSON-RPC message a line, and waits for each answer.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

from codriver.errors import CodriverError, StartError
from codriver.files.own_folders import server_folder
from codriver.net import server_record
from codriver.net.kernel_sockets import KernelSilentError

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from codriver.net.server_record import ServerRecord

PROTOCOL = "2025-11-25"
NOTHING: Mapping[str, str] = MappingProxyType({})
HEALTH_S = 5.0
START_S = 30.0
WRONG_REQUEST = frozenset({-32700, -32600, -32602})
"""The error codes for a fault of the caller. Source: JSON-RPC 2.0, error object."""
LOG_TAIL = 600
"""The characters that are shown of a server's log when it did not start."""


class NoServerError(StartError):
    """No server answers for the workspace."""

    exit_status = 3
    why = ""
    """The reason alone, for callers with advice of their own."""

    def __init__(self, workspace: Path, why: str) -> None:
        super().__init__(
            f"no codriver server runs for {workspace}: {why}; start one with `codriver serve` "
            "(eval, load, call and tools do so themselves with --start)"
        )
        self.why = why


class ServerFailedError(NoServerError):
    """A server was started, and ended before anybody could reach it."""

    def __init__(self, workspace: Path, log: Path, status: int) -> None:
        words = server_record.log_tail(log.parent)[-LOG_TAIL:] or why_silent(log)
        StartError.__init__(
            self,
            f"the server that was started for {workspace} ended with status {status}: "
            f"{words} (its output is in {log}); `codriver doctor` looks for the cause",
        )


def why_silent(log: Path) -> str:
    """The likely reason why a server ended and left no words in its log."""
    if hasattr(os, "statvfs") and log.parent.is_dir() and not os.statvfs(log.parent).f_bavail:
        return "its words had no place, as the disk of the workspace is full: make room there"
    return "it said nothing"


class CannotStartError(NoServerError):
    """Not even the process of a server could be started."""

    def __init__(self, workspace: Path, error: OSError) -> None:
        StartError.__init__(
            self,
            f"no server could be started for {workspace}: {error.filename}: {error.strerror}; "
            "make the folder writable, or choose another --workspace",
        )


class ServerGoneError(CodriverError):
    """The server closed the connection before it answered."""

    def __init__(self) -> None:
        super().__init__("the server closed the connection before it answered: see `codriver status`")


class CallError(CodriverError):
    """The server answered a request with an error. `is_refusal`: the error puts the fault on the request."""

    def __init__(self, method: str, error: dict[str, Any]) -> None:
        super().__init__(f"{method}: {error.get('message', error)}")
        code = error.get("code")
        self.is_refusal = isinstance(code, int) and code in WRONG_REQUEST


class NoMessageError(CodriverError):
    """The server sent a line that is no message."""

    def __init__(self) -> None:
        super().__init__(
            "the server sent a line that is no JSON-RPC message: another program answers there; see `codriver doctor`"
        )


class StrangeServerError(CodriverError):
    """The server says that it serves another workspace."""

    def __init__(self) -> None:
        super().__init__("it is the server of another workspace")


class Connection:
    """One connection to a server, for a few requests. A context manager. Making it sends nothing."""

    def __init__(self, host: str, port: int, *, timeout_s: float | None = None) -> None:
        # `create_connection` looks names up, and loads the tables of international names; this is an address.
        self.socket = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        self.socket.settimeout(HEALTH_S)
        try:
            self.socket.connect((host, port))
        except BaseException:
            self.socket.close()
            raise
        # Without this, a second small message waits some 40 ms for the acknowledgement of the first.
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.settimeout(timeout_s)
        self._file = self.socket.makefile("rb")
        self._requests = 0
        self.session: str | None = None
        """The id of the server, from its verified record; None without a record."""
        self.on_notification: Callable[[dict[str, Any]], None] = _ignore

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._file.close()
        self.socket.close()

    def wait_as_long_as_it_takes(self) -> None:
        """Let answers take any time from now on: evaluations have bounds of their own."""
        self.socket.settimeout(None)

    def introduce(
        self, workspace: Path, *, token: str | None, session: str | None, others: Mapping[str, str] = NOTHING
    ) -> None:
        """Show the token, and name the server and the workspace: any other server hangs up, and so do we.

        `others`: what else the introduction has, if this conversation is about one request only.

        Raises:
            StrangeServerError: the server is another workspace's.
            ServerGoneError: the server hung up.
        """
        status = workspace.stat()
        ours = f"{status.st_dev}:{status.st_ino}"
        given = {"token": token, "session": session, "workspace": ours}
        shown = {name: value for name, value in given.items() if value}
        self.notify(server_record.INTRODUCTION, {**shown, **others})
        answer = next(self.messages(), None)
        if answer is None:
            raise ServerGoneError
        if answer.get("method") != server_record.WORKSPACE or answer.get("params") != {"workspace": ours}:
            raise StrangeServerError
        self.session = session

    def initialize(self, name: str = "codriver-cli") -> dict[str, Any]:
        """Make the handshake; the server's description of itself."""
        client = {"name": name, "version": "0"}
        about = self.request("initialize", {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": client})
        self.notify("notifications/initialized", {})
        return about

    def notify(self, method: str, params: dict[str, Any]) -> None:
        """Send a notification."""
        self._send({"jsonrpc": "2.0", "method": method, "params": params})

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send a request and wait for its result; notifications meanwhile go to `on_notification`.

        Raises:
            CallError: the answer is an error.
            NoMessageError, ServerGoneError: no answer came.
        """
        self._requests += 1
        self._send({"jsonrpc": "2.0", "id": self._requests, "method": method, "params": params})
        for message in self.messages():
            if message.get("id") == self._requests and "method" not in message:
                if "error" in message:
                    error = message["error"]
                    raise CallError(method, error if isinstance(error, dict) else {"message": error})
                result = message.get("result")
                return result if isinstance(result, dict) else {}
            self.on_notification(message)
        raise ServerGoneError

    def call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Call a tool; its answer. Raises like `request`."""
        return self.call_with_images(tool, arguments)[0]

    def call_with_images(self, tool: str, arguments: dict[str, Any]) -> tuple[dict[str, Any], list[tuple[str, str]]]:
        """Call a tool; its answer and the pictures beside it, as kinds and base64. Raises like `request`."""
        params = {"name": tool, "arguments": arguments, "_meta": {"progressToken": "p"}}
        answer = self.request("tools/call", params)
        content, parts = answer.get("structuredContent"), answer.get("content")
        shown = [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
        images = [(str(p.get("mimeType")), str(p.get("data"))) for p in shown if p.get("type") == "image"]
        return content if isinstance(content, dict) else {}, images

    def messages(self) -> Iterator[dict[str, Any]]:
        """Messages as they come, until the connection ends.

        Raises:
            NoMessageError: something else came.
            ServerGoneError: the connection broke.
        """
        while line := self._line():
            try:
                message = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise NoMessageError from error
            if isinstance(message, dict):
                yield message

    def _line(self) -> bytes:
        try:
            return self._file.readline()
        except ConnectionError as error:
            raise ServerGoneError from error

    def _send(self, message: dict[str, Any]) -> None:
        try:
            self.socket.sendall(json.dumps(message).encode() + b"\n")
        except ConnectionError as error:
            raise ServerGoneError from error


def connect(workspace: Path, *, start: bool = False, name: str = "codriver-cli", is_asked: bool = True) -> Connection:
    """A connection to the server of a workspace, the handshake made. With `start`, a missing server is started.

    `is_asked`: the user asks for the start here and now, so that even a server stopped for good is started.

    Raises:
        NoServerError: no server runs, or the started one does not come up.
    """
    folder = server_folder(workspace)
    try:
        return _connect(workspace, folder, name)
    except NoServerError:
        if not start:
            raise
    if is_asked:
        from codriver.net.registration import allow_start  # noqa: PLC0415  # most commands find a server

        allow_start(workspace)
    try:
        process = start_server(workspace)
    except OSError as error:
        raise CannotStartError(workspace, error) from error
    deadline = time.monotonic() + START_S
    while True:
        try:
            return _connect(workspace, folder, name)
        except NoServerError:
            status = process.poll()
            if status == server_record.STOPPED_FOR_GOOD:
                raise NoServerError(workspace, "it was stopped for good, by `codriver stop --for-good`") from None
            if status:
                raise ServerFailedError(workspace, folder / "serve.log", status) from None
            if time.monotonic() > deadline:
                raise
        time.sleep(0.05)


def _connect(workspace: Path, folder: Path, name: str) -> Connection:
    port = _read_port(workspace, folder)
    there = f"port {port}, which its port file names"
    try:
        connection = _reach(workspace, folder, port)
        try:
            connection.initialize(name)
        except BaseException:
            connection.close()
            raise
        connection.wait_as_long_as_it_takes()
    except (server_record.NotTheServerError, StrangeServerError) as error:
        raise NoServerError(workspace, f"what listens on {there}, is not its server: {error}") from error
    except TimeoutError as error:
        why = f"what listens on {there}, does not answer within {HEALTH_S:g} s; `codriver doctor` says how to end it"
        raise NoServerError(workspace, why) from error
    except NoMessageError as error:
        raise NoServerError(workspace, f"what answers on {there}, is no codriver") from error
    except ServerGoneError as error:
        why = f"what listens on {there}, hung up: it is another program, or the server of another workspace"
        raise NoServerError(workspace, why) from error
    except (OSError, ValueError) as error:
        cause = getattr(error, "strerror", None) or error
        raise NoServerError(workspace, f"nothing answers on {there} ({cause})") from error
    return connection


def _reach(workspace: Path, folder: Path, port: int, others: Mapping[str, str] = NOTHING) -> Connection:
    """Return a verified connection to the server of a workspace, with the introduction made: see `introduce`.

    Raises:
        NotTheServerError: somebody else listens there. Nothing was sent.
        StrangeServerError, ServerGoneError, OSError, ValueError: the connection failed.
    """
    claimed = server_record.read_record(folder)
    is_its = claimed is not None and claimed.port == port
    connection = Connection(server_record.host_of(claimed if is_its else None), port, timeout_s=HEALTH_S)
    try:
        server_record.verify(connection.socket, folder)
        token = os.environ.get("CODRIVER_TOKEN") or server_record.read_token(folder)
        session = claimed.session_id if claimed and is_its else None
        connection.introduce(workspace, token=token, session=session, others=others)
    except BaseException:
        connection.close()
        raise
    return connection


def _read_port(workspace: Path, folder: Path) -> int:
    """The port that the port file holds.

    Raises:
        NoServerError: the file holds no port.
    """
    try:
        return server_record.read_port(folder)
    except FileNotFoundError:
        raise NoServerError(workspace, f"there is no port file in {folder}") from None
    except OSError as error:
        why = f"{error.filename or folder / 'port'} counts for nothing: {error.strerror}"
        raise NoServerError(workspace, why) from error
    except ValueError:
        raise NoServerError(workspace, f"its port file {folder / 'port'} holds no port") from None


def start_server(workspace: Path, *options: str) -> subprocess.Popen[bytes]:
    """Start a server that outlives this command and ends by itself once nobody needs it."""
    from codriver_relay.starter import server_environment, start_detached  # noqa: PLC0415  # no other call needs it

    folder = server_folder(workspace)
    command = [sys.executable, "-P", "-m", "codriver", "serve", "--workspace", str(workspace)]
    with os.fdopen(server_record.open_log(folder, truncate=True), "wb") as log:
        environ = server_environment(str(workspace))
        return start_detached([*command, "--on-demand", *options], None, log.fileno(), environ)


def ask_to_stop(workspace: Path, claimed: ServerRecord) -> None:
    """Ask the server named by `claimed` to stop, on systems without signals.

    Raises:
        CodriverError, OSError, ValueError: the server cannot be reached.
    """
    _reach(workspace, server_folder(workspace), claimed.port, {"stop": "yes"}).close()


def send_request(workspace: Path, name: str, detail: str = "") -> dict[str, Any]:
    """Make one request to the server of a workspace instead of speaking MCP, and return the answer.

    Raises:
        NoServerError: no server runs.
        ServerGoneError: the server has no answer to such a request.
        CodriverError, OSError, ValueError: the server cannot be reached.
    """
    connect(workspace).close()  # its errors are written for people
    folder = server_folder(workspace)
    others = {"request": name, "detail": detail}
    with _reach(workspace, folder, _read_port(workspace, folder), others) as connection:
        for message in connection.messages():
            answer = message.get("params")
            if message.get("method") == server_record.ANSWER and isinstance(answer, dict):
                return answer
    raise ServerGoneError


def process_of(workspace: Path, claimed: ServerRecord) -> int | None:
    """The process of the server named by `claimed`, if that serves the workspace; None otherwise.

    The kernel tells the process; on other systems the server is asked, and has to answer.
    """
    folder = server_folder(workspace)
    try:
        return server_record.process_of(claimed, folder) or _ask_process(workspace, folder, claimed)
    except server_record.NotTheServerError:
        return None
    except KernelSilentError:
        return _ask_process(workspace, folder, claimed)


def _ask_process(workspace: Path, folder: Path, claimed: ServerRecord) -> int | None:
    try:
        with _reach(workspace, folder, claimed.port) as connection:
            connection.initialize("codriver-health")
            found = connection.call("server_health", {})
    except (OSError, CodriverError, ValueError):
        return None
    return claimed.pid if (found.get("sessionId"), found.get("pid")) == (claimed.session_id, claimed.pid) else None


def _ignore(_message: dict[str, Any]) -> None:
    """Pass over a notification that nobody asked for."""
