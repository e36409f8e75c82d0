"""Values as text: `str` and `pr-str` of Clojure, whose answers stand here."""

import pytest

from codriver_datalog.edn import Boolean, Keyword, ValueMap, print_edn, text_of
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
def test_a_value_is_printed_so_that_it_can_be_read_again(value, text):
    assert print_edn(value) == text


@pytest.mark.parametrize(("value", "text"), [(None, ""), ("a\n", "a\n"), (Keyword(":a"), ":a"), (("a",), '["a"]')])
def test_a_string_on_its_own_is_its_text_and_nil_is_none(value, text):
    assert text_of(value) == text
