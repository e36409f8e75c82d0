import pytest
from hypothesis import given
from hypothesis import strategies as st

from codriver.lisp.reader import check, top_level_forms
from codriver.tools.calls.syntax_check import MAX_CHARACTERS, is_plain_form

PIECES = (*"()[]{}\"'\\;#@`~^| \n,a1", ":k")
LIKELY = ("(f", ")", "[x]", "{:a 1}", '"s"', '"\\""', "'y", "'(", " ", "\n", "-1.5", "é")


@pytest.mark.parametrize(
    "text",
    [
        "(+ 1 2)", "()", "(f)", '(println "a (b" [1 {:c :d}])', "(require '[my.core :as c])", "(f\n  'x\n  '(1))",
        '(str "\\\\" "\\"")', "(-> x :y (/ 2.5) str)",
    ],
)  # fmt: skip
def test_what_an_agent_evaluates_most_is_plain(text):
    assert is_plain_form(text)


@pytest.mark.parametrize(
    "text",
    [
        "", "x", "1", " (f)", "(f) ", "(f) (g)", "(f)g", "(f))", "((f)", "(f]", "([)]", '(f "a)', "(f ')", "(f \\))",
        "(f ;)\n)", "(f #_x)", "#(f)", "(f @x)", "'(f)", "(f `x)", "(f ^:k x)", "(f)'", '(f)"a"',
        "(" + "x" * MAX_CHARACTERS,
    ],
)  # fmt: skip
def test_everything_else_is_for_the_reader(text):
    assert not is_plain_form(text)


@given(st.lists(st.sampled_from(PIECES) | st.sampled_from(LIKELY), max_size=12).map("".join))
def test_a_plain_form_is_one_form_to_the_reader_too(within):
    text = f"({within})"
    if is_plain_form(text):
        (span,) = top_level_forms(text)
        assert (span.start, span.end, span.line, span.column) == (0, len(text), 1, 1)
        assert check(text) is None
