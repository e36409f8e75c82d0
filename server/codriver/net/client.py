"""A small MCP client for one-shot commands. It uses only the standard library, so commands start fast.

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
from codriver.files.own_folders import server_directory
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
"""The error codes for an error of the caller. Source: JSON-RPC 2.0, error object."""
LOG_TAIL = 600
"""Maximum number of characters displayed of a server's log when it did not start."""


class NoServerError(StartError):
    """No server answers for the workspace."""

    exit_status = 3
    why = ""
    """The reason alone, for callers that add their own advice."""

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
    """Return the likely reason why a server ended and left no words in its log."""
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
    """The server answered a request with an error. `is_refusal`: the request was at fault."""

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
    """The server serves another workspace."""

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

    def wait_without_limit(self) -> None:
        """Let answers take any time from now on: evaluations have limits of their own."""
        self.socket.settimeout(None)

    def introduce(
        self, workspace: Path, *, token: str | None, session: str | None, others: Mapping[str, str] = NOTHING
    ) -> None:
        """Send the token, and name the server and the workspace: any other server hangs up, and so does this side.

        `others`: further fields of the introduction, if this conversation is about one request only.

        Raises:
            StrangeServerError: the server is another workspace's.
            ServerGoneError: the server hung up.
        """
        status = workspace.stat()
        served = f"{status.st_dev}:{status.st_ino}"
        given = {"token": token, "session": session, "workspace": served}
        fields = {name: value for name, value in given.items() if value}
        self.notify(server_record.INTRODUCTION, {**fields, **others})
        answer = next(self.messages(), None)
        if answer is None:
            raise ServerGoneError
        if answer.get("method") != server_record.WORKSPACE or answer.get("params") != {"workspace": served}:
            raise StrangeServerError
        self.session = session

    def initialize(self, name: str = "codriver-cli") -> dict[str, Any]:
        """Make the handshake, and return the server's description of itself."""
        client = {"name": name, "version": "0"}
        about = self.request("initialize", {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": client})
        self.notify("notifications/initialized", {})
        return about

    def notify(self, method: str, params: dict[str, Any]) -> None:
        """Send a notification."""
        self._send({"jsonrpc": "2.0", "method": method, "params": params})

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send a request and wait for its result; notifications in the meantime go to `on_notification`.

        Raises:
            CallError: the answer is an error. NoMessageError, ServerGoneError: no answer was received.
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
        """Call a tool; its answer and the images next to it, as kinds and base64. Raises like `request`."""
        params = {"name": tool, "arguments": arguments, "_meta": {"progressToken": "p"}}
        answer = self.request("tools/call", params)
        content, parts = answer.get("structuredContent"), answer.get("content")
        fields = [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
        images = [(str(p.get("mimeType")), str(p.get("data"))) for p in fields if p.get("type") == "image"]
        return content if isinstance(content, dict) else {}, images

    def messages(self) -> Iterator[dict[str, Any]]:
        """Yield messages as they come, until the connection ends.

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


def connect(
    workspace: Path, *, start: bool = False, name: str = "codriver-cli", is_explicit: bool = True
) -> Connection:
    """Return an initialized connection to the server of a workspace. With `start`, a missing server is started.

    `is_explicit`: the user requested the start, so even a server that was stopped permanently is started.

    Raises:
        NoServerError: no server runs, or the started one does not come up.
    """
    directory = server_directory(workspace)
    try:
        return _connect(workspace, directory, name)
    except NoServerError:
        if not start:
            raise
    if is_explicit:
        from codriver.net.registration import allow_start  # noqa: PLC0415  # most commands find a server

        allow_start(workspace)
    try:
        process = start_server(workspace)
    except OSError as error:
        raise CannotStartError(workspace, error) from error
    deadline = time.monotonic() + START_S
    while True:
        try:
            return _connect(workspace, directory, name)
        except NoServerError:
            status = process.poll()
            if status == server_record.STOPPED_FOR_GOOD:
                raise NoServerError(workspace, "it was stopped for good, by `codriver stop --for-good`") from None
            if status:
                raise ServerFailedError(workspace, directory / "serve.log", status) from None
            if time.monotonic() > deadline:
                raise
        time.sleep(0.05)


def _connect(workspace: Path, directory: Path, name: str) -> Connection:
    port = _read_port(workspace, directory)
    source = f"port {port}, which its port file names"
    try:
        connection = _reach(workspace, directory, port)
        try:
            connection.initialize(name)
        except BaseException:
            connection.close()
            raise
        connection.wait_without_limit()
    except (server_record.NotTheServerError, StrangeServerError) as error:
        raise NoServerError(workspace, f"what listens on {source}, is not its server: {error}") from error
    except TimeoutError as error:
        why = f"what listens on {source}, does not answer within {HEALTH_S:g} s; `codriver doctor` says how to end it"
        raise NoServerError(workspace, why) from error
    except NoMessageError as error:
        raise NoServerError(workspace, f"what answers on {source}, is no codriver") from error
    except ServerGoneError as error:
        why = f"what listens on {source}, hung up: it is another program, or the server of another workspace"
        raise NoServerError(workspace, why) from error
    except (OSError, ValueError) as error:
        cause = getattr(error, "strerror", None) or error
        raise NoServerError(workspace, f"nothing answers on {source} ({cause})") from error
    return connection


def _reach(workspace: Path, directory: Path, port: int, others: Mapping[str, str] = NOTHING) -> Connection:
    """Return a verified connection to the server of a workspace, with the introduction made: see `introduce`.

    Raises:
        NotTheServerError: somebody else listens there. Nothing was sent.
        StrangeServerError, ServerGoneError, OSError, ValueError: the connection failed.
    """
    claimed = server_record.read_record(directory)
    is_its = claimed is not None and claimed.port == port
    connection = Connection(server_record.host_of(claimed if is_its else None), port, timeout_s=HEALTH_S)
    try:
        server_record.verify(connection.socket, directory)
        token = os.environ.get("CODRIVER_TOKEN") or server_record.read_token(directory)
        session = claimed.session_id if claimed and is_its else None
        connection.introduce(workspace, token=token, session=session, others=others)
    except BaseException:
        connection.close()
        raise
    return connection


def _read_port(workspace: Path, directory: Path) -> int:
    """Return the port that the port file holds.

    Raises:
        NoServerError: the file holds no port.
    """
    try:
        return server_record.read_port(directory)
    except FileNotFoundError:
        raise NoServerError(workspace, f"there is no port file in {directory}") from None
    except OSError as error:
        why = f"{error.filename or directory / 'port'} counts for nothing: {error.strerror}"
        raise NoServerError(workspace, why) from error
    except ValueError:
        raise NoServerError(workspace, f"its port file {directory / 'port'} holds no port") from None


def start_server(workspace: Path, *options: str) -> subprocess.Popen[bytes]:
    """Start a server that outlives this command and ends by itself once no one needs it."""
    from codriver_relay.starter import server_environment, start_detached  # noqa: PLC0415  # no other call needs it

    directory = server_directory(workspace)
    command = [sys.executable, "-P", "-m", "codriver", "serve", "--workspace", str(workspace)]
    with os.fdopen(server_record.open_log(directory, truncate=True), "wb") as log:
        environ = server_environment(str(workspace))
        return start_detached([*command, "--on-demand", *options], None, log.fileno(), environ)


def request_stop(workspace: Path, claimed: ServerRecord) -> None:
    """Request that the server named by `claimed` stops, on systems without signals.

    Raises:
        CodriverError, OSError, ValueError: the server cannot be reached.
    """
    _reach(workspace, server_directory(workspace), claimed.port, {"stop": "yes"}).close()


def send_request(workspace: Path, name: str, detail: str = "") -> dict[str, Any]:
    """Make one request to the server of a workspace instead of speaking MCP, and return the answer.

    Raises:
        NoServerError: no server runs.
        ServerGoneError: the server has no answer to such a request.
        CodriverError, OSError, ValueError: the server cannot be reached.
    """
    connect(workspace).close()  # its errors are written for people
    directory = server_directory(workspace)
    others = {"request": name, "detail": detail}
    with _reach(workspace, directory, _read_port(workspace, directory), others) as connection:
        for message in connection.messages():
            answer = message.get("params")
            if message.get("method") == server_record.ANSWER and isinstance(answer, dict):
                return answer
    raise ServerGoneError


def process_of(workspace: Path, claimed: ServerRecord) -> int | None:
    """Return the process of the server named by `claimed`, if it serves the workspace.

    The kernel names the process; on other systems the server is queried, and has to answer.
    """
    directory = server_directory(workspace)
    try:
        return server_record.process_of(claimed, directory) or _query_process(workspace, directory, claimed)
    except server_record.NotTheServerError:
        return None
    except KernelSilentError:
        return _query_process(workspace, directory, claimed)


def _query_process(workspace: Path, directory: Path, claimed: ServerRecord) -> int | None:
    try:
        with _reach(workspace, directory, claimed.port) as connection:
            connection.initialize("codriver-health")
            found = connection.call("server_health", {})
    except (OSError, CodriverError, ValueError):
        return None
    return claimed.pid if (found.get("sessionId"), found.get("pid")) == (claimed.session_id, claimed.pid) else None


def _ignore(_message: dict[str, Any]) -> None:
    """Pass over a notification that no one requested."""
