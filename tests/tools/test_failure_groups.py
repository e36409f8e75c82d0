"""Failed tests with the same error are described once."""

from pathlib import Path

from codriver.testing.runs import FailureFrame, TestFailure, TestFinished
from codriver.tools.execution.failure_groups import MAX_NAMED_TESTS, failure_groups

WORKSPACE = Path("/project")
TESTS = "/project/test_shop.py"


def failed(name, *frames, message="KeyError: 'price'", kind="KeyError", phase="call", file=TESTS):
    """Return a test that failed in frames given as pairs of a file and a line, innermost first."""
    found = tuple(FailureFrame(where, line, "f") for where, line in frames)
    failure = TestFailure(phase=phase, type=kind, message=message, frames=found)
    nodeid = f"{Path(file).name}::{name}"
    return TestFinished(nodeid=nodeid, outcome="failed", seconds=0.0, file=file, failures=(failure,))


def groups_of(*tests):
    found = failure_groups(tests, WORKSPACE)
    return [[item.nodeid.rpartition("::")[2] for item in (group.test, *group.others)] for group in found]


def test_errors_raised_at_the_same_lines_of_the_project_count_as_the_same_error():
    item = failed("one", ("/project/shop.py", 5), (TESTS, 2))
    two = failed("two", ("/project/shop.py", 5), (TESTS, 9), message="KeyError: 'count'")
    other = failed("other", ("/project/shop.py", 6), (TESTS, 12), message="KeyError: 'x'")
    elsewhere = failed("elsewhere", ("/project/shop.py", 5), ("/project/shop.py", 8), (TESTS, 15), message="y")
    assert groups_of(item, two, other, elsewhere) == [["one", "two"], ["other"], ["elsewhere"]]


def test_exceptions_with_equal_messages_count_as_the_same_error():
    message = "TypeError: f() takes 1 positional argument"
    item = failed("one", (TESTS, 2), message=message, kind="TypeError")
    two = failed("two", (TESTS, 9), message=message, kind="TypeError")
    assert groups_of(item, two) == [["one", "two"]]


def test_equal_assertions_count_as_the_same_error_only_at_the_same_line():
    asserted = {"message": "assert 1 == 2", "kind": "AssertionError"}
    item, same = failed("one[1]", (TESTS, 2), **asserted), failed("one[2]", (TESTS, 2), **asserted)
    other = failed("other", (TESTS, 9), **asserted)
    assert groups_of(item, other, same) == [["one[1]", "one[2]"], ["other"]]


def test_a_test_that_failed_at_the_same_line_with_many_parameters_is_described_twice():
    cases = [failed(f"one[{number}]", (TESTS, 2), message=f"assert {number} == 9", kind="") for number in range(5)]
    elsewhere = failed("one[5]", (TESTS, 3), message="assert 5 == 9", kind="")
    assert groups_of(*cases, elsewhere) == [["one[0]", "one[2]", "one[3]", "one[4]"], ["one[1]"], ["one[5]"]]


def test_messages_that_differ_only_in_addresses_count_as_equal():
    messages = [f"TypeError: <object at 0x{address}> is not iterable" for address in ("7f01", "7f02")]
    tests = [failed(message[-20:], (TESTS, 2), message=message, kind="TypeError") for message in messages]
    assert len(groups_of(*tests)) == 1


def test_collection_errors_of_several_files_with_equal_messages_count_as_the_same_error():
    files = [f"/project/test_{name}.py" for name in "ab"]
    tests = [failed("", (file, 1), message="ImportError: no name", kind="ImportError", phase="collect", file=file)
             for file in files]  # fmt: skip
    assert len(failure_groups(tests, WORKSPACE)) == 1


def test_tests_without_a_failure_are_not_combined():
    tests = [TestFinished(nodeid=name, outcome="failed", seconds=0.0) for name in "ab"]
    assert len(failure_groups(tests, WORKSPACE)) == 2


def test_further_tests_with_the_same_error_are_named_without_their_file_and_counted():
    tests = [failed(f"test_{number}", (TESTS, number)) for number in range(MAX_NAMED_TESTS + 3)]
    (group,) = failure_groups(tests, WORKSPACE)
    names = [f"::test_{number}" for number in range(1, MAX_NAMED_TESTS + 1)]
    assert group.fields == {"alike": [*names, "2 more"]}
    assert failure_groups(tests[:1], WORKSPACE)[0].fields == {}
