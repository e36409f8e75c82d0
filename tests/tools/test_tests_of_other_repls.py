"""Tests that run in REPLs other than Codriver's worker: on the JVM, in nbb and in Hy."""

import subprocess
import sys
from functools import partial

import pytest
from live_server import serving, until, until_connected
from real_repls import repl
from tests_tool import counts, run_tests

NBB = """(ns shop.orders-test
  (:require [cljs.test :refer [deftest is testing async use-fixtures]]))
(def log (atom []))
(use-fixtures :once {:before #(swap! log conj :open) :after #(swap! log conj :close)})
(use-fixtures :each {:before #(swap! log conj :each)})
(deftest good (is (= 1 1)))
(deftest bad
  (testing "ctx"
    (is (= 1 2) "msg")))
(deftest broken
  (println "noise")
  (throw (js/Error. "oops")))
(deftest later (async done (js/setTimeout (fn [] (is (= 1 3)) (done)) 30)))
"""
TEXTS = {"nbb": NBB}
ENDLESS = {
    "nbb": "(ns endless (:require [cljs.test :refer [deftest async]])) (deftest never (async done nil))",
}
UNREAD = """(ns shop.unread-test)
(throw (js/Error. "never read"))
(comment (deftest never))
"""
ENDED = "(ns endless (:require [{}.test :refer [deftest is]])) (deftest never (is true)) (ns user)"
NAMES = tuple(TEXTS)


@pytest.fixture(scope="module", params=NAMES)
def script(request, tmp_path_factory):
    """Return a JavaScript REPL with its tests, and a server for both."""
    address = repl(request.param).endpoint
    folder = tmp_path_factory.mktemp(request.param)
    with serving(folder, "--nrepl", f"js={address}", "--repl", "none") as live:
        with live.client() as client:
            until_connected(client)
            path = live.workspace / "test" / "shop" / "orders_test.cljs"
            path.parent.mkdir(parents=True)
            path.write_text(TEXTS[request.param])
            broken = path.with_name("unread_test.cljs")
            broken.write_text(UNREAD)
            # Other tests use the same REPL, and the first run loads the files.
        live.name, live.path = request.param, path
        yield live


@pytest.fixture
def client(script):
    with script.client() as connected:
        yield connected


def test_unloaded_test_files_are_loaded_first_and_failures_reported(script, client):
    refused = run_tests(client, fresh=True)
    assert (refused["reason"], refused["message"]) == (
        "capability-missing",
        "only Python tests can be run in a new process",
    )
    answer = run_tests(client, namespace="test")
    assert counts(answer) == (5, 1, 2, 2)
    unread = answer["results"][0]
    assert (unread["ns"], unread["test"], unread["outcome"]) == ("shop.unread-test", "(load)", "error")
    assert "never read" in unread["actual"]
    assert client.call("evaluate_code", code="(+ 1 2)")["result"] == "3"


def test_failures_come_first_and_async_tests_are_awaited(script, client):
    answer = run_tests(client, namespace="shop.orders-test", passed=True)
    assert (answer["reason"], counts(answer)) == ("tests-failed", (4, 1, 2, 1))
    broken, *wrong, good = answer["results"]
    lines = TEXTS[script.name].splitlines()
    assert (broken["test"], broken["outcome"], broken["actual"]) == ("broken", "error", "Error: oops")
    assert [(row["test"], row["outcome"]) for row in wrong] == [("bad", "fail"), ("later", "fail")]
    assert [1 + next(at for at, line in enumerate(lines) if words in line) for words in ("(= 1 2)", "(= 1 3)")] == [
        row["line"] for row in wrong
    ]
    assert wrong[0]["message"] == "ctx: msg"
    assert "2" in wrong[0]["actual"]
    assert (good["test"], good["outcome"]) == ("good", "pass")
    assert {row["ns"] for row in answer["results"]} == {"shop.orders-test"}
    assert {row["file"] for row in answer["results"]} == {str(script.path)}


def test_a_report_includes_the_duration_of_each_test_even_without_assertions(script, client):
    answer = run_tests(client, namespace="shop.orders-test", report=True)
    seconds = {test: took for namespace, test, took in answer["times"] if namespace == "shop.orders-test"}
    assert {"good", "bad", "later"} <= set(seconds) <= {"good", "bad", "broken", "later"}
    assert seconds["later"] >= 0.02
    assert len(answer["results"]) == 4


def test_fixtures_run_around_the_tests_of_their_namespace(script, client):
    client.call("evaluate_code", code="(reset! shop.orders-test/log [])")
    assert run_tests(client, namespace="shop.orders-test", test="good")["ok"]
    seen = client.call("evaluate_code", code="@shop.orders-test/log")["result"]
    assert seen == "[:open :each :close]"


def test_one_test_can_be_run_and_an_unknown_one_is_refused(client):
    answer = run_tests(client, namespace="shop.orders-test", test="bad")
    assert counts(answer) == (1, 0, 1, 0)
    answer = run_tests(client, namespace="shop.orders-test", test="nosuch")
    assert (answer["ok"], answer["reason"]) == (False, "evaluation-failed")
    assert "no test nosuch in shop.orders-test" in answer["message"]


def test_an_unknown_namespace_and_a_namespace_without_tests_are_refused(client):
    assert run_tests(client, namespace="no.such.suite")["reason"] == "unknown-namespace"
    assert run_tests(client, namespace="user")["reason"] == "no-tests"


def test_without_a_namespace_all_loaded_tests_run(client):
    assert counts(run_tests(client))[0] >= 4


def test_an_endless_test_is_abandoned_and_the_next_run_works(script, client):
    assert client.call("evaluate_code", code=ENDLESS[script.name])["ok"]
    try:
        answer = run_tests(client, namespace="endless", timeoutMs=1000, onTimeout="interrupt")
        assert (answer["ok"], answer["reason"]) == (False, "timed-out")
        later = partial(run_tests, client, namespace="shop.orders-test", test="good")
        answer = until(lambda: (now := later()).get("reason") != "busy" and now, "the endless test to be abandoned")
        assert answer["ok"], answer
    finally:  # other tests use the same REPL and run all its tests
        client.call("evaluate_code", code=ENDED.format("cljs"))


def test_tests_run_by_hand_still_print_their_report_afterwards(script, client):
    assert run_tests(client, namespace="shop.orders-test", test="good")["ok"]
    answer = client.call("evaluate_code", code="(cljs.test/run-tests 'shop.orders-test)")
    assert "FAIL in (bad)" in answer["stdout"]


HY = """(import pytest unittest)
(defn test-plain [] (assert (= 1 1)))
(defn test-wrong [] (print "noise") (assert (= (+ 1 1) 3)))
(defn [pytest.fixture] basket [] {"eggs" 2})
(defn test-given [basket] (assert (= (get basket "eggs") 3)))
(defclass Sums [unittest.TestCase]
  (defn test-sum [self] (self.assertEqual (+ 1 1) 3)))
"""


@pytest.fixture(scope="module")
def hy(tmp_path_factory):
    """Return a Hy REPL for tests, each of which has its own modules."""
    with serving(tmp_path_factory.mktemp("hy"), "--repl", "hy") as live:
        with live.client() as client:
            until_connected(client)
        yield live


def test_hy_runs_python_tests(hy):
    with hy.client() as client:
        (hy.workspace / "test_orders.hy").write_text(HY)
        answer = run_tests(client, namespace="test_orders", timeoutMs=60_000)
        assert counts(answer) == (4, 1, 3, 0), answer
        rows = {row["test"]: row for row in answer["results"]}
        assert set(rows) == {"test_wrong", "test_given", "Sums.test_sum"}
        assert (rows["test_wrong"]["line"], rows["test_given"]["line"]) == (3, 5)
        assert rows["test_wrong"]["file"] == str(hy.workspace / "test_orders.hy")
        assert "noise" in answer["stdout"]
        (hy.workspace / "test_orders.hy").write_text(HY.replace("3", "2"))
        assert run_tests(client, namespace="test_orders", timeoutMs=60_000)["ok"]
        assert run_tests(client, namespace="test_orders", test="test-given")["tests"] == 1
        assert run_tests(client, namespace="no_such_suite")["reason"] == "unknown-namespace"
        assert run_tests(client, namespace="test_orders", fresh=True)["reason"] == "capability-missing"


def test_hy_runs_a_named_file_whether_or_not_it_was_imported(hy):
    with hy.client() as client:
        (hy.workspace / "tests").mkdir()
        (hy.workspace / "tests" / "test_orders.hy").write_text(HY)
        none = run_tests(client, timeoutMs=60_000)
        assert none["reason"] == "no-tests"
        assert "Pass the test file in paths, such as tests/test_core.hy." in none["hint"]
        assert counts(run_tests(client, namespace="tests/test_orders.hy", timeoutMs=60_000)) == (4, 1, 3, 0)
        assert run_tests(client, namespace="tests/test_orders.hy::test-plain")["tests"] == 1
        (hy.workspace / "tests" / "test_orders.hy").write_text(HY.replace("3", "2"))
        client.call("evaluate_code", code="(import tests.test_orders)")
        assert counts(run_tests(client, namespace="tests/test_orders.hy", timeoutMs=60_000)) == (4, 4, 0, 0)
        missing = run_tests(client, namespace="tests/test_orders.hy", match="and and")
        assert missing["reason"] == "evaluation-failed", missing
        assert "Traceback" not in missing.get("stdout", ""), missing


def test_hy_runs_tests_evaluated_or_loaded_in_its_session(hy):
    with hy.client() as client:
        (hy.workspace / "checks.hy").write_text("(defn test-loaded [] (assert (= 1 1)))")
        client.call("load_file", filePath="checks.hy")
        evaluated = client.call("evaluate_code", code="(defn test-here [] (assert (= 1 2)))")
        for namespace in ({}, {"namespace": evaluated["ns"]}):
            answer = run_tests(client, **namespace)
            assert counts(answer) == (2, 1, 1, 0), answer
            assert [(row["test"], row["ns"]) for row in answer["results"]] == [("test_here", "Hy")]
        assert run_tests(client, test="test-loaded")["tests"] == 1
        assert client.call("evaluate_code", code="(del test-loaded test-here)")["ok"]


CLOJURE = """(ns shop.orders-test (:require [clojure.test :refer [deftest is]] [shop.checks :as checks]))
(deftest bad (is (= 1 2)))
(deftest broken (is (/ 1 0)))
(deftest helped (checks/same 1 2))
"""
CHECKS = """(ns shop.checks (:require [clojure.test :refer [is]]))
(defn same [a b]
  (is (= a b)))
"""


def test_jvm_failures_include_full_paths_although_clojure_reports_only_file_names(tmp_path):
    folder = tmp_path / "a folder"
    tests = folder / "workspace" / "test" / "shop"
    tests.mkdir(parents=True)
    (tests / "orders_test.clj").write_text(CLOJURE)
    (tests / "checks.clj").write_text(CHECKS)
    repl("jvm")
    with serving(folder, "--repl", "clojure") as live, live.client() as client:
        until_connected(client)
        answer = run_tests(client, namespace="shop.orders-test", timeoutMs=120_000)
        places = [(row["test"], row["file"], row["line"]) for row in answer["results"]]
        assert sorted(places) == [
            ("bad", str(tests / "orders_test.clj"), 2),
            ("broken", str(tests / "orders_test.clj"), 3),
            ("helped", str(tests / "checks.clj"), 3),
        ]


APPLICATION = (
    "import sys, codriver_seam\ncodriver_seam.start_repl(True)\nprint('started', flush=True)\nsys.stdin.read()\n"
)


def test_an_application_in_an_unaccepted_workspace_runs_pytest_in_its_own_process(tmp_path):
    with serving(tmp_path, "--on-demand", "--repl", "none") as live, live.client() as client:
        (live.workspace / "test_shop.py").write_text("def test_one():\n    assert 1 == 2\n")
        (live.workspace / "empty.py").write_text("")
        command = [sys.executable, "-c", APPLICATION]
        with subprocess.Popen(
            command, cwd=live.workspace, env=live.environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as program:
            program.stdout.readline()
            until_connected(client)
            answer = client.call("run_tests", paths=["test_shop.py"])
            assert (answer["reason"], answer["failed"]) == ("tests-failed", 1), answer
            missing = client.call("run_tests", paths=["test_none.py"])
            assert (missing["reason"], missing["message"]) == ("unknown-namespace", "test_none.py does not exist")
            none = client.call("run_tests", paths=["empty.py"])
            assert (none["reason"], none["message"]) == ("no-tests", "there are no tests in empty.py")
            options = client.call("run_tests", args=["-x"])
            assert options["reason"] == "bad-arguments"
            for refused in (missing, none, options):
                assert "load_file" not in refused["hint"]
                assert refused["hint"].endswith(f"ask your human to run: codriver trust (in {live.workspace})")
            program.stdin.close()
