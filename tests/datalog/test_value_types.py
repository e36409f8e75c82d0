"""Values of queries: conversion from EDN and JSON and back, order, and limits."""

import math

import pytest

from codriver_datalog.edn import (
    MAX_NESTING_DEPTH,
    Boolean,
    Keyword,
    Text,
    ValueMap,
    compare_values,
    constant_value,
    from_json,
    nesting_depth,
    read_form,
    sort_values,
    text_length,
    to_json,
)
from codriver_datalog.regexes import compile_pattern

JSON = [
    (None, None),
    (True, Boolean.TRUE),
    (1, 1),
    ("a", "a"),
    ([1, [False]], (1, (Boolean.FALSE,))),
    ({"a": [True]}, ValueMap(a=(Boolean.TRUE,))),
]


@pytest.mark.parametrize(("given", "value"), JSON)
def test_json_round_trips(given, value):
    assert from_json(given) == value
    assert to_json(value) == given


@pytest.mark.parametrize(
    ("value", "displayed"),
    [
        (frozenset({2, 1}), [1, 2]),
        (ValueMap({1: frozenset()}), {"1": []}),
        (math.inf, "inf"),
        (math.nan, "nan"),
        (Keyword(":a/b"), ":a/b"),
        (compile_pattern("a+"), "a+"),
    ],
)
def test_values_without_a_json_form_are_converted_to_the_closest_one(value, displayed):
    assert to_json(value) == displayed


@pytest.mark.parametrize(
    ("edn", "value"),
    [
        ("[1 (2 nil)]", (1, (2, None))),
        ("#{1 2}", frozenset({1, 2})),
        ("{:a [true]}", ValueMap({":a": (Boolean.TRUE,)})),
        ('"a\\nb"', "a\nb"),
    ],
)
def test_a_query_constant_is_converted_to_its_value(edn, value):
    text = Text(edn, "query")
    assert constant_value(text, read_form(text)) == value


def test_true_differs_from_the_number_1_in_any_collection():
    assert from_json([True]) != from_json([1])
    assert from_json({"a": True}) != from_json({"a": 1})
    assert len(frozenset({Boolean.TRUE, 1})) == 2


def test_values_of_all_types_are_totally_ordered():
    ordered = [
        None, Boolean.FALSE, Boolean.TRUE, -1, 0.5, 2, "a", "b", (), (9,), (1, 2), (1, 3), ValueMap(a=1, b=1, c=1),
        compile_pattern("a"),
    ]  # fmt: skip
    assert sort_values(reversed(ordered)) == ordered
    for place, left in enumerate(ordered):
        for other, right in enumerate(ordered):
            assert (compare_values(left, right) < 0, compare_values(left, right) > 0) == (place < other, place > other)


def test_two_regexes_or_two_nils_compare_equal():
    assert compare_values(compile_pattern("a"), compile_pattern("b")) == 0
    assert compare_values(None, None) == 0


def test_nesting_is_measured_only_up_to_its_limit():
    deep = ()
    for _ in range(MAX_NESTING_DEPTH * 3):
        deep = (deep,)
    assert nesting_depth(1) == 0
    assert nesting_depth((1, frozenset({(2,)}), ValueMap(a=1))) == 3
    assert MAX_NESTING_DEPTH < nesting_depth(deep) <= MAX_NESTING_DEPTH + 2


def test_the_text_length_of_a_value_includes_nested_strings():
    assert text_length(ValueMap(ab=("c", frozenset({"def"}), 5))) == 6
