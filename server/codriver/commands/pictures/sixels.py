"""Sixels of a PNG, with the standard library alone: 216 colours, on white where the picture is transparent.

Source: PNG 7 to 11, "Encoding" to "Chunk specifications"; DEC STD 070, "Sixel graphics".
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MOST_PIXELS: Final = 4_000_000
"""Of a picture that is decoded: a larger one takes seconds."""
MOST_COLUMNS: Final = 1000
"""Wider pictures lose columns and rows, as a terminal is hardly wider."""
SAMPLES: Final = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
"""Samples of a pixel by the colour type of a PNG."""
LEVELS: Final = 6
"""Of each of red, green and blue: a cube of colours."""
BAND: Final = 6
"""Rows of pixels in one row of sixels."""


@dataclass(frozen=True, slots=True)
class _Png:
    width: int
    height: int
    depth: int
    colour: int
    palette: bytes
    data: bytes

    @property
    def pixel_bits(self) -> int:
        return SAMPLES[self.colour] * self.depth

    @property
    def row_bytes(self) -> int:
        return -(-self.width * self.pixel_bits // 8)


def sixels(content: bytes) -> str:
    """The PNG as sixels; blank for no PNG, an interlaced one, or too many pixels."""
    try:
        png = _read(content)
        if png is None:
            return ""
        step = -(-png.width // MOST_COLUMNS)
        rows = [_colours(row, png, step) for place, row in enumerate(_rows(png)) if place % step == 0]
    except (zlib.error, IndexError, ValueError):
        return ""
    width = len(rows[0])
    cube = range(LEVELS**3)
    palette = "".join(f"#{n};2;{n // 36 * 20};{n // 6 % 6 * 20};{n % 6 * 20}" for n in cube)
    bands = "-".join(_band(rows[at : at + BAND], width) for at in range(0, len(rows), BAND))
    return f'\x1bPq"1;1;{width};{len(rows)}{palette}{bands}\x1b\\'


def _read(content: bytes) -> _Png | None:
    """The parts of a PNG that count here."""
    if content[:8] != b"\x89PNG\r\n\x1a\n":
        return None
    at, head, palette, data = 8, b"", b"", b""
    while at + 8 <= len(content):
        length, name = int.from_bytes(content[at : at + 4], "big"), content[at + 4 : at + 8]
        part = content[at + 8 : at + 8 + length]
        if name == b"IHDR":
            head = part
        elif name == b"PLTE":
            palette = part
        elif name == b"IDAT":
            data += part
        at += 12 + length
    width, height = int.from_bytes(head[:4], "big"), int.from_bytes(head[4:8], "big")
    depth, colour, is_interlaced = head[8], head[9], head[12]
    if is_interlaced or colour not in SAMPLES or not 0 < width * height <= MOST_PIXELS:
        return None
    png = _Png(width, height, depth, colour, palette, b"")
    most = height * (1 + png.row_bytes)
    return _Png(width, height, depth, colour, palette, zlib.decompressobj().decompress(data, most))


def _rows(png: _Png) -> Iterator[bytes]:
    """The rows of pixels as they were before each was filtered."""
    back = max(1, png.pixel_bits // 8)
    above = bytes(png.row_bytes)
    for at in range(0, png.height * (1 + png.row_bytes), 1 + png.row_bytes):
        above = _unfiltered(png.data[at], bytearray(png.data[at + 1 : at + 1 + png.row_bytes]), above, back)
        yield above


def _unfiltered(kind: int, row: bytearray, above: bytes, back: int) -> bytes:
    """One row without its filter. Source: PNG 9.2, "Filter types for filter method 0"."""
    match kind:
        case 1:
            for n in range(back, len(row)):
                row[n] = row[n] + row[n - back] & 0xFF
        case 2:
            row[:] = bytes([one + other & 0xFF for one, other in zip(row, above, strict=True)])
        case 3:
            for n in range(len(row)):
                left = row[n - back] if n >= back else 0
                row[n] = row[n] + (left + above[n] >> 1) & 0xFF
        case 4:
            for n in range(len(row)):
                left, corner = (row[n - back], above[n - back]) if n >= back else (0, 0)
                row[n] = row[n] + _nearest(left, above[n], corner) & 0xFF
    return bytes(row)


def _nearest(left: int, above: int, corner: int) -> int:
    """Paeth's predictor."""
    guess = left + above - corner
    by_left, by_above, by_corner = abs(guess - left), abs(guess - above), abs(guess - corner)
    if by_left <= by_above and by_left <= by_corner:
        return left
    return above if by_above <= by_corner else corner


def _colours(row: bytes, png: _Png, step: int) -> list[int]:
    """The places of a row's pixels in the cube of colours."""
    if png.depth < 8:  # several pixels in a byte
        each = 8 // png.depth
        top = (1 << png.depth) - 1
        samples = bytes(
            (byte >> (8 - png.depth * (n + 1)) & top) * (1 if png.colour == 3 else 255 // top)
            for byte in row
            for n in range(each)
        )
    else:
        samples = row[:: png.depth // 8]  # of two bytes the first has what counts
    count = SAMPLES[png.colour]
    pixels = [samples[n : n + count] for n in range(0, png.width * count, count * step)]
    known = {pixel: _place(pixel, png) for pixel in set(pixels)}
    return [known[pixel] for pixel in pixels]


def _place(pixel: bytes, png: _Png) -> int:
    """The place of one colour in the cube."""
    match png.colour:
        case 3:
            red, green, blue = png.palette[3 * pixel[0] : 3 * pixel[0] + 3]
            alpha = 255
        case 0 | 4:
            red = green = blue = pixel[0]
            alpha = pixel[1] if png.colour == 4 else 255
        case _:
            red, green, blue = pixel[:3]
            alpha = pixel[3] if png.colour == 6 else 255
    levels = [(255 - (255 - one) * alpha // 255) * (LEVELS - 1) + 127 for one in (red, green, blue)]
    return levels[0] // 255 * 36 + levels[1] // 255 * 6 + levels[2] // 255


def _band(rows: Sequence[Sequence[int]], width: int) -> str:
    """Six rows of pixels: one after the other the colours in them, each from the left edge on."""
    bits: dict[int, bytearray] = {}
    for bit, row in enumerate(rows):
        for column, colour in enumerate(row):
            bits.setdefault(colour, bytearray(width))[column] |= 1 << bit
    return "$".join(f"#{colour}{_run_lengths(columns)}" for colour, columns in bits.items())


def _run_lengths(columns: bytearray) -> str:
    pieces = []
    for value, run in groupby(columns):
        count, sign = sum(1 for _ in run), chr(63 + value)
        pieces.append(f"!{count}{sign}" if count > 3 else sign * count)  # shorter than that, the count takes more
    return "".join(pieces)
