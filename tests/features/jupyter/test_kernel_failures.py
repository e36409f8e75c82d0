"""Failures of kernels, parsed from their errors and formatted as reports."""

import pytest

from codriver.features.jupyter.kernels.kernel_failures import (
    failure_from_error,
    format_report,
    parse_error,
    strip_escapes,
)
from codriver.tools.answers.lean_answers import without_report

CELL = """\
\x1b[31m---------------------------------------------------------------------------\x1b[39m
ZeroDivisionError                         Traceback (most recent call last)
Cell In[10], line 5
      3 def f():
----> 5 f()

Cell In[10], line 4, in f()
----> 4     g()

File ~/ws/mod.py:12, in Shop.area(r, **others)
     12     return 1/0

File /usr/lib/python3.11/json/decoder.py:355, in JSONDecoder.raw_decode(self, s, idx)
    355     raise

ZeroDivisionError: division by zero"""

CHAIN = """\
KeyError                                  Traceback (most recent call last)
Cell In[2], line 2
----> 2     {}["a"]

KeyError: 'a'

During handling of the above exception, another exception occurred:

ValueError                                Traceback (most recent call last)
Cell In[2], line 4
----> 4     raise ValueError("mine")

ValueError: mine"""


def kernel_error(name, value, traceback):
    return parse_error({"ename": name, "evalue": value, "traceback": traceback.split("\n")})


def python(name, value, traceback, cell):
    return failure_from_error(kernel_error(name, value, traceback), language="python", cell=cell)


def test_the_position_of_an_error_is_that_of_the_innermost_user_frame(monkeypatch):
    monkeypatch.setenv("HOME", "/home/ada")
    failure = python("ZeroDivisionError", "division by zero", CELL, 10)
    assert (failure.file, failure.line) == ("/home/ada/ws/mod.py", 12)
    assert failure.trace[1:] == ("Shop.area (/home/ada/ws/mod.py:12)", "f (<In[10]>:4)", "<module> (<In[10]>:5)")


def test_an_error_position_is_in_the_failing_cell_even_if_executions_overlap(monkeypatch):
    without_file = CELL.partition("File ~/ws")[0]
    assert python("ZeroDivisionError", "division by zero", without_file, 11).line == 4


def test_an_error_during_handling_includes_the_original_error():
    failure = python("ValueError", "mine", CHAIN, 2)
    assert (failure.type, failure.message, failure.line) == ("ValueError", "mine", 4)
    (link,) = failure.chain
    assert (link.relation, link.type, link.message, link.line) == ("context", "KeyError", "'a'", 2)


def test_a_frame_of_an_earlier_cell_is_not_reported_as_a_position_in_the_current_code():
    failure = python("NameError", "x", "Cell In[3], line 1\n----> 1 f()\n\nCell In[2], line 9, in f()\n", 3)
    assert (failure.line, failure.trace) == (1, ("f (<In[2]>:9)", "<module> (<In[3]>:1)"))


def test_a_syntax_error_message_omits_its_internal_file_name():
    failure = python("SyntaxError", "invalid syntax (2747763117.py, line 1)", "  Cell In[9], line 1\n    def f(:", 9)
    assert (failure.message, failure.line, failure.phase) == ("invalid syntax", 1, "read")


@pytest.mark.parametrize(
    ("language", "name", "value", "traceback", "kind", "message", "line"),
    [
        ("typescript", "Error", "boom", "Error: boom\n    at <anonymous>:3:28", "Error", "boom", 3),
        ("R", "ERROR", "Error in f(): boom\n", "Error in f(): boom\nTraceback:\n", "ERROR", "Error in f(): boom", None),
        ("bash", "", "127", "", "exit status", "127", None),
        ("scheme", "", "", "", "Error", "", None),
    ],
)
def test_errors_of_other_languages_are_parsed(language, name, value, traceback, kind, message, line):
    failure = failure_from_error(kernel_error(name, value, traceback), language=language, cell=1)
    assert (failure.type, failure.message, failure.line, failure.column) == (kind, message, line, None)


@pytest.mark.parametrize(
    ("language", "name", "value", "traceback"),
    [
        ("python", "ZeroDivisionError", "division by zero", CELL),
        ("python", "ValueError", "mine", CHAIN),
        ("python", "KeyboardInterrupt", "", ""),
        ("typescript", "Error", "boom", "Error: boom\n    at <anonymous>:3:28"),
        ("bash", "", "127", ""),
    ],
)
def test_an_answer_omits_the_traceback_of_the_reported_failure(language, name, value, traceback):
    failure = failure_from_error(kernel_error(name, value, traceback), language=language, cell=10)
    chain = [{"class": link.type, "message": link.message, "relation": link.relation} for link in failure.chain]
    error = {"class": failure.type, "message": failure.message, **({"chain": chain} if chain else {})}
    assert without_report(f"mine\n{format_report(failure, language=language)}", error, "/ws") == ("mine\n", [])


def test_only_ansi_sequences_are_removed():
    assert strip_escapes("\x1b[1;31mred\x1b[0m [31m \x1b]0;title\x07") == "red [31m \x1b]0;title\x07"
