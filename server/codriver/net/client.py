"""A small MCP client for one-shot commands. It only uses the standard library, so that commands start fast.

It performs the MCP 2025-11-25 handshake, sends one JSON-RPC message per line, and waits for each answer.
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
from codriver.files.codriver_paths import server_directory
from codriver.net import server_record
from codriver.net.kernel_sockets import UnsupportedQueryError

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from codriver.net.server_record import ServerRecord

PROTOCOL_VERSION = "2025-11-25"
"""The version of MCP that the commands use."""
NO_OTHER_FIELDS: Mapping[str, str] = MappingProxyType({})
HANDSHAKE_TIMEOUT_S = 5.0
"""Maximum time for connecting and for the handshake, in seconds."""
QUERY_TIMEOUT_S = 30.0
"""Maximum time without a message while waiting for an answer that runs none of the user's code, in seconds."""
QUERIES = frozenset({"tools/list", "server_health", "list_sessions", "repl_output_log"})
"""MCP methods and tools that run none of the user's code, so that their answers arrive soon."""
SERVER_START_TIMEOUT_S = 30.0
"""Maximum time for a started server to begin accepting connections, in seconds."""
INVALID_REQUEST_CODES = frozenset({-32700, -32600, -32602})
"""JSON-RPC error codes for invalid requests. Source: JSON-RPC 2.0, error object."""
MAX_LOG_TAIL_CHARACTERS = 600
"""Maximum number of characters displayed from the end of a log, if its server failed to start."""


class NoServerError(StartError):
    """Raised when no server of the workspace can be reached."""

    exit_status = 3
    why = ""
    """The reason alone, for callers that add advice of their own."""

    def __init__(self, workspace: Path, why: str) -> None:
        super().__init__(
            f"no codriver server is running for {workspace}: {why}. Start one with `codriver serve`, or pass --start "
            "to eval, load, test, call or tools"
        )
        self.why = why


class RemoteServerError(NoServerError):
    """Raised when the server of a workspace runs on another host, which shares the workspace's files."""

    def __init__(self, host: str) -> None:
        self.why = server_record.describe_remote_server(host)
        StartError.__init__(self, self.why)


class ServerFailedError(NoServerError):
    """Raised when a started server exited before it could be reached."""

    def __init__(self, workspace: Path, log: Path, status: int) -> None:
        words = server_record.read_log_tail(log.parent)[-MAX_LOG_TAIL_CHARACTERS:] or explain_silent_exit(log)
        StartError.__init__(
            self,
            f"the server started for {workspace} exited with status {status}: {words} (its output is in {log}). Run "
            "`codriver doctor` to find the cause",
        )


def explain_silent_exit(log: Path) -> str:
    """Return the likely reason why a server exited without writing to its log."""
    if hasattr(os, "statvfs") and log.parent.is_dir() and not os.statvfs(log.parent).f_bavail:
        return "nothing could be logged because the workspace's disk is full. Free some space"
    return "nothing was logged"


class CannotStartError(NoServerError):
    """Raised when the process of a server cannot be started."""

    def __init__(self, workspace: Path, error: OSError) -> None:
        StartError.__init__(
            self,
            f"no server could be started for {workspace}: {error.filename}: {error.strerror}. Make "
            f"{server_directory(workspace)} a writable folder of yours that contains no links, or choose another "
            "--workspace, such as a checkout of your own",
        )


class ConnectionClosedError(CodriverError):
    """Raised when the server closed the connection before answering."""

    def __init__(self) -> None:
        super().__init__("the server closed the connection before it answered. See `codriver status`")


class UnresponsiveServerError(CodriverError):
    """Raised when the server accepted a request that needs little time, but did not answer it."""

    def __init__(self) -> None:
        super().__init__(
            f"the server accepted the request but did not answer within {QUERY_TIMEOUT_S:g} s. It may be suspended, "
            "overloaded or another program. See `codriver doctor`"
        )


class CallError(CodriverError):
    """Raised when the server answered with an error. `is_refusal` is true if the request was invalid."""

    def __init__(self, method: str, error: dict[str, Any]) -> None:
        super().__init__(f"{method}: {error.get('message', error)}")
        code = error.get("code")
        self.is_refusal = isinstance(code, int) and code in INVALID_REQUEST_CODES


class InvalidMessageError(CodriverError):
    """Raised when the server sent a line that is not a JSON-RPC message."""

    def __init__(self) -> None:
        super().__init__(
            "the server sent a line that is not a JSON-RPC message, so it is another program. See `codriver doctor`"
        )


class WrongWorkspaceError(CodriverError):
    """Raised when the server serves a different workspace."""

    def __init__(self) -> None:
        super().__init__("the server on this port serves another workspace")


class Connection:
    """A connection to a server, for a few requests. It is also a context manager, which closes it at the end.

    The constructor connects but sends nothing.
    """

    def __init__(self, host: str, port: int, *, timeout_s: float | None = None) -> None:
        # `create_connection` would resolve names and load the tables for international ones, but this is an address.
        self.socket = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        self.socket.settimeout(HANDSHAKE_TIMEOUT_S)
        try:
            self.socket.connect((host, port))
        except BaseException:
            self.socket.close()
            raise
        # Without this, a second small message waits about 40 ms for the acknowledgement of the first.
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.settimeout(timeout_s)
        self._file = self.socket.makefile("rb")
        self._requests = 0
        self.session: str | None = None
        """The server's session id from its verified record, or None without a record."""
        self.on_notification: Callable[[dict[str, Any]], None] = _ignore

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the socket."""
        self._file.close()
        self.socket.close()

    def remove_timeout(self) -> None:
        """Wait for answers indefinitely, because evaluations have their own time limits."""
        self.socket.settimeout(None)

    def introduce(
        self, workspace: Path, *, token: str | None, session: str | None, others: Mapping[str, str] = NO_OTHER_FIELDS
    ) -> None:
        """Send the token, and the session and workspace that this client expects.

        If they do not match the server's, one side disconnects. `others` are further fields of the introduction, for a
        connection that makes a single request.

        Raises:
            WrongWorkspaceError: the server serves a different workspace.
            ConnectionClosedError: the server closed the connection.
        """
        status = workspace.stat()
        served = f"{status.st_dev}:{status.st_ino}"
        given = {"token": token, "session": session, "workspace": served}
        fields = {name: value for name, value in given.items() if value}
        self.notify(server_record.INTRODUCTION_METHOD, {**fields, **others})
        answer = next(self.messages(), None)
        if answer is None:
            raise ConnectionClosedError
        if answer.get("method") != server_record.WORKSPACE_METHOD or answer.get("params") != {"workspace": served}:
            raise WrongWorkspaceError
        self.session = session

    def initialize(self, name: str = "codriver-cli") -> dict[str, Any]:
        """Perform the MCP handshake, and return the server's `initialize` result."""
        client = {"name": name, "version": "0"}
        about = self.request(
            "initialize", {"protocolVersion": PROTOCOL_VERSION, "capabilities": {}, "clientInfo": client}
        )
        self.notify("notifications/initialized", {})
        return about

    def notify(self, method: str, params: dict[str, Any]) -> None:
        """Send a notification. It gets no answer."""
        self._send({"jsonrpc": "2.0", "method": method, "params": params})

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send a request and return its result. Notifications that arrive before it are passed to `on_notification`.

        Raises:
            CallError: the server answered with an error.
            InvalidMessageError, ConnectionClosedError: there was no valid answer.
            UnresponsiveServerError: there was no answer in time to one of `QUERIES`. Other requests have no time limit,
                because evaluations have their own.
        """
        self._requests += 1
        if params.get("name", method) not in QUERIES or self.socket.gettimeout() is not None:
            return self._exchange(method, params)
        self.socket.settimeout(QUERY_TIMEOUT_S)
        try:
            return self._exchange(method, params)
        except TimeoutError as error:
            raise UnresponsiveServerError from error
        finally:
            self.socket.settimeout(None)

    def _exchange(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._send({"jsonrpc": "2.0", "id": self._requests, "method": method, "params": params})
        for message in self.messages():
            if message.get("id") == self._requests and "method" not in message:
                if "error" in message:
                    error = message["error"]
                    raise CallError(method, error if isinstance(error, dict) else {"message": error})
                result = message.get("result")
                return result if isinstance(result, dict) else {}
            self.on_notification(message)
        raise ConnectionClosedError

    def call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Call a tool and return its structured result. Raises the same errors as `request`."""
        return self.call_with_images(tool, arguments)[0]

    def call_with_images(self, tool: str, arguments: dict[str, Any]) -> tuple[dict[str, Any], list[tuple[str, str]]]:
        """Call a tool and return its structured result and its images, as pairs of media type and base64 data."""
        params = {"name": tool, "arguments": arguments, "_meta": {"progressToken": "p"}}
        answer = self.request("tools/call", params)
        content, parts = answer.get("structuredContent"), answer.get("content")
        fields = [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
        images = [(str(p.get("mimeType")), str(p.get("data"))) for p in fields if p.get("type") == "image"]
        return content if isinstance(content, dict) else {}, images

    def messages(self) -> Iterator[dict[str, Any]]:
        """Yield received messages until the connection is closed.

        Raises:
            InvalidMessageError: a line is not a JSON-RPC message.
            ConnectionClosedError: the connection broke.
        """
        while line := self._read_line():
            try:
                message = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise InvalidMessageError from error
            if isinstance(message, dict):
                yield message

    def _read_line(self) -> bytes:
        try:
            return self._file.readline()
        except ConnectionError as error:
            raise ConnectionClosedError from error

    def _send(self, message: dict[str, Any]) -> None:
        try:
            self.socket.sendall(json.dumps(message).encode() + b"\n")
        except ConnectionError as error:
            raise ConnectionClosedError from error


def connect(
    workspace: Path, *, start: bool = False, name: str = "codriver-cli", is_explicit: bool = True
) -> Connection:
    """Connect to the server of a workspace and perform the MCP handshake.

    With `start`, a server is started if none is running. With `is_explicit`, the user requested the start, so it even
    starts a server that was stopped permanently.

    Raises:
        NoServerError: no server is running, or the started server cannot be reached.
    """
    directory = server_directory(workspace)
    try:
        return _connect_and_initialize(workspace, directory, name)
    except NoServerError:
        if host := server_record.remote_server_host(directory):
            raise RemoteServerError(host) from None
        if not start:
            raise
    if is_explicit:
        from codriver.net.registration import allow_start  # noqa: PLC0415  # only needed if no server is running

        allow_start(workspace)
    try:
        process = start_server(workspace)
    except OSError as error:
        raise CannotStartError(workspace, error) from error
    deadline = time.monotonic() + SERVER_START_TIMEOUT_S
    while True:
        try:
            return _connect_and_initialize(workspace, directory, name)
        except NoServerError:
            status = process.poll()
            if status == server_record.STOPPED_FOR_GOOD_STATUS:
                raise NoServerError(
                    workspace,
                    "the server was stopped with `codriver stop --for-good`, so none is started automatically",
                ) from None
            if status and not server_record.is_claimed(directory):  # otherwise, another process is starting one
                raise ServerFailedError(workspace, directory / "serve.log", status) from None
            if time.monotonic() > deadline:
                raise
        time.sleep(0.05)


def _connect_and_initialize(workspace: Path, directory: Path, name: str) -> Connection:
    port = _read_port(workspace, directory)
    source = f"port {port}, the port in the workspace's port file"
    try:
        connection = _open_connection(workspace, directory, port)
        try:
            connection.initialize(name)
        except BaseException:
            connection.close()
            raise
        connection.remove_timeout()
    except (server_record.NotTheServerError, WrongWorkspaceError) as error:
        raise NoServerError(workspace, f"the process on {source}, is not the workspace's server: {error}") from error
    except TimeoutError as error:
        why = (
            f"the process on {source}, did not answer within {HANDSHAKE_TIMEOUT_S:g} s. `codriver doctor` explains "
            "how to end it"
        )
        raise NoServerError(workspace, why) from error
    except InvalidMessageError as error:
        raise NoServerError(workspace, f"the process on {source}, is not a Codriver server") from error
    except ConnectionClosedError as error:
        why = f"the process on {source}, disconnected. It is another program, or the server of another workspace"
        raise NoServerError(workspace, why) from error
    except (OSError, ValueError) as error:
        cause = getattr(error, "strerror", None) or error
        raise NoServerError(workspace, f"nothing answers on {source} ({cause})") from error
    return connection


def _open_connection(
    workspace: Path, directory: Path, port: int, others: Mapping[str, str] = NO_OTHER_FIELDS
) -> Connection:
    """Connect to the server of a workspace, verify it, and send the introduction (see `introduce`).

    Raises:
        NotTheServerError: another program is listening on the port. Nothing was sent to it.
        WrongWorkspaceError, ConnectionClosedError, OSError, ValueError: the connection failed.
    """
    claimed = server_record.read_record(directory)
    is_its = claimed is not None and claimed.port == port
    connection = Connection(server_record.server_host(claimed if is_its else None), port, timeout_s=HANDSHAKE_TIMEOUT_S)
    try:
        server_record.verify_server(connection.socket, directory)
        token = os.environ.get("CODRIVER_TOKEN") or server_record.read_token(directory)
        session = claimed.session_id if claimed and is_its else None
        connection.introduce(workspace, token=token, session=session, others=others)
    except BaseException:
        connection.close()
        raise
    return connection


def _read_port(workspace: Path, directory: Path) -> int:
    """Return the port in a workspace's port file.

    Raises:
        NoServerError: the port file is missing, invalid or not trusted.
    """
    try:
        return server_record.read_port(directory)
    except FileNotFoundError:
        raise NoServerError(workspace, f"there is no port file in {directory}") from None
    except OSError as error:
        why = f"{error.filename or directory / 'port'} is ignored: {error.strerror}"
        raise NoServerError(workspace, why) from error
    except ValueError:
        raise NoServerError(workspace, f"the port file {directory / 'port'} does not contain a port number") from None


def start_server(workspace: Path, *options: str) -> subprocess.Popen[bytes]:
    """Start a background server that exits after some time without clients."""
    from codriver_relay.starter import server_environment, start_detached  # noqa: PLC0415  # only needed to start a server

    directory = server_directory(workspace)
    command = [sys.executable, "-P", "-m", "codriver", "serve", "--workspace", str(workspace)]
    with os.fdopen(server_record.open_log(directory, truncate=True), "wb") as log:
        environ = server_environment(str(workspace))
        return start_detached([*command, "--on-demand", *options], None, log.fileno(), environ)


def request_stop(workspace: Path, claimed: ServerRecord) -> None:
    """Request that a server stop, through its own port. Used on systems without signals.

    Raises:
        CodriverError, OSError, ValueError: the server cannot be reached.
    """
    _open_connection(workspace, server_directory(workspace), claimed.port, {"stop": "yes"}).close()


def send_request(workspace: Path, name: str, detail: str = "") -> dict[str, Any]:
    """Send a single request to the server of a workspace without speaking MCP, and return its answer.

    Raises:
        NoServerError: no server is running.
        ConnectionClosedError: the server does not support the request.
        CodriverError, OSError, ValueError: the server cannot be reached.
    """
    connect(workspace).close()  # raises errors with messages for users
    directory = server_directory(workspace)
    others = {"request": name, "detail": detail}
    with _open_connection(workspace, directory, _read_port(workspace, directory), others) as connection:
        for message in connection.messages():
            answer = message.get("params")
            if message.get("method") == server_record.ANSWER_METHOD and isinstance(answer, dict):
                return answer
    raise ConnectionClosedError


def server_process_id(workspace: Path, claimed: ServerRecord) -> int | None:
    """Return the process id of a recorded server, or None if it does not serve the workspace.

    The kernel identifies the process listening on the port. If the kernel does not support that, the server is queried.
    """
    directory = server_directory(workspace)
    try:
        return server_record.recorded_process_id(claimed, directory) or _query_process(workspace, directory, claimed)
    except server_record.NotTheServerError:
        return None
    except UnsupportedQueryError:
        return _query_process(workspace, directory, claimed)


def _query_process(workspace: Path, directory: Path, claimed: ServerRecord) -> int | None:
    try:
        with _open_connection(workspace, directory, claimed.port) as connection:
            connection.initialize("codriver-health")
            found = connection.call("server_health", {})
    except (OSError, CodriverError, ValueError):
        return None
    return claimed.pid if (found.get("sessionId"), found.get("pid")) == (claimed.session_id, claimed.pid) else None


def _ignore(_message: dict[str, Any]) -> None:
    """Ignore a notification, because the command only needs answers."""
