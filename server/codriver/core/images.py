"""Images within text: find `data:` URLs and replace them with markers that describe the image.

A marker gives the media type, the width and height in pixels, the size and a digest: `<<image/png 640x480, 22 KB,
sha256:…>>`. Markers can be parsed back. Dimensions are read from the file headers alone, without a library. Source: PNG
5.6 "IHDR"; GIF89a 18 "Logical Screen Descriptor"; ITU-T T.81 B.2.2 "Frame header"; RFC 9649 "WebP Image Format"; RFC
2397.
"""

from __future__ import annotations

import binascii
import hashlib
import re
from typing import TYPE_CHECKING, Final

from codriver.core.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable

DATA_URL_PATTERN: Final = re.compile(r"data:(image/[a-z0-9.+-]+);base64,([A-Za-z0-9+/]+={0,2})")
"""Matches an image's `data:` URL. Its groups are the media type and the base64 data."""
CUT_MARK_PATTERN: Final = r"(?:\n\.\.\. [\d,]+ of [\d,]+ characters are left out here \.\.\.\n[A-Za-z0-9+/]*={0,2})?"
"""Matches the line with which the log replaces the middle of a long string, and any base64 that follows."""
_CUT_DATA_URL_PATTERN: Final = re.compile(DATA_URL_PATTERN.pattern + f"({CUT_MARK_PATTERN})")
MARK_PATTERN: Final = re.compile(
    r"<<(image/[a-z0-9.+-]+)(?: (\d+)x(\d+))?, (\d+) KB(?:, sha256:([0-9a-f]{16})|, not kept whole)>>"
)
"""Matches a marker. Its groups are the media type, width, height, kilobytes and digest."""
IRREGULAR_SUFFIXES: Final = {"jpeg": ".jpg", "svg+xml": ".svg"}
"""File suffixes of the media subtypes whose suffix differs from their name."""
_DIGEST_CHARACTERS: Final = 16
"""Length of the digest in an image's marker, in hexadecimal digits."""
_NON_FRAME_MARKERS: Final = frozenset({0xC4, 0xC8, 0xCC})
"""JPEG markers in the range of the frame headers that mean something else, such as Huffman tables."""
_MAX_HEADER_BYTES: Final = 2**20
"""Maximum number of bytes searched for a JPEG's frame header, which follows any profiles and thumbnails."""


@dataclass(frozen=True, slots=True)
class ImageFacts:
    """The properties of an image."""

    kind: str
    size: tuple[int, int] | None
    """The width and the height in pixels, or None if these are unknown."""
    kilobytes: int
    digest: str
    """The beginning of the SHA-256 digest, or an empty string if the image is incomplete."""

    @property
    def description(self) -> str:
        """Return the media type, dimensions and size of the image for display."""
        pixels = f" {self.size[0]}x{self.size[1]}" if self.size else ""
        return f"{self.kind}{pixels}, {self.kilobytes} KB"

    @property
    def mark(self) -> str:
        """Return the marker that replaces the image in a string."""
        return f"<<{self.description}, {f'sha256:{self.digest}' if self.digest else 'not kept whole'}>>"

    @property
    def suffix(self) -> str:
        """Return the suffix for a file with this image, including the dot."""
        kind = self.kind.removeprefix("image/")
        return IRREGULAR_SUFFIXES.get(kind, f".{kind}")


def parse_image(kind: str, data: str, *, is_whole: bool = True) -> ImageFacts:
    """Determine the properties of an image from its base64 data, which may be incomplete."""
    content = decode_base64(data)
    digest = hashlib.sha256(content).hexdigest()[:_DIGEST_CHARACTERS] if is_whole and content else ""
    return ImageFacts(kind, image_dimensions(content), -(-len(content) // 1024), digest)


def decode_base64(data: str) -> bytes:
    """Decode base64 data that may be truncated or lack padding. Return empty bytes if it is invalid."""
    whole = data.rstrip("=")
    whole = whole[: len(whole) - (len(whole) % 4 == 1)]
    try:
        return binascii.a2b_base64(whole + "=" * (-len(whole) % 4))
    except binascii.Error:
        return b""


def replace_image_data(text: str, describe: Callable[[ImageFacts], str] = lambda facts: facts.mark) -> str:
    """Replace the data of each image in a string with its marker, or with the result of `describe`."""
    if "data:image/" not in text:
        return text
    return _CUT_DATA_URL_PATTERN.sub(
        lambda found: describe(parse_image(found[1], found[2], is_whole=not found[3])), text
    )


def replace_marks(text: str, describe: Callable[[ImageFacts], str]) -> str:
    """Replace each image marker in a string with the result of `describe`."""
    return MARK_PATTERN.sub(lambda found: describe(_parse_mark(found)), text) if "<<image/" in text else text


def find_images(text: str) -> tuple[ImageFacts, ...]:
    """Return the images whose markers occur in a string, in order."""
    return tuple(map(_parse_mark, MARK_PATTERN.finditer(text))) if "<<image/" in text else ()


def _parse_mark(found: re.Match[str]) -> ImageFacts:
    size = (int(found[2]), int(found[3])) if found[2] else None
    return ImageFacts(found[1], size, int(found[4]), found[5] or "")


def image_dimensions(content: bytes) -> tuple[int, int] | None:
    """Return the width and height of a PNG, GIF, WebP or JPEG image, or None if they are unknown."""
    if content[:8] == b"\x89PNG\r\n\x1a\n" and len(content) >= 24:  # the height is in the header's last bytes
        return int.from_bytes(content[16:20], "big"), int.from_bytes(content[20:24], "big")
    if content[:6] in (b"GIF87a", b"GIF89a") and len(content) >= 10:  # as above
        return int.from_bytes(content[6:8], "little"), int.from_bytes(content[8:10], "little")
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP" and len(content) >= 30:  # as above
        return _webp_dimensions(content)
    return _jpeg_dimensions(content) if content[:2] == b"\xff\xd8" else None


def _webp_dimensions(content: bytes) -> tuple[int, int] | None:
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


def _jpeg_dimensions(content: bytes) -> tuple[int, int] | None:
    at, end = 2, min(len(content), _MAX_HEADER_BYTES) - 9  # the dimensions take up the first nine bytes of a frame
    while at < end and content[at] == 0xFF:
        marker = content[at + 1]
        if 0xC0 <= marker <= 0xCF and marker not in _NON_FRAME_MARKERS:
            return int.from_bytes(content[at + 7 : at + 9], "big"), int.from_bytes(content[at + 5 : at + 7], "big")
        # Fill bytes may precede a marker, and restart markers have no length field.
        is_bare = marker == 0xFF or 0xD0 <= marker <= 0xD8
        at += (1 if marker == 0xFF else 2) if is_bare else 2 + int.from_bytes(content[at + 2 : at + 4], "big")
    return None
