"""What the answer to an edit says if tests do not finish in time."""

import pytest

from codriver.testing.runs import RunError
from codriver.tools.execution import affected_tests
from codriver.tools.execution.affected_tests import COLLECTION_TEST, Choice
from codriver.tools.execution.unfinished_tests import unfinished_edit_fields

EXECUTING = "tests/test_price.py::test_half"
IMPORTING = "tests/test_web.py::test_page"
CHOSEN_TESTS = ("tests/test_price.py", EXECUTING), ("tests/test_web.py", COLLECTION_TEST)
CHOICE = Choice((affected_tests.TestsRun("py", only=CHOSEN_TESTS),))
PASSED_SENTENCE = "All tests that executed the changed code have passed. The other tests only import it"


@pytest.mark.parametrize(
    ("choice", "unfinished", "running", "message"),
    [
        (
            CHOICE,
            [IMPORTING],
            IMPORTING,
            f"1 test has not finished within 9 s: {IMPORTING} was running. {PASSED_SENTENCE}",
        ),
        (CHOICE, [IMPORTING, f"{IMPORTING}[b]"], "", f"2 tests have not finished within 9 s. {PASSED_SENTENCE}"),
        (CHOICE, [f"{EXECUTING}[4]"], "", "1 test has not finished within 9 s"),
        (
            Choice((affected_tests.TestsRun("py", "tests/test_web.py"),)),
            [IMPORTING],
            "",
            "1 test has not finished within 9 s",
        ),
    ],
    ids=["only an importer", "no test was running", "a test that executed it", "named by the caller"],
)
def test_the_message_reports_whether_tests_that_executed_the_changed_code_finished(
    choice, unfinished, running, message
):
    fields = unfinished_edit_fields(choice.functions, unfinished, 9.0, running)
    assert fields["message"] == f"the edit is kept, but {message}"


def test_the_message_names_the_error_that_ended_the_run_before_its_limit():
    error = RunError("died", "the process was ended by SIGKILL")
    fields = unfinished_edit_fields(CHOICE.functions, [IMPORTING], 9.0, "", error)
    assert fields["message"] == "the edit is kept, but 1 test has not finished: the process was ended by SIGKILL"
    assert fields["reason"] == "evaluation-failed"
