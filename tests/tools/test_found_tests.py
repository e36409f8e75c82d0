"""Tests that `run_tests` finds, chooses and runs again, with the frames of what failed, in real REPLs."""

import pytest
from live_server import serving, until
from python_projects import project
from real_kernels import variables
from real_repls import repl
from tests_tool import ask, counts

PYTHON = {
    "shop.py": "def price(n):\n    return table()[n]\n\ndef table():\n    return {1: 2}\n",
    "tests/conftest.py": "import pytest\n\n@pytest.fixture\ndef one():\n    return 1\n",
    "tests/test_shop.py": (
        "import shop\n\ndef test_good(one):\n    assert shop.price(one) == 2\n\n"
        "class TestMore:\n    def test_broken(self, one):\n        assert shop.price(one + 1) == 4\n"
    ),
    "tests/unit/test_deep.py": "def test_deep():\n    assert 1 == 1\n",
    "pyproject.toml": '[tool.pytest.ini_options]\npythonpath = ["."]\ntestpaths = ["tests"]\n',
    "elsewhere/test_elsewhere.py": "def test_elsewhere():\n    assert 0\n",
}
CLOJURE = """(ns depot.shop-test (:require [{}.test :refer [deftest is]]))
(defn price [n] (if (= n 1) 2 (throw {})))
(deftest good (is (= 2 (price 1))))
(deftest bad (is (= 4 (price 1))))
(deftest broken (is (= 4 (price 2))))
"""
LISPS = {
    "basilisp": ("lpy", CLOJURE.format("basilisp", '(python/ValueError "no price")')),
    "jvm": ("clj", CLOJURE.format("clojure", '(ex-info "no price" {})')),
}


def write(live, texts):
    for name, text in texts.items():
        path = live.workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    folder = tmp_path_factory.mktemp("found")
    project(folder, has_pytest=True)
    # Upper bounds: whoever interrupts here waits until it has come to an end, on a busy machine too. pytest has all its
    # plugins, as projects have it.
    options = ("--repl", "python")
    with variables(PYTEST_DISABLE_PLUGIN_AUTOLOAD=""), serving(folder, *options, durations="settle_s=60") as live:
        write(live, PYTHON)
        with live.client() as client:
            assert client.call("evaluate_code", code="1", timeoutMs=120_000)["ok"]
        yield live


@pytest.fixture
def py(python):
    with python.client() as client:
        yield client


@pytest.fixture(scope="module", params=list(LISPS))
def lisp(request, tmp_path_factory):
    suffix, text = LISPS[request.param]
    options = ("--repl", "lisp") if request.param == "basilisp" else ("--nrepl", f"clj={repl('jvm').endpoint}")
    options += () if request.param == "basilisp" else ("--repl", "none")
    with serving(tmp_path_factory.mktemp(request.param), *options) as live:
        # The REPL of the JVM is others' too.
        write(live, {f"test/depot/shop_test.{suffix}": text, f"src/depot/plain.{suffix}": "(ns depot.plain)\n"})
        with live.client() as client:
            until(lambda: "run_tests" in client.tools(), "the REPL's tools")
            assert client.call("evaluate_code", code="1", timeoutMs=120_000)["ok"]
        live.path = f"test/depot/shop_test.{suffix}"
        yield live


@pytest.fixture
def lpy(lisp):
    with lisp.client() as client:
        yield client


def test_without_a_namespace_pytest_finds_the_tests_where_the_project_says(py):
    answer = ask(py, timeoutMs=120_000, passed=True)
    assert counts(answer) == (3, 2, 0, 1)
    assert {row["ns"] for row in answer["results"]} == {"tests/test_shop.py", "tests/unit/test_deep.py"}


@pytest.mark.parametrize(("namespace", "tests"), [
    ("tests", 3), ("tests/", 3), ("tests/unit", 1), ("tests/test_shop.py", 2), ("tests/test_shop.py::test_good", 1),
    ("tests/test_shop.py::TestMore", 1), ("tests/test_shop.py::TestMore::test_broken", 1), ("elsewhere", 1),
])  # fmt: skip
def test_a_folder_a_file_and_a_node_id_of_pytest_choose_tests(py, namespace, tests):
    assert ask(py, namespace=namespace, timeoutMs=120_000)["tests"] == tests


def test_words_choose_tests_as_pytest_does(py):
    answer = ask(py, match="deep or (good and not broken)", passed=True, timeoutMs=120_000)
    assert sorted(row["test"] for row in answer["results"]) == ["test_deep", "test_good"]


def test_what_failed_is_run_again_and_nothing_else(python, py):
    ask(py, timeoutMs=120_000)
    again = ask(py, failed=True, timeoutMs=120_000)
    assert [row["test"] for row in again["results"]] == ["TestMore.test_broken"]
    assert again["tests"] == 1
    write(python, {"tests/test_shop.py": PYTHON["tests/test_shop.py"].replace("one + 1) == 4", "one) == 2")})
    try:
        assert counts(ask(py, failed=True, timeoutMs=120_000)) == (1, 1, 0, 0)
        none = ask(py, failed=True)
        assert (none["reason"], none["ok"]) == ("no-tests", False)
        assert "no test failed" in none["message"]
    finally:
        write(python, PYTHON)


def test_a_failure_has_the_projects_frames_and_stacktrace_shows_it_as_whose(py):
    older = py.call("evaluate_code", code="1/0", who="someone-else")
    answer = ask(py, namespace="tests/test_shop.py", who="tester", timeoutMs=120_000)
    row = answer["results"][0]
    assert row["frames"] == ["shop.py:2 in price", "tests/test_shop.py:8 in test_broken"]
    trace = py.call("stacktrace")
    assert (trace["evaluationId"], trace["who"]) == (answer["evaluationId"], "tester")
    assert (trace["class"], trace["message"]) == ("KeyError", "2")
    assert [frame["function"] for frame in trace["frames"]] == ["price", "test_broken"]
    assert trace["agoMs"] >= 0
    before = py.call("stacktrace", evaluationId=older["evaluationId"])
    assert (before["class"], before["who"]) == ("ZeroDivisionError", "someone-else")


def test_a_run_leaves_its_failures_names_in_the_log(py):
    ask(py, namespace="tests/test_shop.py", who="tester", timeoutMs=120_000)
    said = [row["text"] for row in py.call("repl_output_log", category=["otherErrorOutput"])["result"]]
    words = "2 tests, 1 passed, 0 failed, 1 error: tests/test_shop.py/TestMore.test_broken"
    assert f"tester ran tests/test_shop.py: {words}" in said[-1]


def test_a_test_that_never_ends_is_named_with_its_stack_and_what_passed_before(python, py):
    endless = "import time\n\ndef test_first():\n    pass\n\ndef test_endless():\n    wait()\n\n"
    write(python, {"endless/test_endless.py": f"{endless}def wait():\n    while True:\n        time.sleep(0.01)\n"})
    begun = python.workspace / "begun"
    marked = (
        (python.workspace / "endless/test_endless.py")
        .read_text()
        .replace("    wait()\n", f"    open({str(begun)!r}, 'w').close()\n    wait()\n")
    )
    write(python, {"endless/test_endless.py": marked})
    call = py.begin_call("run_tests", namespace="endless", timeoutMs=600_000, passed=True, who="tester")
    until(begun.exists, "the test to run")
    with python.client() as other:
        assert other.call("interrupt_evaluation", replSessionKey="py")["status"] == "interrupted"
    answer = py.answer(call)["result"]["structuredContent"]
    assert (answer["ok"], answer["reason"]) == (False, "interrupted")
    assert answer["stoppedIn"]["test"] == "test_endless"
    assert answer["stoppedIn"]["frames"][-1] == "endless/test_endless.py:8 in test_endless"
    assert not [frame for frame in answer["stoppedIn"]["frames"] if "_on_signal" in frame]
    assert [(row["test"], row["outcome"]) for row in answer["results"]] == [("test_first", "pass")]
    said = [row["text"] for row in py.call("repl_output_log", category=["otherErrorOutput"])["result"]]
    assert "stopped in endless/test_endless.py/test_endless" in said[-1]


def test_a_run_waits_behind_what_holds_the_session_and_tells_who_that_is(python, py):
    held = py.call("evaluate_code", code="import sys; line = sys.stdin.readline()", who="holder")
    assert held["status"] == "needs-input"
    waiting = ask(py, namespace="tests/unit", who="tester", timeoutMs=600_000)
    behind = py.call("evaluate_code", code="1", who="third", timeoutMs=600_000)
    for answer in (waiting, behind):
        assert (answer["ok"], answer["status"]) == (True, "queued")
        assert f"held by evaluation {held['evaluationId']} of holder, which waits for input" in answer["notes"][0]
        assert "send_input" in answer["notes"][0]
    py.call("send_input", evaluationId=held["evaluationId"], text="go on")
    ended = py.call("get_evaluation", evaluationId=waiting["evaluationId"], waitMs=600_000)
    assert counts(ended) == (1, 1, 0, 0)
    assert py.call("get_evaluation", evaluationId=behind["evaluationId"], waitMs=600_000)["result"] == "1"


def test_lisp_namespaces_of_the_test_folders_are_found_and_chosen(lisp, lpy):
    # The JVM's REPL has tests of others, so what is there is looked for, and not how much.
    everything = ask(lpy, match="depot.shop-test", timeoutMs=120_000)
    assert counts(everything) == (3, 1, 1, 1)
    for namespace in ("test", lisp.path, "depot.shop-test"):
        assert counts(ask(lpy, namespace=namespace, timeoutMs=120_000)) == (3, 1, 1, 1)
    for namespace in (f"{lisp.path}::bad", "depot.shop-test/bad"):
        assert counts(ask(lpy, namespace=namespace, timeoutMs=120_000)) == (1, 0, 1, 0)
    assert counts(ask(lpy, namespace="depot.shop-test", match="good or not BAD", timeoutMs=120_000)) == (2, 1, 0, 1)
    refused = ask(lpy, match="good or (bad)")
    assert (refused["ok"], "and, or and not" in refused["hint"]) == (False, True)


def test_lisp_failures_are_run_again_and_errors_have_frames(lisp, lpy):
    first = ask(lpy, namespace="depot.shop-test", timeoutMs=120_000)
    again = ask(lpy, failed=True, timeoutMs=120_000)
    assert sorted(row["test"] for row in again["results"]) == ["bad", "broken"]
    assert again["tests"] == 2
    broken = next(row for row in first["results"] if row["test"] == "broken")
    assert "price" in broken["frames"][0]
    assert ":2 in" in broken["frames"][0]


def test_a_file_of_tests_that_does_not_load_is_told_and_the_others_run(lisp, lpy):
    broken = lisp.path.replace("shop_test", "unread_test")
    write(lisp, {broken: "(ns depot.unread-test (:require [no.such.thing]))\n(deftest never)\n"})
    try:
        answer = ask(lpy, namespace="test", timeoutMs=120_000, passed=True)
        rows = {(row["ns"], row["test"]): row for row in answer["results"]}
        assert rows["depot.unread-test", "(load)"]["outcome"] == "error"
        assert "thing" in rows["depot.unread-test", "(load)"]["actual"]
        assert ("depot.shop-test", "good") in rows
    finally:
        (lisp.workspace / broken).unlink()


def test_a_clojure_test_that_never_ends_is_named_with_its_stack(lisp, lpy):
    begun = lisp.workspace / "begun"
    test, mark, wait = {
        "clj": ("clojure", f'(spit "{begun}" "")', "(Thread/sleep 600000)"),
        "lpy": ("basilisp", f'(spit "{begun}" "")', '(.sleep (python/__import__ "time") 600)'),
    }[lisp.path.rpartition(".")[2]]
    code = f"(ns endless-test (:require [{test}.test :refer [deftest is]]))\n"
    code += f"(deftest first-one (is (= 1 1)))\n(deftest never {mark} {wait} (is (= 1 1)))\n(ns user)"
    assert lpy.call("evaluate_code", code=code)["ok"]
    call = lpy.begin_call("run_tests", namespace="endless-test", timeoutMs=600_000)
    try:
        until(begun.exists, "the test to run")
        with lisp.client() as other:
            key = other.call("list_sessions")["sessions"][0]["key"]
            other.call("interrupt_evaluation", replSessionKey=key)
        answer = lpy.answer(call)["result"]["structuredContent"]
        assert (answer["ok"], answer["reason"]) == (False, "interrupted")
        assert (answer["stoppedIn"]["ns"], answer["stoppedIn"]["test"]) == ("endless-test", "never")
        assert "stacks" in answer or "frames" in answer["stoppedIn"]
    finally:
        # The REPL may be others' too, who run all its tests.
        lpy.call("evaluate_code", code="(ns-unmap 'endless-test 'never)")


def test_words_that_no_test_matches_are_named(py):
    answer = ask(py, match="no-such", timeoutMs=120_000)
    assert (answer["reason"], answer["message"]) == ("no-tests", "there are no tests that match no-such")


def test_a_run_that_fails_prints_nothing_of_the_program_that_runs_the_tests(py):
    answer = ask(py, namespace="tests/test_shop.py::test_nope", timeoutMs=120_000)
    assert "there is no test test_nope" in answer["message"]
    assert "stdout" not in answer


def test_a_project_without_lisp_pays_nothing_for_the_plugin_of_basilisp(py):
    assert ask(py, namespace="tests/unit", timeoutMs=120_000)["ok"]
    loaded = py.call("evaluate_code", code="import sys\n'basilisp.contrib.pytest.testrunner' in sys.modules")
    assert loaded["result"] == "False"


def test_plugins_are_kept_compiled_and_tests_are_not(python, py):
    library = next((python.workspace / ".venv/lib").glob("python3*")) / "site-packages"
    plugin = library / "kept_plugin.py"
    plugin.write_text("def pytest_report_header():\n    assert 1\n")
    information = library / "kept_plugin-1.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: kept-plugin\nVersion: 1\n")
    (information / "entry_points.txt").write_text("[pytest11]\nkept = kept_plugin\n")
    (information / "RECORD").write_text("kept_plugin.py,,\n")
    assert ask(py, namespace="tests/unit", timeoutMs=120_000)["ok"]
    assert list((library / "__pycache__").glob("kept_plugin.*-pytest-*.pyc"))
    assert not list((python.workspace / "tests/unit").glob("__pycache__/*"))


def test_a_run_that_ends_while_tests_are_looked_for_names_none(python, py):
    begun = python.workspace / "looked"
    write(python, {"looked_for/test_late.py": f"import time\nopen({str(begun)!r}, 'w').close()\ntime.sleep(600)\n"})
    call = py.begin_call("run_tests", namespace="looked_for", timeoutMs=600_000, who="tester")
    until(begun.exists, "the file to load")
    with python.client() as other:
        assert other.call("interrupt_evaluation", replSessionKey="py")["status"] == "interrupted"
    answer = py.answer(call)["result"]["structuredContent"]
    assert (answer["reason"], answer["tests"]) == ("interrupted", 0)
    assert "stoppedIn" not in answer
    assert "test_late.py" in answer["stacks"]
    said = [row["text"] for row in py.call("repl_output_log", category=["otherErrorOutput"])["result"]]
    assert said[-1].endswith("stopped in no test that the REPL knows of")


PLUGINS = {
    "xdist": """
def pytest_addoption(parser):
    parser.addoption("--numprocesses", type=int, default=0)

def pytest_cmdline_main(config):
    assert config.option.numprocesses == 0, "the tests would run in other processes"
""",
    "pytest_cov": """
def pytest_addoption(parser):
    parser.addoption("--cov", default=None)
    parser.addoption("--no-cov", action="store_true")

def pytest_load_initial_conftests(early_config):
    assert early_config.known_args_namespace.no_cov, "this process would be traced"
""",
    "timeout": """
def pytest_addoption(parser):
    parser.addoption("--timeout-method", default="thread")

def pytest_configure(config):
    assert config.option.timeout_method == "signal", "a timeout would end this process"
""",
    "late": """
import pytest
from _pytest.runner import runtestprotocol

@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    for report in runtestprotocol(item, nextitem=nextitem, log=False):
        item.ihook.pytest_runtest_logreport(report=report)
    return True
""",
}
ADDOPTS = {"xdist": "-p xdist --numprocesses 2", "pytest_cov": "-p pytest_cov --cov shop", "timeout": "-p timeout"}


@pytest.mark.parametrize("name", PLUGINS)
def test_plugins_that_would_run_the_tests_otherwise_are_told_not_to(python, py, name):
    files = {
        "pytest.ini": f"[pytest]\naddopts = {ADDOPTS.get(name, '-p late')}\n",
        f"{name}.py": PLUGINS[name],
        "test_plugged.py": "def test_good(): pass\n\ndef test_bad(): assert 1 == 2\n",
    }
    write(python, files)
    try:
        answer = ask(py, namespace="test_plugged")
        assert counts(answer) == (2, 1, 1, 0)
        assert answer["results"][0]["actual"] == "AssertionError: assert 1 == 2"
    finally:
        for file in files:
            (python.workspace / file).unlink()
        code = f"import sys\nfor name in ({name!r}, 'test_plugged'): sys.modules.pop(name, None)"
        assert py.call("evaluate_code", code=code)["ok"]
