"""The kept greeting and list of tools of a workspace, for answers to a client while its server starts.

Imported when a server is being started.
"""

from __future__ import annotations

import os
import sys

from codriver_relay.connection import LIST_CHANGED
from codriver_relay.messages import META, Message, encode, encode_answer, respell, survey
from codriver_relay.own_files import (
    OTHERS,
    close_folder,
    is_mine,
    is_open,
    open_folder,
    read_file,
    state_folder,
    status_in,
    status_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket as socket
    from collections.abc import Container
    from typing import Any

    from codriver_relay.connection import Handshake
    from codriver_relay.starter import Starter

LIST_ID, LIST_KEY = "codriver-relay-list", b'"codriver-relay-list"'
LIST_QUESTION = b'{"jsonrpc":"2.0","id":%s,"method":"tools/list"}\n' % LIST_KEY
KEPT_BYTES = 1 << 20
"""Ten times the size of the file that a server keeps of a workspace."""
NOT_COMPARED = "_TOKEN"
"""The end of the names of variables of ours by which no list differs: they are secrets, and are written nowhere."""


class KeptAnswers:
    """The kept answers for a client, until the server's list of tools is known to be the same.

    They live from the first time that a server is started for the client.
    """

    def __init__(self, starter: Starter) -> None:
        self.starter = starter
        self.kept: dict[str, dict[str, object]] | None = None
        """The answers kept for this client, from the first request that they answer until a server is there."""
        self.told: dict[str, object] | None = None
        """The kept list of tools that the client was given, until it is known whether the server's differs."""
        self.question = LIST_QUESTION
        """The request for the server's list, to compare the list with the kept one."""
        self.owes_change = False
        """Whether the server's list differs while no stream is open to tell the client."""
        self.streams: dict[bytes, object] = {}
        """The ids of the client's streams for changes of the list over this connection, by key."""

    def answer(self, message: Message, handshake: Handshake, *, is_behind: bool) -> bytes | None:
        """The answer to a client's first request, or for the list; None without a valid kept one.

        `is_behind`: other messages wait for the server, before which no handshake is taken out of their order.
        """
        is_first, is_list = message.method == b"initialize", message.method == b"tools/list"
        if not (is_first or is_list or message.method == b"server/discover") or b'"cursor"' in message.line:
            return None
        if not self.starter.is_starting or message.id is None:
            return None
        if handshake.initialize is None:
            kept = read_kept(self.starter.workspace, message.line, is_handshake=is_first)
            if kept is None or (is_first and (self.kept or is_behind)):
                return None
            self.kept = kept
            if is_first:
                handshake.initialize = message  # for the server that comes
            else:
                self.question = encode(id=LIST_ID, method="tools/list", params={"_meta": envelope_of(message.line)})
        elif self.kept is None or not is_list:
            return None
        if is_list or handshake.initialize is None:
            self.told = self.kept["tools"]
        result = self.kept["tools" if is_list else "greeting"]
        return encode_answer(message, result=result if handshake.initialize else {**result, "ttlMs": 0})

    def note_sent(self, message: Message) -> None:
        """Owe nothing to a client that asks the server for its list."""
        if message.method == b"tools/list" and message.key is not None:
            self.owes_change = False

    def end(self, server: socket.socket, handshake: Handshake) -> None:
        """Stop answering, as a server is there, and ask it for its list if the client may have another.

        Raises:
            OSError: the connection broke.
        """
        self.streams = {}
        if handshake.initialized is not None:
            self.told = None  # the client was told that the list changed
        if self.told is not None:
            server.sendall(self.question)
        self.kept = None

    def compare(self, lines: list[bytes], in_flight: Container[bytes], *, has_handshake: bool) -> list[bytes]:
        """The lines for the client out of these, while the client's list may differ from the server's.

        The server's list, which serves the comparison, is left out, and the notification of a change is added.
        """
        if self.told is None and not self.owes_change:
            return lines
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
            passed += self.tell_change(in_flight, has_handshake=has_handshake) if self.owes_change else []
        return passed

    def tell_change(self, in_flight: Container[bytes], *, has_handshake: bool) -> list[bytes]:
        """The notifications of a changed list: one, or one for each stream; without a stream they stay owed."""
        if has_handshake:
            self.owes_change = False
            return [LIST_CHANGED]
        streams = [stream for key, stream in self.streams.items() if key in in_flight]
        self.owes_change = not streams
        method = "notifications/tools/list_changed"
        return [encode(method=method, params={"_meta": {META + "subscriptionId": stream}}) for stream in streams]


def read_kept(workspace: str, line: bytes, *, is_handshake: bool = True) -> dict[str, dict[str, object]] | None:
    """The kept greeting and list of tools of a workspace, for the client that sent `line`: its `initialize`, or any.

    `greeting` and `tools` are the answers to `initialize`, or `server/discover`, and to `tools/list`. None without any,
    or if anything has changed since: the Python, a file that settings or the version come from, a variable of ours.
    Source: `codriver.app.kept_lists`, which writes it.
    """
    import json

    try:
        about = json.loads(line)["params"] if is_handshake else envelope_of(line)
        prefix, shape = ("", "protocolVersion") if is_handshake else (META, "supportedVersions")
        name, version = about[prefix + "clientInfo"]["name"], about[prefix + "protocolVersion"]
        status = os.stat(workspace)
        folder = open_folder(state_folder("lists"))
        try:
            if not is_mine(status_of(folder).st_uid) or is_open(status_of(folder), OTHERS):
                return None
            file = f"{status.st_dev}-{status.st_ino}.json"
            if is_open(status_in(folder, file), OTHERS):
                return None
            kept = json.loads(read_file(folder, file, KEPT_BYTES))
        finally:
            close_folder(folder)
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


def envelope_of(line: bytes) -> dict[str, Any]:
    """The envelope of a request: the facts on a client without a handshake that each request has to carry.

    Raises:
        LookupError, ValueError, TypeError: the request lacks some of them, as in a handshake era.
    """
    import json

    meta = json.loads(line)["params"]["_meta"]
    return {META + name: meta[META + name] for name in ("protocolVersion", "clientInfo", "clientCapabilities")}


def stamp_of(path: str) -> list[int] | None:
    """The stamp of a file, in the server's form; None for a missing file. Source: `codriver.files.whole_files`."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return [status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]
