"""Frames of events in output: the same however they are split into chunks."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codriver.features.applications import event_frames
from codriver.features.applications.event_frames import FrameReader

ONE = {"sub": "s1", "dropped": 0, "depth": 0, "events": [{"id": 1, "line": "1 fx write\n2 \u2603"}]}
TWO = {"sub": "s1", "dropped": 3, "depth": 1, "events": [{"id": 2, "line": "2 error x"}, {"id": 3, "line": "3"}]}


def framed(frame):
    return f"\x1e{json.dumps(frame)}\n"


def read(*pieces, subscription="s1"):
    """Return the frames in these chunks, and all other output."""
    reader, frames, printed = FrameReader(), [], ""
    reader.subscription = subscription
    for piece in pieces:
        for found in reader.feed(piece):
            if isinstance(found, str):
                printed += found
            else:
                frames.append(json.loads(found.text))
    return frames, printed


WHOLE = f"before {framed(ONE)}between\n{framed(TWO)}{framed(ONE)}after\n"


def test_frames_split_at_any_position_are_parsed_equally_and_other_output_is_kept():
    expected = ([ONE, TWO, ONE], "before between\nafter\n")
    assert read(WHOLE) == expected
    for place in range(len(WHOLE) + 1):
        assert read(WHOLE[:place], WHOLE[place:]) == expected
    assert read(*WHOLE) == expected


@given(st.lists(st.integers(0, len(WHOLE)), max_size=8))
def test_frames_received_in_any_chunks_are_parsed_equally(places):
    cuts = [0, *sorted(places), len(WHOLE)]
    pieces = [WHOLE[start:end] for start, end in itertools.pairwise(cuts)]
    assert read(*pieces) == read(WHOLE)


@pytest.mark.parametrize(
    "text",
    [
        "\x1e{not json}\n",
        "\x1e[1, 2]\n",
        '\x1e{"sub": "s1"}\n',
        framed({**ONE, "sub": "s2"}),
        "\x1e" + "[" * 100_000 + "\n",
        "\x1e\n",
        "plain\n",
    ],
)
def test_a_frame_of_another_subscription_is_ordinary_output(text):
    assert read(text, framed(ONE)) == ([ONE], text)


def test_an_incomplete_frame_does_not_hide_the_next():
    assert read('\x1e{"sub": "s', framed(ONE)) == ([ONE], '\x1e{"sub": "s')


def test_an_endless_line_is_treated_as_ordinary_output(monkeypatch):
    monkeypatch.setattr(event_frames, "MAX_FRAME_CHARACTERS", 100)
    text = "\x1e" + "x" * 300
    assert read(*[text[start : start + 70] for start in range(0, 301, 70)]) == ([], text)


@given(st.lists(st.text(alphabet='\x1e\n{}"s1a', max_size=12), max_size=8))
def test_no_character_of_output_is_lost(pieces):
    frames, printed = read(*pieces, "\n")
    assert frames == []
    assert printed.count("s") == "".join(pieces).count("s")
    assert sorted(printed) == sorted("".join(pieces) + "\n")
