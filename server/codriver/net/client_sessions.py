"""Client sessions: each connected client's name and open requests, and all clients together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio

from codriver.core.actions import ClientConnected, ClientGone
from codriver.net.conversations import CLAUDE_CODE, conversation_of, digest_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from codriver.core.dispatch import Core
    from codriver.net.outbox import Outbox


class OpenRequests:
    """The requests read from a client and not answered yet, by id. A client may use an id twice at the same time."""

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
        """Forget all requests: no one is left to answer."""
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
        """The protocol version that `initialize` requested."""
        self.handshake = False
        """Whether the client finished the handshake, so that it gets notifications unasked."""
        self.envelope: Mapping[str, object] | None = None
        """The envelope of the newest stateless request that was admitted."""
        self.sends_envelopes = False
        """Whether the client has sent a stateless request."""
        self.accepts_tasks = False
        """Whether the client declared tasks in the handshake."""
        self.accepts_skills = True
        """Whether the client gets skills from this server; not if it has them as files."""
        self.accepts_forms = False
        """Whether the client declared in the handshake that it shows forms to its human."""
        self.knows_withheld = False
        """Whether the client was notified of the workspace's settings that do not count."""
        self.had_another = False
        """Whether the client's relay was connected to another server before, and the client was not notified yet."""
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
        self.read_immediately: Callable[[bytes], bool] = lambda _data: False
        """Receives bytes while nothing else waits to be read, and returns whether it consumed all of them."""
        self.part: Callable[[], object] = lambda: None
        """Closes the connection immediately, whatever is still to be sent."""
        self.has_left = False
        """Whether nothing more comes from the client: later cancellations are not its own."""
        self.reported_line = 0
        """The client received the log up to this line, exclusive."""

    def note_conversation(self, meta: Mapping[str, object]) -> str:
        """Store the id of the client's own conversation from the `_meta` of a call, and return it."""
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
        """Return a new client."""
        self._accepted += 1
        session = ClientSession(f"c{self._accepted}", outbox)
        self._sessions[session.id] = session
        self._core.report(ClientConnected(session.id))
        return session

    def introduce(self, session: ClientSession, *, name: str, handshake: bool) -> None:
        """Record a client's name. Repeating it is harmless."""
        if session.handshake == handshake and session.name == name and session.name:
            return
        session.name, session.handshake = name, handshake
        if name == CLAUDE_CODE and not session.conversation:
            session.conversation = session.conversation_of_claude
        self._introduced(name)

    def remove(self, session: ClientSession) -> None:
        """Remove a client whose connection has finished."""
        del self._sessions[session.id]
        self._core.report(ClientGone(session.id))

    def counters(self) -> list[dict[str, object]]:
        """Return one row a client."""
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
