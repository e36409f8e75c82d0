"""Client sessions: each connected client's name, outbox, subscriptions and open requests, and all clients together.

An outbox holds the lines that wait to be written. A response is never dropped. A notification may be dropped: beyond
the limits the oldest waiting notification goes first, and is counted. So a slow reader loses notifications of its own,
and costs nobody else anything. A client that sends without ever reading is not read while `is_congested`.

`SeenClients` writes down the time of each client's last connection, for `codriver init --list`: one file a user, in the
state folder, with the newest clients of all workspaces by their callers' names, such as `codex`.
"""

from __future__ import annotations

import json
import logging
import time
from collections import OrderedDict
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import anyio

from codriver import files
from codriver.core.actions import ClientConnected, ClientGone
from codriver.files.own_folders import state_folder
from codriver.net.background_writes import BackgroundWrites
from codriver.net.conversations import CLAUDE_CODE, conversation_of, digest_of

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator, Mapping

    from anyio.abc import SocketStream

    from codriver.core.dispatch import Core


class OpenRequests:
    """The requests read from a client and not answered yet, by id. A client may use an id twice at once."""

    def __init__(self) -> None:
        self._open: dict[str | int, list[int]] = {}
        """By id the sizes in bytes of all requests with that id."""
        self.count = 0
        self.bytes = 0
        self._changed: anyio.Event | None = None

    def __len__(self) -> int:
        return self.count

    def __contains__(self, identity: str | int) -> bool:
        return identity in self._open

    def add(self, identity: str | int, size: int = 0) -> None:
        """Add a request of so many bytes that was read."""
        self._open.setdefault(identity, []).append(size)
        self.count += 1
        self.bytes += size

    def remove(self, identity: object) -> None:
        """Remove a request that is answered, or never will be. An id that is not open is ignored, whatever its type."""
        if not isinstance(identity, str | int) or identity not in self._open:
            return
        self.bytes -= self._open[identity].pop()
        self.count -= 1
        if not self._open[identity]:
            del self._open[identity]
        if self._changed is not None:
            self._changed.set()

    def clear(self) -> None:
        """Forget all requests: nobody is left to answer."""
        self._open.clear()
        self.count = self.bytes = 0

    async def wait_removed(self) -> None:
        """Wait until another request is removed."""
        self._changed = anyio.Event()
        await self._changed.wait()


class ClientSession:
    """One client, for the life of its connection."""

    def __init__(self, identity: str, outbox: Outbox) -> None:
        self.id = identity
        self.outbox = outbox
        self.name = ""
        self.handshake_version = ""
        """The protocol version of the session that `initialize` opened; empty before its result.

        Requests with an envelope of their own are stateless, and do not belong to that session.
        """
        self.requested_version = ""
        """The protocol version that `initialize` asked for."""
        self.handshake = False
        """Whether the client finished the handshake, so that it gets notifications unasked."""
        self.envelope: Mapping[str, object] | None = None
        """The envelope of the newest stateless request that was admitted."""
        self.sends_envelopes = False
        """Whether the client has sent a stateless request."""
        self.takes_tasks = False
        """Whether the client declared tasks in the handshake."""
        self.takes_skills = True
        """Whether the client gets skills from this server; not if it has them as files."""
        self.takes_forms = False
        """Whether the client declared in the handshake that it shows forms to its human."""
        self.knows_withheld = False
        """Whether the client was told the workspace's settings that do not count."""
        self.had_another = False
        """Whether the client's relay was connected to another server before, and the client was not told yet."""
        self.subscribed: set[str] = set()
        """URIs of the resources whose changes the client subscribed to."""
        self.open_requests = OpenRequests()
        self.starts_server = False
        """Whether the client comes by a relay that starts missing servers, and so keeps this one alive."""
        self.calls = 0
        self.conversation = ""
        """The client's own session id, as its newest call names it; empty if the call names none."""
        self.conversation_of_claude = ""
        """The session id that Claude Code gave its relay; it counts only if the client says that it is Claude Code."""
        self.take_at_once: Callable[[bytes], bool] = lambda _data: False
        """Gets bytes that come while nothing else waits to be read; whether it took all of them, so that nobody reads
        them.
        """
        self.part: Callable[[], object] = lambda: None
        """Ends the connection at once, whatever is still to be sent."""
        self.has_left = False
        """Whether nothing more comes from the client: later cancellations are not its own."""
        self.told_line = 0
        """The client was told of the log up to this line, the line not included."""

    def note_conversation(self, meta: Mapping[str, object]) -> str:
        """Keep the id of the client's own conversation from the `_meta` of a call, and return it."""
        given = conversation_of(meta)
        if given is not None:
            self.conversation = given
        return self.conversation


class Clients:
    """All connected clients: their live sessions, where the core's state holds only their names."""

    def __init__(self, core: Core, *, introduced: Callable[[str], None]) -> None:
        """`introduced` gets the name of each client that introduces itself."""
        self._core = core
        self._introduced = introduced
        self._sessions: dict[str, ClientSession] = {}
        self._accepted = 0

    def __iter__(self) -> Iterator[ClientSession]:
        return iter(tuple(self._sessions.values()))

    def __len__(self) -> int:
        return len(self._sessions)

    def add(self, outbox: Outbox) -> ClientSession:
        """A new client."""
        self._accepted += 1
        session = ClientSession(f"c{self._accepted}", outbox)
        self._sessions[session.id] = session
        self._core.report(ClientConnected(session.id))
        return session

    def introduce(self, session: ClientSession, *, name: str, handshake: bool) -> None:
        """Take note of a client's name. Again is harmless."""
        if session.handshake == handshake and session.name == name and session.name:
            return
        session.name, session.handshake = name, handshake
        if name == CLAUDE_CODE and not session.conversation:
            session.conversation = session.conversation_of_claude
        self._introduced(name)

    def remove(self, session: ClientSession) -> None:
        """Remove a client whose connection is over."""
        del self._sessions[session.id]
        self._core.report(ClientGone(session.id))

    def counters(self) -> list[dict[str, object]]:
        """One row a client."""
        return [
            {
                "id": session.id,
                "name": session.name,
                "openRequests": len(session.open_requests),
                "calls": session.calls,
                "queued": session.outbox.waiting,
                "droppedNotifications": session.outbox.dropped,
                **({"conversation": digest_of(session.conversation)} if session.conversation else {}),
                **({"startsServer": True} if session.starts_server else {}),
            }
            for session in self._sessions.values()
        ]


BATCH_BYTES = 64 * 1024
"""About as much as a socket takes in one call."""


def immediately(stream: SocketStream) -> Callable[[bytes], bool]:
    """A function that sends a line at once if nothing else is on its way to the socket; whether it did.

    The stream's own `send` gives all other tasks a turn for each line: one notification to 200 clients took three times
    as long. The library keeps the transport private; without the transport every line goes the long way.
    """
    transport: asyncio.WriteTransport | None = getattr(stream, "_transport", None)
    if transport is None:
        return lambda _line: False

    def write(line: bytes) -> bool:
        if len(line) > BATCH_BYTES or transport.is_closing() or transport.get_write_buffer_size():
            return False
        transport.write(line)
        return True

    return write


class Outbox:
    """A queue of encoded lines for one connection.

    `write_now` takes a line that can be sent without waiting; while nothing else waits, such a line is not queued.
    Otherwise `start_writer` begins a writer, which takes batches until none is left: most clients never need a writer.
    """

    def __init__(
        self,
        *,
        max_notifications: int,
        max_notification_bytes: int,
        congested_bytes: int,
        write_now: Callable[[bytes], bool] = lambda _line: False,
        start_writer: Callable[[], object] = lambda: None,
    ) -> None:
        self._max_notifications = max_notifications
        self._max_notification_bytes = max_notification_bytes
        self._congested_bytes = congested_bytes
        self._lines: OrderedDict[int, bytes] = OrderedDict()
        self._notifications: OrderedDict[int, int] = OrderedDict()
        self._next = 0
        self._waiting_bytes = 0
        self._notification_bytes = 0
        self._room: anyio.Event | None = None
        self._closed = False
        self._write_now = write_now
        self.start_writer = start_writer
        self.on_first_loss: Callable[[], object] = lambda: None
        """Called when the client loses a notification for the first time."""
        self._is_idle = True
        """Whether no writer runs, so that a new line can overtake nothing."""
        self.dropped = 0
        """The number of notifications that this client lost."""

    @property
    def waiting(self) -> int:
        """The number of lines that wait."""
        return len(self._lines)

    @property
    def is_congested(self) -> bool:
        """Whether so many bytes wait that nothing more should be read from this client."""
        return self._waiting_bytes > self._congested_bytes

    def put(self, line: bytes) -> None:
        """Add a response. It stays until it is written or the connection is gone."""
        if not self._closed and not (self._is_idle and self._write_now(line)):
            self._add(line)

    def offer(self, line: bytes) -> None:
        """Add a notification; the oldest waiting ones make room for it."""
        if self._closed:
            return
        if self._is_idle and self._write_now(line):
            return
        self._notifications[self._next] = len(line)
        self._notification_bytes += len(line)
        self._add(line)
        while (
            len(self._notifications) > self._max_notifications
            or self._notification_bytes > self._max_notification_bytes
        ):
            oldest, size = self._notifications.popitem(last=False)
            self._notification_bytes -= size
            self._waiting_bytes -= len(self._lines.pop(oldest))
            self.dropped += 1
            if self.dropped == 1:
                self.on_first_loss()

    def batch(self) -> bytes | None:
        """The next lines as one piece of bytes, in order; None when nothing waits, so that the writer ends."""
        if not self._lines:
            self._is_idle = True
            return None
        size, lines = 0, []
        while self._lines and size < BATCH_BYTES:
            number, line = self._lines.popitem(last=False)
            self._notification_bytes -= self._notifications.pop(number, 0)
            size += len(line)
            lines.append(line)
        return lines[0] if len(lines) == 1 else b"".join(lines)

    def written(self, size: int) -> None:
        """Note that the writer has written `size` bytes of a batch."""
        self._waiting_bytes -= size
        if self._room is not None and not self.is_congested:
            self._room.set()

    async def wait_for_room(self) -> None:
        """Return once the outbox is not congested."""
        while self.is_congested and not self._closed:
            self._room = anyio.Event()
            await self._room.wait()

    def close(self) -> None:
        """End the outbox: no more lines will come."""
        self._closed = True
        if self._room is not None:
            self._room.set()

    def _add(self, line: bytes) -> None:
        self._lines[self._next] = line
        self._next += 1
        self._waiting_bytes += len(line)
        if self._is_idle:
            self._is_idle = False
            self.start_writer()


logger = logging.getLogger(__name__)

RECORD: Final = "seen-clients.json"
MAX_CLIENTS: Final = 64
RULES: Final = files.Rules(files.Links.OWN, most_bytes=64 * files.KIBIBYTE)
OWN_NAMES: Final = "codriver-"
"""The beginning of the names of our own commands, which use no relay and are no clients of a user's."""
REST_S: Final = 60
"""The time within which a client that comes and goes is written down only once."""


class SeenClients:
    """Notes the clients that connect, for the life of one server. No client waits for a note, and no note fails."""

    def __init__(self) -> None:
        self._writes = BackgroundWrites()
        self._noted: dict[str, float] = {}
        """The time of each client's last note, on the clock of the event loop."""

    def note(self, who: str) -> None:
        """Note a connected client of this name."""
        if not who or who.startswith(OWN_NAMES) or (who not in self._noted and len(self._noted) >= MAX_CLIENTS):
            return
        now = anyio.current_time()
        if now - self._noted.get(who, -REST_S) >= REST_S:
            self._noted[who] = now
            self._writes.start(partial(write, who, time.time()))

    async def end(self) -> None:
        """Wait until all notes are written."""
        await self._writes.end()


def write(who: str, now_s: float) -> None:
    """Note that a client was connected at this time, in seconds since 1970. Blocks.

    A note that cannot be written is dropped silently: notes are only shown.
    """
    seen = {**read(), who: int(now_s)}
    kept = {name: seen[name] for name in sorted(seen, key=seen.__getitem__, reverse=True)[:MAX_CLIENTS]}
    try:
        path = state_folder() / RECORD
        files.replace(path, json.dumps(kept).encode(), links=files.Links.OWN, make_mode=files.PRIVATE_FOLDER)
    except OSError as error:
        logger.info("the client is not noted: %s", error)


def read() -> Mapping[str, int]:
    """The newest time of each client, in seconds since 1970; empty without a readable record."""
    found = files.read_json(state_folder() / RECORD, RULES)
    rows = found.items() if isinstance(found, dict) else ()
    return MappingProxyType({name: when for name, when in rows if type(when) is int and 0 <= when < 2**40})
