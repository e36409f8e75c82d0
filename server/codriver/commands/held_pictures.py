"""Pictures of evaluations for the commands: read from a server's log or an earlier run, saved, and shown inline.

A server answers a command with a mark in place of each picture (`codriver.core.pictures`); the picture itself is asked
for by its line of the log. A terminal is asked for its protocol: kitty's, iTerm2's, or sixels. Every terminal answers
the last of the three questions, so that no terminal is waited for long. Sixels are made of a PNG with the standard
library alone: 216 colours, on white where the picture is transparent.

Source: kitty, "Terminal graphics protocol"; iTerm2, "Images"; DEC STD 070, "Sixel graphics"; xterm, "Device
attributes"; PNG 7 to 11, "Encoding" to "Chunk specifications".
"""

from __future__ import annotations

import base64
import os
import re
import select
import sys
import time
import zlib
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, Literal

from codriver.commands.terminal import draw, reading, say, write_file
from codriver.core.pictures import DATA, Picture, decoded, marked, picture, pictures_in
from codriver.log.control_characters import one_line
from codriver.systems.terminals import unechoed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from codriver.net.client import Connection


MOST: Final = 100
"""Pictures that one answer gives; a line of the log hardly ever has more than one."""
WHOLE: Final = 16 * 2**20
"""The longest texts that can be asked for."""
MOST_LINES: Final = 10_000
_DRAWN: Final = '[?e :output/text ?text] [(clojure.string/includes? ?text "data:image/")] [?e :output/line ?line]'
LINES_OF: Final = f"[:find ?line :in $ ?id :where [?e :output/evaluation ?id] {_DRAWN}]"
ALL_LINES: Final = f"[:find ?line ?id :where {_DRAWN} [?e :output/evaluation ?id]]"
TEXTS_AT: Final = """[:find ?line ?id ?text :in $ [?line ...] :where [?e :output/line ?line] [?e :output/text ?text]
  [(get-else $ ?e :output/evaluation "log") ?id]]"""


@dataclass(frozen=True, slots=True)
class Held:
    """A picture of an evaluation, and its bytes. `number`: its place among the evaluation's pictures, from 1 on."""

    evaluation: str
    number: int
    picture: Picture
    content: bytes

    @property
    def file_name(self) -> str:
        """The name of the picture's file."""
        return f"{self.evaluation}-{self.number}{self.picture.suffix}".replace("/", "-")


def named(text: str, evaluation: str) -> str:
    """The text of an evaluation, with the command that gives a picture in place of its mark."""
    return marked(text, lambda one: f"<<{one.words}: codriver image {evaluation}>>")


def newest_with_picture(connection: Connection) -> str | None:
    """The evaluation that showed a picture last; None if the log has none."""
    rows = _asked(connection, ALL_LINES)
    with reading("repl_output_log"):
        return str(max(rows, key=lambda row: int(row[0]))[1]) if rows else None


def pictures_of(connection: Connection, evaluation: str) -> list[Held]:
    """The pictures of an evaluation that the log has, in the order in which they came."""
    rows = _asked(connection, LINES_OF, evaluation)
    with reading("repl_output_log"):
        lines = sorted(int(row[0]) for row in rows)
    return pictures_at(connection, lines)


def pictures_at(connection: Connection, lines: Sequence[int]) -> list[Held]:
    """The pictures in these lines of the log, in their order."""
    rows = _asked(connection, TEXTS_AT, list(lines)) if lines else []
    with reading("repl_output_log"):
        texts = sorted((int(line), str(name), str(text)) for line, name, text in rows)
    contents: dict[str, bytes] = {}
    for line, _, text in texts:
        if any(one.digest not in contents for one in pictures_in(text)):
            asked = {"query": TEXTS_AT, "inputs": [[line]], "maxImages": MOST}
            _, images = connection.call_with_images("repl_output_log", asked)
            contents |= {picture(kind, data).digest: decoded(data) for kind, data in images}
    return _numbered((name, one, contents.get(one.digest)) for _, name, text in texts for one in pictures_in(text))


def pictures_of_entries(entries: Iterable[Mapping[str, Any]]) -> list[Held]:
    """The pictures in entries that still have their data, as in an earlier run; cut ones are left out."""
    found = [(str(entry.get("evaluation", "log")), data) for entry in entries for data in DATA.finditer(entry["text"])]
    return _numbered((name, picture(data[1], data[2]), decoded(data[2])) for name, data in found)


def _numbered(found: Iterable[tuple[str, Picture, bytes | None]]) -> list[Held]:
    counts: dict[str, int] = {}
    held = []
    for name, one, content in found:
        counts[name] = counts.get(name, 0) + 1
        if content:
            held.append(Held(name, counts[name], one, content))
    return held


def save(pictures: Iterable[Held], folder: Path, workspace: Path) -> None:
    """Write the pictures into a folder, which is made if missing, and say where."""
    for one in pictures:
        say(one_line(f"saved: {write_file(folder / one.file_name, one.content, workspace)}"), err=True)


def show(pictures: Sequence[Held]) -> bool:
    """Show the pictures on the terminal, each below a line on it; true if the terminal can."""
    way = way_of_terminal() if pictures else None
    if way is None:
        return False
    for one in pictures:
        shown = encoded(way, one.picture.kind, one.content)
        command = f"codriver image {one.evaluation} -n {one.number}"
        how = f"shown by {way}" if shown else f"not shown, {_why_not(way, one.picture)}: {command} -o FILE saves it"
        say(one_line(f"{command}: {one.picture.words} ({how})"), err=True)
        if shown:
            draw(f"{shown}\n")
    return True


def _why_not(way: Way, one: Picture) -> str:
    if one.kind != "image/png":
        return f"as {way} takes PNG alone"
    return "as it is interlaced, or too large to be decoded here"


def show_or_save(
    connection: Connection, evaluation: str, folder: Path | None, workspace: Path, *, can_show: bool = True
) -> None:
    """Save the pictures of an evaluation if a folder is given, and show them if the terminal can."""
    can_show &= sys.stdout.isatty()
    held = pictures_of(connection, evaluation) if folder or can_show else []
    if folder is not None:
        save(held, folder, workspace)
    if can_show:
        show(held)


def tell_of_answer(
    images: Iterable[tuple[str, str]], tool: str, evaluation: str, folder: Path | None, workspace: Path
) -> None:
    """Say which pictures came beside a tool's answer, each by kind and base64, and save them if a folder is given.

    `evaluation`: the evaluation that showed them; blank for none.
    """
    held = _numbered((evaluation or tool, picture(kind, data), decoded(data)) for kind, data in images)
    if folder is not None:
        save(held, folder, workspace)
        return
    command = f"codriver image {evaluation} has it, " if evaluation else ""
    for one in held:
        say(one_line(f"beside it, a picture, {one.picture.words}: {command}--images DIR saves it"), err=True)


def _asked(connection: Connection, query: str, *inputs: object) -> list[Any]:
    asked = {"query": query, "inputs": list(inputs), "limit": MOST_LINES, "maxTextBytes": WHOLE}
    answer = connection.call("repl_output_log", asked)
    with reading("repl_output_log"):
        rows: list[Any] = answer["result"]
    return rows


Way = Literal["kitty", "iTerm2", "sixel"]
QUESTIONS: Final = "\x1b_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\x1b\\\x1b[>q\x1b[c"
"""The questions: whether the terminal takes a picture of one pixel as kitty does; its name and version; its attributes,
which every terminal tells."""
LAST_ANSWER: Final = re.compile(r"\x1b\[\?([\d;]*)c")
TAKES_SIXELS: Final = "4"
"""The attribute of a terminal with sixels. Source: VT340."""
TAKES_FILES: Final = re.compile(r"\x1bP>\|(?:iTerm2|WezTerm|mintty)")
WAIT_S: Final = 0.6
"""The wait for the answer of a terminal behind a slow line; a terminal without an answer is asked once a command."""
CHUNK: Final = 4096
"""Characters of base64 in one escape sequence. Source: kitty's protocol."""
WITHOUT_QUESTIONS: Final = frozenset({"", "dumb", "linux"})
"""Terminals, by the name in TERM, that would print the questions."""


def way_of_terminal() -> Way | None:
    """The way in which the terminal behind standard input and output shows pictures; None if it shows none."""
    if os.environ.get("TERM", "") in WITHOUT_QUESTIONS or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return None
    try:
        answer = _answer_of_terminal()
    except OSError:  # no terminal of this kind, as on Windows
        return None
    if "\x1b_Gi=31;OK" in answer:
        return "kitty"
    if TAKES_FILES.search(answer):
        return "iTerm2"
    last = LAST_ANSWER.search(answer)
    return "sixel" if last and TAKES_SIXELS in last[1].split(";") else None


def _answer_of_terminal() -> str:
    """The answers of the terminal, which are not echoed."""
    keys = sys.stdin.fileno()
    with unechoed(keys):
        draw(QUESTIONS)
        answer, deadline = "", time.monotonic() + WAIT_S
        while not LAST_ANSWER.search(answer) and (left := deadline - time.monotonic()) > 0:
            if select.select([keys], [], [], left)[0]:
                answer += os.read(keys, CHUNK).decode("latin-1")
        return answer


def encoded(way: Way, kind: str, content: bytes) -> str:
    """The picture in the terminal's encoding; blank for a kind that it does not take."""
    if way == "iTerm2":
        given = f"inline=1;size={len(content)};preserveAspectRatio=1"
        return f"\x1b]1337;File={given}:{base64.b64encode(content).decode()}\x07"
    if kind != "image/png":
        return ""
    if way == "kitty":
        return "".join(_kitty(base64.b64encode(content).decode()))

    return sixels(content)


def _kitty(data: str) -> Iterator[str]:
    for at in range(0, len(data), CHUNK):
        more = int(at + CHUNK < len(data))
        head = f"a=T,f=100,m={more}" if at == 0 else f"m={more}"
        yield f"\x1b_G{head};{data[at : at + CHUNK]}\x1b\\"


MOST_PIXELS: Final = 4_000_000
"""The pixels of a picture that is decoded: a larger picture takes seconds."""
MOST_COLUMNS: Final = 1000
"""Wider pictures lose columns and rows: hardly any terminal is wider."""
SAMPLES: Final = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
"""Samples of a pixel by the colour type of a PNG."""
LEVELS: Final = 6
"""The levels of each of red, green and blue: a cube of colours."""
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
    """The parts of a PNG that are used here."""
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
    """The rows of pixels without their filters."""
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
        samples = row[:: png.depth // 8]  # of two bytes the first is the significant one
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
    """Six rows of pixels: one after the other their colours, each from the left edge on."""
    bits: dict[int, bytearray] = {}
    for bit, row in enumerate(rows):
        for column, colour in enumerate(row):
            bits.setdefault(colour, bytearray(width))[column] |= 1 << bit
    return "$".join(f"#{colour}{_run_lengths(columns)}" for colour, columns in bits.items())


def _run_lengths(columns: bytearray) -> str:
    pieces = []
    for value, run in groupby(columns):
        count, sign = sum(1 for _ in run), chr(63 + value)
        pieces.append(f"!{count}{sign}" if count > 3 else sign * count)  # a short run takes less without a count
    return "".join(pieces)
