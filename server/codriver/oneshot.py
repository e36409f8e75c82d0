"""A small MCP client for one-shot commands: the standard library alone, so that a command starts in no time.

It speaks the 2025-11-25 handshake, one JSON-RPC message a line, and waits for each answer.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import time
from typing import TYPE_CHECKING, Any, Self

from codriver.errors import CodriverError, StartError
from codriver.paths import presence_folder

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from codriver.presence import ServerRecord

PROTOCOL = "2025-11-25"
HEALTH_S = 5.0
START_S = 30.0
WRONG_REQUEST = frozenset({-32700, -32600, -32602})
"""The error codes that put the fault on whoever asked. Source: JSON-RPC 2.0, error object."""
LOG_TAIL = 600
"""Characters of a server's own words that say why it did not start."""


class NoServerError(StartError):
    """No server answers for the workspace."""

    exit_status = 3
    why = ""
    """The reason alone, for those who have advice of their own."""

    def __init__(self, workspace: Path, why: str) -> None:
        super().__init__(
            f"no codriver server runs for {workspace}: {why}; start one with `codriver serve` "
            "(eval, load, call and tools do so themselves with --start)"
        )
        self.why = why


class ServerFailedError(NoServerError):
    """A server was started, and ended before it could be reached."""

    def __init__(self, workspace: Path, log: Path, status: int) -> None:
        words = log.read_text(encoding="utf-8", errors="replace").strip()[-LOG_TAIL:] if log.exists() else ""
        StartError.__init__(
            self,
            f"the server that was started for {workspace} ended with status {status}: "
            f"{words or 'it said nothing'} (its output is in {log}); `codriver doctor` looks for the cause",
        )


class CannotStartError(NoServerError):
    """A server could not even be started."""

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
    """The server answered a request with an error. `is_refusal`: it says that the request is wrong."""

    def __init__(self, method: str, error: dict[str, Any]) -> None:
        super().__init__(f"{method}: {error.get('message', error)}")
        self.is_refusal = error.get("code") in WRONG_REQUEST


class Connection:
    """One connection to a server, for a few requests. A context manager.

    `session` names the server that is meant, by its id; any other one hangs up.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        token: str | None = None,
        session: str | None = None,
        timeout_s: float | None = None,
    ) -> None:
        self._socket = socket.create_connection((host, port), timeout=HEALTH_S)
        # Else a second small message waits some 40 ms for the acknowledgement of the one before it.
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.settimeout(timeout_s)
        self._file = self._socket.makefile("rb")
        self._requests = 0
        self.on_notification: Callable[[dict[str, Any]], None] = _ignore
        introduction = {"token": token, "session": session}
        if token or session:
            self.notify("codriver/token", {name: value for name, value in introduction.items() if value})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._file.close()
        self._socket.close()

    def wait_as_long_as_it_takes(self) -> None:
        """Let answers take any time from now on: evaluations bound themselves."""
        self._socket.settimeout(None)

    def initialize(self, name: str = "codriver-cli") -> dict[str, Any]:
        """Make the handshake; what the server says of itself."""
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
            CallError: it was answered with an error.
            ServerGoneError: the connection ended first.
        """
        self._requests += 1
        self._send({"jsonrpc": "2.0", "id": self._requests, "method": method, "params": params})
        for message in self.messages():
            if message.get("id") == self._requests and "method" not in message:
                if "error" in message:
                    raise CallError(method, message["error"])
                result = message.get("result")
                return result if isinstance(result, dict) else {}
            self.on_notification(message)
        raise ServerGoneError

    def call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Call a tool; its answer. Raises like `request`."""
        params = {"name": tool, "arguments": arguments, "_meta": {"progressToken": "p"}}
        content = self.request("tools/call", params).get("structuredContent")
        return content if isinstance(content, dict) else {}

    def messages(self) -> Iterator[dict[str, Any]]:
        """Messages as they come, until the connection ends."""
        while line := self._file.readline():
            message = json.loads(line)
            if isinstance(message, dict):
                yield message

    def _send(self, message: dict[str, Any]) -> None:
        self._socket.sendall(json.dumps(message).encode() + b"\n")


def connect(workspace: Path, *, start: bool = False, name: str = "codriver-cli") -> Connection:
    """A connection to the server of a workspace, the handshake made. With `start`, one is started if there is none.

    Raises:
        NoServerError: there is none, or it does not come up.
    """
    folder = presence_folder(workspace)
    try:
        return _connect(workspace, folder, name)
    except NoServerError:
        if not start:
            raise
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
            if status:
                raise ServerFailedError(workspace, folder / "serve.log", status) from None
            if time.monotonic() > deadline:
                raise
        time.sleep(0.05)


def _connect(workspace: Path, folder: Path, name: str) -> Connection:
    port = _read_port(workspace, folder / "port")
    host, session, token = "127.0.0.1", None, None
    with contextlib.suppress(OSError, ValueError, KeyError):
        record = json.loads((folder / "server.json").read_text())
        host, session = record["host"], record["sessionId"] if record["port"] == port else None
    with contextlib.suppress(OSError):
        token = (folder / "token").read_text().strip()
    token = os.environ.get("CODRIVER_TOKEN") or token
    there = f"port {port}, which its port file names"
    try:
        connection = Connection(_reachable(host), port, token=token, session=session, timeout_s=HEALTH_S)
        connection.initialize(name)
        connection.wait_as_long_as_it_takes()
    except TimeoutError as error:
        why = f"what listens on {there}, does not answer within {HEALTH_S:g} s; `codriver doctor` says how to end it"
        raise NoServerError(workspace, why) from error
    except json.JSONDecodeError as error:
        raise NoServerError(workspace, f"what answers on {there}, is no codriver") from error
    except (ServerGoneError, ConnectionResetError, BrokenPipeError) as error:
        why = f"what listens on {there}, hung up: it is another program, or the server of another workspace"
        raise NoServerError(workspace, why) from error
    except (OSError, ValueError) as error:
        cause = getattr(error, "strerror", None) or error
        raise NoServerError(workspace, f"nothing answers on {there} ({cause})") from error
    return connection


def _read_port(workspace: Path, file: Path) -> int:
    """The port that the port file holds.

    Raises:
        NoServerError: there is none.
    """
    try:
        port = int(file.read_text())
    except FileNotFoundError:
        raise NoServerError(workspace, f"there is no port file in {file.parent}") from None
    except OSError as error:
        raise NoServerError(workspace, f"its port file {file} cannot be read ({error.strerror})") from error
    except ValueError:
        port = 0
    # Some resolvers take a port above 65535 modulo 65536, which is another server's.
    if not 0 < port < 1 << 16:
        raise NoServerError(workspace, f"its port file {file} holds no port")
    return port


def start_server(workspace: Path, *options: str) -> subprocess.Popen[bytes]:
    """Start a server that outlives this command and ends by itself when nobody needs it."""
    import subprocess  # noqa: PLC0415  # it takes longer to import than a whole call takes

    folder = presence_folder(workspace)
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "codriver", "serve", "--workspace", str(workspace)]
    with (folder / "serve.log").open("wb") as log:
        return subprocess.Popen(  # noqa: S603  # our own interpreter with our own module
            [*command, "--on-demand", *options],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def health(record: ServerRecord, token: str | None = None) -> str | None:
    """The session id of the server that `record` names, asked from it; None when nothing answers as one."""
    try:
        with Connection(_reachable(record.host), record.port, token=token, timeout_s=HEALTH_S) as connection:
            connection.initialize("codriver-health")
            found = connection.call("server_health", {}).get("sessionId")
    except (OSError, CodriverError, ValueError):
        return None
    return str(found) if found else None


def _reachable(host: str) -> str:
    """Where to connect to for a server that listens on `host`."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104  # compared, not bound


def _ignore(_message: dict[str, Any]) -> None:
    """What nobody asked to hear."""
