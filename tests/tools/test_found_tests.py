"""Lisp tests that `run_tests` finds, selects and reruns, with the frames of failures, in real REPLs."""

import pytest
from live_server import serving, until, until_connected
from real_repls import repl
from tests_tool import counts, run_tests

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


@pytest.fixture(scope="module", params=list(LISPS))
def lisp(request, tmp_path_factory):
    suffix, text = LISPS[request.param]
    options = ("--repl", "lisp") if request.param == "basilisp" else ("--nrepl", f"clj={repl('jvm').endpoint}")
    options += () if request.param == "basilisp" else ("--repl", "none")
    with serving(tmp_path_factory.mktemp(request.param), *options) as live:
        # Other tests use the same JVM REPL.
        write(live, {f"test/depot/shop_test.{suffix}": text, f"src/depot/plain.{suffix}": "(ns depot.plain)\n"})
        with live.client() as client:
            until_connected(client)
            assert client.call("evaluate_code", code="1", timeoutMs=120_000)["ok"]
        live.path = f"test/depot/shop_test.{suffix}"
        yield live


@pytest.fixture
def lpy(lisp):
    with lisp.client() as client:
        yield client


def test_lisp_namespaces_in_test_directories_are_found_and_selected(lisp, lpy):
    # The JVM REPL also has tests of other modules, so this checks for expected tests and not for their number.
    everything = run_tests(lpy, match="depot.shop-test", timeoutMs=120_000)
    assert counts(everything) == (3, 1, 1, 1)
    for namespace in ("test", lisp.path, "depot.shop-test"):
        assert counts(run_tests(lpy, namespace=namespace, timeoutMs=120_000)) == (3, 1, 1, 1)
    for namespace in (f"{lisp.path}::bad", "depot.shop-test/bad"):
        assert counts(run_tests(lpy, namespace=namespace, timeoutMs=120_000)) == (1, 0, 1, 0)
    assert counts(run_tests(lpy, namespace="depot.shop-test", match="good or not BAD", timeoutMs=120_000)) == (
        2,
        1,
        0,
        1,
    )
    refused = run_tests(lpy, match="good or (bad)")
    assert (refused["ok"], refused["hint"].startswith("Combine parts of test names with")) == (False, True)


def test_failed_lisp_tests_can_be_rerun_and_errors_have_frames(lisp, lpy):
    first = run_tests(lpy, namespace="depot.shop-test", timeoutMs=120_000)
    again = run_tests(lpy, failed=True, timeoutMs=120_000)
    assert sorted(row["test"] for row in again["results"]) == ["bad", "broken"]
    assert again["tests"] == 2
    broken = next(row for row in first["results"] if row["test"] == "broken")
    assert "price" in broken["frames"][0]
    assert ":2 in" in broken["frames"][0]


def test_a_test_file_that_fails_to_load_is_reported_and_the_others_run(lisp, lpy):
    broken = lisp.path.replace("shop_test", "unread_test")
    write(lisp, {broken: "(ns depot.unread-test (:require [no.such.thing]))\n(deftest never)\n"})
    try:
        answer = run_tests(lpy, namespace="test", timeoutMs=120_000, passed=True)
        rows = {(row["ns"], row["test"]): row for row in answer["results"]}
        assert rows["depot.unread-test", "(load)"]["outcome"] == "error"
        assert "thing" in rows["depot.unread-test", "(load)"]["actual"]
        assert ("depot.shop-test", "good") in rows
    finally:
        (lisp.workspace / broken).unlink()


def test_an_endless_clojure_test_is_named_with_its_stack(lisp, lpy):
    pending = lisp.workspace / "begun"
    test, mark, wait = {
        "clj": ("clojure", f'(spit "{pending}" "")', "(Thread/sleep 600000)"),
        "lpy": ("basilisp", f'(spit "{pending}" "")', '(.sleep (python/__import__ "time") 600)'),
    }[lisp.path.rpartition(".")[2]]
    code = f"(ns endless-test (:require [{test}.test :refer [deftest is]]))\n"
    code += f"(deftest first-one (is (= 1 1)))\n(deftest never {mark} {wait} (is (= 1 1)))\n(ns user)"
    assert lpy.call("evaluate_code", code=code)["ok"]
    call = lpy.begin_call("run_tests", namespace="endless-test", timeoutMs=600_000)
    try:
        until(pending.exists, "the test to run")
        with lisp.client() as other:
            key = other.call("list_sessions")["sessions"][0]["key"]
            other.call("interrupt_evaluation", replSessionKey=key)
        answer = lpy.answer(call)["result"]["structuredContent"]
        assert (answer["ok"], answer["reason"]) == (False, "interrupted")
        assert (answer["stoppedIn"]["ns"], answer["stoppedIn"]["test"]) == ("endless-test", "never")
        assert "stacks" in answer or "frames" in answer["stoppedIn"]
    finally:
        # Other test modules may use the same REPL and run all its tests.
        lpy.call("evaluate_code", code="(ns-unmap 'endless-test 'never)")
