"""Tests run in a new process: what the REPL has loaded does not count there, and what ends otherwise is told."""

import os
import subprocess
import sys

import posix_only
import pytest
from live_server import until
from process_states import is_running
from tests_tool import ask, counts

from codriver.tools.answers.drift_notes import NEVER_LIVE, notes_of_fresh, outcomes

LOW = "def rate():\n    return 3\n"
TESTS = """
import os, sys, low

def test_rate():
    print("in", os.getpid())
    assert low.rate() == 3

def test_left_in_the_repl():
    assert low.extra == 1

def test_clean():
    assert "CODRIVER_TESTS_LEFT" not in os.environ
    assert not hasattr(sys, "left_in_the_repl")
"""
HANGING = """
import pathlib, time, os

def test_before():
    pass

def test_hangs():
    pathlib.Path("hanging").write_text(str(os.getpid()))
    while True:
        time.sleep(0.01)
"""


@pytest.fixture(scope="module", autouse=True)
def workspace(live):
    (live.workspace / "low.py").write_text(LOW)
    (live.workspace / "test_low.py").write_text(TESTS)
    return live.workspace


def until_gone(pid):
    until(lambda: not is_running(pid), "the process of the tests to end")


def row(test, outcome, **more):
    return {"test": test, "ns": "t.py", "outcome": outcome, **more}


def test_a_test_that_ends_otherwise_is_told_by_its_last_live_outcome():
    fresh = outcomes({"results": [row("a", "fail"), row("b", "pass"), row("c", "pass"), row("d", "error")]})
    newest = outcomes({"results": [row("a", "pass"), row("b", "error")]})
    oldest = outcomes({"results": [row("a", "fail"), row("b", "pass"), row("c", "pass"), row("d", "fail")]})
    assert notes_of_fresh(fresh, [newest, oldest]) == (
        "passed in the REPL, not in a new process: a",
        "passes in a new process, did not in the REPL: b",
    )
    assert notes_of_fresh(newest, [newest]) == ()
    assert notes_of_fresh(fresh, []) == (NEVER_LIVE,)
    assert notes_of_fresh({}, []) == ()


def test_a_file_is_the_same_as_a_module_and_as_a_path_and_a_test_is_as_good_as_its_worst_row():
    as_module = [row("a", "pass", ns="t", file="/w/t.py"), row("a", "fail", ns="t", file="/w/t.py")]
    as_path = [row("a", "error", file="/w/t.py"), row("a", "pass", file="/w/t.py")]
    live, fresh = (outcomes({"results": rows}) for rows in (as_module, as_path))
    assert live == {("/w/t.py", "a"): "fail"}
    assert notes_of_fresh(fresh, [live]) == ()


def test_what_is_loaded_and_set_in_the_repl_is_not_in_a_new_process(client):
    left = 'import low, os, sys; low.extra = 1; os.environ["CODRIVER_TESTS_LEFT"] = "1"; sys.left_in_the_repl = 1'
    client.call("evaluate_code", code=left)
    live = ask(client)
    assert counts(live) == (3, 2, 1, 0)
    assert [one["test"] for one in live["results"]] == ["test_clean"]
    fresh = ask(client, fresh=True)
    assert counts(fresh) == (3, 2, 0, 1)
    assert [one["test"] for one in fresh["results"]] == ["test_left_in_the_repl"]
    assert fresh["notes"] == [
        "passed in the REPL, not in a new process: test_left_in_the_repl",
        "passes in a new process, did not in the REPL: test_clean",
    ]
    again = ask(client, failed=True, fresh=True)
    assert [one["test"] for one in again["results"]] == ["test_left_in_the_repl"]
    one = ask(client, fresh=True, namespace="test_low", test="test_rate")
    assert counts(one) == (1, 1, 0, 0)
    assert "notes" not in one
    assert "all tests in a new process: 3 tests, 2 passed, 0 failed, 1 error" in str(client.call("repl_output_log"))


def test_a_run_that_hangs_in_a_new_process_is_ended_with_it_and_says_where(live, client):
    mark = live.workspace / "hanging"
    (live.workspace / "test_hanging.py").write_text(HANGING)
    mark.unlink(missing_ok=True)
    for timeout_ms in (4000, 16_000, 50_000):  # longer where the new process did not come as far in time
        answer = ask(client, fresh=True, namespace="test_hanging.py", timeoutMs=timeout_ms, onTimeout="interrupt")
        assert answer["reason"] == "timed-out"
        if mark.exists() and mark.read_text():
            break
    assert answer["stoppedIn"]["test"] == "test_hangs"
    until_gone(int(mark.read_text()))
    assert client.call("evaluate_code", code="1 + 1")["result"] == "2"


def test_a_process_that_ends_in_a_test_is_told_and_the_repl_lives_on(live, client):
    (live.workspace / "test_ending.py").write_text("import os\ndef test_ends():\n    os._exit(7)\n")
    answer = ask(client, fresh=True, namespace="test_ending.py")
    assert answer["ok"] is False
    assert "the new process ended before the tests did, with status 7" in answer["message"]
    missing = ask(client, fresh=True, namespace="no_such_module")
    assert missing["reason"] == "unknown-namespace"
    assert client.call("evaluate_code", code="1 + 1")["result"] == "2"


def test_it_ends_with_the_repl(live, client):
    mark = live.workspace / "hanging"
    (live.workspace / "test_hanging.py").write_text(HANGING)
    mark.unlink(missing_ok=True)
    pid = int(client.call("evaluate_code", code="import os; os.getpid()")["result"])
    client.begin_call("run_tests", fresh=True, namespace="test_hanging.py")
    until(lambda: mark.exists() and mark.read_text(), "the test to run")
    posix_only.kill(pid)
    until_gone(int(mark.read_text()))


def test_an_edit_of_the_same_size_in_the_same_second_counts_ten_times_of_ten(live, client, monkeypatch):
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    files = [live.workspace / f"quick{number}.py" for number in range(10)]
    imports = f"import {', '.join(file.stem for file in files)}"
    values = f"[{', '.join(f'{file.stem}.X' for file in files)}]"
    for file in files:
        file.write_text("X = 1\n")
    plain = [sys.executable, "-c", f"{imports}\nprint({values})"]
    assert subprocess.check_output(plain, cwd=live.workspace, text=True) == f"{[1] * 10}\n"
    assert client.call("evaluate_code", code=f"{imports}\n{values}")["result"] == str([1] * 10)
    for file in files:
        second = file.stat().st_mtime_ns // 10**9 * 10**9
        file.write_text("X = 2\n")
        os.utime(file, ns=(second, second))  # Python takes seconds
    for number, file in enumerate(files):
        (compiled,) = live.workspace.glob(f"__pycache__/{file.stem}.*.pyc")
        if number % 2:  # one that read the file before its edit, and wrote its code after it
            os.utime(compiled)
    assert subprocess.check_output(plain, cwd=live.workspace, text=True) == f"{[1] * 10}\n"  # which is why
    (live.workspace / "test_quick.py").write_text(f"{imports}\ndef test_quick(): assert {values} == {[2] * 10}\n")
    assert ask(client, namespace="test_quick.py", fresh=True)["ok"]
    assert ask(client, namespace="test_quick.py")["ok"]
    for file in [*files, live.workspace / "test_quick.py"]:
        file.unlink()
    client.call("evaluate_code", code=f"for name in {[file.stem for file in files]}: sys.modules.pop(name, None)")


def test_a_test_of_several_parts_counts_once_and_each_part_that_fails_is_told(live, client):
    (live.workspace / "test_parts.py").write_text(
        "import unittest\n\nclass Parts(unittest.TestCase):\n    def test_parts(self):\n        for n in range(5):\n"
        "            with self.subTest(n=n):\n                assert n < 3\n    def test_whole(self):\n"
        "        with self.subTest(n=1):\n            pass\n"
    )
    red = ask(client, namespace="test_parts.py")
    assert (red["tests"], red["passed"], red["failed"]) == (2, 1, 2), red
    assert [one["message"] for one in red["results"]] == ["(n=3)", "(n=4)"]
