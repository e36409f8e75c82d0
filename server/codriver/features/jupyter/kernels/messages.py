"""Messages of the Jupyter protocol, as values that do not depend on how they are transported.

Source: Jupyter documentation, "Messaging in Jupyter"; JEP 65 (`iopub_welcome`), JEP 91 (subshells).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Literal
from uuid import uuid4

from codriver.wire.untrusted import NOTHING, mapping_of, text_of

if TYPE_CHECKING:
    from collections.abc import Mapping

Socket = Literal["shell", "control", "stdin", "iopub"]
"""A channel of a kernel. Each keeps its own order; messages of different channels have no order."""

SOCKETS: Final[tuple[Socket, ...]] = ("shell", "control", "stdin", "iopub")

VERSION: Final = "5.3"
"""The version of the protocol in our messages."""
RATE_LIMIT: Final = ("IOPub data rate exceeded", "IOPub message rate exceeded")
"""The words of a Jupyter Server that leaves its kernel's messages out. Source: jupyter_server, its WebSocket."""
LEFT_OUT: Final = "codriver/left-out"
"""The type of our own message in the place of dropped ones."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a kernel. Its parent, the request that the message is about, is ours or another client's."""

    socket: Socket
    type: str
    id: str = ""
    session: str = ""
    """The kernel's session: another session means a restart."""
    content: Mapping[str, object] = field(default_factory=lambda: NOTHING)
    metadata: Mapping[str, object] = field(default_factory=lambda: NOTHING)
    parent_id: str = ""
    """Empty for a message without a cause, as at a kernel's start."""
    parent_type: str = ""
    parent_session: str = ""
    """The session of the client that sent the parent."""
    parent_subshell: str = ""
    """The subshell of the parent; empty for the main shell."""
    left_out: int = 0
    """The number of its bytes, or of the bytes in its place, that were not read."""
    read_error: str = ""
    """The reason in words why its content is not read; empty for a content that is."""

    def text(self, key: str) -> str:
        """Return the text under `key` of the content; empty without one."""
        return text_of(self.content, key)

    def mapping(self, key: str) -> Mapping[str, object]:
        """Return the object under `key` of the content; empty without one."""
        return mapping_of(self.content, key)

    @property
    def state(self) -> str:
        """The state in a status message: `busy`, `idle`, `starting`, `restarting` or `dead`; empty for all others."""
        return self.text("execution_state") if self.type == "status" else ""


def read_message(socket: Socket, raw: Mapping[str, object]) -> Message:
    """Return the message in its parts, as an object, or in a frame of a server. Missing parts are empty."""
    header, parent = mapping_of(raw, "header"), mapping_of(raw, "parent_header")
    return Message(
        socket=socket,
        type=text_of(header, "msg_type"),
        id=text_of(header, "msg_id"),
        session=text_of(header, "session"),
        content=mapping_of(raw, "content"),
        metadata=mapping_of(raw, "metadata"),
        parent_id=text_of(parent, "msg_id"),
        parent_type=text_of(parent, "msg_type"),
        parent_session=text_of(parent, "session"),
        parent_subshell=text_of(parent, "subshell_id"),
    )


def new_header(type: str, session: str, subshell: str | None = None) -> dict[str, object]:  # noqa: A002  # the word
    """Return the header of a message of ours, with an id of its own."""
    header: dict[str, object] = {
        "msg_id": uuid4().hex, "msg_type": type, "username": "codriver", "session": session,
        "date": datetime.now(UTC).isoformat(), "version": VERSION,
    }  # fmt: skip
    return {**header, "subshell_id": subshell} if subshell else header
