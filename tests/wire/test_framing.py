from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codriver.wire.framing import LineBudget, LineBudgetError, LineDecoder, LineTooLongError

CASES = [
    (b"", []),
    (b"a\n", [b"a"]),
    (b"a\r\n", [b"a"]),
    (b"a\nb\n", [b"a", b"b"]),
    (b"\n \n\r\na\n\n", [b"a"]),
    ("\u20ac\U0001f600\n".encode(), ["\u20ac\U0001f600".encode()]),
    (b"a\rb\n", [b"a\rb"]),
    (b"a", []),
]


@pytest.mark.parametrize(("data", "lines"), CASES)
def test_lines_are_decoded_whole(data, lines):
    assert LineDecoder(max_line_bytes=100).feed(data) == lines


@pytest.mark.parametrize(("data", "lines"), CASES)
def test_lines_are_decoded_byte_by_byte(data, lines):
    decoder = LineDecoder(max_line_bytes=100)
    assert [line for i in range(len(data)) for line in decoder.feed(data[i : i + 1])] == lines


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b"a\n", b"a"),
        (b"a\r\n", b"a"),
        (b"", None),
        (b"a", None),
        (b"\n", b""),
        (b"a\nb\n", None),
        (b"a\nb", None),
        (b"a" * 100 + b"\n", b"a" * 100),
        (b"a" * 101 + b"\n", None),
    ],
)
def test_a_chunk_that_is_exactly_one_line_is_recognized(data, line):
    assert LineDecoder(max_line_bytes=100).complete_line(data) == line


def test_the_end_of_a_line_is_not_mistaken_for_a_whole_line():
    decoder = LineDecoder(max_line_bytes=100)
    assert decoder.feed(b"a") == []
    assert decoder.complete_line(b"b\n") is None
    assert decoder.feed(b"b\n") == [b"ab"]


@given(st.lists(st.binary(max_size=20).filter(lambda b: b"\n" not in b), max_size=10), st.data())
def test_input_split_anywhere_gives_the_same_lines(lines, data):
    stream = b"".join(line + b"\n" for line in lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=5)))
    decoder = LineDecoder(max_line_bytes=100)
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    got = [line for piece in pieces for line in decoder.feed(piece)]
    assert got == [line for line in (raw.removesuffix(b"\r") for raw in lines) if line.strip()]


def test_a_line_exactly_at_the_size_limit_is_accepted():
    assert LineDecoder(max_line_bytes=3).feed(b"abc\n") == [b"abc"]


@pytest.mark.parametrize("pieces", [[b"abcd\n"], [b"ab", b"cd"], [b"a\nabcd\nb\n"], [b"a\nbcde"]])
def test_the_error_for_an_oversized_line_states_its_size_and_the_limit(pieces):
    *before, last = pieces
    decoder = LineDecoder(max_line_bytes=3)
    assert [decoder.feed(piece) for piece in before] == [[] for _ in before]
    with pytest.raises(LineTooLongError, match="at least 4 bytes exceeds the limit of 3 bytes"):
        decoder.feed(last)


LARGE = 100_000


def test_the_longest_incomplete_line_is_dropped_when_memory_runs_out():
    most = 350_000
    room, reported = LineBudget(most), []
    hungry = [
        LineDecoder(max_line_bytes=10 * LARGE, budget=room, on_given_up=partial(reported.append, number))
        for number in range(3)
    ]
    for number, decoder in enumerate(hungry):
        decoder.feed(b"x" * (LARGE + number))
    victim = LineDecoder(max_line_bytes=10 * LARGE, budget=room)
    for _ in range(9):
        assert victim.feed(b"v" * (LARGE // 10)) == []
    assert victim.feed(b"v" * (LARGE // 10 - 1) + b"\n") == [b"v" * (LARGE - 1)]
    assert reported == [2]
    with pytest.raises(LineBudgetError, match=f"together exceed {most} bytes.* {LARGE + 2} bytes so far"):
        hungry[2].feed(b"\n")
    assert hungry[0].feed(b"\n") == [b"x" * LARGE]


def test_a_sender_that_itself_has_the_longest_incomplete_line_is_refused():
    room = LineBudget(2 * LARGE)
    other, greedy = (LineDecoder(max_line_bytes=10 * LARGE, budget=room) for _ in range(2))
    other.feed(b"x" * LARGE)
    greedy.feed(b"y" * LARGE)
    with pytest.raises(LineBudgetError):
        greedy.feed(b"y" * LARGE)
    assert other.feed(b"\n") == [b"x" * LARGE]


def test_a_complete_or_dropped_line_uses_no_budget():
    room = LineBudget(2 * LARGE)
    for _ in range(10):
        decoder = LineDecoder(max_line_bytes=10 * LARGE, budget=room)
        decoder.feed(b"x" * LARGE + b"\n" + b"y" * LARGE)
        decoder.drop()
        assert decoder.feed(b"x" * LARGE) == []
        assert decoder.feed(b"\n") == [b"x" * LARGE]


def test_short_incomplete_lines_are_not_counted_against_the_budget():
    room = LineBudget(LARGE)
    for _ in range(50):
        assert LineDecoder(max_line_bytes=LARGE, budget=room).feed(b"x" * 60_000) == []
