"""Messages of a kernel, assembled from their parts and verified with the kernel's key.

The identities, header, parent and metadata of a message are small, and its buffers are not stored. A content of up to
`WHOLE_BYTES` is stored completely, which is enough for nearly all messages. Of longer ones only the head and the tail
are stored. They remain in chunks, because joining 12 MiB needs new memory and blocks the event loop for milliseconds.
Messages with a wrong signature are dropped and counted. Source: Jupyter documentation, "Messaging in Jupyter", "The
wire protocol".
"""

from __future__ import annotations

import hmac
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from codriver.core.records import Recent
from codriver.wire.head_and_tail import HeadAndTail
from codriver.wire.untrusted import NOTHING, text_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codriver.features.jupyter.kernels.zmtp import Chunk


DELIMITER: Final = b"<IDS|MSG>"
WHOLE_BYTES: Final = 12 * 2**20
"""Bytes of one content: far above the values that anybody wants to see, and small enough to hold in memory twice."""
MAX_HEAD: Final = 2 * 2**20
MAX_TAIL: Final = 2**20
"""The most bytes held at the end of a longer content, which nobody reads whole."""
MAX_HEADER: Final = 64 * 1024
MAX_METADATA: Final = 2**20
MAX_SIGNATURES: Final = 8192
"""The signatures of the newest messages: a second message with the same signature was recorded and replayed."""

_SIGNATURE, _HEADER, _PARENT, _METADATA, _CONTENT = range(5)

_LIMITS: Final = {
    _SIGNATURE: (256, 0), _HEADER: (MAX_HEADER, 0), _PARENT: (MAX_HEADER, 0),
    _METADATA: (MAX_METADATA, 0), _CONTENT: (WHOLE_BYTES, 0),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Received:
    """A signed message whose content nobody has read yet."""

    header: Mapping[str, object]
    parent: Mapping[str, object]
    metadata: bytes
    head: tuple[bytes, ...]
    """The content, or its beginning, in pieces."""
    tail: tuple[bytes, ...] = ()
    """The content's end, where something before it is left out."""
    left_out: int = 0
    """Bytes between the two."""
    size_bytes: int = field(init=False)
    """Bytes that the message takes, as far as they may be many."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "size_bytes", sum(map(len, (self.metadata, *self.head, *self.tail))))

    @property
    def type(self) -> str:
        """Return the type in the message's header."""
        return text_of(self.header, "msg_type")

    def begins(self, count: int) -> bytes:
        """Return the first bytes of the content."""
        partial = b""
        for chunk in self.head:
            partial += chunk[: count - len(partial)]
            if len(partial) == count:
                break
        return partial


class Signer:
    """The key of one kernel. Without a key nothing is signed, and everything counts as it comes."""

    def __init__(self, key: bytes, scheme: str) -> None:
        """A key of a connection file and its `signature_scheme`.

        Raises:
            ValueError: this Python knows no such scheme.
        """
        algorithm = scheme.removeprefix("hmac-")
        self._prepared = hmac.new(key, digestmod=algorithm) if key else None

    def begin(self) -> hmac.HMAC | None:
        """Return a signature before its first part."""
        return self._prepared.copy() if self._prepared else None

    def parts(self, *objects: Mapping[str, object]) -> list[bytes]:
        """Return the parts of a message: header, parent, metadata and content."""
        # ASCII: half of a surrogate pair, which code may hold, has no UTF-8 and is good JSON.
        dumped = [json.dumps(dict(one)).encode("ascii") for one in objects]
        signature = self.begin()
        for part in dumped:
            if signature is not None:
                signature.update(part)
        return [DELIMITER, signature.hexdigest().encode() if signature else b"", *dumped]


class Assembler:
    """Puts the messages of one socket together, in time linear in their bytes."""

    def __init__(self, signer: Signer) -> None:
        self._signer = signer
        self._seen: Recent[bytes, None] = Recent(MAX_SIGNATURES)
        self.unsigned = 0
        """The number of messages so far that are not signed with the kernel's key, or invalid."""
        self._begin()

    def _begin(self) -> None:
        self._next = -1
        """The number of the next part, from the signature on; negative before the delimiter."""
        self._part = HeadAndTail(len(DELIMITER) + 1, 0)
        self._parts: list[HeadAndTail] = []
        self._signature = self._signer.begin()

    def receive_next(self, chunk: Chunk) -> Received | None:
        """Return the message that the chunk completes, if it is signed."""
        data, ends_part, ends_message, part_bytes = chunk
        if self._next <= _CONTENT:
            if part_bytes > WHOLE_BYTES and self._next == _CONTENT and not self._part.size:
                self._part = HeadAndTail(MAX_HEAD, MAX_TAIL)
            self._part.add(data)
            if self._next > _SIGNATURE and self._signature is not None:
                self._signature.update(data)
            if ends_part:
                self._end_part()
        if not ends_message:
            return None
        try:
            return self._message()
        finally:
            self._begin()

    def _end_part(self) -> None:
        if self._next >= 0:
            self._parts.append(self._part)
            self._next += 1
        elif self._part.head == DELIMITER:
            self._next = _SIGNATURE
        self._part = HeadAndTail(*_LIMITS.get(self._next, (len(DELIMITER) + 1, 0)))

    def _message(self) -> Received | None:
        if len(self._parts) <= _CONTENT or not self._is_signed(self._parts[_SIGNATURE].head):
            self.unsigned += 1
            return None
        _, header, parent, metadata, content = self._parts
        read = _object(header)
        if read is None:
            self.unsigned += 1
            return None
        return Received(
            read,
            _object(parent) or NOTHING,
            b"" if metadata.left_out else metadata.head,
            *content.chunks,
            content.left_out,
        )

    def _is_signed(self, signature: bytes) -> bool:
        if self._signature is None:
            return True
        if not hmac.compare_digest(self._signature.hexdigest().encode(), signature) or signature in self._seen:
            return False
        self._seen[signature] = None
        return True


def _object(part: HeadAndTail) -> Mapping[str, object] | None:
    """Return the object in a part; None for any other value, and for a part longer than is held."""
    if part.left_out:
        return None
    try:
        read = json.loads(part.head.decode(errors="replace"))
    except (ValueError, RecursionError):
        return None
    return read if isinstance(read, dict) else None
