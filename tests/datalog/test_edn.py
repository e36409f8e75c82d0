"""EDN is parsed as other readers parse it, and errors have their position."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codriver_datalog.edn import MAX_DEPTH, MAX_TEXT_CHARACTERS, Keyword, Text, read_form
from codriver_datalog.errors import QueryError


def plain(form):
    """Return the form without positions: atoms as (tag, value), collections as (tag, [...])."""
    if isinstance(form.value, tuple):
        return (form.tag, [plain(item) for item in form.value])
    return (form.tag, form.value)


def value(text):
    return plain(read_form(Text(text)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("nil", ("nil", None)),
        ("true", ("boolean", True)),
        ("false", ("boolean", False)),
        ("12", ("number", 12)),
        ("-3", ("number", -3)),
        ("+3", ("number", 3)),
        ("7N", ("number", 7)),
        ("1.5", ("number", 1.5)),
        ("1e3", ("number", 1000.0)),
        ("2.5M", ("number", 2.5)),
        ("##Inf", ("number", math.inf)),
        ('"a\\n\\t\\"\\\\\\u00e4b"', ("string", 'a\n\t"\\äb')),
        ('"two\nlines"', ("string", "two\nlines")),
        (r'#"(?i)a\d\"b"', ("regex", r"(?i)a\d\"b")),
        ("\\a", ("character", "a")),
        ("\\newline", ("character", "\n")),
        ("\\u00e4", ("character", "ä")),
        (":a", ("keyword", ":a")),
        (":output/repl-session-key", ("keyword", ":output/repl-session-key")),
        ("?x", ("symbol", "?x")),
        ("-", ("symbol", "-")),
        ("clojure.string/blank?", ("symbol", "clojure.string/blank?")),
        ("...", ("symbol", "...")),
        ("%", ("symbol", "%")),
        ("[]", ("vector", [])),
        ("(a, b)", ("list", [("symbol", "a"), ("symbol", "b")])),
        ("#{1}", ("set", [("number", 1)])),
        ("{:a 1}", ("map", [("keyword", ":a"), ("number", 1)])),
        ("[1 ; a comment ]\n 2]", ("vector", [("number", 1), ("number", 2)])),
        ("[1 #_2 #_(3 4) 5 #_6]", ("vector", [("number", 1), ("number", 5)])),
        ("  ,, 1 ; end", ("number", 1)),
    ],
)
def test_forms_are_parsed(text, expected):
    assert value(text) == expected


def test_a_keyword_equals_its_text():
    form = read_form(Text(":a/b"))
    assert isinstance(form.value, Keyword)
    assert form.value == ":a/b"


@pytest.mark.parametrize(
    ("text", "expected", "found", "line", "column"),
    [
        ("", "a form", "nothing", 1, 1),
        ("[1\n [2", "`]`", "the end of the text", 2, 4),
        ("[1\n  )", "`]`, which closes the open form", "`)`", 2, 3),
        ("]", "a form", "`]`", 1, 1),
        ('["abc', 'a closing `"`', '"abc', 1, 2),
        ('[#"abc', 'a closing `"`', '#"abc', 1, 2),
        ("1 2", "the end of the text after one form", "2", 1, 3),
        ("{:a}", "a value for every key in the map", "{:a}", 1, 1),
        ("12ab", "a whole or decimal number", "12ab", 1, 1),
        ("1/2", "a whole or decimal number", "1/2", 1, 1),
        ("#inst 5", "a form without reader tags", "#inst", 1, 1),
        ("::a", "a keyword such as `:output/line`", "::a", 1, 1),
        (":", "a keyword such as `:output/line`", ":", 1, 1),
        (r'"\q"', 'a string whose only escapes are \\n \\t \\r \\b \\f \\\\ \\" \\uXXXX', "\\q", 1, 1),
        ("\\abc", "a character such as `\\a` or `\\newline`", "\\abc", 1, 1),
        ("[#_]", "a form after `#_`, which discards it", "#_", 1, 2),
        ("9" * 500, "a whole or decimal number", "9" * 119 + "…", 1, 1),
        ("[" * (MAX_DEPTH + 1), f"at most {MAX_DEPTH} levels of nesting", "one more", 1, MAX_DEPTH + 1),
        (
            " " * (MAX_TEXT_CHARACTERS + 1),
            f"at most {MAX_TEXT_CHARACTERS} characters of text",
            str(MAX_TEXT_CHARACTERS + 1),
            1,
            1,
        ),
    ],
)
def test_an_error_message_has_what_was_expected_and_where(text, expected, found, line, column):
    with pytest.raises(QueryError) as error:
        read_form(Text(text))
    assert (error.value.reason, error.value.found) == (f"expected {expected}", found)
    assert (error.value.line, error.value.column) == (line, column)
    assert f"line {line}, column {column}" in str(error.value)


@given(st.text(st.sampled_from('[](){}#"\\ ;:,_a1?.-+N/eM^\n\u00e4'), max_size=30))
def test_random_text_is_parsed_or_refused_with_an_error(text):
    try:
        form = read_form(Text(text))
    except QueryError as error:
        assert error.line >= 1  # noqa: PT017  # being refused is one of two good ends
        assert error.column >= 1  # noqa: PT017  # as above
    else:
        assert 0 <= form.start < form.end <= len(text)


def test_many_discards_do_not_exhaust_the_stack():
    with pytest.raises(QueryError):
        read_form(Text("#_" * 20_000))
