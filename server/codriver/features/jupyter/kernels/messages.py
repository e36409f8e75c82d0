"""Jupyter protocol messages, independent of their transport.

Source: Jupyter documentation, "Messaging in Jupyter"; JEP 65 (`iopub_welcome`), JEP 91 (subshells).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Literal
from uuid import uuid4

from codriver.wire.untrusted import EMPTY_MAPPING, mapping_at, text_at

if TYPE_CHECKING:
    from collections.abc import Mapping

Socket = Literal["shell", "control", "stdin", "iopub"]
"""One of a kernel's sockets. Messages on the same socket are ordered, but messages on different sockets are not."""

SOCKET_NAMES: Final[tuple[Socket, ...]] = ("shell", "control", "stdin", "iopub")

PROTOCOL_VERSION: Final = "5.3"
"""The protocol version that Codriver's messages declare."""
RATE_LIMIT_PREFIXES: Final = ("IOPub data rate exceeded", "IOPub message rate exceeded")
"""Prefixes of the text that a Jupyter Server prints when it omits messages from its kernel.

Source: jupyter_server, `ZMQChannelsWebsocketConnection`.
"""
OMITTED_TYPE: Final = "codriver/left-out"
"""Type of a message that Codriver inserts in place of dropped ones. It is never sent."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message from a kernel. Its parent is the client request that caused it."""

    socket: Socket
    type: str
    id: str = ""
    session: str = ""
    """The kernel's session id. It changes when the kernel is restarted."""
    content: Mapping[str, object] = field(default_factory=lambda: EMPTY_MAPPING)
    metadata: Mapping[str, object] = field(default_factory=lambda: EMPTY_MAPPING)
    parent_id: str = ""
    """The id of the parent. Empty for messages without a cause, such as those sent while a kernel is starting."""
    parent_type: str = ""
    parent_session: str = ""
    """The session id of the client that sent the parent."""
    parent_subshell: str = ""
    """The subshell of the parent, or empty for the main shell."""
    omitted_bytes: int = 0
    """Number of bytes that were not stored, either from this message or from those that it replaces."""
    read_error: str = ""
    """The reason why the content could not be read, or an empty string."""

    def text(self, key: str) -> str:
        """Return the string at `key` in the content, or an empty string."""
        return text_at(self.content, key)

    def mapping_field(self, key: str) -> Mapping[str, object]:
        """Return the object at `key` in the content, or an empty mapping."""
        return mapping_at(self.content, key)

    @property
    def state(self) -> str:
        """Return the execution state in a status message, such as `busy` or `idle`, or an empty string."""
        return self.text("execution_state") if self.type == "status" else ""


def parse_message(socket: Socket, parts: Mapping[str, object]) -> Message:
    """Create a message from its parts, such as the header and the content. Missing parts are empty."""
    header, parent = mapping_at(parts, "header"), mapping_at(parts, "parent_header")
    return Message(
        socket=socket,
        type=text_at(header, "msg_type"),
        id=text_at(header, "msg_id"),
        session=text_at(header, "session"),
        content=mapping_at(parts, "content"),
        metadata=mapping_at(parts, "metadata"),
        parent_id=text_at(parent, "msg_id"),
        parent_type=text_at(parent, "msg_type"),
        parent_session=text_at(parent, "session"),
        parent_subshell=text_at(parent, "subshell_id"),
    )


def new_header(msg_type: str, session: str, subshell: str | None = None) -> dict[str, object]:
    """Return the header of a new message, with a random message id."""
    header: dict[str, object] = {
        "msg_id": uuid4().hex, "msg_type": msg_type, "username": "codriver", "session": session,
        "date": datetime.now(UTC).isoformat(), "version": PROTOCOL_VERSION,
    }  # fmt: skip
    return {**header, "subshell_id": subshell} if subshell else header
