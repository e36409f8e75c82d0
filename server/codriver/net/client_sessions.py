"""Sessions of connected clients, with the clients' names and pending requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import anyio

from codriver.core.actions import ClientConnected, ClientDisconnected
from codriver.core.records import Recent
from codriver.net.conversations import CLAUDE_CODE_CLIENT, conversation_digest, conversation_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from codriver.core.dispatch import Core
    from codriver.net.outbox import Outbox


MAX_NUMBERED_CONVERSATIONS: Final = 1000
"""Maximum number of conversations whose numbers a server remembers."""


class PendingRequests:
    """The requests of a client that are not answered yet, by id. Several of them may have the same id."""

    def __init__(self) -> None:
        self._open: dict[str | int, list[int]] = {}
        """The sizes in bytes of all pending requests with each id."""
        self.count = 0
        self.bytes = 0
        self._changed: anyio.Event | None = None

    def __len__(self) -> int:
        return self.count

    def __contains__(self, identity: str | int) -> bool:
        return identity in self._open

    def add(self, identity: str | int, size: int = 0) -> None:
        """Add a request whose line has `size` bytes."""
        self._open.setdefault(identity, []).append(size)
        self.count += 1
        self.bytes += size

    def remove(self, identity: object) -> None:
        """Remove a request, because it was answered or never will be. Unknown ids of any type are ignored."""
        if not isinstance(identity, str | int) or identity not in self._open:
            return
        self.bytes -= self._open[identity].pop()
        self.count -= 1
        if not self._open[identity]:
            del self._open[identity]
        if self._changed is not None:
            self._changed.set()

    def clear(self) -> None:
        """Remove all requests, because the client cannot receive answers any more."""
        self._open.clear()
        self.count = self.bytes = 0

    async def wait_for_removal(self) -> None:
        """Wait until `remove` removes a request."""
        self._changed = anyio.Event()
        await self._changed.wait()


class ClientSession:
    """The state of a connected client, for the lifetime of its connection."""

    def __init__(self, identity: str, outbox: Outbox, numbers: Recent[tuple[str, str], int] | None = None) -> None:
        """Create the session of a new client.

        `numbers` are the numbers of conversations by client name and id, including those of earlier connections.
        """
        self.id = identity
        self._numbers = Recent[tuple[str, str], int](MAX_NUMBERED_CONVERSATIONS) if numbers is None else numbers
        self._last_number = 0
        self.outbox = outbox
        self.name = ""
        self.handshake_version = ""
        """The protocol version that `initialize` negotiated, or empty before its result.

        Requests with their own envelope are stateless and do not belong to that session.
        """
        self.requested_version = ""
        """The protocol version that the client requested in `initialize`."""
        self.handshake = False
        """Whether the handshake is complete, in which case the client receives unsolicited notifications."""
        self.envelope: Mapping[str, object] | None = None
        """The envelope of the latest stateless request that was accepted."""
        self.sends_envelopes = False
        """Whether the client has sent a stateless request."""
        self.accepts_tasks = False
        """Whether the client declared support for tasks in the handshake."""
        self.accepts_skills = True
        """Whether the client receives skills from this server. False if it has them as files."""
        self.accepts_forms = False
        """Whether the client declared in the handshake that it can display forms to its user."""
        self.knows_withheld = False
        """Whether the client was informed of workspace settings that are ignored."""
        self.had_another = False
        """Whether the relay was connected to a different server before and the client has not been informed of that."""
        self.subscribed: set[str] = set()
        """URIs of the resources whose changes the client has subscribed to."""
        self.open_requests = PendingRequests()
        self.starts_server = False
        """Whether the client uses a relay that starts missing servers. Such a client keeps this server running."""
        self.calls = 0
        self.conversation = ""
        """The client's own session id from its latest call, or empty if it sends none."""
        self.conversation_of_claude = ""
        """The session id that Claude Code passed to its relay. Only used if the client is Claude Code."""
        self.read_immediately: Callable[[bytes], bool] = lambda _data: False
        """Processes bytes while nothing else is waiting to be read, and returns whether it consumed all of them."""
        self.part: Callable[[], object] = lambda: None
        """Closes the connection immediately, dropping unsent data."""
        self.has_left = False
        """Whether the client sends nothing more. Calls that are cancelled later are not cancelled by it."""
        self.reported_line = 0
        """The client has received the log up to this line, exclusive."""

    def update_conversation(self, meta: Mapping[str, object]) -> str:
        """Return the id of the client's current conversation, after updating it from the `_meta` of a call."""
        given = conversation_id(meta)
        if given is not None:
            self.conversation = given
        return self.conversation

    def conversation_number(self, conversation: str) -> int:
        """Return the number of a conversation, starting at 1. It distinguishes callers without a name.

        A conversation that continues over a new connection keeps its number.
        """
        if not conversation:
            return 1
        number = self._numbers.setdefault((self.name, conversation), self._last_number + 1)
        self._last_number = max(self._last_number, number)
        return number


class Clients:
    """The sessions of all connected clients."""

    def __init__(self, core: Core, *, introduced: Callable[[str], None]) -> None:
        """Create an empty collection. `introduced` is called with the name of each client that introduces itself."""
        self._core = core
        self._introduced = introduced
        self._sessions: dict[str, ClientSession] = {}
        self._accepted = 0
        self._numbers = Recent[tuple[str, str], int](MAX_NUMBERED_CONVERSATIONS)

    def __iter__(self) -> Iterator[ClientSession]:
        return iter(tuple(self._sessions.values()))

    def __len__(self) -> int:
        return len(self._sessions)

    def add(self, outbox: Outbox) -> ClientSession:
        """Create the session of a new client, and report the client to the core."""
        self._accepted += 1
        session = ClientSession(f"c{self._accepted}", outbox, self._numbers)
        self._sessions[session.id] = session
        self._core.report(ClientConnected(session.id))
        return session

    def introduce(self, session: ClientSession, *, name: str, handshake: bool) -> None:
        """Set the name of a client and report it to the core, unless it is already known."""
        if session.handshake == handshake and session.name == name and session.name:
            return
        session.name, session.handshake = name, handshake
        if name == CLAUDE_CODE_CLIENT and not session.conversation:
            session.conversation = session.conversation_of_claude
        self._introduced(name)

    def remove(self, session: ClientSession) -> None:
        """Remove a client whose connection has closed."""
        del self._sessions[session.id]
        self._core.report(ClientDisconnected(session.id))

    def counters(self) -> list[dict[str, object]]:
        """Return the counters of each client as a JSON object, for `server_health`."""
        return [
            {
                "id": session.id,
                "name": session.name,
                "openRequests": len(session.open_requests),
                "calls": session.calls,
                "queued": session.outbox.waiting,
                "droppedNotifications": session.outbox.dropped,
                **({"conversation": conversation_digest(session.conversation)} if session.conversation else {}),
                **({"startsServer": True} if session.starts_server else {}),
            }
            for session in self._sessions.values()
        ]
