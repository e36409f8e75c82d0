"""The worker as an nREPL server."""

from pathlib import Path

import pytest
from worker_client import texts

import codriver_seam


def test_calling_exit_is_an_error_and_the_repl_continues(python):
    assert texts(python.evaluate("exit(3)"), "ex") == ["SystemExit"]
    assert texts(python.evaluate("'here'"), "value") == ["'here'"]


def test_isolated_sessions_share_no_names(python):
    python.evaluate("mine = 1")
    (other,) = texts(python.ask("clone", **{"codriver/apart": "yes"}), "new-session")
    assert texts(python.evaluate("mine", session=other), "ex") == ["NameError"]
    (clone,) = texts(python.ask("clone"), "new-session")
    assert texts(python.evaluate("mine", session=clone), "value") == ["1"]
    code = "import pickle\nclass Own: pass\ntype(pickle.loads(pickle.dumps(Own()))) is Own"
    assert texts(python.evaluate(code, session=other), "value") == ["True"]


@pytest.mark.parametrize(("op", "word"), [("no-such-op", "unknown-op"), (["eval"], "unknown-op"), ("eval", "no-code")])
def test_a_request_that_cannot_be_carried_out_is_answered(python, op, word):
    assert word in python.ask(op)[-1]["status"]


def test_a_request_for_an_unknown_session_is_answered(python):
    assert "unknown-session" in python.evaluate("1", session="none")[-1]["status"]
    assert "unknown-session" in python.evaluate("1", session=["none"])[-1]["status"]


def test_a_changed_working_directory_is_reported_once(python, tmp_path):
    before = python.evaluate("import os\nbefore = os.getcwd()")
    moved = python.evaluate(f"os.chdir({str(tmp_path)!r})")
    after = python.evaluate(f"os.chdir(before)\nos.chdir({str(tmp_path)!r})")
    python.evaluate("os.chdir(before)")
    reported = [texts(answer, "codriver/folder") for answer in (before, moved, after)]
    assert reported == [[], [str(tmp_path)], []]


def test_an_application_that_requests_a_repl_in_the_worker_is_declined_with_a_note(python):
    folder = Path(codriver_seam.__file__).parents[1]
    python.evaluate(f"import sys; sys.path.insert(0, {str(folder)!r}); import codriver_seam")
    requested = python.evaluate("codriver_seam.start_repl(True)")
    later = python.evaluate("1")
    assert [texts(answer, "codriver/declined") for answer in (requested, later)] == [["1"], []]
