"""The worker as an nREPL server."""

import pytest
from worker_client import texts


def test_exit_is_an_error_and_the_repl_goes_on(python):
    assert texts(python.evaluate("exit(3)"), "ex") == ["SystemExit"]
    assert texts(python.evaluate("'here'"), "value") == ["'here'"]


def test_sessions_that_are_apart_share_no_names(python):
    python.evaluate("mine = 1")
    (other,) = texts(python.ask("clone", **{"codriver/apart": "yes"}), "new-session")
    assert texts(python.evaluate("mine", session=other), "ex") == ["NameError"]
    (clone,) = texts(python.ask("clone"), "new-session")
    assert texts(python.evaluate("mine", session=clone), "value") == ["1"]
    code = "import pickle\nclass Own: pass\ntype(pickle.loads(pickle.dumps(Own()))) is Own"
    assert texts(python.evaluate(code, session=other), "value") == ["True"]


@pytest.mark.parametrize(("op", "word"), [("no-such-op", "unknown-op"), (["eval"], "unknown-op"), ("eval", "no-code")])
def test_what_cannot_be_done_is_answered(python, op, word):
    assert word in python.ask(op)[-1]["status"]


def test_an_unknown_session_is_answered(python):
    assert "unknown-session" in python.evaluate("1", session="none")[-1]["status"]
    assert "unknown-session" in python.evaluate("1", session=["none"])[-1]["status"]


def test_a_working_folder_that_an_evaluation_sets_is_told_once(python, tmp_path):
    before = python.evaluate("import os\nbefore = os.getcwd()")
    moved = python.evaluate(f"os.chdir({str(tmp_path)!r})")
    after = python.evaluate(f"os.chdir(before)\nos.chdir({str(tmp_path)!r})")
    python.evaluate("os.chdir(before)")
    told = [texts(answer, "codriver/folder") for answer in (before, moved, after)]
    assert told == [[], [str(tmp_path)], []]
