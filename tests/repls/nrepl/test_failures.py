"""Failures as real servers report them, parsed into one shape. The texts are shortened recordings."""

import pytest

from codriver.repls import dialects
from codriver.repls.nrepl.failures import SentFailure, parse_failure, parse_sent_trace

CLOJURE = [
    (
        "Execution error (ArithmeticException) at user/eval2189 (REPL:1).\nDivide by zero\n",
        "class java.lang.ArithmeticException",
        ("java.lang.ArithmeticException", "Divide by zero", "execution", None, 1, None),
    ),
    (
        "Syntax error compiling at (REPL:1:1).\nUnable to resolve symbol: foo in this context\n",
        "class clojure.lang.Compiler$CompilerException",
        (
            "clojure.lang.Compiler$CompilerException",
            "Unable to resolve symbol: foo in this context",
            "compilation",
            None,
            1,
            1,
        ),
    ),
    (
        "Syntax error reading source at (REPL:2:1).\nEOF while reading, starting at line 1\n",
        "class java.lang.RuntimeException",
        ("java.lang.RuntimeException", "EOF while reading, starting at line 1", "read-source", None, 2, 1),
    ),
    (
        "Error printing return value (ArithmeticException) at c.l.Numbers/divide (Numbers.java:190).\nDivide\n",
        "class java.lang.ArithmeticException",
        ("java.lang.ArithmeticException", "Divide", "print-eval-result", "Numbers.java", 190, None),
    ),
    (
        "Syntax error macroexpanding clojure.core/when-let at (core.clj:7:3).\n1 - failed: vector? at: [:bindings]\n",
        "class clojure.lang.Compiler$CompilerException",
        (
            "clojure.lang.Compiler$CompilerException",
            "1 - failed: vector? at: [:bindings]",
            "macroexpansion",
            "core.clj",
            7,
            3,
        ),
    ),
    (
        "Execution error (InterruptedException) at java.lang.Thread/sleep (Thread.java:-2).\nsleep interrupted\n",
        "class java.lang.InterruptedException",
        ("java.lang.InterruptedException", "sleep interrupted", "execution", "Thread.java", None, None),
    ),
    (
        "Execution error (StackOverflowError) at user/f (REPL:1).\nnull\n",
        "class java.lang.StackOverflowError",
        ("java.lang.StackOverflowError", "", "execution", None, 1, None),
    ),
    (
        "Syntax error (ClassNotFoundException) compiling at (a/b.clj:2:1).\nno.such.Thing\n",
        "class clojure.lang.Compiler$CompilerException",
        ("ClassNotFoundException", "no.such.Thing", "compilation", "a/b.clj", 2, 1),
    ),
]


def parts(error):
    return error.type, error.message, error.phase, error.file, error.line, error.column


@pytest.mark.parametrize(("err", "root_ex", "expected"), CLOJURE)
def test_clojure_error_messages_are_parsed(err, root_ex, expected):
    assert parts(parse_failure(SentFailure(err, root_ex, root_ex), dialects.CLOJURE)) == expected


def test_program_output_before_an_error_is_not_part_of_it():
    err = "Execution error (X) at a/b (REPL:9).\nprinted by the user\n" + CLOJURE[0][0]
    assert parse_failure(SentFailure(err, CLOJURE[0][1]), dialects.CLOJURE).message == "Divide by zero"


BASILISP = (
    "Traceback (most recent call last):\n"
    '  File "/x/site-packages/basilisp/contrib/nrepl_server.lpy", line 141, in do_handle_eval\n'
    "    (let [result (last\n                 ^^^^^\n"
    '  File "lf/y.clj", line 4, in __lisp_expr___213\n'
    '  File "<nREPL Input>", line 3, in g\n'
    '  File "/x/site-packages/basilisp/core.lpy", line 1158, in __DIV____arity2\n'
    "ZeroDivisionError: Fraction(1, 0)\n"
)


def test_a_traceback_is_reduced_to_user_frames_innermost_first():
    error = parse_failure(SentFailure(BASILISP, BASILISP), dialects.BASILISP)
    assert parts(error) == ("ZeroDivisionError", "Fraction(1, 0)", "execution", None, 3, None)
    assert error.trace == ("g (<nREPL Input>:3)", "__lisp_expr___213 (lf/y.clj:4)")


def test_the_whole_stack_is_available_with_marked_tool_frames():
    trace = parse_sent_trace(SentFailure(BASILISP, BASILISP), dialects.BASILISP)
    assert [frame.tooling for frame in trace.frames] == [True, False, False, True]
    assert (trace.type, trace.message) == ("ZeroDivisionError", "Fraction(1, 0)")


def test_the_position_is_extracted_from_a_basilisp_message():
    head = 'Traceback (most recent call last):\n  File "/x/site-packages/basilisp/a.py", line 1, in f\n'
    text = "unable to resolve symbol 'foo' in this context "
    place = '{:file "<nREPL Input>", :end-col 11, :col 2, :form foo, :end-line 1, :phase :analyzing, :line 1}'
    error = parse_failure(SentFailure(f"{head}basilisp.CompilerException: {text}{place}\n", "x"), dialects.BASILISP)
    assert parts(error) == ("basilisp.CompilerException", text.strip(), "analyzing", None, 1, 2)


def test_a_multi_line_error_message_is_parsed_completely():
    text = 'Traceback (most recent call last):\n  File "<string>", line 1, in <module>\nValueError: one\n  two\nthree\n'
    assert parse_failure(SentFailure(text, "ValueError"), dialects.HY).message == "one\n  two\nthree"


def test_an_nbb_error_map_is_parsed():
    ex = '#error {:message "x", :data {:type :sci/error, :line 1, :column 15}, :cause #object[Error Error: x]}'
    error = parse_failure(SentFailure("x\n", ex), dialects.NBB)
    assert parts(error) == ("Error", "x", "execution", None, 1, 15)


@pytest.mark.parametrize("word", ["namespace-not-found", "unknown-session", "no-code", "unknown-op"])
def test_an_error_status_without_a_class_is_used_as_the_error_type(word):
    assert parse_failure(SentFailure(status=frozenset({word, "error"})), dialects.CLOJURE).type == word


def test_structured_errors_are_used_unchanged():
    sent = {
        "type": "ValueError",
        "message": "m",
        "phase": "compile",
        "file": "a.py",
        "line": 3,
        "column": "4",
        "trace": ["f"],
    }
    error = parse_failure(SentFailure(parts=sent), dialects.WORKER_PYTHON)
    assert parts(error) == ("ValueError", "m", "compile", "a.py", 3, 4)
    assert error.trace == ("f",)


def test_an_unknown_error_format_is_kept_as_text():
    error = parse_failure(SentFailure("strange words\n", "odd"), dialects.UNKNOWN)
    assert (error.type, error.message) == ("odd", "strange words")


def test_a_huge_error_message_is_truncated():
    assert len(parse_failure(SentFailure("x" * 10**6, "odd"), dialects.UNKNOWN).message) == 4000
