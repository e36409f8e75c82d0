"""Comparing recorded results with those of a fresh REPL."""

import re

import pytest

from codriver.features.export.documents.comparison import Match, match_value

NOON = 1_795_348_800_000  # 2026-11-22T12:00Z

SAME = [
    ("python", "4", "4"),
    ("python", "{'b', 'a'}", "{'a', 'b'}"),
    ("python", "[{1, 2}, ({'x'},)]", "[{2, 1}, ({'x'},)]"),
    ("python", "0.30000000000000004", "0.30000000000000004"),
    ("python", "nan", "nan"),
    ("clojure", "#{:b :a}", "#{:a :b}"),
    ("clojure", "{:b 1, :a #{2 1}}", "{:a #{1 2}, :b 1}"),
]
DIFFERENT = [
    ("python", "4", "5"),
    ("python", "1", "True"),
    ("python", "1", "1.0"),
    ("python", "[1, 2]", "(1, 2)"),
    ("python", "{'a': 1, 'b': 2}", "{'b': 2, 'a': 1}"),
    ("python", "'0x7f0011223344'", "'7f0011223344'"),
    ("python", "<A object at 0x7f0011223344>", "<B object at 0x7f0011223344>"),
    ("python", "0.123", "0.456"),
    ("clojure", "[1 2]", "[2 1]"),
    ("clojure", "{:a 1, :b 2}", "{:a 2, :b 1}"),
    ("clojure", "(1 2)", "[1 2]"),
]
VARYING = [
    ("<object object at 0x7f00aa>", "<object object at 0x7f11bb>", "<object object at 0x9999>", "<thing at 0x9999>"),
    ("#object[lang.Atom 0x60f6be34]", "#object[lang.Atom 0x11f6be34]", "#object[lang.Atom 0xabcd]",
     "#object[lang.Ref 0xabcd]"),
    ("[Ljava.lang.Object;@60f6be34", "[Ljava.lang.Object;@60f6be99", "[Ljava.lang.Object;@abcdef12", "x@abcdef12"),
    ("'5f2a7f6e-0c1c-4a57-9d6a-0b6b0b6b0b6b'", "'6f2a7f6e-0c1c-4a57-9d6a-0b6b0b6b0b6b'",
     "'7f2a7f6e-0c1c-4a57-9d6a-0b6b0b6b0b6b'", "'no uuid'"),
    ("'2026-11-22T12:00:01'", "'2026-11-22T12:00:09'", "'2031-01-02T03:04:05'", "'soon'"),
    ("G__123", "G__456", "G__7", "G_7"),
    ("'took 12.5 ms'", "'took 13 ms'", "'took 1 ms'", "'took 1 day'"),
    ("'/tmp/abc/x.txt'", "'/tmp/def/x.txt'", "'/tmp/g/x.txt'", "'/home/g/x.txt'"),
    ("'/private/tmp/abc'", "'/private/tmp/def'", "'/private/tmp/g'", "'/private/g'"),
]  # fmt: skip


@pytest.mark.parametrize(("dialect", "recorded", "fresh"), SAME)
def test_equal_values_match_regardless_of_the_order_of_sets(dialect, recorded, fresh):
    assert match_value(recorded, fresh, dialect) == Match()


@pytest.mark.parametrize(("dialect", "recorded", "fresh"), DIFFERENT)
def test_values_that_differ_in_more_than_variable_parts_do_not_match(dialect, recorded, fresh):
    assert match_value(recorded, fresh, dialect) is None


@pytest.mark.parametrize(("recorded", "fresh", "other", "wrong"), VARYING)
def test_variable_parts_such_as_dates_become_a_pattern_that_matches_only_their_kind(recorded, fresh, other, wrong):
    found = match_value(recorded, fresh, "python")
    for text in (recorded, fresh, other):
        assert re.fullmatch(found.pattern, text), text
    assert not re.fullmatch(found.pattern, wrong)


def test_a_value_identical_in_both_runs_counts_as_constant():
    assert match_value("'id 0x7f0011'", "'id 0x7f0011'", "python") == Match()


@pytest.mark.parametrize("text", ["datetime.date(2026, 11, 22)", "'2026-11-22'", "1795348805"])
def test_the_date_of_the_recording_does_not_count_as_constant(text):
    assert match_value(text, text, "python", NOON).pattern
    assert match_value(text, text, "python", NOON - 400 * 86_400_000) == Match()


def test_a_truncated_value_matches_any_value_with_the_same_start():
    assert match_value("[0, 1, 2, ...]", "[0, 1, 2, 3, 4]", "python") == Match(is_cut=True)
    assert match_value("[0, 1, 2, ...]", "[0, 1, 9, 3, 4]", "python") is None
    assert match_value("{'a': <dict of 1>}", "{'a': {'b': 1}}", "python") == Match(is_cut=True)
    assert match_value("{:a #}", "{:a {:b 1}}", "clojure") == Match(is_cut=True)
    assert match_value("#{1}", "#{2}", "clojure") is None


def test_comparing_a_long_value_takes_linear_time():
    text = "x" * 3_000_000
    assert match_value(text, text, "python") == Match()
    assert match_value(text[:20_000], text[:19_999] + "_", "clojure") is None
