"""Connect to the server, after verifying that it serves the workspace."""

from __future__ import annotations

import _socket as socket
import os

from codriver_relay.hosts import remote_server_host
from codriver_relay.peer import find_listener, is_locked, is_running, owns_lock
from codriver_relay.safe_files import (
    MAX_RECORD_BYTES,
    OTHERS,
    SERVER_DIRECTORY,
    Directory,
    close_directory,
    is_open,
    is_trusted,
    json_member,
    open_directory,
    open_server_directory,
    read_file,
    read_if_possible,
    read_token,
    read_token_for_port,
    status_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from codriver_relay.durations import Durations


MAX_SESSION_ID_CHARACTERS = 128
"""Maximum length of a session id that a server stores. Source: `codriver.net.conversations`."""
LOOPBACK_ADDRESS = "127.0.0.1"
LOOPBACK_BY_WILDCARD_ADDRESS = {b"0.0.0.0": b"127.0.0.1", b"::": b"::1"}  # compared, not bound
"""The loopback address for reaching a server that listens on all interfaces, by its wildcard address."""
WORKSPACE_LINE = b'{"jsonrpc": "2.0", "method": "codriver/workspace", "params": {"workspace": "%s"}}\n'


class UnreachableError(Exception):
    """Raised when an attempt to connect fails. The message does not end with a period."""


class Target:
    """The server to connect to.

    `given` is a port number or the path of a port file, which is read for each attempt. Without a `host`, the server is
    expected on the loopback interface, or at the address of this machine that is recorded next to the port file.
    """

    def __init__(
        self, given: str, host: str | None, durations: Durations, *, starts: bool = False, wants_skills: bool = True
    ) -> None:
        self.durations = durations
        self.starts = starts  # whether missing servers are started, as running servers are informed
        self.wants_skills = wants_skills  # whether the client receives skills from the server
        self.port = int(given) if given.isdecimal() else None
        self.file = None if given.isdecimal() else os.path.abspath(given)
        self.workspace = workspace_from_port_file(self.file)
        self.host = host
        self.met = ""  # the session of the last server
        self.line_bytes = 0  # the maximum length of a line for that server, 0 if unknown
        self.tried = format_address(host or LOOPBACK_ADDRESS, self.port) if self.port else f"the port in {self.file}"
        self.other_host = ""  # the name of the host on which the server runs, if it is not this one
        self.is_refused = False  # whether nothing listened at the last attempt
        self.was_reached = False  # whether any attempt succeeded

    def connect(self) -> socket.socket:
        """Connect to the server, and prove the identity of both sides if needed.

        The address is stored in `tried`, even if the connection fails.

        Raises:
            UnreachableError: the connection failed.
        """
        if self.file is None:
            return self.connect_to_port(self.port or 0, None)
        directory = self.open_directory()
        self.other_host = ""
        try:
            return self.connect_to_port(self.read_port(directory), directory)
        except UnreachableError:
            self.other_host = remote_server_host(directory) if self.host is None else ""
            if not self.other_host:
                raise
            raise UnreachableError(
                f"this project is in use by a server on {self.other_host}. Use it on one host only, or make a "
                "checkout for each host"
            ) from None
        finally:
            close_directory(directory)

    def connect_to_port(self, port: int, directory: Directory | None) -> socket.socket:
        """Connect to a port. `directory` contains the port file if the port was read from one.

        Raises:
            UnreachableError: the connection failed.
        """
        host = self.host or recorded_host(directory, port)
        self.tried = format_address(host, port)
        self.is_refused = False
        reason = "the host has no address"
        name = host.encode() if host.isascii() else host  # a str would load the IDNA codec
        try:
            for family, kind, protocol, _, address in socket.getaddrinfo(name, port, 0, socket.SOCK_STREAM):
                connection = socket.socket(family, kind, protocol)
                try:
                    connection.settimeout(self.durations.connect_s)
                    connection.connect(address)
                    # If nothing listens on an ephemeral port, a socket may connect to itself.
                    if connection.getsockname() != connection.getpeername():
                        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                        self.introduce(connection, port, directory)
                        connection.settimeout(None)
                        self.was_reached = True
                        return connection
                    reason = "nothing is listening at this address"
                except (UnreachableError, OSError) as error:
                    reason = str(error)
                    self.is_refused = isinstance(error, ConnectionRefusedError)
                connection.close()
        except (OSError, UnicodeError) as error:
            reason = f"the host {host!r} was not found: {error}"
        raise UnreachableError(reason)

    def is_alive(self) -> bool | None:
        """Return whether the server recorded next to the port file is running, or None if there is no record."""
        if self.file is None:
            return None
        try:
            directory = self.open_directory()
        except UnreachableError:
            return None
        try:
            process = json_member(read_if_possible(directory, "server.json"), b"pid")
        finally:
            close_directory(directory)
        return is_running(int(process)) if process.isdigit() and 0 < int(process) < 1 << 31 else None

    def is_port_file_missing(self) -> bool:
        """Return whether the port file is missing. If so, no server was started, or the last one exited normally."""
        return self.file is not None and not os.path.lexists(self.file)

    def open_directory(self) -> Directory:
        """Open the directory of the port file. A workspace's directory must be accessible only to the user.

        Raises:
            UnreachableError: the directory does not exist, or is not trusted.
        """
        name = os.path.dirname(self.file or "")
        try:
            directory = open_server_directory(self.workspace) if self.workspace else open_directory(name)
        except OSError as error:
            raise UnreachableError(f"the port file cannot be read: {error.strerror}") from None
        status = status_of(directory)
        if self.workspace and (not is_trusted(status.st_uid) or is_open(status, OTHERS)):
            close_directory(directory)
            raise UnreachableError(
                f"{name} is ignored, because it belongs to another user or others can access it. If it is yours, "
                "`codriver serve` makes it private"
            )
        return directory

    def read_port(self, directory: Directory) -> int:
        """Read the port number from the port file.

        Raises:
            UnreachableError: the file cannot be read, or does not contain a port.
        """
        try:
            text = read_file(directory, os.path.basename(self.file or "")).strip()
        except OSError as error:
            raise UnreachableError(f"the port file cannot be read: {error.strerror}") from None
        if not text.isdigit() or len(text) > len("65535") or not 0 < int(text) < 1 << 16:
            raise UnreachableError("the port file does not contain a port number")
        return int(text)

    def introduce(self, connection: socket.socket, port: int, directory: Directory | None) -> None:
        """Verify the listening process, then send it the token and the server and workspace that the relay expects.

        A killed server leaves its port file behind, and another server may listen on its port. That server must close
        the connection. The file itself proves nothing, so the token is only sent to a port given by number, or to the
        process that holds the lock next to the file.

        Raises:
            UnreachableError: another process is listening. No data from the client was sent.
        """
        is_server = is_listener_trusted(connection, directory)
        token = os.environ.get("CODRIVER_TOKEN", "") if is_server else ""
        session, workspace_id, longest = b"", "", b""
        if is_server and not token:
            token = read_token_for_port(port) if directory is None else read_token(directory)
        if directory is not None:
            record = read_if_possible(directory, "server.json")
            session = server_id_from_record(record, port)
            longest = json_member(record, b"maxLineBytes") if session else b""
        self.line_bytes = int(longest) if longest.isdigit() and len(longest) < 12 else 0
        if self.workspace:
            if not is_server:
                raise UnreachableError(
                    f"nothing was sent to the process on port {port}, because it does not hold this workspace's "
                    "lock. It is another program, or the server of another workspace"
                )
            status = os.stat(self.workspace)
            workspace_id = f"{status.st_dev}:{status.st_ino}"
        before, self.met = self.met, session.decode() or self.met
        given = {
            "token": token,
            "session": session.decode(),
            "before": before if before != self.met else "",
            "workspace": workspace_id,
            "starts": "relay" if self.starts else "",
            "withoutSkills": "" if self.wants_skills else "relay",
            "conversation": os.environ.get("CLAUDE_CODE_SESSION_ID", "")[:MAX_SESSION_ID_CHARACTERS],
        }
        members = [f'"{name}": {quote(text)}' for name, text in given.items() if text]
        if members:
            line = f'{{"jsonrpc": "2.0", "method": "codriver/token", "params": {{{", ".join(members)}}}}}\n'
            connection.sendall(line.encode("utf-8", "replace"))
        if workspace_id:
            connection.settimeout(self.durations.handshake_s)
            await_workspace(connection, workspace_id.encode())


def recorded_host(directory: Directory | None, port: int) -> str:
    """Return the address at which the server that is recorded next to a port file listens on this machine.

    This is the loopback address if there is no record for this port, or if the record has a host name or the address of
    another machine.
    """
    record = read_if_possible(directory, "server.json") if directory is not None else b""
    host = json_member(record, b"host")[1:-1]
    host = LOOPBACK_BY_WILDCARD_ADDRESS.get(host, host)
    if host == LOOPBACK_ADDRESS.encode() or json_member(record, b"port") != b"%d" % port:
        return LOOPBACK_ADDRESS
    try:
        ((family, kind, _, _, address), *_) = socket.getaddrinfo(
            host, 0, 0, socket.SOCK_STREAM, 0, socket.AI_NUMERICHOST
        )
        probe = socket.socket(family, kind)
        try:
            probe.bind(address)  # only this machine's addresses can be bound
        finally:
            probe.close()
        return host.decode()
    except (OSError, ValueError):
        return LOOPBACK_ADDRESS


def format_address(host: str, port: int) -> str:
    """Format an address as in a URL, with brackets around an IPv6 host."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def await_workspace(connection: socket.socket, workspace_id: bytes) -> None:
    """Wait until the server confirms which workspace it serves.

    Raises:
        UnreachableError: the server serves a different workspace, or closed the connection.
    """
    received = b""
    while len(received) < MAX_RECORD_BYTES and not received.endswith(b"\n"):
        data = connection.recv(MAX_RECORD_BYTES)
        if not data:
            raise UnreachableError(
                "the server closed the connection when the workspace was named, so it serves another workspace"
            )
        received += data
    if received != WORKSPACE_LINE % workspace_id:
        raise UnreachableError("the server did not confirm that it serves this workspace")


def quote(text: str) -> str:
    """Encode a string as JSON."""
    if text.replace("-", "").replace("_", "").replace(":", "").isalnum() and text.isascii():
        return f'"{text}"'
    import json

    return json.dumps(text)


def server_id_from_record(record: bytes, port: int) -> bytes:
    """Return the id of the server that wrote `record`, or b"" if the record is for another port."""
    if json_member(record, b"port") != b"%d" % port:
        return b""  # another server has written the port file since
    session = json_member(record, b"sessionId")[1:-1]
    return session if session.isalnum() else b""


def is_listener_trusted(connection: socket.socket, directory: Directory | None) -> bool:
    """Return whether the token may be sent to the listening process.

    That is the case if the user named its port, or if it holds the lock. If the kernel does not report the listening
    process, as on systems other than Linux, it is enough that any process holds the lock.

    Raises:
        UnreachableError: the listener belongs to another user, or is unknown although the port was read from a file.
    """
    try:
        listener = find_listener(connection)
    except OSError:
        return directory is None or is_locked(directory)
    if listener is not None and not is_trusted(listener[0]):
        raise UnreachableError("the process belongs to another user of this machine, so nothing was sent to it")
    if directory is None:
        return True
    if listener is None:
        raise UnreachableError(
            "according to the system, no process on this machine is listening on this port. To connect anyway, pass "
            "the port instead of the file"
        )
    return owns_lock(directory, listener[1])


def workspace_from_port_file(port_file: str | None) -> str | None:
    """Return the workspace of a port file at `<workspace>/.calva/mcp-server/port`, or None for any other path."""
    if port_file is None:
        return None
    workspace, _, name = port_file.rpartition(os.path.join("", *SERVER_DIRECTORY, "").join((os.sep, "")))
    return workspace if workspace and name and os.sep not in name else None
