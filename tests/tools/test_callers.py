"""Who is the connection: a name given once holds, nobody is told of himself, and a session that was used is kept."""

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


def test_a_name_given_once_is_the_connections_until_another_is_given(ann, other):
    assert py(ann, "1")["who"] == "claude-code"
    assert py(ann, "1", who="ab")["who"] == "ab"
    assert py(ann, "1")["who"] == "ab"
    assert py(other, "1")["who"] == "other"
    assert py(ann, "1", who="cd")["who"] == "cd"
    assert py(ann, "1")["who"] == "cd"


def test_nobody_is_told_of_himself_as_of_another(live, ann):
    (live.workspace / "mine.py").write_text("x = 1\n")
    answers = [py(ann, "1"), py(ann, "2", who="ab"), py(ann, "3")]
    answers += [ann.call("load_file", filePath="mine.py", replSessionKey="py") for _ in range(2)]
    answers += [py(ann, "4", who="ab")]
    assert all("otherWhosSinceLast" not in one for one in answers)
    assert not [note for one in answers for note in one.get("notes", ()) if "meanwhile" in note]


def test_sub_agents_that_give_names_stay_apart(ann):
    py(ann, "1", who="left")
    py(ann, "2", who="right")
    told = py(ann, "3", who="left")
    assert told["otherWhosSinceLast"] == ["right"]
    assert [note for note in told["notes"] if note.startswith("meanwhile right in py: 2")]


def test_a_session_held_by_ones_own_evaluation_is_not_held_by_a_stranger(ann, other):
    running = py(ann, ENDLESS, timeoutMs=1000)
    theirs = py(other, "1", timeoutMs=1000)
    assert f"occupied by evaluation {running['evaluationId']} of claude-code" in str(theirs["notes"])
    assert ann.call("interrupt_evaluation", evaluationId=running["evaluationId"])["ok"]


def test_an_edit_without_a_name_is_taken_back_under_the_name_that_was_given(live, ann):
    path = live.workspace / "made.py"
    for edit, undo in (({}, {"who": "ab"}), ({}, {}), ({"who": "cd"}, {})):
        made = {"type": "create", "filePath": "made.py", "content": "a = 1\n"}
        done = ann.call("edit_files", edits=[made], **edit)
        assert done["ok"], done
        assert path.exists()
        assert ann.call("undo_edit", **undo)["ok"]
        assert not path.exists()


def test_a_caller_stays_in_the_session_that_it_used_last(live):
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


def test_a_file_is_loaded_and_run_where_its_language_is_spoken_whatever_was_used(live):
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


def test_code_for_the_session_that_was_used_is_read_in_its_language(live):
    with live.client(name="lisper") as lisper:
        lisper.call("evaluate_code", code="1", replSessionKey="lpy", timeoutMs=60_000)
        assert lisper.call("evaluate_code", code="(+ 1 (* 2 3)")["reason"] == "unbalanced"
        until(lambda: lisper.call("evaluate_code", code="(+ 1 2)")["result"] == "3", "a value")
