"""Query functions on strings, numbers and collections: edge cases and errors."""

import pytest

from codriver_datalog.budget import Budget
from codriver_datalog.edn import MAX_COLLECTION_ITEMS, MAX_NESTING_DEPTH, Boolean, ValueMap, from_python
from codriver_datalog.functions import FUNCTIONS

PAIRS = ValueMap(a=1)


def call(name, *arguments):
    function = FUNCTIONS[name]
    return function.call(*((Budget(lambda: 0.0, 1.0), *arguments) if function.is_timed else arguments))


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("count", (None,), 0),
        ("count", ("abc",), 3),
        ("count", (PAIRS,), 1),
        ("get", (PAIRS, "a"), 1),
        ("get", (PAIRS, "b", 7), 7),
        ("get", ((5, 6), 1), 6),
        ("get", ((5, 6), 2, 7), 7),
        ("get", ((5, 6), "1"), None),
        ("get", (frozenset({5}), 5), 5),
        ("get", (frozenset({5}), 6, 7), 7),
        ("nth", ((5, 6), 1), 6),
        ("nth", ((5, 6), 2, 7), 7),
        ("first", (PAIRS,), ("a", 1)),
        ("last", ((),), None),
        ("rest", (None,), ()),
        ("not-empty", ("",), None),
        ("set", ((1, 1),), frozenset({1})),
        ("hash-map", ("a", 1), PAIRS),
        ("contains?", ((5, 6), 1), Boolean.TRUE),
        ("contains?", ((5, 6), 5), Boolean.FALSE),
        ("contains?", (PAIRS, "a"), Boolean.TRUE),
    ],
)
def test_sequence_functions_return_the_same_as_in_clojure(name, arguments, expected):
    assert from_python(call(name, *arguments)) == expected


DEEP = ()
for _ in range(MAX_NESTING_DEPTH):
    DEEP = (DEEP,)


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("count", (5,), "expected a collection, not a number"),
        ("first", (Boolean.TRUE,), "expected a collection, not a boolean"),
        ("nth", ((5, 6), 2), "there is no item at position 2: the collection has 2 items"),
        ("nth", ((5, 6), -1), "there is no item at position -1: the collection has 2 items"),
        ("hash-map", ("a",), "an even number of keys and values, not 1 items"),
        ("vector", (DEEP,), f"collections cannot be nested deeper than {MAX_NESTING_DEPTH}"),
        ("range", (MAX_COLLECTION_ITEMS + 1,), f"more than {MAX_COLLECTION_ITEMS} numbers"),
        ("clojure.string/upper-case", (5,), "expected a string, not a number"),
    ],
)
def test_sequence_functions_explain_unsuitable_arguments(name, arguments, words):
    with pytest.raises((TypeError, ValueError), match=words):
        call(name, *arguments)


@pytest.mark.parametrize(
    ("name", "words"), [("nth", "2 to 3 arguments"), ("vector", "0 or more arguments"), ("first", "1 arguments")]
)
def test_the_expected_number_of_arguments_is_described(name, words):
    assert FUNCTIONS[name].arity_text() == words
