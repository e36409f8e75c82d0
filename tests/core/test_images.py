"""Images in texts: described by their headers, and replaced by marks that can be parsed again."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codriver.core.images import (
    MARK_PATTERN,
    ImageFacts,
    decode_base64,
    find_images,
    image_dimensions,
    parse_image,
    replace_image_data,
    replace_marks,
)
from codriver.log.entry_sizes import truncate_entry
from codriver.log.log_entries import Entry

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (640).to_bytes(4, "big") + (480).to_bytes(4, "big") + b"\x08\x06\0\0\0"


def address(content, kind="image/png"):
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def jpeg(*segments):
    return b"\xff\xd8" + b"".join(segments) + b"\0" * 9


FRAME = b"\xff\xc2\0\x11\x08\x01\x2c\x02\x58"
APP = b"\xff\xe0\0\x04ab"
HEADERS = [
    (PNG, (640, 480)),
    (b"GIF89a\x05\0\x07\0", (5, 7)),
    (b"GIF87a\x05\0", None),
    (jpeg(APP, FRAME), (600, 300)),
    (jpeg(b"\xff\xff\xd8", b"\xff\xc4\0\x02", FRAME), (600, 300)),
    (jpeg(APP), None),
    (b"RIFF\0\0\0\0WEBPVP8 " + b"\0" * 10 + b"\x80\x02\xe0\x01", (640, 480)),
    (b"RIFF\0\0\0\0WEBPVP8L" + b"\0" * 5 + (639 | 479 << 14).to_bytes(4, "little") + b"\0" * 5, (640, 480)),
    (b"RIFF\0\0\0\0WEBPVP8X" + b"\0" * 8 + b"\x7f\x02\0\xdf\x01\0", (640, 480)),
    (b"RIFF\0\0\0\0WEBPXXXX" + b"\0" * 14, None),
    (b"<svg width='9'/>", None),
    (b"", None),
]


@pytest.mark.parametrize(("content", "size"), HEADERS, ids=range(len(HEADERS)))
def test_the_size_of_an_image_is_read_from_its_header(content, size):
    assert image_dimensions(content) == size


@given(
    st.binary(max_size=60), st.sampled_from([b"", b"\xff\xd8", b"\x89PNG\r\n\x1a\n", b"GIF89a", b"RIFF1234WEBPVP8X"])
)
def test_parsing_a_broken_image_header_never_fails(rest, start):
    size = image_dimensions(start + rest)
    assert size is None or min(size) >= 0


def test_each_image_is_replaced_by_a_marker_that_can_be_parsed():
    text = f"<Figure> {address(PNG)} and {address(b'<svg/>', 'image/svg+xml')}"
    displayed = replace_image_data(text)
    png, svg = find_images(displayed)
    assert displayed == f"<Figure> {png.mark} and {svg.mark}"
    assert (png.kind, png.size, png.kilobytes) == ("image/png", (640, 480), 1)
    assert png == parse_image("image/png", base64.b64encode(PNG).decode())
    assert (svg.size, svg.suffix, png.suffix) == (None, ".svg", ".png")
    assert replace_marks(displayed, lambda item: item.kind) == "<Figure> image/png and image/svg+xml"
    assert replace_image_data("no picture") == "no picture"
    assert find_images("no picture") == ()


@given(
    st.builds(
        ImageFacts,
        st.sampled_from(["image/png", "image/svg+xml"]),
        st.none() | st.tuples(st.integers(0, 99999), st.integers(0, 99999)),
        st.integers(0, 99999),
        st.just("") | st.text("0123456789abcdef", min_size=16, max_size=16),
    )
)
def test_every_marker_is_parsed_as_it_was_written(one):
    assert find_images(f"a {one.mark} b") == (one,)
    assert MARK_PATTERN.fullmatch(one.mark)


def test_a_truncated_image_is_one_marker_without_a_digest():
    kept = truncate_entry(Entry(1, "evaluationResults", f"<Figure> {address(PNG + bytes(range(256)) * 1000)} end", 0))
    (item,) = find_images(displayed := replace_image_data(kept.text))
    assert (item.size, item.digest) == ((640, 480), "")
    assert displayed == f"<Figure> {item.mark} end"


@pytest.mark.parametrize(("data", "content"), [("YWI=", b"ab"), ("YWI", b"ab"), ("YWJjZ", b"abc"), ("", b"")])
def test_truncated_base64_is_decoded_up_to_its_last_complete_group(data, content):
    assert decode_base64(data) == content
