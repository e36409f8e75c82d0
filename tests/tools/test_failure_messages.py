"""Messages of failed tests describe what differs, and omit what the reader already knows or cannot use."""

from pathlib import Path

from codriver.testing.runs import FailureFrame, TestFailure, TestFinished
from codriver.tools.execution.failure_groups import FailureGroup
from codriver.tools.execution.failure_sources import FailureSource
from codriver.tools.execution.python_failure_rows import failure_row, failure_rows

WORKSPACE = Path("/project")
TESTS = "/project/test_shop.py"
SHORTENED = (
    "assert ['Usage: shop ...', ...] == ['Usage: shop ...', ...]\n"
    "  \n"
    "  At index 7 diff: '--help' != '--help  Show this message.'\n"
    "  Left contains one more item: 'Show this message.'\n"
    "  Use -v to get more diff"
)
"""A message in which pytest shortens both lists and names the first difference."""


def failed(name, message, kind="AssertionError"):
    failure = TestFailure(phase="call", type=kind, message=f"{kind}: {message}", frames=(FailureFrame(TESTS, 2, name),))
    nodeid = f"test_shop.py::{name}"
    return FailureGroup(TestFinished(nodeid=nodeid, outcome="failed", seconds=0.0, file=TESTS, failures=(failure,)))


def message_of(message, kind="AssertionError", *, is_first=True):
    return failure_row(failed("test_x", message, kind), WORKSPACE, is_first=is_first)["message"]


def test_the_class_of_an_assertion_is_included_only_if_nothing_else_names_an_assertion():
    assert message_of("assert 1 == 2") == "assert 1 == 2"
    assert message_of("the price is wrong\nassert 1 == 2").startswith("AssertionError: the price")
    assert message_of("assert failed", "ValueError") == "ValueError: assert failed"


def test_advice_about_pytest_options_is_left_out():
    skipped = (
        "assert 'a' == 'b'\n  \n  Skipping 126 identical leading characters in diff, use -v to show\n  - a\n  + b..."
    )
    assert message_of(skipped).splitlines()[1:] == [
        "  Skipping 126 identical leading characters in diff", "  - a", "  + b...",
    ]  # fmt: skip
    newer = "assert [1] == [2]\n  - a\n  + b...\n  ...Full output truncated, use '-vv' to show"
    assert message_of(newer).splitlines()[1:] == ["  - a", "  + b..."]
    hidden = "assert [1] == [2]\n  \n  ...Full output truncated (9 lines hidden), use '-vv' to show"
    assert message_of(hidden).splitlines()[1:] == ["  ...Full output truncated (9 lines hidden)"]
    assert message_of(SHORTENED).endswith("'Show this message.'")
    own = "run it again\n  Use -v to get more diff"
    assert message_of(own, "RuntimeError") == f"RuntimeError: {own}"


def test_failures_after_the_first_describe_the_difference_instead_of_shortened_values():
    assert message_of(SHORTENED).startswith("assert ['Usage")
    later = message_of(SHORTENED, is_first=False)
    assert later.startswith("At index 7 diff: '--help' != ")
    assert message_of("assert 1 == 2\n +  where 1 = one()", is_first=False).startswith("assert 1 == 2")


def test_failures_reported_briefly_describe_the_first_difference():
    groups = [failed(f"test_{number}", SHORTENED) for number in range(5)]
    rows = failure_rows(groups, WORKSPACE)
    assert rows[4]["message"] == "At index 7 diff: '--help' != '--help  Show this message.'"


def test_a_statement_that_fails_in_several_tests_is_included_once():
    groups = [failed(f"test_{number}", "assert 1 == 2") for number in range(2)]
    sources = {group.test.nodeid: FailureSource("assert price(1) == 2") for group in groups}
    rows = failure_rows(groups, WORKSPACE, sources)
    assert [row.get("statement") for row in rows] == ["assert price(1) == 2", None]
