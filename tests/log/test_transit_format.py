"""The format of the history: what is written is read again, however it comes; what is broken says how."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codriver.log import transit_format
from codriver.log.output_log import Entry
from codriver.log.transit_format import (
    NewerFormatError,
    UnreadableError,
    journal_line,
    read_journal,
    read_transit,
    transit_pieces,
)

TEXTS = st.one_of(st.text(), st.sampled_from(["~", "^ ", "`", "~:key", '"\\"', "[{", "]", "\n", "é"]))
ENTRIES = st.lists(
    st.builds(
        Entry,
        line=st.integers(0, 10**17),
        category=st.just("evaluatedCode"),
        text=TEXTS,
        timestamp=st.integers(0, 10**17),
        who=st.none() | TEXTS,
        namespace=st.none() | TEXTS,
    ),
    max_size=5,
)
ENTITY = ["^ ", "~:output/line", 1, "~:output/category", "evaluatedCode", "~:output/text", "1", "~:output/timestamp", 2]


def file_of(*entities):
    return json.dumps(["^ ", "~:format-version", 1, "~:entities", list(entities)]).encode()


def cut(content, places):
    return [content[start:end] for start, end in itertools.pairwise([0, *sorted(places), len(content)])]


@given(ENTRIES, st.data())
def test_what_is_written_is_read_however_it_is_cut(entries, data):
    content = b"".join(transit_pieces(entries))
    places = data.draw(st.sets(st.integers(0, len(content)), max_size=20))
    assert list(read_transit(cut(content, places))) == entries
    assert list(read_transit([content[place : place + 1] for place in range(len(content))])) == entries


@given(ENTRIES, st.data())
def test_a_journal_is_read_however_it_is_cut(entries, data):
    content = b"".join(map(journal_line, entries))
    places = data.draw(st.sets(st.integers(0, len(content)), max_size=20))
    assert list(read_journal(cut(content, places))) == entries


def test_a_long_file_is_written_in_pieces():
    entries = [Entry(line, "evaluatedCode", "x" * 100_000, 1) for line in range(10)]
    pieces = list(transit_pieces(entries))
    assert 3 <= len(pieces) <= 5
    assert list(read_transit(pieces)) == entries


def test_a_map_may_be_a_json_object_too():
    entity = dict(zip(ENTITY[1::2], ENTITY[2::2], strict=True))
    content = json.dumps({"~:format-version": 1, "~:entities": [entity]}, indent=2).encode()
    assert list(read_transit([content])) == [Entry(1, "evaluatedCode", "1", 2)]


@pytest.mark.parametrize(
    "more", [["~:output/mood", "good"], ["~:output/since", "~m1700000000000"], ["other", "~~tilde"]]
)
def test_what_this_version_does_not_know_of_an_entity_is_left_out(more):
    assert list(read_transit([file_of([*ENTITY, *more])])) == [Entry(1, "evaluatedCode", "1", 2)]


def test_what_this_version_does_not_know_of_a_file_is_left_out():
    content = json.dumps(["^ ", "~:format-version", 1, "~:by", "us", "~:entities", [ENTITY], "~:end", ["~#set", [1]]])
    assert list(read_transit([content.encode()])) == [Entry(1, "evaluatedCode", "1", 2)]


def changed(name, value):
    """The entity with another value of an attribute."""
    entity = list(ENTITY)
    entity[entity.index(f"~:output/{name}") + 1] = value
    return file_of(entity)


BROKEN = {
    "nothing": (b"", "too early"),
    "a word": (b"true", "t where one of [{ belongs"),
    "another list": (b'["~:format-version",1]', "it is no map"),
    "an empty map": (b'["^ "]', "no :entities"),
    "a version that is no number": (b'["^ ","~:format-version","1"]', "no :format-version"),
    "a version of nought": (b'["^ ","~:format-version",0]', "no :format-version"),
    "keys without end": (b'["^ ","~:format-version",1' + b',"key",1' * 101 + b"]", "goes on behind its end"),
    "no entities": (b'["^ ","~:format-version",1]', "no :entities"),
    "entities that are no list": (b'["^ ","~:format-version",1,"~:entities",3]', "no :entities"),
    "something behind the end": (file_of(ENTITY) + b" 1", "goes on behind its end"),
    "an entity that is no map": (file_of([1, 2]), "no map"),
    "an entity that is a number": (file_of(3), "no map"),
    "a key that is a number": (file_of([*ENTITY, 1, 2]), "a key is no keyword"),
    "a key without end": (file_of([*ENTITY, "k" * 201, 2]), "a key is no keyword"),
    "a key that was never given": (file_of(["^ ", "^9", 1]), "no transit JSON"),
    "a collection as a value": (changed("text", ["^ ", "a", 1]), "is a collection"),
    "a long value with a tag": (changed("text", "~r" + "x" * 200), "too long"),
    "a value with a broken tag": (changed("text", "~ix"), "no transit JSON"),
    "a text that is a number": (changed("text", 1), "wrong type"),
    "a line that is a text": (changed("line", "1"), "wrong type"),
    "a line that is a fraction": (changed("line", 1.5), "wrong type"),
    "a line below nought": (changed("line", -1), "out of range"),
    "a time beyond all times": (changed("timestamp", 10**18), "out of range"),
    "an entity without a text": (file_of(ENTITY[:5]), "lacks an attribute"),
    "bytes that are no UTF-8": (file_of(ENTITY)[:-2] + b"\xff]]", "no UTF-8"),
    "brackets without end": (b'["^ ","~:format-version",1,"~:entities",[' + b"[" * 20_000, "parts"),
}


@pytest.mark.parametrize(("content", "why"), BROKEN.values(), ids=BROKEN)
def test_a_broken_file_says_how(content, why):
    with pytest.raises(UnreadableError, match=why.replace("[", r"\[")):
        list(read_transit([content]))


def test_a_newer_format_is_told_before_its_entities_are_looked_at():
    with pytest.raises(NewerFormatError, match="format 2, and this version knows 1"):
        list(read_transit([b'["^ ","~:format-version",2,"~:entities",{"what":"ever"}]']))


def test_a_line_of_the_journal_that_cannot_be_read_takes_no_other_with_it(monkeypatch):
    monkeypatch.setattr(transit_format, "MAX_VALUE_CHARACTERS", 1000)
    good = journal_line(Entry(1, "evaluatedCode", "1", 2))
    long = [b"x" * 800, b"x" * 800 + b"\n"]
    chunks = [good, b"no JSON\n", b'{"line": 3}\n', b"\xff\n", *long, good, b"torn"]
    first = Entry(1, "evaluatedCode", "1", 2)
    assert list(read_journal(chunks)) == [first, None, None, None, None, first]
