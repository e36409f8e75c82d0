"""Lisp tests, which run in their REPL, through a real server."""

import pytest
from anyio.from_thread import start_blocking_portal
from live_server import serving, until, until_connected
from real_repls import repl
from scripted_nrepl import scripted
from tests_tool import counts, run_tests

LISP = """(ns suite.core (:require [basilisp.test :refer [deftest is]]))
(deftest good (is (= 1 1)))
(deftest bad (is (= 1 2) "msg"))
(deftest broken (println "noise") (is (/ 1 0)))
"""
GOOD = """(ns suite.fine (:require [basilisp.test :refer [deftest is]]))
(deftest good (is (= 1 1)))
"""
CLOJURE = """(ns suite.shop (:require [clojure.test :refer [deftest is]]))
(deftest good (is (= 1 1)))
(deftest bad (is (= 1 2) "msg"))
"""
FILES = {"lpy": ("core.lpy", LISP), "lpy-good": ("fine.lpy", GOOD)}


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    folder = tmp_path_factory.mktemp("testing")
    with serving(folder, "--repl", "lisp") as running:
        with running.client() as client:
            for key, (file, text) in FILES.items():
                (running.workspace / file).write_text(text)
                loaded = client.call(
                    "load_file", filePath=file, replSessionKey=key.partition("-")[0], timeoutMs=120_000
                )
                assert loaded["ok"], loaded
        yield running


def test_lisp_failures_come_first_with_their_locations(live, client):
    answer = run_tests(client, namespace="suite.core", replSessionKey="lpy", timeoutMs=120_000)
    assert (answer["ok"], answer["reason"], counts(answer)) == (False, "tests-failed", (3, 1, 1, 1))
    broken, bad = answer["results"]
    assert (broken["test"], broken["outcome"], broken["line"]) == ("broken", "error", 4)
    assert (bad["test"], bad["outcome"], bad["line"], bad["message"]) == ("bad", "fail", 3, "msg")
    assert bad["file"] == str(live.workspace / "core.lpy")
    assert (bad["expected"], bad["actual"]) == ("1", "2")
    assert "noise" in answer["stdout"]


def test_a_report_includes_every_result_and_the_duration_of_each_test(client):
    answer = run_tests(client, namespace="suite.core", replSessionKey="lpy", report=True)
    seconds = {test: took for home, test, took in answer["times"] if home == "suite.core"}
    assert {row["test"] for row in answer["results"]} >= set(seconds)
    assert len(seconds) >= 3
    assert all(took >= 0 for took in seconds.values())
    assert "times" not in run_tests(client, namespace="suite.core", replSessionKey="lpy", passed=True)


def test_several_namespaces_run_in_order_with_one_answer(client):
    answer = run_tests(client, paths=["suite.fine", "suite.core"], replSessionKey="lpy")
    assert (answer["ok"], answer["reason"], counts(answer)) == (False, "tests-failed", (4, 2, 1, 1))
    assert [row["test"] for row in answer["results"]] == ["broken", "bad"]


def test_pytest_only_arguments_are_refused_for_lisp(client):
    answer = run_tests(client, paths=["suite.fine"], args=["-x"], replSessionKey="lpy")
    assert (answer["ok"], answer["reason"]) == (False, "bad-arguments")


def test_a_passing_lisp_run_has_a_short_answer(client):
    answer = run_tests(client, namespace="suite.fine", replSessionKey="lpy")
    assert (answer["ok"], counts(answer), answer["results"]) == (True, (1, 1, 0, 0), [])


def test_without_a_namespace_all_loaded_tests_run(client):
    assert run_tests(client, replSessionKey="lpy", timeoutMs=120_000)["tests"] == 4


def test_a_test_run_is_logged(client):
    run_tests(client, namespace="suite.fine", replSessionKey="lpy", who="tester")
    answers = [row["text"] for row in client.call("repl_output_log", category=["otherOutput"])["result"]]
    assert "tester ran suite.fine: 1 test, 1 passed, 0 failed, 0 errors" in answers[-1]


def test_an_unknown_test_is_refused(client):
    answer = run_tests(client, namespace="suite.core", test="nosuch", replSessionKey="lpy")
    assert (answer["ok"], answer["reason"]) == (False, "evaluation-failed")
    assert "no test nosuch" in answer["message"]


def test_an_unknown_namespace_is_refused(client):
    answer = run_tests(client, namespace="no.such.suite", replSessionKey="lpy")
    assert answer["reason"] == "unknown-namespace"
    assert "'no.such.suite'" in answer["message"]
    assert "load_file" in answer["hint"]


def test_a_namespace_that_fails_to_load_is_not_reported_as_unknown(live, client):
    (live.workspace / "needy.lpy").write_text("(ns needy (:require [no.such.thing]))\n")
    answer = run_tests(client, namespace="needy", replSessionKey="lpy")
    assert answer["reason"] == "evaluation-failed"
    assert "thing" in answer["message"]


def test_a_new_lisp_repl_has_no_tests_and_refuses_unknown_namespaces(tmp_path):
    with serving(tmp_path, "--repl", "lisp") as live, live.client() as client:
        client.call("evaluate_code", code="1", timeoutMs=120_000)
        assert run_tests(client)["reason"] == "no-tests"
        assert run_tests(client, namespace="nope")["reason"] == "unknown-namespace"


def test_clojure_tests_run_by_evaluation(tmp_path):
    address = repl("jvm").endpoint
    with serving(tmp_path, "--nrepl", f"clj={address}", "--repl", "none") as live, live.client() as client:
        until_connected(client)
        (live.workspace / "core.clj").write_text(CLOJURE)
        assert client.call("load_file", filePath="core.clj")["ok"]
        answer = run_tests(client, namespace="suite.shop", timeoutMs=120_000)
        assert (answer["reason"], counts(answer)) == ("tests-failed", (2, 1, 1, 0))
        assert (answer["results"][0]["test"], answer["results"][0]["line"]) == ("bad", 3)
        assert answer["results"][0]["file"].endswith("core.clj")
        report = run_tests(client, namespace="suite.shop", report=True)
        assert sorted(test for _, test, seconds in report["times"] if seconds > 0) == ["bad", "good"]
        assert run_tests(client, namespace="no.such.suite")["reason"] == "unknown-namespace"


def test_lookups_are_answered_while_tests_run(tmp_path):
    address = repl("jvm").endpoint
    with serving(tmp_path, "--nrepl", f"clj={address}", "--repl", "none") as live, live.client() as client:
        until_connected(client)
        mark = live.workspace / "mark"
        code = f'(ns suite.slow (:require [clojure.test :refer [deftest is]])) (deftest slow (spit "{mark}" "") '
        assert client.call("evaluate_code", code=code + "(Thread/sleep 60000) (is true))")["ok"]
        run = client.begin_call("run_tests", namespace="suite.slow", timeoutMs=600_000)
        until(mark.exists, "the test to run")
        assert client.call("macroexpand", code="(when a b)")["expansion"].startswith("(if a")
        client.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": run}})


def test_a_repl_without_test_support_suggests_how_to_run_tests(tmp_path):
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(scripted()) as server:
        options = ("--nrepl", f"n={server.endpoint}", "--repl", "none")
        with serving(tmp_path, *options) as live, live.client() as client:
            until_connected(client)
            assert "run_tests" not in client.tools()
            answer = run_tests(client)
            assert (answer["reason"], answer["capability"]) == ("capability-missing", "test")
            assert "in a shell" in answer["hint"]


def test_a_running_lisp_test_run_reports_its_progress(live, client):
    gate = live.workspace / "lisp-gate"
    waits = f'(while (not (.exists (pathlib/Path "{gate}"))) (time/sleep 0.01))'
    text = "(ns suite.long (:require [basilisp.test :refer [deftest is]]) (:import pathlib time))\n"
    body = f"(if (= 1 (swap! begun inc)) (is (= 1 2)) (do {waits} (is true)))"
    text += f"(def begun (atom 0))\n(deftest one {body})\n(deftest other {body})\n"
    (live.workspace / "long.lpy").write_text(text)
    assert client.call("load_file", filePath="long.lpy", replSessionKey="lpy")["ok"]
    pending = run_tests(client, namespace="suite.long", replSessionKey="lpy", timeoutMs=300)
    message = {}

    def has_first_result():
        message.update(client.call("get_evaluation", evaluationId=pending["evaluationId"], waitMs=50))
        return message.get("tests") == 1

    try:
        until(has_first_result, "a test to end")
        assert (message["status"], counts(message)) == ("running", (1, 0, 1, 0))
        assert [row["outcome"] for row in message["results"]] == ["fail"]
    finally:
        gate.touch()
    ended = client.call("get_evaluation", evaluationId=pending["evaluationId"], waitMs=20_000)
    assert counts(ended) == (2, 1, 1, 0)
