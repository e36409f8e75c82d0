"""Tests that an edit may break: `affected` chooses them by earlier failures, imports and names."""

import shutil
import subprocess
import sys

import pytest
from live_server import serving
from needs import interpreter
from python_projects import project
from tests_tool import PLAIN

from codriver.tools.execution.affected_tests import ONLY_NAMES_NOTE
from codriver.tools.execution.edit_steps import FAILED_BEFORE_MESSAGE

LEFT_OUT = "1 file left out that imports it but executed nothing of it"
FILES = {
    "price.py": "RATE = 2\n\ndef half(n):\n    return n // 2\n\ndef double(n):\n    return n * RATE\n",
    "flow.py": "import price\n\ndef total(items):\n    return sum(price.half(n) for n in items)\n",
    "test_flow.py": (
        "import flow\n\ndef test_total():\n    assert flow.total([2, 4]) == 3\n\ndef test_nothing():\n    pass\n"
    ),
    "test_doubled.py": (
        "import pytest\nfrom price import double\n\n"
        "@pytest.fixture(scope='module')\ndef four():\n    return double(2)\n\n"
        "def test_four(four):\n    assert four == 4\n\ndef test_other():\n    pass\n"
    ),
    "test_apart.py": "def test_apart():\n    pass\n",
    "lone.py": "def kept(n):\n    return n\n",
    "test_lone.py": "def test_kept():\n    assert __import__('lone').kept(3) == 3\n",
    "pickled.py": "def kept(n):\n    return n\n",
    "test_pickled.py": "def test_kept():\n    import pickled\n    assert pickled.kept(3) == 3\n",
}
HALF = {"filePath": "price.py", "oldText": "return n // 2"}
WRONG = {**HALF, "newText": "return n // 3"}
SAME = {**HALF, "newText": "return int(n / 2)"}
UNSEEN = """
import subprocess, price

def test_unseen():
    disk = subprocess.check_output(["{python}", "-ISc", "print(open('price.py').read())"], text=True)
    seen = ["old" if "RATE = 2" in text else "new" for text in (disk, open("price.py").read())]
    print(*seen, file=open("seen.txt", "a"))
    assert price.half(2) == 5
"""
"""A test that fails, and notes how others and how it itself see the file."""


def workspace(folder, python):
    """Create a workspace whose environment has that interpreter, and pytest."""
    made = project(folder, has_pytest=True, python=python)
    (made / "pytest.ini").write_text(PLAIN)
    for name, text in FILES.items():
        (made / name).write_text(text)


@pytest.fixture(scope="module", params=["python3.11", "python3.12"])
def live(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("affected")
    workspace(folder, interpreter(request.param))
    with serving(folder, "--repl", "python") as running:
        running.notes_what_runs = request.param != "python3.11"
        yield running


@pytest.fixture
def client(live):
    with live.client() as connected:
        for name, text in FILES.items():
            (live.workspace / name).write_text(text)
        for name in ("price", "flow", "pickled", "lone"):
            connected.call("load_file", filePath=f"{name}.py", whole=True)
        answer = connected.call("run_tests", timeoutMs=60_000)
        assert answer.get("passed") == 7, answer
        yield connected


def edit(client, change, **more):
    how = {"load": True, "test": ["affected"], "onFailure": "restore"}
    return client.call("edit_files", edits=[change], **{**how, **more})


def test_a_wrong_edit_is_rolled_back_even_if_only_tests_of_an_importer_fail(live, client):
    answer = edit(client, WRONG)
    assert (answer["ok"], answer["reason"]) == (False, "tests-failed"), answer
    assert [row["test"] for row in answer["results"]] == ["test_flow.py::test_total"]
    assert (live.workspace / "price.py").read_text() == FILES["price.py"]


def test_a_passing_edit_reports_how_many_tests_ran_and_why(live, client):
    answer = edit(client, SAME)
    assert answer["ok"], answer
    recorded = (1, f"1 executed it; {LEFT_OUT}")
    expected = recorded if live.notes_what_runs else (4, "2 files that import it")
    assert (answer["tests"]["passed"], answer["chosen"]) == expected, answer


def test_a_file_of_which_only_some_tests_were_recorded_still_runs(live, client):
    """Only one of the two tests in the file has run since the file was changed without the server."""
    text = FILES["test_doubled.py"].replace("def test_other():\n    pass", "def test_other():\n    assert 1")
    (live.workspace / "test_doubled.py").write_text(text)
    assert client.call("run_tests", paths=["test_doubled.py::test_four"], timeoutMs=60_000)["passed"] == 1
    answer = edit(client, SAME)
    recorded = "1 executed it; 1 file that imports it"
    assert answer["chosen"] == (recorded if live.notes_what_runs else "2 files that import it"), answer


def test_affected_tests_and_named_tests_run_together(live, client):
    answer = edit(client, SAME, test=["affected", "test_apart.py::test_apart"])
    assert (answer["ok"], answer["tests"]["passed"]) == (True, 3 if live.notes_what_runs else 5), answer
    assert answer["chosen"].endswith(LEFT_OUT if live.notes_what_runs else "2 files that import it")
    worse = {"filePath": "price.py", "oldText": SAME["newText"], "newText": WRONG["newText"]}
    answer = edit(client, worse, test=["test_apart.py", "affected"])
    assert (answer["ok"], answer["reason"]) == (False, "tests-failed"), answer
    assert [row["test"] for row in answer["results"]] == ["test_flow.py::test_total"]


def test_files_that_pytest_does_not_collect_do_not_roll_back_an_edit(live, client):
    settings, folder = live.workspace / "pytest.ini", live.workspace / "kept" / "out"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "test_types.py").write_text("import price\nraise TypeError('for a type checker alone')\n")
    settings.write_text(f"{PLAIN}norecursedirs = kept/out .*\n")
    try:
        answer = edit(client, {"filePath": "price.py", "oldText": "RATE = 2\n", "newText": "RATE = 4 // 2\n"})
        assert (answer["ok"], answer["tests"]["passed"]) == (True, 4), answer
    finally:
        (folder / "test_types.py").unlink()
        settings.write_text(PLAIN)


def test_a_new_file_that_hides_a_standard_module_runs_the_tests_of_all_files(live, client):
    answer = edit(client, {"type": "create", "filePath": "colorsys.py", "content": "VALUE = 1\n"})
    try:
        assert answer["tests"]["passed"] == 7, answer
        reason = "5 test files, because a module of the standard library has the same name as colorsys.py"
        assert reason in answer["chosen"], answer
    finally:
        (live.workspace / "colorsys.py").unlink()


def test_a_module_level_change_runs_tests_of_all_importers(client):
    answer = edit(client, {"filePath": "price.py", "oldText": "RATE = 2\n", "newText": "RATE = 4 // 2\n"})
    assert (answer["tests"]["passed"], answer["chosen"]) == (4, "2 files that import it"), answer


def test_unrelated_earlier_failures_do_not_roll_back_an_edit(live, client):
    assert edit(client, WRONG, onFailure="keep", load=True)["reason"] == "tests-failed"
    answer = edit(client, {"filePath": "pickled.py", "oldText": "return n", "newText": "return +n"})
    assert (answer["ok"], answer["reason"], answer["kept"]) == (False, "tests-failed", FAILED_BEFORE_MESSAGE), answer
    assert answer["failedBefore"] == ["test_flow.py::test_total"]
    assert answer["chosen"].startswith("1 failed last")
    assert "+n" in (live.workspace / "pickled.py").read_text()


def test_fixing_one_of_two_failing_tests_keeps_the_edit_and_names_the_other_test(live, client):
    file = live.workspace / "test_before.py"
    file.write_text("import price\n\ndef test_before():\n    assert price.half(2) == 5\n")
    try:
        (live.workspace / "price.py").write_text(FILES["price.py"].replace("n // 2", "n // 3"))
        assert client.call("run_tests", timeoutMs=60_000)["failed"] == 2
        answer = edit(client, {**HALF, "oldText": "return n // 3", "newText": "return n // 2"})
        assert (answer["ok"], answer["reason"], answer["kept"]) == (False, "tests-failed", FAILED_BEFORE_MESSAGE), (
            answer
        )
        assert answer["failedBefore"] == ["test_before.py::test_before"]
    finally:
        file.unlink()


def test_a_file_that_cannot_be_collected_does_not_stop_the_other_tests(live, client):
    file = live.workspace / "test_uncollected.py"
    file.write_text("import price, no_such_module\n\ndef test_uncollected():\n    pass\n")
    try:
        answer = edit(client, SAME)
        assert answer["failedBefore"] == ["test_uncollected.py"], answer
        assert answer["tests"]["passed"] >= 1, answer
        assert answer["tests"]["unfinished"] == 0, answer
    finally:
        file.unlink()
        (live.workspace / "price.py").write_text(FILES["price.py"])


def test_removing_an_imported_name_fails_tests_even_if_the_repl_still_has_it(live, client):
    (live.workspace / "held.py").write_text("from price import half\n\ndef halved(n):\n    return half(n)\n")
    (live.workspace / "test_held.py").write_text("import held\n\ndef test_held():\n    assert held.halved(4) == 2\n")
    change = {"filePath": "price.py", "oldText": "def half(", "newText": "def halve("}
    try:
        client.call("evaluate_code", code="import held")
        answer = edit(client, change, test=["test_held.py"])
        assert (answer["ok"], "restored" in answer) == (False, True), answer
        assert (live.workspace / "price.py").read_text() == FILES["price.py"]
    finally:
        (live.workspace / "held.py").unlink()
        (live.workspace / "test_held.py").unlink()
        client.call("evaluate_code", code="import sys; del sys.modules['held']")


def test_the_answer_notes_when_tests_are_chosen_by_name_only(live, client):
    answer = edit(client, {"filePath": "lone.py", "oldText": "return n", "newText": "return +n"})
    notes = None if live.notes_what_runs else [ONLY_NAMES_NOTE]
    assert (answer["tests"]["passed"], answer.get("notes")) == (1, notes), answer


def test_a_new_test_that_fails_without_the_edit_does_not_roll_it_back(live, client):
    file, seen = live.workspace / "test_unseen.py", live.workspace / "seen.txt"
    file.write_text(UNSEEN.format(python=sys.executable))
    change = {"filePath": "price.py", "oldText": "RATE = 2\n", "newText": "RATE = 4 // 2\n"}
    try:
        answer = edit(client, change)
        assert (answer["ok"], answer["reason"], answer["kept"]) == (False, "tests-failed", FAILED_BEFORE_MESSAGE), (
            answer
        )
        assert answer["failedBefore"] == ["test_unseen.py::test_unseen"]
        assert answer["tests"]["passed"] == 4
        assert "RATE = 4 // 2" in (live.workspace / "price.py").read_text()
        rows = seen.read_text().splitlines()
        assert {disk for disk, _ in map(str.split, rows)} == {"new"}, "somebody else read the file as it was"
        assert [here for _, here in map(str.split, rows)][-2:] == ["new", "old"], rows
        seen.unlink()
        assert client.call("what_changed")["differences"] == []
        file.write_text("import price\n\ndef test_unseen():\n    assert price.RATE == 2\n")
        wrong = edit(client, {**change, "oldText": "RATE = 4 // 2\n", "newText": "RATE = 3\n"})
        assert (wrong["ok"], "restored" in wrong, "failedBefore" in wrong) == (False, True, False), wrong
        assert "RATE = 4 // 2" in (live.workspace / "price.py").read_text()
    finally:
        file.unlink()


def test_tests_that_executed_the_changed_code_run_first_with_any_new_parameters(live, client):
    if not live.notes_what_runs:
        pytest.skip("functions are recorded from Python 3.12 on")
    # No import leads from this test to the file: only its last run does.
    test = "def test_kept():\n    import importlib\n    assert importlib.import_module('lo' + 'ne').kept(3) == 3\n"
    (live.workspace / "test_far.py").write_text(test)
    try:
        assert client.call("run_tests", paths=["test_far.py"], timeoutMs=60_000)["passed"] == 1
        change = {"filePath": "lone.py", "oldText": "return n", "newText": "return n + 1"}
        answer = edit(client, change)
        assert {row["test"] for row in answer["results"]} == {"test_far.py::test_kept", "test_lone.py::test_kept"}, (
            answer
        )
        assert "executed it" in answer["chosen"]
    finally:
        (live.workspace / "test_far.py").unlink()


def test_selecting_tests_by_changed_files_runs_only_tests_that_import_them(client, live):
    """The file was changed without the server, and a test of another file failed before."""
    assert not client.call("run_tests", paths=["test_flow.py"], args=["-k", "no_such_name"])["ok"]
    answer = client.call("run_tests", affectedBy=["lone.py"], detail=True)
    assert (answer["passed"], answer["failed"]) == (1, 0)
    both = client.call("run_tests", affectedBy=["price.py", "lone.py"])
    assert both["passed"] == 5
    refused = client.call("run_tests", affectedBy=["pytest.ini"])
    assert (refused["reason"], "pytest.ini" in refused["message"]) == ("no-tests", True)
    mixed = client.call("run_tests", affectedBy=["lone.py"], paths=["test_flow.py"])
    assert (mixed["reason"], "test_flow.py" in mixed["message"]) == ("bad-arguments", True)


def git(folder, *words):
    user = ("-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *user, *words], cwd=folder, check=True, capture_output=True)


def test_a_run_of_affected_tests_covers_files_changed_since_they_were_last_tested(client, live):
    """The client's first run, of all tests, saw every file in its current state."""
    nothing = client.call("run_tests", paths=["affected"])
    assert (nothing["reason"], "no file differs" in nothing["message"]) == ("no-tests", True), nothing
    (live.workspace / "lone.py").write_text("def kept(n):\n    return n + 1\n")
    assert client.call("run_tests", paths=["test_apart.py"])["passed"] == 1
    first = client.call("run_tests", paths=["affected"], detail=True)
    assert [row["test"] for row in first["results"]] == ["test_lone.py::test_kept"]
    assert first["chosen"].endswith("(lone.py)"), first
    (live.workspace / "lone.py").write_text(FILES["lone.py"])
    (live.workspace / "pickled.py").write_text("def kept(n):\n    return +n\n")
    both = client.call("run_tests", paths=["affected"])
    assert (both["passed"], both["chosen"].startswith("1 failed last")) == (2, True), both


def test_changes_since_the_last_commit_stay_affected_after_testing(client, live):
    git(live.workspace, "init", "-q")
    try:
        git(live.workspace, "add", "*.py")
        git(live.workspace, "commit", "-qm", "all")
        (live.workspace / "price.py").write_text(FILES["price.py"].replace("RATE = 2", "RATE = 4 // 2"))
        assert client.call("run_tests", timeoutMs=60_000)["passed"] == 7
        answer = client.call("run_tests", paths=["affected"])
        assert (answer["passed"], answer["chosen"]) == (4, "2 files that import it (price.py)"), answer
    finally:
        shutil.rmtree(live.workspace / ".git")


def test_affected_tests_stop_at_the_time_limit_and_unfinished_tests_are_listed(client, live):
    file = live.workspace / "test_slow.py"
    file.write_text("import lone, time\n\ndef test_slow():\n    time.sleep(600)\n\ndef test_next(): pass\n")
    try:
        for limit_ms in (4000, 15_000, 45_000):  # on a slow machine, pytest alone takes longer to start
            answer = client.call("run_tests", affectedBy=["lone.py"], limitMs=limit_ms, timeoutMs=60_000)
            if "stoppedIn" in answer:
                break
        # The test that executed the code last runs first, where this is known.
        left = ["test_slow.py"] if live.notes_what_runs else ["test_slow.py", "test_lone.py"]
        assert (answer["ok"], answer["reason"], answer["notFinished"]) == (False, "timed-out", left), answer
        assert answer["unfinished"] == len(left) + 1
        default = client.call("run_tests", affectedBy=["lone.py"], timeoutMs=60_000)
        assert default["message"] == "the run was stopped after 10 s"
    finally:
        file.unlink()
