"""Parsing the contents of messages: as JSON, yielding to other tasks if they are long, and refused with a reason."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codriver.features.jupyter.kernels import content_reader
from codriver.features.jupyter.kernels.content_reader import (
    CHUNK_BYTES,
    MAX_ELEMENTS,
    MAX_NESTING_DEPTH,
    MAX_SHORT_BYTES,
    UnreadableContentError,
    join_around_gap,
    join_chunks,
    parse_content,
)

ALPHABET = 'a"\\\n\té文😀\x00'


def parse(content):
    """Return the content, and how often its reader yielded."""
    work, turns = parse_content(content, "token"), 0
    while True:
        try:
            next(work)
        except StopIteration as done:
            return done.value, turns
        turns += 1


def refusal_reason(content):
    with pytest.raises(UnreadableContentError) as caught:
        parse(content)
    return caught.value.cause


@pytest.mark.parametrize("ascii_only", [True, False])
@pytest.mark.parametrize("text", [*ALPHABET, ALPHABET, "a" * 50 + "\\", '"' * 7 + "x", "\\" * 3 + '"', "\ud800"])
def test_long_texts_are_parsed_exactly_as_json(text, ascii_only):
    long = text * (3 * CHUNK_BYTES // len(text))
    content = {"data": {"text/plain": long, "list": [1, long, {"x": None}]}, "short": text}
    if not ascii_only and text == "\ud800":
        return
    parsed, turns = parse(json.dumps(content, ensure_ascii=ascii_only).encode())
    assert parsed == content
    assert turns > 6


@given(st.text(ALPHABET, max_size=40), st.integers(1, 2000), st.booleans())
def test_texts_are_parsed_equally_wherever_a_chunk_ends(text, count, ascii_only):
    content = {"text": "x" * MAX_SHORT_BYTES + text * count}
    assert parse(json.dumps(content, ensure_ascii=ascii_only).encode())[0] == content


def test_short_content_is_parsed_without_yielding():
    assert parse(b'{"a": [1, "b"]}') == ({"a": [1, "b"]}, 0)


def test_short_content_has_the_same_depth_limit_as_long_content():
    flat = {"a": [["["] * 3] * 1000}
    assert parse(json.dumps(flat).encode())[0] == flat
    for depth in (MAX_NESTING_DEPTH - 1, MAX_NESTING_DEPTH):
        nested = b'{"a": ' + b"[" * depth + b"]" * depth + b"}"
        if depth < MAX_NESTING_DEPTH:
            assert parse(nested)[0]["a"]
        else:
            assert f"more than {MAX_NESTING_DEPTH} levels deep" in refusal_reason(nested)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'{"a": ' + b"[" * 200_000 + b"]" * 200_000 + b"}", f"more than {MAX_NESTING_DEPTH} levels deep"),
        (b'{"a": ' + b"[" * 5000 + b"]" * 5000 + b"}", f"more than {MAX_NESTING_DEPTH} levels deep"),
        (b'{"a": [' + b"[]," * MAX_ELEMENTS + b"1]}", f"more than {MAX_ELEMENTS:,} elements"),
        (b'{"a": [' + b'"",' * MAX_ELEMENTS + b"1]}", f"more than {MAX_ELEMENTS:,} elements"),
        (b'{"a": "' + b"x" * 100_000, "the content ends within a string"),
        (b"[" + b" " * 100_000 + b"]", "a JSON list instead of an object"),
        (b"nothing", "the content is not valid JSON"),
        (b" " * 200_000, "the content is not valid JSON"),
        (b'{"a": ' + b"9" * 100_000 + b"}", "the content is not valid JSON"),
        (b'{"a": "' + b"\n" * 100_000 + b'"}', "the content is not valid JSON"),
    ],
    ids=range(10),
)
def test_unreadable_content_is_refused_with_a_reason(content, reason):
    assert reason in refusal_reason(content)


def test_brackets_inside_strings_do_not_count_as_elements():
    content = {"a": "[{}, " * MAX_ELEMENTS, "b": ["[" * 300] * 1000}
    assert parse(json.dumps(content).encode())[0] == content


def in_chunks(content, size):
    return [content[start : start + size] for start in range(0, len(content), size)]


def join(chunks):
    work = join_chunks(chunks)
    while True:
        try:
            next(work)
        except StopIteration as done:
            return done.value


@given(
    st.text(ALPHABET, max_size=60), st.booleans(), st.integers(0, 60), st.integers(0, 60), st.sampled_from([1, 7, 999])
)
def test_a_text_whose_middle_was_dropped_contains_a_marker(text, ascii_only, cut, extra, size):
    long_text = "x" * 100 + text * 30 + "y" * 200
    content = json.dumps({"name": "stdout", "text": long_text}, ensure_ascii=ascii_only).encode()
    head, tail = content[: 60 + cut], content[-60 - extra :]
    omitted_bytes = len(content) - len(head) - len(tail)
    chunks = join_around_gap(in_chunks(head, size), in_chunks(tail, size), omitted_bytes)
    parsed = json.loads(join(chunks).decode(errors="replace"))
    start, mark, end = parsed["text"].partition("\n[... ")
    assert long_text.startswith(start)
    assert long_text.endswith(end.partition(" ...]\n")[2])
    assert mark
    assert parsed["name"] == "stdout"


def test_a_display_whose_middle_was_dropped_is_still_a_display():
    content = json.dumps(
        {"data": {"text/plain": "a" * 1000}, "metadata": {}, "transient": {"display_id": "d"}}
    ).encode()
    parsed = json.loads(join(join_around_gap([content[:100]], [content[-200:]], len(content) - 300)))
    assert parsed["transient"] == {"display_id": "d"}
    assert "bytes are left out here" in parsed["data"]["text/plain"]


def test_no_chunk_exceeds_the_chunk_size(monkeypatch):
    lengths = []
    loaded = content_reader._load
    monkeypatch.setattr(content_reader, "_load", lambda text: lengths.append(len(text)) or loaded(text))
    parse(json.dumps({"a": ALPHABET * 100_000}, ensure_ascii=False).encode())
    assert max(lengths) <= CHUNK_BYTES + 2
