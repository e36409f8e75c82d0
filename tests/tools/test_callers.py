"""Callers: a name given once stays with its connection, callers are not notified of their own actions, and a session is
remembered.
"""

import pytest
from live_server import until

ENDLESS = "import time\nwhile True: time.sleep(0.01)"

pytestmark = pytest.mark.served("python", "lisp")


@pytest.fixture
def ann(live):
    with live.client(name="claude-code") as client:
        yield client


def py(client, code, **more):
    return client.call("evaluate_code", code=code, replSessionKey="py", **more)


def test_a_caller_name_stays_with_the_connection_until_another_is_given(ann, other):
    assert py(ann, "1")["who"] == "claude-code"
    assert py(ann, "1", who="ab")["who"] == "ab"
    assert py(ann, "1")["who"] == "ab"
    assert py(other, "1")["who"] == "other"
    assert py(ann, "1", who="cd")["who"] == "cd"
    assert py(ann, "1")["who"] == "cd"


def test_callers_are_not_notified_about_their_own_actions_under_other_names(live, ann):
    (live.workspace / "mine.py").write_text("x = 1\n")
    answers = [py(ann, "1"), py(ann, "2", who="ab"), py(ann, "3")]
    answers += [ann.call("load_file", filePath="mine.py", replSessionKey="py") for _ in range(2)]
    answers += [py(ann, "4", who="ab")]
    assert all("otherWhosSinceLast" not in answer for answer in answers)
    assert not [note for answer in answers for note in answer.get("notes", ()) if "meanwhile" in note]


def test_sub_agents_on_one_connection_are_distinguished_by_their_names(ann):
    py(ann, "1", who="left")
    py(ann, "2", who="right")
    reported = py(ann, "3", who="left")
    assert reported["otherWhosSinceLast"] == ["right"]
    assert [note for note in reported["notes"] if note.startswith("meanwhile right in py: 2")]


def test_a_client_can_interrupt_its_own_evaluation_in_a_shared_session(ann, other):
    running = py(ann, ENDLESS, timeoutMs=1000)
    theirs = py(other, "1", timeoutMs=1000)
    assert f"occupied by evaluation {running['evaluationId']} of claude-code" in str(theirs["notes"])
    assert ann.call("interrupt_evaluation", evaluationId=running["evaluationId"])["ok"]


def test_an_undo_without_a_caller_name_reverts_the_edit_of_the_last_caller_named_on_the_connection(live, ann):
    path = live.workspace / "made.py"
    for edit, undo in (({}, {"who": "ab"}), ({}, {}), ({"who": "cd"}, {})):
        made = {"type": "create", "filePath": "made.py", "content": "a = 1\n"}
        done = ann.call("edit_files", edits=[made], **edit)
        assert done["ok"], done
        assert path.exists()
        assert ann.call("undo_edit", **undo)["ok"]
        assert not path.exists()


def test_a_call_without_a_session_uses_the_last_session_of_its_caller(live):
    with live.client(name="chose") as chose, live.client(name="new") as new:
        py(chose, "chosen = 1")
        stays = chose.call("evaluate_code", code="chosen")
        assert (stays["result"], stays["sessionKey"]) == ("1", "py")
        assert [note for note in stays["notes"] if "lpy" in note]
        again = chose.call("evaluate_code", code="chosen")
        assert not [note for note in again.get("notes", ()) if "lpy" in note]
        assert new.call("evaluate_code", code="1")["reason"] == "ambiguous-session"
        assert chose.call("evaluate_code", code="(+ 1 2)", replSessionKey="lpy")["result"] == "3"
        follows = chose.call("evaluate_code", code="1")
        assert (follows["result"], follows["sessionKey"]) == ("1", "lpy")


def test_files_and_tests_use_a_session_of_their_language(live):
    (live.workspace / "spoken.py").write_text("def test_it(): pass\n'of Python'\n")
    (live.workspace / "spoken.lpy").write_text('(ns spoken)\n"of Lisp"\n')
    with live.client(name="reader") as reader:
        for _ in range(2):
            assert reader.call("load_file", filePath="spoken.py", timeoutMs=60_000)["sessionKey"] == "py"
            assert reader.call("load_file", filePath="spoken.lpy", timeoutMs=60_000)["sessionKey"] == "lpy"
        ran = reader.call("run_tests", namespace="spoken.py::test_it", timeoutMs=60_000)
        assert (ran["ok"], ran["sessionKey"]) == (True, "py"), ran
        wrong = reader.call("load_file", filePath="spoken.py", replSessionKey="lpy")
        assert not wrong["ok"]


def test_code_is_parsed_in_the_language_of_the_last_used_session(live):
    with live.client(name="lisper") as lisper:
        lisper.call("evaluate_code", code="1", replSessionKey="lpy", timeoutMs=60_000)
        assert lisper.call("evaluate_code", code="(+ 1 (* 2 3)")["reason"] == "unbalanced"
        until(lambda: lisper.call("evaluate_code", code="(+ 1 2)")["result"] == "3", "a value")
