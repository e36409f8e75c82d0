"""Red tests that run again in a new process, runs that outlast the wait for them, and code that others edited."""

import pytest
from live_server import until
from tests_tool import PLAIN, ask, counts

ONCE = "seen = []\n\ndef once():\n    seen.append(1)\n    return len(seen)\n"
CLEAN = "import {0}\n\ndef test_once():\n    assert {0}.once() == 1\n"
LONG = """
import pathlib, time

def test_good(): pass

def test_bad(): assert 1 == 2

def test_waits():
    while not pathlib.Path("{0}").exists():
        time.sleep(0.01)
"""


@pytest.fixture(scope="module")
def live(live):
    (live.workspace / "pytest.ini").write_text(PLAIN)
    return live


@pytest.fixture
def write(live, client):
    written = []

    def put(**texts):
        for name, text in texts.items():
            file = live.workspace / f"{name.replace('__', '/')}.py"
            file.parent.mkdir(exist_ok=True)
            file.write_text(text)
            written.append(file)

    yield put
    for file in written:
        file.unlink(missing_ok=True)
    names = [file.stem for file in written]
    client.call("evaluate_code", code=f"import sys\nfor name in {names}: sys.modules.pop(name, None)")


def runs_said(client):
    """The lines that runs of tests left in the log."""
    rows = client.call("repl_output_log")["result"]
    return [row["text"] for row in rows if " ran " in row["text"] and " passed, " in row["text"]]


def test_what_is_red_in_the_repl_alone_is_named(client, write):
    write(once_a=ONCE, test_once_a=CLEAN.format("once_a"))
    first = ask(client, namespace="test_once_a.py")
    assert (first["ok"], counts(first)) == (True, (1, 1, 0, 0))
    again = ask(client, namespace="test_once_a.py")
    assert (again["ok"], counts(again), again["onlyInThisRepl"]) == (False, (1, 0, 1, 0), ["test_once"])
    assert again["hint"].startswith("onlyInThisRepl passes in a new process")
    failed = ask(client, failed=True)
    assert failed["onlyInThisRepl"] == ["test_once"]  # and nothing was edited
    write(other_a="X = 1\n")
    edited = ask(client, namespace="test_once_a.py")
    assert edited["onlyInThisRepl"] == ["test_once"]  # it was red before, but as the REPL is


KEPT = """

def test_kept():
    import sys
    kept, sys.kept_by_test = getattr(sys, 'kept_by_test', {0}), True
    assert kept
"""


def test_where_the_repl_makes_a_test_fail_those_that_it_makes_pass_are_named_too(client, write):
    write(once_c=ONCE, test_once_c=CLEAN.format("once_c") + KEPT.format("True"))
    assert ask(client, namespace="test_once_c.py")["ok"]
    write(test_once_c=CLEAN.format("once_c") + KEPT.format("False"))
    told = ask(client, namespace="test_once_c.py")
    client.call("evaluate_code", code="import sys; del sys.kept_by_test")
    assert (told["onlyInThisRepl"], told["redInNewProcess"]) == (["test_once"], ["test_kept"]), told


def test_what_is_red_everywhere_is_told_as_any_failure(client, write):
    write(test_red="def test_red(): assert 1 == 2\n")
    answer = ask(client, namespace="test_red.py")
    assert (answer["ok"], counts(answer)) == (False, (1, 0, 1, 0))
    assert "onlyInThisRepl" not in answer
    said = runs_said(client)
    assert "what failed in a new process: 1 test, 0 passed, 1 failed" in said[-1]
    ask(client, namespace="test_red.py")  # nothing was edited, and the new process has said it
    write(test_red="def test_red(): assert 1 == 3\n")
    ask(client, namespace="test_red.py")  # it was red before, and was edited
    after = runs_said(client)
    assert len(after) == len(said) + 2
    assert not any("in a new process" in one for one in after[len(said) :])


def test_of_many_red_tests_the_first_are_told_whole_and_all_by_name(client, write):
    write(test_many_a="import pytest\n\n@pytest.mark.parametrize('n', range(9))\ndef test_n(n):\n    assert n == 10\n")
    rows = ask(client, namespace="test_many_a.py")["results"]
    assert [row["test"] for row in rows] == [f"test_n[{n}]" for n in range(9)]
    assert ["frames" in row for row in rows] == [True] * 3 + [False] * 6
    assert {row["line"] for row in rows} == {5}
    assert rows[8]["actual"] == "AssertionError: assert 8 == 10"


def test_tests_that_fail_in_the_same_words_are_told_as_one(client, write):
    test = "import pytest\n\n@pytest.mark.parametrize('n', range(5))\ndef test_n(n):\n    raise ValueError('no')\n"
    write(test_alike_a=test)
    told = ask(client, namespace="test_alike_a.py", detail=False)
    (row,) = told["results"]
    assert (told["errors"], row["test"], row["line"], row["actual"]) == (5, "test_n[0]", 5, "ValueError: no")
    assert row["alike"] == [f"test_n[{n}]:5" for n in range(1, 5)]


def test_a_file_that_only_this_repl_cannot_collect_is_named(client, write):
    write(lost_a="def found(): return 1\n")
    write(test_lost_a="from lost_a import found\ndef test_it(): assert found() == 1\n")
    client.call("evaluate_code", code="import lost_a; del lost_a.found")
    answer = ask(client, namespace="test_lost_a.py")
    assert (counts(answer), answer["onlyInThisRepl"]) == ((0, 0, 0, 1), ["(collection)"])


@pytest.mark.parametrize("fresh", [False, True])
def test_a_suite_that_outlasts_the_wait_goes_on_and_says_how_far_it_is(live, client, write, fresh):
    gate = f"gate-{fresh}"
    write(test_long=LONG.format(gate))
    begun = ask(client, namespace="test_long.py", fresh=fresh, timeoutMs=500)
    assert (begun["ok"], begun["status"]) == (True, "running")
    told = {}

    def has_told():
        told.update(client.call("get_evaluation", evaluationId=begun["evaluationId"], waitMs=50))
        return told.get("tests") == 2

    until(has_told, "two tests to end")
    assert (told["status"], counts(told)) == ("running", (2, 1, 1, 0))
    assert [(row["test"], row["line"]) for row in told["results"]] == [("test_bad", 6)]
    assert "codriver" not in told.get("stdout", "")
    (live.workspace / gate).touch()
    ended = client.call("get_evaluation", evaluationId=begun["evaluationId"], waitMs=20_000)
    assert (ended["ok"], counts(ended)) == (False, (3, 2, 1, 0))
    assert "\x1e" not in str(ended)


def test_what_outlasted_its_call_runs_again_in_a_new_process_when_it_is_over(live, client, write):
    gate = live.workspace / "gate-late"
    gate.touch()
    write(once_b=ONCE, test_once_b=f"{CLEAN.format('once_b')}\n{LONG.format(gate.name).replace('1 == 2', '1')}")
    assert ask(client, namespace="test_once_b.py")["ok"]
    gate.unlink()
    begun = ask(client, namespace="test_once_b.py", timeoutMs=300)
    assert begun["status"] == "running"
    gate.touch()
    ended = client.call("get_evaluation", evaluationId=begun["evaluationId"], waitMs=20_000)
    assert (counts(ended), ended["onlyInThisRepl"]) == ((4, 3, 1, 0), ["test_once"])


def test_the_wait_may_be_the_time_that_tests_are_given(client, write):
    write(test_endless="import time\ndef test_endless():\n    while True: time.sleep(0.01)\n")
    answer = ask(client, namespace="test_endless.py", timeoutMs=1500, onTimeout="interrupt")
    assert (answer["ok"], answer["reason"]) == (False, "timed-out")
    assert client.call("evaluate_code", code="1 + 1")["result"] == "2"


def test_what_another_client_edited_is_loaded_and_said_by_whom(live, client, write):
    write(rate_a="def rate():\n    return 1\n", test_rate_a="import rate_a\ndef test_it(): assert rate_a.rate() == 2\n")
    assert ask(client, namespace="test_rate_a.py")["failed"] == 1
    with live.client(name="other") as other:
        edit = {"filePath": "rate_a.py", "oldText": "return 1", "newText": "return 2"}
        assert other.call("edit_files", edits=[edit], who="ann")["ok"]
    answer = ask(client, namespace="test_rate_a.py")
    assert (answer["ok"], answer["notes"][0]) == (True, "loaded first, as edited since: rate_a (rate, by ann)")
    write(rate_a="def rate():\n    return 3\n")
    assert ask(client, namespace="test_rate_a.py")["notes"][0] == "loaded first, as edited since: rate_a (rate)"


@pytest.mark.parametrize("how", [{}, {"fresh": True}])
@pytest.mark.parametrize(
    ("text", "line"), [("import no_such_thing\n", 1), ("\ndef test_it(:\n", 2), ("x = 1\n\n1 / 0\n", 3)]
)
def test_a_file_that_cannot_be_collected_has_its_place(live, client, write, how, text, line):
    write(test_broken_a=text)
    answer = ask(client, namespace="test_broken_a.py", **how)
    assert (answer["reason"], counts(answer)) == ("tests-failed", (0, 0, 0, 1))
    (row,) = answer["results"]
    assert (row["test"], row["file"], row["line"]) == ("(collection)", str(live.workspace / "test_broken_a.py"), line)


def test_fresh_speaks_of_runs_of_the_same_code_alone(client, write):
    write(rate_b="def rate():\n    return 1\n", test_rate_b="import rate_b\ndef test_it(): assert rate_b.rate() == 2\n")
    assert ask(client, namespace="test_rate_b.py")["failed"] == 1
    write(rate_b="def rate():\n    return 2\n")
    client.call("load_file", filePath="rate_b.py")
    fresh = ask(client, namespace="test_rate_b.py", fresh=True)
    assert (fresh["ok"], [note for note in fresh["notes"] if "did not in the REPL" in note]) == (True, [])
    assert "with this code" in fresh["notes"][0]
    assert ask(client, namespace="test_rate_b.py")["ok"]
    assert "notes" not in ask(client, namespace="test_rate_b.py", fresh=True)


def test_what_is_green_by_a_name_that_its_file_has_not_is_told(client, write):
    write(rate_c="def rate():\n    return 1\n")
    write(test_rate_c="import rate_c\ndef test_it(): assert rate_c.extra() == rate_c.rate()\n")
    client.call("load_file", filePath="rate_c.py")
    client.call("evaluate_code", code="def extra(): return 1", namespace="rate_c")
    answer = ask(client, namespace="test_rate_c.py")
    told = "bound anew in the REPL, so a new process has it otherwise: rate_c.extra"
    assert (answer["ok"], [note for note in answer["notes"] if "rate_c" in note]) == (True, [told])
    client.call("evaluate_code", code="del rate_c.extra")


def test_a_right_edit_is_kept_though_a_test_is_red_in_this_repl_alone(live, client, write):
    write(once_b=ONCE + "\n\ndef other():\n    return 1\n")
    write(test_once_b=CLEAN.format("once_b") + "\ndef test_other():\n    assert once_b.other() == 2\n")
    assert counts(ask(client, namespace="test_once_b.py")) == (2, 1, 1, 0)
    act = {"load": True, "test": ["test_once_b.py"], "onFailure": "restore"}
    edit = {"filePath": "once_b.py", "oldText": "return 1", "newText": "return 3"}
    wrong = client.call("edit_files", edits=[edit], **act)
    assert (wrong["ok"], wrong["onlyInThisRepl"], "restored" in wrong) == (False, ["test_once"], True), wrong
    assert "test_other" in str(wrong["results"])
    right = client.call("edit_files", edits=[{**edit, "newText": "return 2"}], **act)
    assert (right["ok"], right["onlyInThisRepl"]) == (True, ["test_once"]), right
    assert "return 2" in (live.workspace / "once_b.py").read_text()
