"""Messages from a kernel, assembled from their parts and verified with the kernel's key.

The identities, header, parent and metadata of a message are small, and its buffers are not stored. Content of up to
`MAX_CONTENT_BYTES` is stored completely, which is enough for nearly all messages. Only the head and the tail of longer
content are stored. They remain in chunks, because joining 12 MiB requires new memory and blocks the event loop for
milliseconds. Messages with a wrong signature are dropped and counted. Source: Jupyter documentation, "Messaging in
Jupyter", "The wire protocol".
"""

from __future__ import annotations

import hmac
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from codriver.core.records import Recent
from codriver.wire.head_and_tail import HeadAndTail
from codriver.wire.untrusted import EMPTY_MAPPING, text_at

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codriver.features.jupyter.kernels.zmtp import PartChunk


DELIMITER: Final = b"<IDS|MSG>"
"""The part of a message between the identities and the signature."""
MAX_CONTENT_BYTES: Final = 12 * 2**20
"""Maximum size of content to store completely. Up to two copies of it are in memory at the same time."""
MAX_CONTENT_HEAD_BYTES: Final = 2 * 2**20
"""Maximum size of the stored head of larger content."""
MAX_CONTENT_TAIL_BYTES: Final = 2**20
"""Maximum size of the stored tail of larger content."""
MAX_HEADER_BYTES: Final = 64 * 1024
"""Maximum size of a header or parent header."""
MAX_METADATA_BYTES: Final = 2**20
"""Maximum size of the metadata. Larger metadata is dropped."""
MAX_SIGNATURES: Final = 8192
"""Maximum number of latest signatures to remember.

A second message with the same signature is a replay of the first one.
"""

_SIGNATURE, _HEADER, _PARENT, _METADATA, _CONTENT = range(5)
"""Positions of a message's parts after the delimiter."""

_PART_LIMITS: Final = {
    _SIGNATURE: (256, 0), _HEADER: (MAX_HEADER_BYTES, 0), _PARENT: (MAX_HEADER_BYTES, 0),
    _METADATA: (MAX_METADATA_BYTES, 0), _CONTENT: (MAX_CONTENT_BYTES, 0),
}  # fmt: skip
"""Maximum number of bytes to store from the start and the end of each part of a message."""


@dataclass(frozen=True, slots=True)
class ReceivedMessage:
    """A message whose signature has been verified and whose content has not been parsed yet."""

    header: Mapping[str, object]
    parent: Mapping[str, object]
    metadata: bytes
    head: tuple[bytes, ...]
    """The content, or its start, in chunks."""
    tail: tuple[bytes, ...] = ()
    """The end of the content in chunks, if bytes before it were omitted."""
    omitted_bytes: int = 0
    """Number of bytes between `head` and `tail`."""
    size_bytes: int = field(init=False)
    """Total size in bytes of the parts of the message that may be large."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "size_bytes", sum(map(len, (self.metadata, *self.head, *self.tail))))

    @property
    def type(self) -> str:
        """Return the message type from the header."""
        return text_at(self.header, "msg_type")

    def content_start(self, count: int) -> bytes:
        """Return at most `count` bytes from the start of the content."""
        partial = b""
        for chunk in self.head:
            partial += chunk[: count - len(partial)]
            if len(partial) == count:
                break
        return partial


class Signer:
    """Signs and verifies messages with the key of one kernel.

    A kernel without a key accepts and sends unsigned messages.
    """

    def __init__(self, key: bytes, scheme: str) -> None:
        """Create a signer with the values of `key` and `signature_scheme` from a connection file.

        Raises:
            ValueError: this Python does not support the scheme.
        """
        algorithm = scheme.removeprefix("hmac-")
        self._prepared = hmac.new(key, digestmod=algorithm) if key else None

    def new_signature(self) -> hmac.HMAC | None:
        """Return a new signature to update with the parts of a message, or None if there is no key."""
        return self._prepared.copy() if self._prepared else None

    def sign_parts(self, *objects: Mapping[str, object]) -> list[bytes]:
        """Encode a header, parent header, metadata and content, and return the parts of the signed message."""
        # ASCII, because code may contain lone surrogates. They are valid in JSON, but not in UTF-8.
        dumped = [json.dumps(dict(item)).encode("ascii") for item in objects]
        signature = self.new_signature()
        for part in dumped:
            if signature is not None:
                signature.update(part)
        return [DELIMITER, signature.hexdigest().encode() if signature else b"", *dumped]


class Assembler:
    """Assembles messages from the chunks that one socket receives, in linear time."""

    def __init__(self, signer: Signer) -> None:
        self._signer = signer
        self._seen: Recent[bytes, None] = Recent(MAX_SIGNATURES)
        self.unsigned = 0
        """Number of messages so far that were invalid or not signed with the kernel's key."""
        self._start_message()

    def _start_message(self) -> None:
        self._next = -1
        """The number of the next part, starting at the signature. Negative before the delimiter."""
        self._part = HeadAndTail(len(DELIMITER) + 1, 0)
        self._parts: list[HeadAndTail] = []
        self._signature = self._signer.new_signature()

    def add(self, chunk: PartChunk) -> ReceivedMessage | None:
        """Add a chunk. Return the message that it completes, or None if there is none or its signature is invalid."""
        data, ends_part, ends_message, part_bytes = chunk
        if self._next <= _CONTENT:
            if part_bytes > MAX_CONTENT_BYTES and self._next == _CONTENT and not self._part.size:
                self._part = HeadAndTail(MAX_CONTENT_HEAD_BYTES, MAX_CONTENT_TAIL_BYTES)
            self._part.add(data)
            if self._next > _SIGNATURE and self._signature is not None:
                self._signature.update(data)
            if ends_part:
                self._end_part()
        if not ends_message:
            return None
        try:
            return self._finish_message()
        finally:
            self._start_message()

    def _end_part(self) -> None:
        if self._next >= 0:
            self._parts.append(self._part)
            self._next += 1
        elif self._part.head == DELIMITER:
            self._next = _SIGNATURE
        self._part = HeadAndTail(*_PART_LIMITS.get(self._next, (len(DELIMITER) + 1, 0)))

    def _finish_message(self) -> ReceivedMessage | None:
        if len(self._parts) <= _CONTENT or not self._is_signed(self._parts[_SIGNATURE].head):
            self.unsigned += 1
            return None
        _, header, parent, metadata, content = self._parts
        header_fields = _parse_object(header)
        if header_fields is None:
            self.unsigned += 1
            return None
        return ReceivedMessage(
            header_fields,
            _parse_object(parent) or EMPTY_MAPPING,
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


def _parse_object(part: HeadAndTail) -> Mapping[str, object] | None:
    """Return the JSON object in a message part, or None if the part is something else or was too long to store."""
    if part.left_out:
        return None
    try:
        value = json.loads(part.head.decode(errors="replace"))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
