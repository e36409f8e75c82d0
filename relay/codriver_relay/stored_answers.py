"""Stored answers, which the relay gives a client while the workspace's server is starting.

A server stores its greeting and list of tools for each client. This module is imported when a server is being started.
"""

from __future__ import annotations

import os
import sys

from codriver_relay.connection import LIST_CHANGED_NOTIFICATION
from codriver_relay.messages import META_PREFIX, Message, classify_line, encode, encode_answer, normalize_json_scalar
from codriver_relay.safe_files import (
    OTHERS,
    close_directory,
    is_mine,
    is_open,
    open_directory,
    read_file,
    state_directory,
    status_in,
    status_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket as socket
    from collections.abc import Container
    from typing import Any

    from codriver_relay.connection import Connection, Handshake
    from codriver_relay.starter import Starter

MAX_STORED_BYTES = 1 << 20
"""Maximum size of the file in which a server stores answers, about ten times the usual size."""
EXCLUDED_VARIABLE_SUFFIX = "_TOKEN"
"""The suffix of environment variables that do not affect the list of tools. They are secrets, and must not be stored.
"""


class StoredAnswers:
    """Answers from an earlier server, which are used while a new server is starting.

    An instance is created when a server is first started for the client. Each protocol era has its own answers. Once
    the new server is ready, its list of tools is compared with the one that the client received.
    """

    def __init__(self, starter: Starter, *, wants_skills: bool = True) -> None:
        self.starter = starter
        self.wants_skills = wants_skills
        self.of_session = StoredEra(b'"codriver-relay-list"')
        self.of_stateless = StoredEra(b'"codriver-relay-stateless-list"')
        self.owes_change = False
        """Whether the server's list differs, but no stream is open on which the client could be notified."""
        self.streams: dict[bytes, object] = {}
        """The ids of the client's streams for changes to the list on this connection, by key."""

    def answer(self, message: Message, handshake: Handshake, *, is_behind: bool) -> bytes | None:
        """Return the stored answer to a handshake, a discovery or a request for the list of tools, or None.

        `is_behind` means that an earlier `initialize` is still waiting for the server.
        """
        if not self.starter.is_starting or message.id is None or b'"cursor"' in message.line:
            return None
        if message.method == b"initialize":
            return self.answer_handshake(message, handshake, is_behind=is_behind)
        if message.method not in (b"server/discover", b"tools/list"):
            return None
        if is_stateless(message.line):
            return self.answer_stateless(message)
        era = self.of_session
        if message.method == b"server/discover" or era.stored is None:
            return None
        era.delivered = era.stored["tools"]
        return encode_answer(message, result=era.delivered)

    def answer_handshake(self, message: Message, handshake: Handshake, *, is_behind: bool) -> bytes | None:
        """Return the stored answer to `initialize`, or None if there is none.

        The answer opens the client's session, so the handshake is repeated for the new server.
        """
        era = self.of_session
        if is_behind or handshake.initialize is not None:
            return None
        era.stored = read_stored(self.starter.workspace, message.line, wants_skills=self.wants_skills)
        if era.stored is None:
            return None
        handshake.initialize = message
        return encode_answer(message, result=era.stored["greeting"])

    def answer_stateless(self, message: Message) -> bytes | None:
        """Return the stored answer to a request without a session, or None if there is none.

        The answer tells the client not to cache it.
        """
        era = self.of_stateless
        if era.stored is None:
            era.stored = read_stored(
                self.starter.workspace, message.line, is_handshake=False, wants_skills=self.wants_skills
            )
            if era.stored is None:
                return None
            era.params = {"_meta": client_metadata(message.line)}
        is_list = message.method == b"tools/list"
        if is_list:
            era.delivered = era.stored["tools"]
        return encode_answer(message, result={**era.stored["tools" if is_list else "greeting"], "ttlMs": 0})

    def record_sent(self, message: Message) -> None:
        """Drop the pending notification if the client itself requests the list of tools."""
        if message.method == b"tools/list" and message.key is not None:
            self.owes_change = False

    def stop_answering(self, server: socket.socket, handshake: Handshake, connection: Connection) -> None:
        """Stop using stored answers, because a server is ready.

        If the client may have received a different list of tools, request the server's list to compare them.

        Raises:
            OSError: the connection was lost.
        """
        self.streams = {}
        if handshake.initialized is not None:
            self.of_session.delivered = None  # this client was notified that the list has changed
        for era in (self.of_session, self.of_stateless):
            if era.delivered is not None:
                connection.send_relay_line(server, era.list_request())
            era.stored = None

    def filter_server_lines(self, lines: list[bytes], in_flight: Container[bytes]) -> list[bytes]:
        """Return the server's lines for the client, while the client's list of tools may be out of date.

        The reply to the relay's own request for the list is removed. A notification is added if the list has changed.
        """
        eras = (self.of_session, self.of_stateless)
        if not self.owes_change and all(era.delivered is None for era in eras):
            return lines
        passed: list[bytes] = []
        for line in lines:
            message = classify_line(line)
            answered = next((era for era in eras if message.is_response and message.key == era.key), None)
            if answered is None:
                passed.append(line)
                self.record_stream(message)
            elif answered.has_list_changed(line):
                if answered is self.of_session:
                    passed.append(LIST_CHANGED_NOTIFICATION)
                else:
                    self.owes_change = True
            passed += self.notify_streams(in_flight) if self.owes_change else []
        return passed

    def record_stream(self, message: Message) -> None:
        """Store the id of the stream that this message opens, if the stream reports changes to the list of tools."""
        if message.method != b"notifications/subscriptions/acknowledged":
            return
        import json

        try:
            params = json.loads(message.line)["params"]
            if params["notifications"].get("toolsListChanged"):
                stream = params["_meta"][META_PREFIX + "subscriptionId"]
                self.streams[normalize_json_scalar(json.dumps(stream).encode())] = stream
        except (ValueError, LookupError, TypeError, AttributeError):
            return

    def notify_streams(self, in_flight: Container[bytes]) -> list[bytes]:
        """Return a notification about the list for each open stream. If there is none, a notification stays pending."""
        streams = [stream for key, stream in self.streams.items() if key in in_flight]
        self.owes_change = not streams
        method = "notifications/tools/list_changed"
        return [encode(method=method, params={"_meta": {META_PREFIX + "subscriptionId": stream}}) for stream in streams]


class StoredEra:
    """The stored answers of one protocol era, and the list of tools that the client received from them."""

    def __init__(self, key: bytes) -> None:
        self.key = key
        """The id of the relay's own request for the server's list, as JSON."""
        self.params: dict[str, object] = {}
        """The parameters of that request."""
        self.stored: dict[str, dict[str, object]] | None = None
        """The stored answers, from the first request that uses them until a server is ready."""
        self.delivered: dict[str, object] | None = None
        """The list that the client received, until it has been compared with the server's."""

    def list_request(self) -> bytes:
        """Return the relay's own request for the server's list of tools."""
        params = {"params": self.params} if self.params else {}
        return encode(id=self.key[1:-1].decode(), method="tools/list", **params)

    def has_list_changed(self, answer: bytes) -> bool:
        """Return whether the server's list of tools differs from the one that the client received.

        The comparison is made only once.
        """
        import json

        delivered, self.delivered = self.delivered, None
        if delivered is None:
            return False
        try:
            return bool(json.loads(answer)["result"]["tools"] != delivered["tools"])
        except (ValueError, LookupError, TypeError):
            return True


def is_stateless(line: bytes) -> bool:
    """Return whether a request contains its client's metadata, and so needs no session."""
    import json

    if META_PREFIX.encode() not in line:
        return False
    try:
        return META_PREFIX + "protocolVersion" in json.loads(line)["params"]["_meta"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return False


def read_stored(
    workspace: str, line: bytes, *, is_handshake: bool = True, wants_skills: bool = True
) -> dict[str, dict[str, object]] | None:
    """Return the stored greeting and list of tools for the client that sent `line`, or None.

    `greeting` answers `initialize` or `server/discover`, and `tools` answers `tools/list`. Stored answers are ignored
    if the Python interpreter, a settings file, Codriver's version, or one of its environment variables has changed.

    Source: `codriver.app.stored_answers`, which writes the file.
    """
    import json

    try:
        about = json.loads(line)["params"] if is_handshake else client_metadata(line)
        prefix, shape = ("", "protocolVersion") if is_handshake else (META_PREFIX, "supportedVersions")
        name, version = about[prefix + "clientInfo"]["name"], about[prefix + "protocolVersion"]
        status = os.stat(workspace)
        directory = open_directory(state_directory("lists"))
        try:
            if not is_mine(status_of(directory).st_uid) or is_open(status_of(directory), OTHERS):
                return None
            file = f"{status.st_dev}-{status.st_ino}.json"
            if is_open(status_in(directory, file), OTHERS):
                return None
            stored = json.loads(read_file(directory, file, MAX_STORED_BYTES))
        finally:
            close_directory(directory)
        named = {name: value for name, value in os.environ.items() if name.startswith("CODRIVER_")}
        environment = {name: value for name, value in named.items() if not name.endswith(EXCLUDED_VARIABLE_SUFFIX)}
        has_server_command = bool(environment.get("CODRIVER_SERVER_COMMAND"))
        is_same = stored["workspace"] == os.path.realpath(workspace) and stored["environment"] == environment
        if not is_same or not (has_server_command or stored["python"] == sys.executable):
            return None
        if any(file_stamp(path) != stamp for path, stamp in stored["files"].items()):
            return None
        for client in stored["clients"]:
            found = {part: client[part] for part in ("greeting", "tools")}
            is_sound = all(isinstance(part, dict) for part in found.values()) and shape in found["greeting"]
            is_same = (client["name"], client["protocol"]) == (name, version)
            if is_sound and is_same and ("withoutSkills" not in client) is wants_skills:
                return found
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None
    return None


def client_metadata(line: bytes) -> dict[str, Any]:
    """Return the client's metadata from a request without a handshake.

    Raises:
        LookupError, ValueError, TypeError: some metadata is missing, as in protocols with a handshake.
    """
    import json

    meta = json.loads(line)["params"]["_meta"]
    return {
        META_PREFIX + name: meta[META_PREFIX + name] for name in ("protocolVersion", "clientInfo", "clientCapabilities")
    }


def file_stamp(path: str) -> list[int] | None:
    """Return numbers that change whenever a file is modified, or None if the file does not exist.

    Source: `codriver.files.whole_files`, which computes the same numbers.
    """
    try:
        status = os.stat(path)
    except OSError:
        return None
    return [status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]
