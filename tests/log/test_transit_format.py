"""The format of the history: everything written can be read again, and errors say what is broken."""

import io
import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transit.reader import Reader
from transit.transit_types import Keyword
from transit.writer import Writer

from codriver.log import transit_format
from codriver.log.log_entries import Entry
from codriver.log.transit_format import (
    HEADER,
    EntryDecoder,
    NewerFormatError,
    UnreadableError,
    check_version,
    encode_entry,
    encode_file,
)

TEXTS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"])),
    st.sampled_from(["~", "^ ", "`", "~:key", '"\\"', "[{", "]", "\n", "é", "^", "~~x", "~^"]),
)


def entries_up_to(number):
    """Generate entries with no number above this."""
    return st.lists(
        st.builds(
            Entry,
            line=st.integers(0, number),
            category=st.just("evaluatedCode"),
            text=TEXTS,
            timestamp=st.integers(0, number),
            who=st.none() | TEXTS,
            namespace=st.none() | TEXTS,
        ),
        max_size=5,
    )


ENTRIES = entries_up_to(10**17)
ENTITY = ["^ ", "~:output/line", 1, "~:output/category", "evaluatedCode", "~:output/text", "1", "~:output/timestamp", 2]


def line(*parts):
    return json.dumps(parts[0] if len(parts) == 1 else list(parts)).encode() + b"\n"


def read(*chunks):
    """Return the entities of a file, the number of broken lines, and whether its end was truncated."""
    lines = EntryDecoder(chunks)
    return list(lines.decode_entries()), lines.broken, lines.is_torn


def cut(content, places):
    return [content[start:end] for start, end in itertools.pairwise([0, *sorted(places), len(content)])]


@given(ENTRIES, st.data())
def test_entries_round_trip_however_the_file_is_split(entries, data):
    content = b"".join(encode_file(entries))
    places = data.draw(st.sets(st.integers(0, len(content)), max_size=20))
    assert read(*cut(content, places)) == (entries, 0, False)
    assert read(*(content[place : place + 1] for place in range(len(content)))) == (entries, 0, False)


@given(entries_up_to(2**53 - 1))  # the library writes larger numbers as strings, for JavaScript
def test_each_line_matches_the_transit_library(entries):
    for entry in entries:
        entity = {Keyword(f"output/{name}"): value for name, value in entry.to_json().items()}
        written = io.StringIO()
        Writer(written, "json").write(entity)
        assert encode_entry(entry).decode() == written.getvalue() + "\n"
        assert dict(Reader("json").read(io.StringIO(encode_entry(entry).decode()))) == entity
    header = Reader("json").read(io.StringIO(HEADER.decode()))
    assert dict(header) == {Keyword("format-version"): transit_format.FORMAT_VERSION}


def test_a_long_file_is_written_in_chunks():
    entries = [Entry(number, "evaluatedCode", "x" * 100_000, 1) for number in range(10)]
    pieces = list(encode_file(entries))
    assert 3 <= len(pieces) <= 5
    assert read(*pieces) == (entries, 0, False)


def test_a_lone_surrogate_becomes_a_replacement_character():
    assert read(HEADER, encode_entry(Entry(1, "evaluatedCode", "a\ud83d", 2)))[0] == [
        Entry(1, "evaluatedCode", "a\ufffd", 2)
    ]


@pytest.mark.parametrize(
    "more", [["~:output/mood", "good"], ["~:output/since", "~m1700000000000"], ["other", "~~tilde"], [1, [2]]]
)
def test_unknown_attributes_of_an_entity_are_ignored(more):
    assert read(HEADER, line([*ENTITY, *more])) == ([Entry(1, "evaluatedCode", "1", 2)], 0, False)


def changed(name, value):
    """Return the line with another value of an attribute."""
    entity = list(ENTITY)
    entity[entity.index(f"~:output/{name}") + 1] = value
    return line(entity)


BROKEN = {
    "nothing": b"\n",
    "a word": b"true\n",
    "no JSON": b"no JSON\n",
    "another list": line("~:output/line", 1),
    "an empty map": line(["^ "]),
    "a collection as a value": changed("text", ["^ ", "a", 1]),
    "a value with a tag": changed("text", "~r" + "x" * 200),
    "a code of a cache": changed("text", "^1"),
    "a text that is a number": changed("text", 1),
    "a line that is a text": changed("line", "1"),
    "a line that is a fraction": changed("line", 1.5),
    "a line that is a truth": changed("line", True),  # noqa: FBT003  # a value of JSON
    "a line below nought": changed("line", -1),
    "a time beyond all times": changed("timestamp", 10**18),
    "an entity without a text": line(ENTITY[:5]),
    "bytes that are no UTF-8": line(ENTITY)[:-2] + b"\xff]\n",
    "brackets without end": b"[" * 20_000 + b"\n",
    "depth": b"[" * 5_000 + b"]" * 5_000 + b"\n",
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
def test_a_broken_line_affects_no_other_line(content):
    first, last = (Entry(number, "evaluatedCode", "1", 2) for number in (1, 3))
    assert read(HEADER, encode_entry(first), content, encode_entry(last)) == ([first, last], 1, False)


def test_an_oversized_line_is_skipped_and_a_partial_one_is_not_broken(monkeypatch):
    monkeypatch.setattr(transit_format, "MAX_LINE_BYTES", 1000)
    good = encode_entry(Entry(1, "evaluatedCode", "1", 2))
    entry = Entry(1, "evaluatedCode", "1", 2)
    assert read(HEADER, good, b"x" * 800, b"x" * 800 + b"\n", good, b"torn") == ([entry, entry], 1, True)
    assert read(HEADER, good, b"x" * 800, b"x" * 800) == ([entry], 0, True)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"5", b"null", b'["^ "]', b'["~:format-version",1]', b'["^ ","~:format-version","1"]',
     b'["^ ","~:format-version",0]', b'["^ ","~:format-version",true]', b'["^ ","~:format-version",' + b"9" * 4096],
)  # fmt: skip
def test_a_file_without_a_version_is_refused(content):
    with pytest.raises(UnreadableError, match="does not start with a known :format-version"):
        check_version(content)


def test_a_newer_version_is_reported_before_anything_else_is_read():
    for content in (b'["^ ","~:format-version",3]\nwhat ever', b' [ "^ ", "~:format-version" , 3 , "~:entities", {'):
        with pytest.raises(NewerFormatError, match="format version 3, but this version of Codriver only reads 2"):
            check_version(content)
