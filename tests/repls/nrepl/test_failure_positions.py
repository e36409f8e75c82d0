"""Which form failed and where, from the positions that servers report."""

import pytest

from codriver.core.evaluations import Failure
from codriver.core.requests import Form, Request
from codriver.repls.contract.queries import Lookup
from codriver.repls.form_positions import add_position

FILE = (Form("(ns f)", 1, 1), Form("(defn g []\n  1)", 2, 1), Form("\\zzz", 5, 3), Form("(g)", 6, 1))


def where(phase, line, column, *, form=None, file=None, forms=FILE, counts_lines=True):
    error = Failure("E", "m", phase=phase, line=line, column=column, file=file)
    request = Request(id="e", code="", forms=forms, file="/w/f.clj")
    found = add_position(error, request, form, counts_lines=counts_lines)
    return found.form, found.line, found.column


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (("compilation", 2, 8), (2, 2, 8)),
        (("compilation", 3, 3), (2, 3, 3)),
        (("macroexpansion", 2, 1), (2, 2, 1)),
        (("compile", 6, None), (4, 6, None)),
        (("read-source", 5, 7), (3, 5, 3)),
        (("read-source", 6, 1), (3, 5, 3)),
        (("read-source", 3, 4), (2, 3, 4)),
        (("execution", 3, 3), (None, 3, 3)),
        (("compilation", None, None), (None, None, None)),
    ],
)
def test_the_form_of_a_compile_error_is_found_by_position(message, expected):
    phase, line, column = message
    assert where(phase, line, column, file="/w/f.clj") == expected


def test_a_position_in_another_file_does_not_determine_the_form():
    assert where("compilation", 3, 1, file="/w/other.clj") == (None, 3, 1)


def test_a_read_error_past_the_end_is_moved_back_to_its_form():
    forms = (Form("1", 1, 1), Form("2", 1, 3), Form(":a/", 1, 5))
    assert where("read-source", 2, 1, form=3, forms=forms) == (3, 1, 5)


def test_a_position_inside_the_form_is_not_changed():
    assert where("read-source", 1, 9, form=1, forms=(Form("(foo \\zzz 1)", 1, 1),)) == (1, 1, 9)


def test_line_numbers_relative_to_a_form_are_converted_to_lines_of_the_whole_code():
    assert where("execution", 2, 3, form=2, counts_lines=False) == (2, 3, 3)


@pytest.mark.parametrize(
    ("fields", "arglists"),
    [
        ({"arglists": "([f] [f coll])"}, ("[f]", "[f coll]")),
        ({"arglists-str": "([{:keys [a b]} & [c]] [])"}, ("[{:keys [a b]} & [c]]", "[]")),
        ({"arglists-str": "([])"}, ("[]",)),
        ({"arglists-str": "[f]\n[f coll]"}, ("[f]", "[f coll]")),
        ({"arglists": ["[f]", "[f coll]"]}, ("[f]", "[f coll]")),
        ({"arglists-str": "(a, b=[1])"}, ("(a, b=[1])",)),
    ],
)
def test_each_arity_has_its_own_argument_list(fields, arglists):
    assert Lookup("f").read({"name": "f", **fields}).arglists == arglists
