"""Short error reports: one line per project frame, the causes, nothing repeated and nothing lost."""

import traceback

import pytest
from live_server import serving

from codriver.tools.answers.lean_answers import shorten_failure, without_interruption, without_report

FRAMES = [
    "decode (/usr/lib/python3.11/json/decoder.py:355)",
    "read (/w/shop/orders.py:7)",
    "helper (/w/.venv/lib/python3.11/site-packages/click/core.py:1)",
    "<lambda> (<eval 3>:2)",
    *(f"step{number} (/w/shop/steps.py:{number})" for number in range(9)),
    "<module> (<eval 4>:1)",
]


def test_a_trace_is_reduced_to_the_innermost_project_frames():
    error = {"class": "E", "message": "m", "phase": "execution", "file": "/w/shop/orders.py", "line": 7, "column": 3}
    assert shorten_failure(error | {"form": 1, "trace": FRAMES}, "/w") == {
        "class": "E",
        "message": "m",
        "trace": [
            "shop/orders.py:7 in read", "<eval 3>:2 in <lambda>",
            "shop/steps.py:0 in step0", "shop/steps.py:1 in step1", "shop/steps.py:2 in step2",
        ],
    }  # fmt: skip


def test_a_failure_in_the_submitted_code_is_reported_with_its_line():
    error = {"class": "E", "message": "m", "phase": "execution", "line": 4, "column": 1, "trace": [FRAMES[-1]]}
    assert shorten_failure(error, "/w") == {"class": "E", "message": "m", "line": 4}
    first = {"class": "E", "message": "m", "phase": "execution", "line": 1, "column": 1}
    assert shorten_failure(first, "/w") == {"class": "E", "message": "m"}
    clojure = {"class": "E", "message": "m", "phase": "execution", "line": 2, "trace": ["user/eval12 (REPL:2)"]}
    assert shorten_failure(clojure, "/w") == {"class": "E", "message": "m", "line": 2}


@pytest.mark.parametrize("file", ["REPL", "NO_SOURCE_FILE"])
def test_a_failure_in_an_earlier_function_includes_no_line_of_the_submitted_code(file):
    error = {"class": "E", "message": "m", "phase": "execution", "line": 9}
    trace = [f"shop.core/net ({file}:9)", f"user/eval12/fn--13 ({file}:2)", f"user/eval12 ({file}:2)"]
    assert shorten_failure(error | {"trace": trace}, "/w") == {
        "class": "E", "message": "m", "trace": [f"{file}:9 in shop.core/net"],
    }  # fmt: skip


def test_a_syntax_error_keeps_its_position():
    error = {"class": "SyntaxError", "message": "m", "phase": "read", "file": "/w/a.py", "line": 4, "column": 9}
    assert shorten_failure(error, "/w") == error | {"file": "a.py"}


def test_library_frames_are_included_if_there_are_no_project_frames():
    assert shorten_failure({"trace": FRAMES[:1]}, "/w") == {
        "trace": ["/usr/lib/python3.11/json/decoder.py:355 in decode"]
    }


def raised(chain):
    """Return the report of a failure with these causes, outermost first, raised with `from` or while handling."""
    try:
        chain()
    except Exception as error:  # noqa: BLE001 - any failure
        return {"class": type(error).__name__, "message": str(error)}, traceback.format_exc()


def by_from():
    try:
        {}["a"]
    except KeyError as error:
        raise ValueError("bad") from error


def by_the_way():
    try:
        by_from()
    except ValueError:
        raise OSError("worse")  # noqa: B904 - its context is what is looked at


def silent():
    raise LookupError


def test_the_traceback_is_removed_and_other_output_stays():
    error, report = raised(silent)
    assert without_report("one\ntwo\n" + report, error, "/w") == ("one\ntwo\n", [])
    assert without_report(report, error, "/w") == ("", [])


def test_causes_are_listed_one_per_line_nearest_first():
    error, report = raised(by_the_way)
    rest, causes = without_report("said\n" + report, error, __file__.rsplit("/", 1)[0])
    assert rest == "said\n"
    assert [cause.split(" (")[0] for cause in causes] == ["ValueError: bad", "KeyError: 'a'"]
    assert all(cause.endswith(" in by_from)") and "(test_error_reports.py:" in cause for cause in causes)


def test_a_jvm_error_without_a_message_is_not_repeated():
    report = "Execution error (StackOverflowError) at user/f (REPL:1).\nnull\n"
    error = {"class": "java.lang.StackOverflowError", "message": ""}
    assert without_report("said\n" + report, error, "/w") == ("said\n", [])
    assert without_report(report, error | {"message": "deep"}, "/w") == (report, [])


def test_a_report_that_only_repeats_the_message_is_removed():
    error = {"class": "Error", "message": "bad\nline"}
    assert without_report("said\nbad\nline\n", error, "/w") == ("said\n", [])
    chain = {"chain": [{"relation": "cause", "class": "Error", "message": "in"}]}
    assert without_report("bad\nline\n", error | chain, "/w") == ("", [])
    for kept in ("bad\nline\nand went on\n", "too bad\nline\n", "bad\nline"):
        assert without_report(kept, error, "/w") == (kept, [])
    assert without_report("\n", error | {"message": ""}, "/w") == ("\n", [])
    assert without_report("bad\nline\n", error | {"trace": ["f (a.py:1)"]}, "/w")[0] == "bad\nline\n"


@pytest.mark.parametrize("status", ["3", "words", "None", ""])
def test_the_report_of_an_exit_is_not_repeated(status):
    error = {"class": "SystemExit", "message": f"code called exit({status}); the REPL keeps running"}
    report = f'Traceback (most recent call last):\n  File "<eval 4>", line 1, in <module>\nSystemExit: {status}'
    assert without_report(f"said\n{report.removesuffix(': ')}\n", error, "/w") == ("said\n", [])


def test_a_thread_interruption_report_is_not_program_output():
    report = "Execution error (InterruptedException) at java.lang.Thread/sleep (Thread.java:-2).\nsleep interrupted\n"
    assert without_interruption("said\n" + report) == "said\n"
    other = "Execution error (ArithmeticException) at user/f (REPL:1).\nDivide by zero\n"
    assert without_interruption(other) == other
    assert without_interruption("said\n") == "said\n"
    assert without_interruption(report + "and went on\n") == report + "and went on\n"


@pytest.mark.parametrize("chain", [by_from, by_the_way, silent])
def test_a_traceback_followed_by_other_output_is_not_removed(chain):
    error, report = raised(chain)
    assert without_report(report + "and went on\n", error, "/w") == (report + "and went on\n", [])
    assert without_report("no newline: " + report, error, "/w")[0] == "no newline: " + report
    assert without_report(report, error | {"message": "another"}, "/w") == (report, [])


def test_a_report_with_a_multi_line_cause_is_not_removed():
    def chain():
        try:
            {}["a"]
        except KeyError as error:
            error.add_note("a note")
            raise ValueError("bad") from error

    error, report = raised(chain)
    assert without_report(report, error, "/w") == (report, [])


def test_earlier_output_is_kept_if_the_cause_of_an_error_was_never_raised():
    def chain():
        raise ValueError("bad") from KeyError("a")

    error, report = raised(chain)
    printed = raised(silent)[1] + "tried again\n"
    assert without_report(printed + report, error, "/w") == (printed + report, [])


def test_the_error_report_of_clojure_is_also_removed():
    report = "Execution error (ArithmeticException) at user/eval12 (REPL:1).\nDivide by zero\n"
    error = {"class": "java.lang.ArithmeticException", "message": "Divide by zero"}
    assert without_report("said\n" + report, error, "/w") == ("said\n", [])
    assert without_report(report + "more\n", error, "/w") == (report + "more\n", [])


SOURCE = """\
def inner(order):
    return order["cents"]


def total(order):
    try:
        return inner(order)
    except KeyError as error:
        raise ValueError("no order") from error
"""


def test_an_answer_names_the_project_line_and_the_cause(tmp_path):
    folder = tmp_path / "workspace" / "shop"
    folder.mkdir(parents=True)
    (folder / "orders.py").write_text(SOURCE)
    with serving(tmp_path, "--repl", "python") as live, live.client() as client:
        client.call("evaluate_code", code="import sys; sys.path.insert(0, 'shop'); import orders", timeoutMs=60_000)
        answer = client.call("evaluate_code", code="print('first'); orders.total({})", detail=False)
        assert answer["error"].pop("source").splitlines()[-1].startswith(">9 ")
        assert answer["error"] == {
            "class": "ValueError",
            "message": "no order",
            "form": 2,
            "trace": ["shop/orders.py:9 in total"],
            "locals": "order={}",
            "causes": ["KeyError: 'cents' (shop/orders.py:2 in inner)"],
        }
        assert (answer["reason"], answer["stdout"], "stderr" in answer) == ("evaluation-failed", "first\n", False)
        whole = client.call("get_evaluation", evaluationId=answer["evaluationId"])
        assert "Traceback" in whole["stderr"]
        assert whole["error"]["line"] == 9
