"""Messages as kernels sign them on ZeroMQ: written, and gathered from parts of any number and size.

Of a message that comes, identities, header, parent and metadata are small, and buffers are not held. Of its content the
beginning and the end are, see `MOST_HEAD` and `MOST_TAIL`: all of what nearly all kernels ever say. What is not signed
with the kernel's key is dropped and counted.

Source: Jupyter documentation, "Messaging in Jupyter", "The wire protocol".
"""

from __future__ import annotations

import hmac
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from codriver.core.recent import Recent
from codriver.repls.jupyter.messages.messages import NOTHING, text_of
from codriver.wire.head_and_tail import HeadAndTail

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codriver.wire.zmtp import Piece

DELIMITER: Final = b"<IDS|MSG>"
MOST_HEAD: Final = 8 * 2**20
MOST_TAIL: Final = 4 * 2**20
"""Bytes of one content: far above the values that anybody wants to see, and little enough to have in memory twice."""
MOST_HEADER: Final = 64 * 1024
MOST_METADATA: Final = 2**20
KEPT_SIGNATURES: Final = 8192
"""Those of the newest messages: what comes a second time was written down by somebody else and played back."""

_SIGNATURE, _HEADER, _PARENT, _METADATA, _CONTENT = range(5)
_LIMITS: Final = {
    _SIGNATURE: (256, 0), _HEADER: (MOST_HEADER, 0), _PARENT: (MOST_HEADER, 0),
    _METADATA: (MOST_METADATA, 0), _CONTENT: (MOST_HEAD, MOST_TAIL),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Received:
    """A signed message whose content nobody has read yet."""

    header: Mapping[str, object]
    parent: Mapping[str, object]
    metadata: bytes
    head: bytes
    """The content, or its beginning."""
    tail: bytes = b""
    """The content's end, where something before it is left out."""
    left_out: int = 0
    """Bytes between the two."""

    @property
    def type(self) -> str:
        """The type in its header."""
        return text_of(self.header, "msg_type")

    @property
    def held_bytes(self) -> int:
        """Bytes that it takes, as far as they may be many."""
        return len(self.metadata) + len(self.head) + len(self.tail)


class Signer:
    """The key of one kernel. Without a key nothing is signed, and everything counts as it comes."""

    def __init__(self, key: bytes, scheme: str) -> None:
        """A key of a connection file and its `signature_scheme`.

        Raises:
            ValueError: this Python knows no such scheme.
        """
        algorithm = scheme.removeprefix("hmac-")
        self._begun = hmac.new(key, digestmod=algorithm) if key else None

    def begin(self) -> hmac.HMAC | None:
        """A signature of nothing yet."""
        return self._begun.copy() if self._begun else None

    def parts(self, *objects: Mapping[str, object]) -> list[bytes]:
        """The parts of a message: of its header, parent, metadata and content."""
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
        self._seen: Recent[bytes, None] = Recent(KEPT_SIGNATURES)
        self.unsigned = 0
        """Messages so far that are not signed with the kernel's key, or are none at all."""
        self._begin()

    def _begin(self) -> None:
        self._place = -1
        """The number of the part that comes, from the signature on; negative before the delimiter."""
        self._part = HeadAndTail(len(DELIMITER) + 1, 0)
        self._parts: list[HeadAndTail] = []
        self._signature = self._signer.begin()

    def take(self, piece: Piece) -> Received | None:
        """The message that the piece completes, if that is signed."""
        data, ends_part, ends_message = piece
        if self._place <= _CONTENT:
            self._part.add(data)
            if self._place > _SIGNATURE and self._signature is not None:
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
        if self._place >= 0:
            self._parts.append(self._part)
            self._place += 1
        elif self._part.head == DELIMITER:
            self._place = _SIGNATURE
        self._part = HeadAndTail(*_LIMITS.get(self._place, (len(DELIMITER) + 1, 0)))

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
            content.head,
            content.tail,
            content.left_out,
        )

    def _is_signed(self, told: bytes) -> bool:
        if self._signature is None:
            return True
        if not hmac.compare_digest(self._signature.hexdigest().encode(), told) or told in self._seen:
            return False
        self._seen[told] = None
        return True


def _object(part: HeadAndTail) -> Mapping[str, object] | None:
    """The object in a part; None for any other value, and for a part longer than is held."""
    if part.left_out:
        return None
    try:
        read = json.loads(part.head.decode(errors="replace"))
    except (ValueError, RecursionError):
        return None
    return read if isinstance(read, dict) else None
