"""Values of unknown shape: each reader returns its own type, and nothing for all others."""

import math

import pytest

from codriver.wire.untrusted import (
    int_or_none,
    list_or_empty,
    mapping_at,
    mapping_or_empty,
    mappings_or_empty,
    number_or_none,
    strings_at,
    strings_or_empty,
    text_at,
    text_or_none,
)

OTHERS = (None, True, 1.5, object(), ("a",), {"a"})


@pytest.mark.parametrize(("given", "text"), [
    ("", ""), ("ж", "ж"), ("ж".encode(), "ж"), (b"a\xffb", "a\\xffb"), (-3, "-3"), (2**80, str(2**80)),
    (None, None), (1.5, None), (["a"], None), ({"a": 1}, None),
])  # fmt: skip
def test_text_is_accepted_as_a_string_bytes_or_an_integer(given, text):
    assert text_or_none(given) == text


@pytest.mark.parametrize(("given", "number"), [
    (0, 0), (-7, -7), ("12", 12), ("-12", -12), ("", None), ("-", None), ("1.5", None), ("--1", None), (b"12", None),
    (True, None), (False, None), (1.0, None), (None, None),
])  # fmt: skip
def test_an_integer_is_accepted_as_digits_but_not_as_a_boolean(given, number):
    assert int_or_none(given) == number


@pytest.mark.parametrize(("given", "number"), [
    (2, 2.0), (-0.5, -0.5), (math.inf, None), (math.nan, None), (True, None), ("2", None), (None, None),
])  # fmt: skip
def test_a_number_must_be_valid_in_json(given, number):
    assert number_or_none(given) == number


def test_values_other_than_lists_and_maps_are_replaced_by_empty_ones():
    assert list_or_empty([1, None]) == [1, None]
    assert mapping_or_empty({"a": 1}) == {"a": 1}
    for other in OTHERS:
        assert list_or_empty(other) == []
        assert mapping_or_empty(other) == {}
        assert mappings_or_empty(other) == []
        assert strings_or_empty(other) == ()


def test_elements_of_other_types_are_dropped():
    assert strings_or_empty(["a", b"b", "", 3, None, ["c"]]) == ("a", "b", "3")
    assert mappings_or_empty([{"a": 1}, [], None, {}]) == [{"a": 1}, {}]


@pytest.mark.parametrize(("read", "good", "bad", "nothing"), [
    (text_at, "words", 7, ""), (mapping_at, {"a": 1}, [1], {}), (strings_at, ["a", "b"], "ab", []),
])  # fmt: skip
def test_a_member_of_an_unexpected_type_is_treated_as_missing(read, good, bad, nothing):
    def plain(value):
        return list(value) if isinstance(value, tuple) else value

    assert plain(read({"key": good}, "key")) == good
    assert plain(read({"key": bad}, "key")) == nothing
    assert plain(read({}, "key")) == nothing


def test_elements_other_than_strings_are_ignored_in_a_list_of_strings():
    assert strings_at({"key": ["a", 1, None, "b"]}, "key") == ("a", "b")
