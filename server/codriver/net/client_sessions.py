"""Client sessions: each connected client's name, outbox, subscriptions and open requests, and all clients together.

An outbox holds the lines that wait to be written. A response is never dropped. A notification may be: beyond the limits
the oldest waiting notification goes first, and is counted. So a client that reads slowly costs itself notifications,
and nobody else anything. A client that sends without ever reading is not read any more while `is_congested`.

`SeenClients` writes down when each client was connected last, for `codriver init --list`: one file a user, in the state
folder, with the newest clients of all workspaces, each by the name of its callers, such as `codex`.
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
from codriver.net.tasks import BackgroundWrites

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator, Mapping

    from anyio.abc import SocketStream

    from codriver.core.dispatch import Core


class OpenRequests:
    """The requests read from a client and not answered yet, by id. A client may use an id twice at once."""

    def __init__(self) -> None:
        self._open: dict[str | int, list[int]] = {}
        """By id the size of each request that has it, in bytes."""
        self.count = 0
        self.bytes = 0
        self._changed: anyio.Event | None = None

    def __len__(self) -> int:
        return self.count

    def __contains__(self, identity: str | int) -> bool:
        return identity in self._open

    def add(self, identity: str | int, size: int = 0) -> None:
        """One more was read, of so many bytes."""
        self._open.setdefault(identity, []).append(size)
        self.count += 1
        self.bytes += size

    def remove(self, identity: object) -> None:
        """Remove a request that is answered, or will not be. What is not open is passed over, whatever it is."""
        if not isinstance(identity, str | int) or identity not in self._open:
            return
        self.bytes -= self._open[identity].pop()
        self.count -= 1
        if not self._open[identity]:
            del self._open[identity]
        if self._changed is not None:
            self._changed.set()

    def clear(self) -> None:
        """Nobody is left to answer."""
        self._open.clear()
        self.count = self.bytes = 0

    async def wait_removed(self) -> None:
        """Wait until one more is not open any more."""
        self._changed = anyio.Event()
        await self._changed.wait()


MAX_CONVERSATION: Final = 128
"""Characters of a client's id of its own session; Codex's has 36."""


class ClientSession:
    """One client, for the life of its connection."""

    def __init__(self, identity: str, outbox: Outbox) -> None:
        self.id = identity
        self.outbox = outbox
        self.name = ""
        self.protocol = ""
        """The version of the protocol that it speaks, from the request on that settled it."""
        self.handshake = False
        """Whether it is initialized by the handshake, so that notifications go to it unasked."""
        self.envelope: Mapping[str, object] | None = None
        """Of a client without a handshake: the envelope of a request of its that was let in; each request has one."""
        self.greeting: tuple[str, Mapping[str, object]] | None = None
        """The protocol version that it asked for, and the answer to its `initialize` or `server/discover`.

        Its instructions are not those of the next time.
        """
        self.takes_tasks = False
        """Whether it declared in the handshake that it knows tasks."""
        self.takes_forms = False
        """Whether it declared in the handshake that it shows its human a form."""
        self.knows_withheld = False
        """Whether it was told which of the workspace's settings do not count."""
        self.had_another = False
        """Whether its relay was connected to another server before, and it was not told yet."""
        self.subscribed: set[str] = set()
        """URIs of resources whose changes it asked to be told."""
        self.open_requests = OpenRequests()
        self.starts_server = False
        """Whether it comes by a relay that starts a server where none runs, and so keeps one alive."""
        self.calls = 0
        self.conversation = ""
        """The id of the session of its own that its newest call says it came from; empty if it says none."""
        self.take_at_once: Callable[[bytes], bool] = lambda _data: False
        """Given what comes while nothing else waits to be read; whether it took all of it, which is then not read."""
        self.has_left = False
        """Nothing more comes from it: what is cancelled from now on, it did not cancel itself."""
        self.told_line = 0
        """The log is told of up to here, this line not included."""

    def note_conversation(self, meta: Mapping[str, object]) -> str:
        """Keep what the `_meta` of a call says of the client's own session, and give it.

        Source: Codex 0.169.0, observed, which has several over one connection. Claude Code 2.1.330 names none.
        """
        given = meta.get("sessionId")
        if isinstance(given, str) and given.isprintable() and len(given) <= MAX_CONVERSATION:
            self.conversation = given
        return self.conversation


class Clients:
    """All connected clients: their live sessions, where the core's state holds only their names."""

    def __init__(self, core: Core, *, introduced: Callable[[str], None]) -> None:
        """`introduced` is given the name of each client that says who it is."""
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
        """The client said who it is. Again is harmless."""
        if session.handshake == handshake and session.name == name and session.name:
            return
        session.name, session.handshake = name, handshake
        self._introduced(name)

    def remove(self, session: ClientSession) -> None:
        """The client's connection is over."""
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
                **({"conversation": session.conversation} if session.conversation else {}),
                **({"startsServer": True} if session.starts_server else {}),
            }
            for session in self._sessions.values()
        ]


BATCH_BYTES = 64 * 1024
"""About what a socket takes in one call."""


def immediately(stream: SocketStream) -> Callable[[bytes], bool]:
    """Sends a line at once if nothing else is on its way to the socket, and says whether.

    The stream's own `send` gives all other tasks a turn for each line: one notification to 200 clients took three times
    as long. The library keeps the transport to itself; without it every line goes the long way.
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

    `write_now` takes a line if it can be sent without waiting; what it takes while nothing else waits is not queued.
    Else `start_writer` begins a writer, which takes batches until there is none: most clients never need one.
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
        """There is no writer, so nothing is on its way that a new line could overtake."""
        self.dropped = 0
        """How many notifications this client lost."""

    @property
    def waiting(self) -> int:
        """The number of lines that wait."""
        return len(self._lines)

    @property
    def is_congested(self) -> bool:
        """Whether so much waits that nothing more should be read from this client."""
        return self._waiting_bytes > self._congested_bytes

    def put(self, line: bytes) -> None:
        """Add a response. It stays until it is written or the connection is gone."""
        if not (self._is_idle and self._write_now(line)):
            self._add(line)

    def offer(self, line: bytes) -> None:
        """Add a notification; the oldest waiting ones make room for it."""
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
        """The next lines as one piece of bytes, in order; None when nothing waits, and then the writer ends."""
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
        """The writer got rid of `size` bytes of a batch."""
        self._waiting_bytes -= size
        if self._room is not None and not self.is_congested:
            self._room.set()

    async def wait_for_room(self) -> None:
        """Return once the outbox is not congested."""
        while self.is_congested and not self._closed:
            self._room = anyio.Event()
            await self._room.wait()

    def close(self) -> None:
        """No more will come."""
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
"""How the names of our own commands begin, which are no clients of a user's: no relay serves them."""
REST_S: Final = 60
"""A client that comes and goes is written down once in this time."""


class SeenClients:
    """Notes who connects, for the life of one server. No client waits for it, and none of it fails."""

    def __init__(self) -> None:
        self._writes = BackgroundWrites()
        self._noted: dict[str, float] = {}
        """By client the time at which it was written down last, on the clock of the event loop."""

    def note(self, who: str) -> None:
        """A client of this name is connected."""
        if not who or who.startswith(OWN_NAMES) or (who not in self._noted and len(self._noted) >= MAX_CLIENTS):
            return
        now = anyio.current_time()
        if now - self._noted.get(who, -REST_S) >= REST_S:
            self._noted[who] = now
            self._writes.start(partial(write, who, time.time()))

    async def end(self) -> None:
        """Wait until all is written."""
        await self._writes.end()


def write(who: str, now_s: float) -> None:
    """Note that a client was connected at this time, in seconds since 1970. Blocks.

    Without a word where it cannot be written: it is only there to be shown.
    """
    seen = {**read(), who: int(now_s)}
    kept = {name: seen[name] for name in sorted(seen, key=seen.__getitem__, reverse=True)[:MAX_CLIENTS]}
    try:
        path = state_folder() / RECORD
        files.replace(path, json.dumps(kept).encode(), links=files.Links.OWN, make_mode=files.PRIVATE_FOLDER)
    except OSError as error:
        logger.info("the client is not noted: %s", error)


def read() -> Mapping[str, int]:
    """The newest time of each client, in seconds since 1970; empty where nothing is recorded that can be read."""
    found = files.read_json(state_folder() / RECORD, RULES)
    rows = found.items() if isinstance(found, dict) else ()
    return MappingProxyType({name: when for name, when in rows if type(when) is int and 0 <= when < 2**40})
