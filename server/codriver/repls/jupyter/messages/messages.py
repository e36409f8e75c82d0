"""Messages of the Jupyter protocol, as values, whatever carried them.

Source: Jupyter documentation, "Messaging in Jupyter"; JEP 65 (`iopub_welcome`), JEP 91 (subshells).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final, Literal, cast
from uuid import uuid4

Socket = Literal["shell", "control", "stdin", "iopub"]
"""A channel of a kernel. Each keeps its own order; between them there is none."""

SOCKETS: Final[tuple[Socket, ...]] = ("shell", "control", "stdin", "iopub")

VERSION: Final = "5.3"
"""Of the protocol, in what we send."""
RATE_LIMIT: Final = ("IOPub data rate exceeded", "IOPub message rate exceeded")
"""The words of a Jupyter Server that leaves out what its kernel says. Source: jupyter_server, its WebSocket."""
LEFT_OUT: Final = "codriver/left-out"
"""The type of a message of ours in the place of others that were dropped."""

NOTHING: Final[Mapping[str, object]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a kernel. What it is about, its parent, is a request of ours or of another client's."""

    socket: Socket
    type: str
    id: str = ""
    session: str = ""
    """Of the kernel: another one, and it was restarted."""
    content: Mapping[str, object] = field(default_factory=lambda: NOTHING)
    metadata: Mapping[str, object] = field(default_factory=lambda: NOTHING)
    parent_id: str = ""
    """Empty where nothing caused it, as what a kernel says when it starts."""
    parent_type: str = ""
    parent_session: str = ""
    """Of the client that sent the parent."""
    parent_subshell: str = ""
    """The subshell that the parent was sent to; empty for the main one."""
    left_out: int = 0
    """Bytes that it had, or that stood in its place, and that were not read."""
    problem: str = ""
    """Why its content is not read, in words; empty where it is."""

    def text(self, key: str) -> str:
        """The text under `key` of the content; empty where there is none."""
        return text_of(self.content, key)

    def mapping(self, key: str) -> Mapping[str, object]:
        """The object under `key` of the content; empty where there is none."""
        return mapping_of(self.content, key)

    @property
    def state(self) -> str:
        """The state in a status message: `busy`, `idle`, `starting`, `restarting` or `dead`; empty of all others."""
        return self.text("execution_state") if self.type == "status" else ""


def read_message(socket: Socket, raw: Mapping[str, object]) -> Message:
    """The message in its parts, as an object, or in a frame of a server. What is missing is empty."""
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
    """The header of a message of ours, with an id of its own."""
    header: dict[str, object] = {
        "msg_id": uuid4().hex, "msg_type": type, "username": "codriver", "session": session,
        "date": datetime.now(UTC).isoformat(), "version": VERSION,
    }  # fmt: skip
    return {**header, "subshell_id": subshell} if subshell else header


def text_of(holder: Mapping[str, object], key: str) -> str:
    """The text under `key`; empty where there is none, or something else."""
    value = holder.get(key)
    return value if isinstance(value, str) else ""


def mapping_of(holder: Mapping[str, object], key: str) -> Mapping[str, object]:
    """The object under `key`; empty where there is none, or something else."""
    value = holder.get(key)
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else NOTHING


def texts_of(holder: Mapping[str, object], key: str) -> tuple[str, ...]:
    """The texts in the list under `key`."""
    value = holder.get(key)
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list | tuple) else ()
