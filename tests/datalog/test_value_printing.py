"""Values as text: Clojure's `str` and `pr-str`, with recorded results."""

import pytest

from codriver_datalog.edn import Boolean, Keyword, ValueMap, print_edn, print_str
from codriver_datalog.regexes import compile_pattern

PRINTED = [
    (None, "nil"),
    (Boolean.TRUE, "true"),
    (-1.5, "-1.5"),
    (Keyword(":a/b"), ":a/b"),
    ('a "b"\n\\', '"a \\"b\\"\\n\\\\"'),
    (compile_pattern(r"\d+"), r'#"\d+"'),
    ((1, ("a", None)), '[1 ["a" nil]]'),
    (frozenset({2, 1}), "#{1 2}"),
    (ValueMap({Keyword(":a"): (1,), "b": None}), '{:a [1], "b" nil}'),
]


@pytest.mark.parametrize(("value", "text"), PRINTED)
def test_a_value_is_printed_readably(value, text):
    assert print_edn(value) == text


@pytest.mark.parametrize(("value", "text"), [(None, ""), ("a\n", "a\n"), (Keyword(":a"), ":a"), (("a",), '["a"]')])
def test_str_returns_the_text_of_a_string_and_an_empty_string_for_nil(value, text):
    assert print_str(value) == text
