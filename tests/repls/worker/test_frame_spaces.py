"""Code evaluated in a frame of the last error: the names that it can read, and those that it can change."""

import pytest
from worker_client import texts

CODE = """
rate = 5
def outer():
    z = 10
    class Box:
        k = 3
        def fill(self, a):
            b = [1, 2]
            return a / 0 + z
    return Box().fill(4)
"""
FILL, OUTER = 0, 1


def at(repl, frame, code, **more):
    return repl.ask("codriver/frame", code=code, frame=frame, **more)


@pytest.fixture
def failed(python):
    python.evaluate(CODE)
    assert texts(python.evaluate("outer()"), "ex") == ["ZeroDivisionError"]
    return python


SEEN = {
    "locals": ("(a, b)", "(4, [1, 2])"),
    "an object": ("self.k", "3"),
    "a cell of the function around": ("z", "10"),
    "a global": ("rate", "5"),
    "a comprehension over a local": ("[x + len(b) + z for x in b]", "[13, 14]"),
    "a lambda": ("(lambda: (a, z))()", "(4, 10)"),
    "a function that is defined there": ("def two(): return [b[0] for _ in b]\ntwo()", "[1, 1]"),
}


@pytest.mark.parametrize("what", SEEN)
def test_code_evaluated_in_a_frame_can_read_its_variables(failed, what):
    code, value = SEEN[what]
    assert texts(at(failed, FILL, code), "value") == [value]


def test_each_frame_has_its_own_names(failed):
    assert texts(at(failed, OUTER, "z, [z for _ in range(2)]"), "value") == ["(10, [10, 10])"]
    assert texts(at(failed, OUTER, "a"), "ex") == ["NameError"]


def test_an_assignment_is_visible_only_to_later_code_in_the_same_frame(failed):
    at(failed, FILL, "b = 9")
    assert texts(at(failed, FILL, "b, [b for _ in '1']"), "value") == ["(9, [9])"]
    assert texts(at(failed, OUTER, "b"), "ex") == ["NameError"]
    assert texts(failed.evaluate("b"), "ex") == ["NameError"]


def test_only_existing_globals_of_the_module_are_changed(failed):
    at(failed, FILL, "rate = 6; new = 1; 1 / 0")
    assert texts(failed.evaluate("rate, 'new' in globals()"), "value") == ["(6, False)"]
    assert texts(at(failed, OUTER, "rate"), "value") == ["6"]


def test_a_global_changed_afterwards_is_visible(failed):
    assert texts(at(failed, FILL, "rate"), "value") == ["5"]
    failed.evaluate("rate = 8; later = 2")
    assert texts(at(failed, FILL, "rate, later"), "value") == ["(8, 2)"]


def test_an_error_in_a_frame_does_not_replace_the_last_error(failed):
    assert texts(at(failed, FILL, "b[7]"), "ex") == ["IndexError"]
    assert texts(at(failed, FILL, "b"), "value") == ["[1, 2]"]
    assert texts(failed.evaluate("import sys\nsys.last_value"), "value") == ["ZeroDivisionError('division by zero')"]


def test_a_new_error_has_new_frames_and_names(failed):
    at(failed, FILL, "kept = 1")
    failed.evaluate("outer()")
    assert texts(at(failed, FILL, "kept"), "ex") == ["NameError"]


REFUSED = {
    "ran = 1\nsuper()": "super() needs arguments",
    "ran = 1\nawait outer()": "await is not possible",
    "ran = 1\n[x async for x in outer()]": "await is not possible",
}


@pytest.mark.parametrize("code", REFUSED)
def test_code_that_cannot_run_in_a_frame_is_refused_before_any_of_it_runs(failed, code):
    (parts,) = texts(at(failed, FILL, code), "codriver/error")
    assert (parts["type"], parts["phase"]) == ("FrameError", "read")
    assert REFUSED[code] in parts["message"]
    assert texts(at(failed, FILL, "ran"), "ex") == ["NameError"]


def test_super_with_explicit_arguments_works_in_a_frame(failed):
    assert texts(at(failed, FILL, "super(type(self), self).__init__()"), "ex") == []


def test_evaluating_in_a_cleared_frame_reports_that_its_locals_are_gone(python):
    python.evaluate("def fail(n):\n    inner = n\n    return inner / 0")
    python.evaluate("fail(1)")
    python.evaluate("import sys, traceback\ntraceback.clear_frames(sys.last_value.__traceback__)")
    (parts,) = texts(at(python, 0, "ran = 1\ninner"), "codriver/error")
    assert "has no locals" in parts["message"]
    assert texts(at(python, 0, "1 + 1"), "value") == ["2"]


def test_an_unbound_local_does_not_fall_back_to_a_global(failed):
    failed.evaluate("def late(n):\n    n / 0\n    rate = n\n    return rate")
    failed.evaluate("late(1)")
    assert texts(at(failed, 0, "rate"), "ex") == ["NameError"]
    at(failed, 0, "rate = 7")
    assert texts(at(failed, 0, "rate"), "value") == ["7"]
    assert texts(failed.evaluate("rate"), "value") == ["5"]
    failed.evaluate("import sys, traceback\ntraceback.clear_frames(sys.last_value.__traceback__)\nlate(1)")
    failed.evaluate("traceback.clear_frames(sys.last_value.__traceback__)")
    (parts,) = texts(at(failed, 0, "rate"), "codriver/error")
    assert "has no locals" in parts["message"]


def test_an_unknown_frame_is_refused_with_the_number_of_frames(failed):
    (parts,) = texts(at(failed, 9, "1"), "codriver/error")
    assert parts["message"] == "there is no frame 9: the error has 3 frames, and 0 is the innermost"


def test_a_frame_is_refused_if_there_was_no_error(python):
    (parts,) = texts(at(python, 0, "1"), "codriver/error")
    assert parts["message"] == "there is no frame to evaluate in, because no error with frames has occurred"


def test_code_is_evaluated_in_frames_of_generators_and_modules(python):
    python.evaluate("def gen():\n    y = 1\n    yield 1 / 0")
    python.evaluate("next(gen())")
    assert texts(at(python, 0, "y"), "value") == ["1"]
    at(python, 1, "of_module = 3")
    assert texts(python.evaluate("of_module"), "value") == ["3"]


def test_a_lisp_form_can_read_the_locals_of_a_frame(lisp):
    lisp.evaluate("(ns deep.shelf)\n(def ^:dynamic rate 5)\n(defn fill [an-item n] (let [b [1 n]] (/ (count b) n)))")
    fill = number_of("fill", lisp.evaluate("(deep.shelf/fill :x 0)"))
    assert texts(at(lisp, fill, "[an-item n b rate]\n(map (fn [x] (+ x n)) b)"), "value") == ["[:x 0 [1 0] 5]", "(1 0)"]
    assert texts(at(lisp, fill, "(missing)"), "ex") == ["CompilerException"]
    assert texts(at(lisp, fill, "(def rate 6)\nan-item"), "value") == ["#'deep.shelf/rate", ":x"]
    assert texts(lisp.evaluate("deep.shelf/rate"), "value") == ["6"]


def number_of(function, failed):
    """Return the number of the innermost frame of a function in an error report."""
    (parts,) = texts(failed, "codriver/error")
    return next(number for number, text in enumerate(parts["trace"]) if text.startswith(f"{function} "))


def test_frame_numbers_match_the_error_report(failed):
    failed.evaluate("import json\ndef parse(text):\n    kept = 1\n    return json.loads(text)")
    parse = number_of("parse", failed.evaluate("parse('{')"))
    assert parse > 0
    assert texts(at(failed, parse, "kept, text"), "value") == ["(1, '{')"]
