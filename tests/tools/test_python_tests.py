"""`run_tests` for Python: each run is a new pytest process, independent of evaluations in REPLs."""

import shutil
import subprocess
import sys
from pathlib import Path

import forked
import pytest
from all_tools import BY_NAME
from jsonschema import validate
from live_server import RELAY, WAIT_S, Relayed, environ, serving, until
from python_projects import project

SHOP = "PRICE = 2\n\ndef total(items):\n    return sum(PRICE for _ in items)\n"
TESTS = """
import os, pytest, shop

def test_total():
    assert shop.total([1, 2]) == 4

def test_wrong():
    basket = [1, 2, 3]
    print("noise")
    assert shop.total(basket) == 7

def test_broken(nosuch): pass

@pytest.mark.skip("later")
def test_skipped(): pass

@pytest.mark.xfail(reason="known")
def test_known(): assert 0

@pytest.mark.xfail
def test_unexpected(): pass

@pytest.mark.parametrize("text", ["a::b", "c"])
def test_text(text): pass

def test_variable():
    assert os.environ.get("SHOP") == "open"
"""
SLOW = "import time\n\ndef test_quick(): pass\n\ndef test_slow(): time.sleep(600)\n\ndef test_never(): pass\n"


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    folder = tmp_path_factory.mktemp("python-tests")
    tests = folder / "workspace" / "tests"
    tests.mkdir(parents=True)
    (folder / "workspace" / "shop.py").write_text(SHOP)
    (tests / "test_shop.py").write_text(TESTS)
    (tests / "test_slow.py").write_text(SLOW)
    backend = folder / "workspace" / "backend"
    backend.mkdir()
    (backend / "test_backend.py").write_text(
        "import os\n\ndef test_here():\n    assert os.path.isfile('test_backend.py')\n"
    )
    with serving(folder, "--repl", "python") as running:
        yield running


def run(client, *paths, **arguments):
    """Return the answer, which must match its output schema."""
    answer = client.call("run_tests", **{"detail": False, "timeoutMs": 60_000, "paths": list(paths), **arguments})
    validate(answer, BY_NAME["run_tests"].output)
    return answer


def test_activity_lists_each_run_with_counts_and_failed_tests(client):
    run(client, "tests/test_shop.py")
    (event, *_) = client.call("status", about="activity", kind="tests")["events"]
    assert (event["kind"], event["passed"], event["failed"], event["errors"]) == ("tests", 3, 2, 1)
    assert event["failures"] == [f"tests/test_shop.py::test_{name}" for name in ("wrong", "broken", "variable")]
    assert event["tests"].startswith("pytest ")
    assert client.call("get_evaluation", evaluationId=event["evaluationId"])["failed"] == 2
    failed = client.call("status", about="activity", kind="failures")["events"][0]
    assert failed["evaluationId"] == event["evaluationId"]
    assert "session" not in event


def test_a_run_belongs_to_the_session_whose_interpreter_it_uses(client):
    run(client, "tests/test_shop.py::test_total")
    newest = client.call("status", about="jobs")["jobs"][0]["evaluationId"]
    (session, *_) = client.call("list_sessions")["sessions"]
    for key in (session["key"], "tests"):
        assert client.call("status", about="jobs", replSessionKey=key)["jobs"][0]["evaluationId"] == newest
        assert client.call("get_evaluation", replSessionKey=key)["evaluationId"] == newest
    assert client.call("status", about="jobs", replSessionKey="elsewhere")["count"] == 0


def test_counts_match_pytest_and_passed_tests_are_not_listed(client):
    answer = run(client, "tests/test_shop.py", detail=True)
    counts = {key: answer[key] for key in answer if isinstance(answer[key], int) and key not in ("ok", "elapsedMs")}
    others = {"errors": 1, "skipped": 1, "xfailed": 1, "xpassed": 1, "collected": 9}
    assert counts == {"exitStatus": 1, "passed": 3, "failed": 2, **others}
    assert (answer["ok"], answer["reason"]) == (False, "tests-failed")
    assert "test_total" not in str(answer)


def test_a_failure_includes_its_location_values_and_output(client):
    answer = run(client, "tests/test_shop.py", detail=True)
    wrong, broken, variable = sorted(answer["results"], key=lambda row: row["line"])
    assert (wrong["test"], wrong["outcome"], wrong["line"]) == ("tests/test_shop.py::test_wrong", "failed", 10)
    assert "assert 6 == 7" in wrong["message"]
    assert wrong["output"] == "noise"
    assert (broken["test"], broken["outcome"], broken["in"]) == ("tests/test_shop.py::test_broken", "error", "setup")
    assert variable["test"] == "tests/test_shop.py::test_variable"


def test_a_passing_run_has_a_short_answer(client):
    answer = run(client, "tests/test_shop.py::test_total")
    assert answer == {"ok": True, "passed": 1, "failed": 0, "collected": 1}


def test_paths_run_in_order_and_printed_ids_are_accepted(client):
    answer = run(client, "tests/test_shop.py::test_text[a::b]", "backend", args=["-v"])
    assert (answer["passed"], answer["failed"]) == (1, 1), answer
    lines = [line.split(" ")[0] for line in answer["stdout"].splitlines() if "%]" in line]
    assert lines == ["tests/test_shop.py::test_text[a::b]", "backend/test_backend.py::test_here"]
    again = run(client, *lines)
    assert (again["passed"], again["failed"]) == (1, 1)


def test_the_directory_and_env_arguments_apply_to_only_one_run(client):
    answer = run(client, directory="backend")
    assert (answer["ok"], answer["passed"]) == (True, 1), answer
    answer = run(client, "tests/test_shop.py::test_variable", env={"SHOP": "open"})
    assert (answer["ok"], answer["passed"]) == (True, 1), answer
    assert run(client, "tests/test_shop.py::test_variable")["failed"] == 1, "the variable is that of one run"
    refused = run(client, directory="nosuch")
    assert (refused["ok"], refused["reason"]) == (False, "bad-arguments")


def test_the_args_argument_is_passed_to_pytest(client):
    answer = run(client, "tests/test_shop.py", args=["-x", "-k", "total or wrong or broken"])
    assert (answer["passed"], answer["failed"], answer["deselected"]) == (1, 1, 6)
    assert "stdout" not in answer
    answer = run(client, "tests/test_shop.py", args=["-vv", "-k", "wrong"])
    assert (answer["failed"], "stdout" in answer) == (1, False), "the answer describes the failure itself"
    answer = run(client, "tests/test_shop.py", args=["--collect-only", "-q"])
    assert answer["ok"]
    assert "tests/test_shop.py::test_text[a::b]\n" in answer["stdout"]
    answer = run(client, args=["--no-such-option"])
    assert (answer["ok"], answer["reason"], answer["exitStatus"]) == (False, "bad-arguments", 4)
    assert "--no-such-option" in answer["message"]


@pytest.mark.parametrize(
    ("given", "passed"),
    [
        ({"namespace": "tests.test_shop", "test": "test_total"}, 1),
        ({"namespace": "tests/test_shop.py", "match": "total"}, 1),
        ({"namespace": "tests.test_shop.test_total"}, 1),
        ({"namespace": "tests/test_shop.py::test_total", "fresh": True}, 1),
    ],
)
def test_earlier_argument_names_are_accepted(client, given, passed):
    answer = run(client, **given)
    assert (answer["ok"], answer["passed"]) == (True, passed), answer


def test_failed_tests_rerun_in_the_directory_of_their_run(live, client):
    file = live.workspace / "backend" / "test_moves.py"
    file.write_text("import os\n\ndef test_moved():\n    os.chdir('/')\n    assert 0\n\ndef test_fine(): pass\n")
    try:
        answer = run(client, "test_moves.py", directory="backend")
        assert (answer["passed"], answer["failed"]) == (1, 1), answer
        answer = run(client, failed=True)
        assert (answer["passed"], answer["failed"]) == (0, 1), answer
    finally:
        file.unlink()


@pytest.mark.parametrize(
    ("paths", "args", "reason", "words"),
    [
        (["tests/nosuch.py"], [], "bad-arguments", "tests/nosuch.py"),
        (["tests/test_shop.py"], ["-k", "nosuch"], "no-tests", "all 9 tests were deselected"),
        (["shop.py"], [], "no-tests", "no test was found in shop.py"),
    ],
)
def test_a_run_without_tests_fails_with_a_reason(client, paths, args, reason, words):
    answer = run(client, *paths, args=args)
    assert (answer["ok"], answer["reason"]) == (False, reason)
    assert words in answer["message"]


def test_a_collection_error_includes_its_location(live, client):
    file = live.workspace / "tests" / "test_typo.py"
    file.write_text("import os\nimport nosuchmodule\n\ndef test_never(): pass\n")
    try:
        answer = run(client, "tests/test_typo.py")
        assert (answer["reason"], answer["errors"], answer["exitStatus"]) == ("tests-failed", 1, 2), answer
        (row,) = answer["results"]
        assert (row["test"], row["line"]) == ("tests/test_typo.py", 2)
        assert "nosuchmodule" in row["message"]
    finally:
        file.unlink()


def test_a_run_whose_process_ends_early_lists_the_tests_that_did_not_finish(live, client):
    file = live.workspace / "test_exits.py"
    file.write_text("import os\n\ndef test_exits(): os._exit(3)\n\ndef test_later(): pass\n")
    answer = client.call("run_tests", paths=["test_exits.py"])
    file.unlink()
    assert (answer["ok"], answer["exitStatus"], answer["unfinished"]) == (False, 3, 2)
    assert answer["notFinished"] == ["test_exits.py"]
    assert answer["message"] == (
        "the process ended with status 3 before the test run had finished, while test_exits.py::test_exits was running"
    )


def test_a_conftest_that_does_not_find_the_source_directory_is_reported_with_a_way_to_find_it(live, client):
    for name, text in {"src/depot.py": "", "checks/conftest.py": "import depot\n", "checks/test_it.py": ""}.items():
        (live.workspace / name).parent.mkdir(exist_ok=True)
        (live.workspace / name).write_text(text)
    answer = client.call("run_tests", paths=["checks"])
    shutil.rmtree(live.workspace / "checks")
    shutil.rmtree(live.workspace / "src")
    assert "No module named 'depot'" in answer["message"]
    assert answer["hint"].startswith("Only the REPL imports from src. Install the project"), answer


def test_a_run_that_pytest_exit_ends_after_a_failure_returns_the_reason(live, client):
    file = live.workspace / "test_stops.py"
    file.write_text("import pytest\n\ndef test_one(): assert 0\n\ndef test_two(): pytest.exit('no database')\n")
    answer = client.call("run_tests", paths=["test_stops.py"])
    file.unlink()
    assert (answer["failed"], answer["problem"]) == (1, "pytest.exit ended the run: no database"), answer


def test_the_time_limit_stops_a_run_and_names_the_running_test(client):
    for limit_ms in (3000, 10_000, 40_000):  # on a slow machine, pytest alone takes longer to start
        answer = run(client, "tests/test_slow.py", limitMs=limit_ms, timeoutMs=60_000)
        if "stoppedIn" in answer:
            break
    assert (answer["ok"], answer["reason"], answer["passed"], answer["unfinished"]) == (False, "timed-out", 1, 2), (
        answer
    )
    assert answer["stoppedIn"]["test"] == "tests/test_slow.py::test_slow"
    assert answer["stoppedIn"]["frames"][0] == "tests/test_slow.py:5 in test_slow"


def test_a_longer_limit_is_not_suggested_if_the_limit_for_all_runs_stopped_a_run(tmp_path):
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "codriver.toml").write_text("maxRunMs = 1000\n")
    (tmp_path / "workspace" / "test_slow.py").write_text(SLOW)
    with serving(tmp_path, "--repl", "none") as live, live.client() as client:
        longer = run(client, "test_slow.py", limitMs=60_000)
        shorter = run(client, "test_slow.py", limitMs=500)
    message = "the run was stopped after 1 s, the limit for all runs"
    assert (longer["reason"], longer["message"]) == ("timed-out", message), longer
    assert longer["hint"] == "Run fewer tests, or raise the setting maxRunMs."
    assert shorter["message"] == "the run was stopped after 0.5 s"
    assert shorter["hint"] == "Pass a longer limitMs, or run fewer tests."


def test_a_run_continues_after_the_wait_until_it_is_interrupted(client):
    answer = run(client, "tests/test_slow.py", timeoutMs=100)
    assert (answer["ok"], answer["status"]) == (True, "running")
    name = answer["evaluationId"]

    def stands():
        return client.call("get_evaluation", evaluationId=name)

    until(lambda: stands().get("running") == ["tests/test_slow.py::test_slow"], "the slow test")
    assert (stands()["finished"], stands()["of"], stands()["passed"]) == (1, 3, 1)
    answer = client.call("interrupt_evaluation", evaluationId=name)
    assert (answer["ok"], answer["passed"], answer["unfinished"]) == (True, 1, 2), answer
    assert stands()["reason"] == "interrupted"


def test_evaluations_and_test_runs_do_not_wait_for_each_other(client):
    answer = run(client, "tests/test_slow.py", timeoutMs=100)
    assert answer["status"] == "running"
    assert client.call("evaluate_code", code="1 + 1")["result"] == "2"
    client.call("interrupt_evaluation", evaluationId=answer["evaluationId"])
    retained = client.call("evaluate_code", code="import time; time.sleep(600)", timeoutMs=100)
    try:
        assert run(client, "tests/test_shop.py::test_total")["ok"]
    finally:
        client.call("interrupt_evaluation", evaluationId=retained["evaluationId"])


def test_a_second_run_waits_and_names_the_first_with_its_progress(live, client):
    answer = run(client, "tests/test_slow.py", timeoutMs=100, who="ann")
    until(lambda: client.call("get_evaluation", evaluationId=answer["evaluationId"]).get("of") == 3, "its tests")
    with live.client(name="bob") as bob:
        refused = run(bob, "tests/test_shop.py::test_total", timeoutMs=300)
        assert (refused["ok"], refused["reason"]) == (False, "busy")
        assert f"the test run {answer['evaluationId']} of ann has been running for" in refused["message"]
        assert " of 3 tests are done" in refused["message"]
        client.call("interrupt_evaluation", evaluationId=answer["evaluationId"])
        assert run(bob, "tests/test_shop.py::test_total")["ok"]


def test_a_new_run_replaces_the_callers_older_one_if_a_file_changed(live, client):
    older = run(client, "tests/test_slow.py", timeoutMs=100)["evaluationId"]
    file = live.workspace / "shop.py"
    file.write_text(f"{SHOP}\nMORE = 1\n")
    try:
        assert run(client, "tests/test_shop.py::test_total")["ok"]
        ended = client.call("get_evaluation", evaluationId=older)
        assert ended["reason"] == "interrupted"
        assert "files have changed since the run started" in " ".join(ended["notes"])
    finally:
        file.write_text(SHOP)


def test_the_answer_names_a_file_that_changed_during_a_run(live, client):
    file = live.workspace / "tests" / "test_writes.py"
    file.write_text("import pathlib\n\ndef test_writes():\n    pathlib.Path('shop.py').touch()\n")
    try:
        assert run(client, "tests/test_writes.py")["changedDuring"] == ["shop.py"]
        assert "changedDuring" not in run(client, "tests/test_shop.py::test_total")
    finally:
        file.unlink()


def test_a_run_leaves_nothing_behind_in_the_repl(client):
    before = client.call("evaluate_code", code="import os, sys; [os.getcwd(), sys.path, 'shop' in sys.modules]")[
        "result"
    ]
    run(client, "tests/test_shop.py")
    assert client.call("evaluate_code", code="[os.getcwd(), sys.path, 'shop' in sys.modules]")["result"] == before


def test_a_run_uses_the_files_and_not_the_state_of_the_repl(client):
    assert client.call("evaluate_code", code="import shop; shop.PRICE = 7; shop.total([1])")["result"] == "7"
    assert run(client, "tests/test_shop.py::test_total")["ok"]


def test_the_log_names_the_caller_the_run_and_the_failed_tests(client):
    name = run(client, "tests/test_shop.py", "-q", args=["-k", "wrong or total"], who="ann")["evaluationId"]
    query = (
        "[:find ?text ?who :in $ ?id :where [?e :output/evaluation ?id] [?e :output/text ?text] [?e :output/who ?who]]"
    )
    answer = client.call("repl_output_log", query=query, inputs=[name])
    assert answer["ok"], answer
    found = answer["result"]
    words = "pytest -k 'wrong or total' tests/test_shop.py -q: 2 tests, 1 passed, 1 failed, 0 errors: "
    assert [f"ann ran {words}tests/test_shop.py::test_wrong", "ann"] in [list(row) for row in found]


def test_the_stack_trace_of_a_failed_test_includes_locals(client):
    name = run(client, "tests/test_shop.py::test_wrong")["evaluationId"]
    trace = client.call("stacktrace", evaluationId=name, locals=True)
    assert (trace["class"], trace["data"]) == ("AssertionError", "test tests/test_shop.py::test_wrong")
    assert trace["frames"][0]["locals"] == {"basket": "[1, 2, 3]"}
    assert "\n>" in trace["source"]
    assert client.call("stacktrace")["evaluationId"] == name, "it is the caller's last failure"


def test_tests_run_without_a_live_repl(tmp_path):
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "shop.py").write_text(SHOP)
    (workspace / "test_shop.py").write_text(TESTS)
    with serving(tmp_path, "--repl", "none") as live, live.client() as client:
        until(lambda: "run_tests" in client.tools(), "the tool")
        assert not client.call("list_sessions")["sessions"]
        assert run(client, "test_shop.py::test_total")["ok"]
        answer = run(client, "test_shop.py::test_wrong")
        assert client.call("stacktrace", evaluationId=answer["evaluationId"])["class"] == "AssertionError"


def test_nothing_runs_in_a_workspace_that_is_not_trusted(tmp_path):
    workspace, env = tmp_path / "workspace", environ(tmp_path) | {"CODRIVER_MCP_SOCKET_SERVER_PORT": "0"}
    workspace.mkdir()
    (workspace / "pyproject.toml").write_text("")
    (workspace / "conftest.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n")
    (workspace / "test_shop.py").write_text("def test_it(): pass\n")
    place = str(workspace / ".calva" / "mcp-server" / "port")
    try:
        with Relayed([sys.executable, "-I", "-S", RELAY, place, "--start"], env, folder=workspace) as client:
            answer = run(client)
            assert (answer["ok"], answer["reason"]) == (False, "capability-missing"), answer
            assert "codriver trust" in str(answer)
            assert forked.run(("trust",), env=env, cwd=workspace, timeout=WAIT_S).returncode == 0
            assert not (tmp_path / "ran").exists()
            assert run(client)["ok"]
    finally:
        forked.run(("stop",), env=env, cwd=workspace, timeout=WAIT_S)


def test_calls_in_tests_are_recorded(client):
    answer = run(client, "tests/test_shop.py::test_total", "tests/test_shop.py::test_wrong", trace=True)
    lines = answer["trace"].splitlines()
    assert any("shop.total([1, 2]) -> 4" in line for line in lines), lines
    assert any("shop.total([1, 2, 3]) -> 6" in line for line in lines), lines


def test_changed_lines_that_no_test_executed_are_listed(live, client):
    git = ["git", "-C", str(live.workspace), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (["init", "-q"], ["add", "--", "shop.py"], ["commit", "-qm", "as it was"]):
        subprocess.run([*git, *words], check=True)
    file = live.workspace / "shop.py"
    try:
        file.write_text(SHOP.replace("    return sum", "    if len(items) > 99:\n        items = []\n    return sum"))
        answer = run(client, "tests/test_shop.py::test_total", coverage=True)
        if sys.version_info >= (3, 12):
            assert "shop.py:5" in answer["notRun"], answer
        else:
            assert "was added in Python 3.12" in answer["trace"]
    finally:
        file.write_text(SHOP)
        shutil.rmtree(live.workspace / ".git")


def test_a_project_without_pytest_runs_unittest(tmp_path):
    workspace = project(tmp_path, has_pytest=False)
    (workspace / "test_sums.py").write_text(
        "import unittest\n\nclass Sums(unittest.TestCase):\n    def test_right(self): self.assertEqual(1 + 1, 2)\n"
        "    def test_wrong(self): self.assertEqual(1 + 1, 3)\n"
    )
    with serving(tmp_path, "--repl", "none") as live, live.client() as client:
        until(lambda: "run_tests" in client.tools(), "the tool")
        answer = run(client)
        assert (answer["runner"], answer["passed"], answer["failed"]) == ("unittest", 1, 1), answer
        (row,) = answer["results"]
        assert "test_wrong" in row["test"]
        assert "2 != 3" in row["message"]
        assert run(client, "test_sums.py::Sums::test_right")["ok"]
        (workspace / "test_sums.py").write_text("def test_right(): pass\n")
        answer = run(client)
        python = str(workspace / ".venv" / "bin" / "python")
        assert "no test was found: unittest ran the tests, because pytest is not installed. " in answer["message"]
        assert f"run `{python} -m pip install pytest`" in answer["message"]
        assert (answer["ok"], answer["reason"], answer["exitStatus"]) == (False, "no-tests", 5), answer
        assert "No module named pytest" not in answer["stdout"], "the alternative run is the one that counts"


def test_code_is_evaluated_in_the_frames_of_the_last_failed_test(client):
    run(client, "tests/test_shop.py::test_wrong")
    trace = client.call("stacktrace", locals=True)
    (frame, *_) = trace["frames"]
    assert (frame["function"], frame["frame"], frame["locals"]["basket"]) == ("test_wrong", 0, "[1, 2, 3]")
    seen = client.call("evaluate_code", frame=0, code="print(len(basket)); basket")
    assert (seen["ok"], seen["result"], seen["stdout"]) == (True, "[1, 2, 3]", "3\n"), seen
    assert client.call("evaluate_code", frame=0, code="more = basket + [4]")["ok"]
    assert client.call("evaluate_code", frame=0, code="more")["result"] == "[1, 2, 3, 4]"
    failed = client.call("evaluate_code", frame=0, code="basket[9]")
    assert (failed["reason"], failed["error"]["class"]) == ("evaluation-failed", "IndexError"), failed
    assert client.call("stacktrace")["frames"][0]["frame"] == 0, "the failed test is still the last failure"
    named = client.call("stacktrace", evaluationId=client.call("get_evaluation", detail=True)["evaluationId"])
    assert (named["class"], named["message"]) == ("IndexError", "list index out of range"), named
    refused = client.call("evaluate_code", frame=9, code="1")
    assert (refused["reason"], "the failure has 1" in refused["message"]) == ("no-frame", True), refused


def test_code_in_a_frame_can_be_interrupted(client):
    run(client, "tests/test_shop.py::test_wrong")
    answer = client.call("evaluate_code", frame=0, code="import time; time.sleep(600)", timeoutMs=1000)
    assert answer["status"] == "running", answer
    stopped = client.call("interrupt_evaluation", evaluationId=answer["evaluationId"], detail=True)
    assert (stopped["ok"], stopped["status"]) == (True, "interrupted"), stopped
    assert client.call("evaluate_code", frame=0, code="basket")["result"] == "[1, 2, 3]"


def test_the_process_of_a_failed_run_ends_before_the_next_run(client):
    run(client, "tests/test_shop.py::test_wrong")
    pid = client.call("evaluate_code", frame=0, code="os.getpid()")["result"]
    run(client, "tests/test_shop.py::test_total")
    assert not Path("/proc", pid).exists()
    refused = client.call("evaluate_code", frame=0, code="1")
    assert (refused["reason"], "until the next test run" in refused["message"]) == ("no-frame", True), refused
    assert "until the next test run" in str(client.call("stacktrace")["notes"])


def test_the_error_for_pdb_and_breakpoints_suggests_the_retained_process(live, client):
    answer = run(client, "tests/test_shop.py::test_wrong", args=["--pdb"])
    assert "frame: 0" in str(answer["notes"]), answer
    file = live.workspace / "tests" / "test_stops.py"
    file.write_text("def test_stops():\n    price = 7\n    breakpoint()\n")
    try:
        (row,) = run(client, "tests/test_stops.py")["results"]
        assert "Remove breakpoint()" in row["message"], row
        assert client.call("evaluate_code", frame=0, code="price")["result"] == "7"
    finally:
        file.unlink()


def clients_of(client):
    return [item["name"] for item in client.call("server_health")["clients"]]


def test_a_later_command_line_connection_evaluates_in_the_frames(live):
    with live.client(name="codriver-call") as first:
        run(first, "tests/test_shop.py::test_wrong")
    with live.client(name="codriver-call") as second:
        until(lambda: clients_of(second).count("codriver-call") == 1, "the end of the first")
        assert second.call("evaluate_code", frame=0, code="basket")["result"] == "[1, 2, 3]"


def test_a_client_does_not_inherit_the_failed_run_of_a_namesake(live):
    with live.client(name="agent") as first:
        run(first, "tests/test_shop.py::test_wrong")
        assert first.call("evaluate_code", frame=0, code="basket")["result"] == "[1, 2, 3]"
    with live.client(name="agent") as second:
        until(lambda: clients_of(second).count("agent") == 1, "the end of the first")
        assert second.call("evaluate_code", frame=0, code="basket")["reason"] == "no-frame"


SECRETS = """
import os, pytest

def test_shows():
    os.environ["LATE_TOKEN"] = "late-" + "5f3c9a7be1"
    print("printed", os.environ["LATE_TOKEN"], open(".env").read())
    assert os.environ["GIVEN_PASSWORD"] == ""
"""


def test_no_answer_or_log_contains_the_secrets_of_a_run(client, live):
    (live.workspace / ".env").write_text("# settings\nexport DOT_KEY='dot-81c2d4e6'\nPLAIN=visible-word\n")
    (live.workspace / "tests" / "test_secrets.py").write_text(SECRETS)
    given = {"GIVEN_PASSWORD": "given-0a1b2c3d"}
    answers = [
        run(client, "tests/test_secrets.py", env=given, args=["-s"]),
        run(client, "tests/test_secrets.py", env=given, detail=True),
        client.call("stacktrace", locals=True),
        client.call("repl_output_log", limit=50),
        client.call("status", about="activity"),
    ]
    for answer in answers:
        for secret in ("late-5f3c9a7be1", "dot-81c2d4e6", "given-0a1b2c3d"):
            assert secret not in str(answer), (secret, answer)
    assert "<<redacted:GIVEN_PASSWORD>>" in str(answers[0])
    assert "<<redacted:LATE_TOKEN>>" in str(answers)
    assert "<<redacted:DOT_KEY>>" in str(answers)
    assert "visible-word" in str(answers)
