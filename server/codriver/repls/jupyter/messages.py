"""Messages of the Jupyter protocol, as values, whatever carried them.

Source: Jupyter documentation, "Messaging in Jupyter"; JEP 65 (`iopub_welcome`), JEP 91 (subshells).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Literal, cast

Socket = Literal["shell", "control", "stdin", "iopub"]
"""A channel of a kernel. Each keeps its own order; between them there is none."""

SOCKETS: Final[tuple[Socket, ...]] = ("shell", "control", "stdin", "iopub")

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
    buffers: tuple[bytes, ...] = field(default=(), repr=False)

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
    """The message that jupyter_client, or a frame of a server, gives as an object. What is missing is empty."""
    header, parent = mapping_of(raw, "header"), mapping_of(raw, "parent_header")
    buffers = raw.get("buffers")
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
        buffers=tuple(map(bytes, buffers)) if isinstance(buffers, Sequence) else (),
    )


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
