"""Functions are ranked by which tests executed them."""

from pathlib import Path

import pytest

from codriver.testing.recordings import executed_functions
from codriver.testing.runs import FailureFrame, Recorded, TestFailure, TestFinished
from codriver.testing.suspects import is_doctest, is_test_file, rank_suspects

ROOT = Path("/project/tests/of-something")
SHOP = f"{ROOT}/shop.py"
TESTS = f"{ROOT}/test_shop.py"
FUNCTIONS = [
    (SHOP, 1, "price"),
    (SHOP, 10, "discount"),
    (SHOP, 20, "Order.__repr__"),
    (f"{ROOT}/helpers/conftest.py", 1, "shop"),
    (TESTS, 5, "check"),
    (SHOP, 30, "total"),
]


def record(tests, sizes=(), lines=(), counts=()):
    data = {
        "functions": FUNCTIONS,
        "sizes": list(sizes),
        "failedLines": [[f"test_shop.py::{name}", found] for name, found in lines],
        "lineCounts": list(counts),
        "tests": [[f"test_shop.py::{name}", TESTS, [], numbers] for name, numbers in tests.items()],
    }
    return executed_functions([Recorded("functions", data)])


def finished(name, outcome, called=(), frames=()):
    failures = (
        [TestFailure(phase="call", type="AssertionError", message="", frames=tuple(frames), called=tuple(called))]
        if outcome == "failed"
        else []
    )
    return TestFinished(f"test_shop.py::{name}", outcome, 0.0, failures=tuple(failures), file=TESTS)


def ranked(tests, failing, called=(), frames=(), **more):
    results = [finished(name, "failed" if name in failing else "passed", called, frames) for name in tests]
    failed = next(result for result in results if result.outcome == "failed")
    return [suspect.function.name for suspect in rank_suspects(failed, record(tests, **more), results, root=ROOT)]


def test_functions_that_only_failing_tests_execute_come_first():
    assert ranked({"a": [0, 1], "b": [0], "c": [0, 5]}, ["a"]) == ["discount", "price"]
    assert ranked({"a": [0, 1], "b": [1], "c": [0, 5]}, ["a", "c"]) == ["price", "discount"]


def test_larger_functions_come_first_among_those_executed_by_the_same_tests():
    assert ranked({"a": [0, 1], "b": [5]}, ["a"], sizes=[10, 200, 0, 0, 0, 0]) == ["discount", "price"]
    assert ranked({"a": [0, 1], "b": [5]}, ["a"], sizes=[200, 10, 0, 0, 0, 0]) == ["price", "discount"]


def test_functions_in_the_failing_call_stack_come_first_among_equals():
    called = [FailureFrame(SHOP, 30, "total"), FailureFrame(SHOP, 10, "discount")]
    assert ranked({"a": [0, 1, 5], "b": [2]}, ["a"], called) == ["total", "discount", "price"]


def test_functions_that_the_failed_statement_called_come_before_larger_ones():
    called = [FailureFrame(SHOP, 1, "price")]
    assert ranked({"a": [0, 1], "b": [5]}, ["a"], called, sizes=[10, 200, 0, 0, 0, 0]) == ["price", "discount"]


def test_functions_in_the_call_stack_come_before_larger_ones():
    frames = [FailureFrame(SHOP, 4, "price"), FailureFrame(TESTS, 5, "test_a")]
    assert ranked({"a": [0, 1], "b": [5]}, ["a"], frames=frames, sizes=[10, 200, 0, 0, 0, 0]) == ["price", "discount"]
    frames = [FailureFrame(SHOP, 14, "other"), FailureFrame(TESTS, 5, "test_a")]
    assert ranked({"a": [0, 1], "b": [5]}, ["a"], frames=frames, sizes=[10, 200, 0, 0, 0, 0]) == ["discount", "price"]


def test_a_function_with_a_line_that_only_failing_tests_executed_comes_first():
    tests, sizes = {"a": [0, 1], "b": [0, 1], "c": [0, 1]}, [10, 200, 0, 0, 0, 0]
    assert ranked(tests, ["a"], sizes=sizes) == ["discount", "price"]
    lines = [("a", [[0, [2, 3]], [1, [11, 12]]])]
    counts = [[0, [[2, 3], [3, 1]]], [1, [[11, 3], [12, 2]]]]
    assert ranked(tests, ["a"], sizes=sizes, lines=lines, counts=counts) == ["price", "discount"]


def test_test_code_and_repr_methods_are_not_suspicious():
    assert ranked({"a": [0, 2, 3, 4], "b": [5]}, ["a"]) == ["price"]
    assert ranked({"a": [0, 2], "b": [5]}, ["a"], [FailureFrame(SHOP, 20, "__repr__")]) == ["Order.__repr__", "price"]


def test_no_function_is_suspicious_without_a_passing_test_or_a_recording():
    assert ranked({"a": [0, 1]}, ["a"]) == []
    failed = finished("unrecorded", "failed")
    results = [failed, finished("b", "passed")]
    assert rank_suspects(failed, record({"b": [0]}), results, root=ROOT) == []


@pytest.mark.parametrize(
    "file", ["tests/data.py", "src/shop/test/util.py", "conftest.py", "a/test_a.py", "a/b_test.py"]
)
def test_test_files_are_recognized(file):
    assert is_test_file(str(ROOT / file), ROOT)


@pytest.mark.parametrize("file", ["shop.py", "testing/run.py", "contest.py", "latest.py"])
def test_other_files_are_not_recognized_as_test_files(file):
    assert not is_test_file(str(ROOT / file), ROOT)


def test_a_module_with_doctests_is_not_recognized_as_a_test_file():
    data = {
        "functions": FUNCTIONS,
        "sizes": [],
        "tests": [["test_shop.py::a", TESTS, [], [0, 1]], ["shop.py::shop.price", SHOP, [], [0]]],
    }
    results = [finished("a", "failed"), TestFinished("shop.py::shop.price", "passed", 0.0, file=SHOP)]
    found = rank_suspects(results[0], executed_functions([Recorded("functions", data)]), results, root=ROOT)
    assert [item.function.name for item in found] == ["discount", "price"]


@pytest.mark.parametrize(
    ("nodeid", "expected"),
    [
        ("shop.py::shop", True),
        ("src/shop/prices.py::shop.prices.Order.total", True),
        ("src/shop/__init__.py::shop.total", True),
        ("checks/shop.py::test_total", False),
        ("checks/shop.py::Totals::test_total", False),
        ("README.rst::README.rst", True),
    ],
)
def test_doctests_are_recognized_by_the_name_of_their_module(nodeid, expected):
    assert is_doctest(nodeid) is expected
