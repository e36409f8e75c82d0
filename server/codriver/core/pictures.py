"""Pictures in texts: a `data:` address is found, described by facts of its header, or replaced by a mark.

A mark says the kind, width and height in pixels, the size and the digest: `<<image/png 640x480, 22 KB, sha256:…>>`. It
can be read again. Sizes are read of headers alone, by no library. Source: PNG 5.6 "IHDR"; GIF89a 18 "Logical Screen
Descriptor"; ITU-T T.81 B.2.2 "Frame header"; RFC 9649 "WebP Image Format"; RFC 2397.
"""

from __future__ import annotations

import binascii
import hashlib
import re
from typing import TYPE_CHECKING, Final

from codriver.core.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable

DATA: Final = re.compile(r"data:(image/[a-z0-9.+-]+);base64,([A-Za-z0-9+/]+={0,2})")
"""A picture in a text: its kind and its base64."""
CUT: Final = r"(?:\n\.\.\. [\d,]+ of [\d,]+ characters are left out here \.\.\.\n[A-Za-z0-9+/]*={0,2})?"
"""The place at which the log left out the middle of a text, and the rest of the base64 behind it."""
_CUT_DATA: Final = re.compile(DATA.pattern + f"({CUT})")
MARK: Final = re.compile(
    r"<<(image/[a-z0-9.+-]+)(?: (\d+)x(\d+))?, (\d+) KB(?:, sha256:([0-9a-f]{16})|, not kept whole)>>"
)
SUFFIXES: Final = {"jpeg": ".jpg", "svg+xml": ".svg"}
"""By subtype: the ending of a file's name, if it differs from the subtype."""
_DIGEST: Final = 16
_NO_FRAME: Final = frozenset({0xC4, 0xC8, 0xCC})
"""Markers among those of JPEG's frames that begin no frame: tables, extensions, arithmetic coding."""
_LONGEST_HEADER: Final = 2**20
"""Bytes of a JPEG in which its frame is looked for: profiles and thumbnails come before it."""


@dataclass(frozen=True, slots=True)
class Picture:
    """The facts of a picture. `size` is width and height in pixels, None for a header that does not tell.

    `digest`: the beginning of its SHA-256; blank where the picture was not kept whole.
    """

    kind: str
    size: tuple[int, int] | None
    kilobytes: int
    digest: str

    @property
    def words(self) -> str:
        """Kind, pixels and size, for a person."""
        pixels = f" {self.size[0]}x{self.size[1]}" if self.size else ""
        return f"{self.kind}{pixels}, {self.kilobytes} KB"

    @property
    def mark(self) -> str:
        """The mark that stands in the picture's place."""
        return f"<<{self.words}, {f'sha256:{self.digest}' if self.digest else 'not kept whole'}>>"

    @property
    def suffix(self) -> str:
        """The ending of a file with the picture."""
        kind = self.kind.removeprefix("image/")
        return SUFFIXES.get(kind, f".{kind}")


def picture(kind: str, data: str, *, is_whole: bool = True) -> Picture:
    """The facts of a picture of this kind, by its base64, which may be cut."""
    content = decoded(data)
    digest = hashlib.sha256(content).hexdigest()[:_DIGEST] if is_whole and content else ""
    return Picture(kind, pixels(content), -(-len(content) // 1024), digest)


def decoded(data: str) -> bytes:
    """The bytes of base64, up to the first fault."""
    whole = data.rstrip("=")
    whole = whole[: len(whole) - (len(whole) % 4 == 1)]
    try:
        return binascii.a2b_base64(whole + "=" * (-len(whole) % 4))
    except binascii.Error:
        return b""


def without_data(text: str, told: Callable[[Picture], str] = lambda one: one.mark) -> str:
    """The text with the words of `told`, else a mark, in place of each picture's data, cut data too."""
    if "data:image/" not in text:
        return text
    return _CUT_DATA.sub(lambda found: told(picture(found[1], found[2], is_whole=not found[3])), text)


def marked(text: str, told: Callable[[Picture], str]) -> str:
    """The text with the words of `told` in place of each mark."""
    return MARK.sub(lambda found: told(_of_mark(found)), text) if "<<image/" in text else text


def pictures_in(text: str) -> tuple[Picture, ...]:
    """The pictures whose marks stand in a text, in their order."""
    return tuple(map(_of_mark, MARK.finditer(text))) if "<<image/" in text else ()


def _of_mark(found: re.Match[str]) -> Picture:
    size = (int(found[2]), int(found[3])) if found[2] else None
    return Picture(found[1], size, int(found[4]), found[5] or "")


def pixels(content: bytes) -> tuple[int, int] | None:
    """The width and height that the header of a picture tells; None for a header that tells none."""
    if content[:8] == b"\x89PNG\r\n\x1a\n" and len(content) >= 24:  # the height ends at this byte
        return int.from_bytes(content[16:20], "big"), int.from_bytes(content[20:24], "big")
    if content[:6] in (b"GIF87a", b"GIF89a") and len(content) >= 10:  # as above
        return int.from_bytes(content[6:8], "little"), int.from_bytes(content[8:10], "little")
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP" and len(content) >= 30:  # as above
        return _webp_pixels(content)
    return _jpeg_pixels(content) if content[:2] == b"\xff\xd8" else None


def _webp_pixels(content: bytes) -> tuple[int, int] | None:
    match content[12:16]:
        case b"VP8X":
            return 1 + int.from_bytes(content[24:27], "little"), 1 + int.from_bytes(content[27:30], "little")
        case b"VP8L":
            bits = int.from_bytes(content[21:25], "little")
            return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
        case b"VP8 ":
            width, height = (int.from_bytes(content[at : at + 2], "little") & 0x3FFF for at in (26, 28))
            return width, height
    return None


def _jpeg_pixels(content: bytes) -> tuple[int, int] | None:
    at, end = 2, min(len(content), _LONGEST_HEADER) - 9  # the sizes in a frame end there
    while at < end and content[at] == 0xFF:
        marker = content[at + 1]
        if 0xC0 <= marker <= 0xCF and marker not in _NO_FRAME:
            return int.from_bytes(content[at + 7 : at + 9], "big"), int.from_bytes(content[at + 5 : at + 7], "big")
        # A byte of filling may stand before a marker; a restart marker has no length.
        is_bare = marker == 0xFF or 0xD0 <= marker <= 0xD8
        at += (1 if marker == 0xFF else 2) if is_bare else 2 + int.from_bytes(content[at + 2 : at + 4], "big")
    return None
