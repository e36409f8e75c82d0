"""Tests that run several times, each time in a process of their own."""

import pytest
from all_tools import BY_NAME
from jsonschema import validate
from live_server import serving, until

TESTS = """\
import os, pathlib, time

def number_of_run():
    log = pathlib.Path("processes.txt")
    with log.open("a") as file:
        file.write(f"{os.getpid()}\\n")
    return len(log.read_text().split())

def test_sometimes():
    number = number_of_run()
    assert number not in (2, 4)

def test_always(): pass

def test_hangs():
    if number_of_run() == 3:
        time.sleep(600)
"""


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    folder = tmp_path_factory.mktemp("repeated-tests")
    (folder / "workspace").mkdir()
    (folder / "workspace" / "test_shop.py").write_text(TESTS)
    with serving(folder, "--repl", "python") as running:
        yield running


@pytest.fixture
def processes(live):
    """Return the file in which tests write the ids of their processes."""
    file = live.workspace / "processes.txt"
    file.unlink(missing_ok=True)
    return file


def run(client, *tests, **arguments):
    """Return the answer, which must match its output schema."""
    paths = [f"test_shop.py::{test}" for test in tests]
    answer = client.call("run_tests", **{"detail": False, "timeoutMs": 120_000, "paths": paths, **arguments})
    validate(answer, BY_NAME["run_tests"].output)
    return answer


def test_repeated_tests_report_how_many_runs_failed_and_one_failure(client, processes):
    answer = run(client, "test_sometimes", "test_always", repeat=5)
    assert (answer["ok"], answer["reason"]) == (False, "tests-failed")
    assert answer["runs"] == {
        "finished": 5, "of": 5, "failed": 2, "failures": {"test_shop.py::test_sometimes": 2},
    }  # fmt: skip
    [row] = answer["results"]
    assert (row["test"], "assert 2 not in (2, 4)" in row["message"]) == ("test_shop.py::test_sometimes", True)
    assert (answer["passed"], answer["failed"]) == (1, 1), "the counts of the run that is described"
    assert len({*processes.read_text().split()}) == 5
    assert client.call("evaluate_code", code="number", frame=0)["result"] == "2"


def test_repeated_tests_that_pass_have_a_short_answer(client):
    answer = run(client, "test_always", repeat=3)
    assert (answer["ok"], answer["runs"]) == (True, {"finished": 3, "of": 3, "failed": 0})


def test_repeated_tests_can_be_stopped(client, processes):
    answer = run(client, "test_hangs", repeat=9, timeoutMs=100)
    assert answer["status"] == "running"
    until(lambda: processes.exists() and len(processes.read_text().split()) == 3, "the third run")
    client.call("interrupt_evaluation", evaluationId=answer["evaluationId"])
    stopped = client.call("get_evaluation", evaluationId=answer["evaluationId"], waitMs=30_000)
    assert (stopped["reason"], stopped["runs"]) == ("interrupted", {"finished": 2, "of": 9, "failed": 0})
    assert len(processes.read_text().split()) == 3


def test_the_time_limit_applies_to_all_runs_together(client):
    answer = run(client, "test_always", repeat=1000, limitMs=1000)
    assert (answer["ok"], answer["reason"]) == (False, "timed-out")
    assert answer["runs"]["finished"] < 1000


def test_tests_that_cannot_run_are_not_repeated(client):
    answer = run(client, "test_missing", repeat=3)
    assert (answer["ok"], answer["runs"]["finished"]) == (False, 0)
