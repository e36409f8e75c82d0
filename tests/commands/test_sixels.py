"""Sixels: a PNG is decoded as Pillow does, and drawn in bands of six rows."""

import io
import random
import re
import struct
import zlib
from importlib import import_module

import pytest
from needs import modules

from codriver.commands.held_pictures import sixels

modules("PIL")
Image = import_module("PIL.Image")


def image(mode="RGBA", size=(13, 8)):
    draw = random.Random(7)
    made = Image.frombytes("RGBA", size, bytes(draw.randrange(256) for _ in range(4 * size[0] * size[1])))
    made.putalpha(255) if mode != "RGBA" else None
    return made.convert("RGB").convert(mode) if mode not in ("RGBA", "LA") else made.convert(mode)


def as_png(made, **options):
    out = io.BytesIO()
    made.save(out, format="png", **options)
    return out.getvalue()


def drawn(text):
    """The pixels that a terminal draws of sixels: by row and column, the three levels of 0 to 100."""
    found = re.fullmatch(r'\x1bPq"1;1;(\d+);(\d+)((?:#\d+;2;\d+;\d+;\d+)*)(.*)\x1b\\', text)
    width, height = int(found[1]), int(found[2])
    palette = {int(n): (int(r), int(g), int(b)) for n, r, g, b in re.findall(r"#(\d+);2;(\d+);(\d+);(\d+)", found[3])}
    pixels = {}
    for band, line in enumerate(found[4].split("-")):
        for colour, runs in re.findall(r"#(\d+)([^#$]*)", line):
            columns = "".join(char * int(count or 1) for count, char in re.findall(r"(?:!(\d+))?([?-~])", runs))
            assert len(columns) == width
            for column, char in enumerate(columns):
                for bit in range(6):
                    if (ord(char) - 63) >> bit & 1:
                        pixels[band * 6 + bit, column] = palette[int(colour)]
    return [[pixels[row, column] for column in range(width)] for row in range(height)]


@pytest.mark.parametrize("mode", ["RGBA", "RGB", "L", "LA", "P", "1", "I;16"])
def test_every_kind_of_png_is_drawn_as_it_looks_on_white(mode):
    made = image("L").convert("I").point(lambda one: one * 257).convert("I;16") if mode == "I;16" else image(mode)
    white = Image.new("RGBA", made.size, "white")
    white.alpha_composite(image("L").convert("RGBA") if mode == "I;16" else made.convert("RGBA"))
    expected = white.convert("RGB").load()
    for row, line in enumerate(drawn(sixels(as_png(made)))):
        for column, levels in enumerate(line):
            for level, value in zip(levels, expected[column, row], strict=True):
                assert abs(level - value / 2.55) <= 11, "the nearest of six levels"


@pytest.mark.parametrize("kind", range(5))
def test_every_filter_of_a_png_is_taken_back(kind):
    made = image("RGB", (9, 4))
    rows, above = [], bytes(27)
    for at in range(0, 108, 27):
        row, filtered = made.tobytes()[at : at + 27], bytearray(27)
        for n, value in enumerate(row):
            left, corner = (row[n - 3], above[n - 3]) if n >= 3 else (0, 0)
            guess = left + above[n] - corner
            nearest = min((left, above[n], corner), key=lambda one: abs(guess - one))
            filtered[n] = value - [0, left, above[n], (left + above[n]) // 2, nearest][kind] & 0xFF
        rows.append(bytes([kind]) + filtered)
        above = row
    parts = [(b"IHDR", struct.pack(">IIBBBBB", 9, 4, 8, 2, 0, 0, 0)), (b"IDAT", zlib.compress(b"".join(rows)))]
    chunks = b"".join(struct.pack(">I", len(data)) + name + data + b"crc!" for name, data in [*parts, (b"IEND", b"")])
    assert sixels(b"\x89PNG\r\n\x1a\n" + chunks) == sixels(as_png(made))


def test_a_wide_picture_loses_columns_and_rows():
    lines = drawn(sixels(as_png(Image.new("RGB", (2500, 30), "red"))))
    assert (len(lines), len(lines[0])) == (10, 834)
    assert set(lines[0]) == {(100, 0, 0)}


@pytest.mark.parametrize("content", [b"", b"GIF89a", as_png(image())[:60], as_png(image())[:-30], b"\x89PNG\r\n\x1a\n"])
def test_what_cannot_be_drawn_is_blank(content):
    assert sixels(content) == ""


def test_a_picture_of_too_many_pixels_is_not_decoded():
    assert sixels(as_png(Image.new("1", (4001, 1000)))) == ""
