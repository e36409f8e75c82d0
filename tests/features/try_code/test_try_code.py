"""Candidate fixes are tested without being applied, except for the one to keep."""

import pytest
from live_server import serving
from tests_tool import PLAIN

SHOP = "rate = 1\n\n\ndef price(n):\n    return n + rate\n"
TESTS = """import subprocess, sys
import shop


def test_double():
    assert shop.price(4) == 8


def test_nothing():
    assert shop.price(0) == 0


def test_child():
    seen = subprocess.check_output([sys.executable, "-c", "import shop; print(shop.price(4))"], text=True)
    assert int(seen) == shop.price(4)
"""
DOUBLE, PLUS, SYNTAX = "n * 2", "n + 4", "n +"
LOOP = "price(n)"


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tries")
    (folder / "workspace").mkdir()
    (folder / "workspace" / "pytest.ini").write_text(PLAIN)
    with serving(folder, "--repl", "python") as running:
        yield running


@pytest.fixture
def client(live):
    (live.workspace / "shop.py").write_text(SHOP)
    (live.workspace / "test_shop.py").write_text(TESTS)
    with live.client() as connected:
        yield connected


def candidate(label, body):
    return {"label": label, "edits": [{"filePath": "shop.py", "oldText": "n + rate", "newText": body}]}


def attempt(client, *candidates, **more):
    return client.call("try_code", candidates=list(candidates), **{"test": ["test_shop.py"], "limitMs": 60_000, **more})


def row(answer, label):
    return next(item for item in answer["candidates"] if item["label"] == label)


@pytest.mark.parametrize("parallel", [False, True])
def test_each_candidate_is_tested_and_none_is_written(client, live, parallel):
    answer = attempt(client, candidate("double", DOUBLE), candidate("plus", PLUS), parallel=parallel)
    assert answer["ok"], answer
    assert row(answer, "double") == {"label": "double", "outcome": "passed", "passed": "3 of 3 tests"}
    plus = row(answer, "plus")
    assert (plus["outcome"], plus["passed"]) == ("failed", "2 of 3 tests")
    assert plus["error"].startswith("test_shop.py::test_nothing (line 10): ")
    assert "assert 4 == 0" in plus["error"]
    assert answer["differs"] == ["test_shop.py::test_nothing: passed in double; failed in plus"]
    assert (live.workspace / "shop.py").read_text() == SHOP


def test_the_first_candidate_that_passes_is_written_and_loaded(client, live):
    answer = attempt(client, candidate("plus", PLUS), candidate("double", DOUBLE), keep="first-green")
    assert (answer["ok"], answer["kept"]) == (True, "double"), answer
    assert answer["tests"] == {"passed": 3, "failed": 0, "unfinished": 0}
    assert DOUBLE in (live.workspace / "shop.py").read_text()
    assert client.call("evaluate_code", code="import shop; shop.price(5)")["result"] == "10"


@pytest.mark.parametrize("keep", ["plus", "first-green"])
def test_a_candidate_that_did_not_pass_is_not_kept(client, live, keep):
    answer = attempt(client, candidate("plus", PLUS), keep=keep)
    assert ("kept" in answer, bool(answer["notKept"])) == (False, True)
    assert (live.workspace / "shop.py").read_text() == SHOP


def test_affected_tests_are_used_by_default(client):
    answer = client.call("try_code", candidates=[candidate("double", DOUBLE)], limitMs=60_000)
    assert row(answer, "double") == {"label": "double", "outcome": "passed", "passed": "3 of 3 tests"}, answer


def test_an_edit_that_cannot_be_applied_fails_only_its_own_candidate(client):
    nowhere = {"label": "nowhere", "edits": [{"filePath": "shop.py", "oldText": "not there", "newText": ""}]}
    answer = attempt(client, candidate("syntax", SYNTAX), nowhere, candidate("double", DOUBLE))
    outcomes = {item["label"]: item["outcome"] for item in answer["candidates"]}
    assert outcomes == {"syntax": "failed", "nowhere": "failed", "double": "passed"}
    assert "does not parse" in row(answer, "syntax")["error"]
    assert row(answer, "nowhere")["error"].startswith("edits: ")


def test_unfinished_tests_leave_a_candidate_undecided(client):
    hangs = candidate("hangs", "__import__('time').sleep(600)")
    answer = attempt(client, hangs, keep="hangs", limitMs=2000)
    assert (row(answer, "hangs")["outcome"], answer["notKept"]) == ("undecided", "hangs did not pass"), answer
    assert row(answer, "hangs")["notFinished"][0] == "test_shop.py::test_double"


@pytest.mark.parametrize(
    ("candidates", "more", "words"),
    [
        ([candidate("a", DOUBLE), candidate("a", PLUS)], {}, "its own label"),
        ([candidate("first-green", DOUBLE)], {}, "first-green"),
        ([candidate("a", DOUBLE)], {"keep": "b"}, "keep must be first-green, or one of a"),
        ([{"label": "a", "code": "1"}], {}, "edits"),
    ],
)
def test_invalid_candidates_are_refused(client, candidates, more, words):
    answer = attempt(client, *candidates, **more)
    assert (answer["ok"], answer["reason"]) == (False, "bad-arguments")
    assert words in str(answer)
