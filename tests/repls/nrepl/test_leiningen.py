"""A Leiningen project with its own settings: the REPL starts in the project, finds its code, and leaves no process."""

import pytest
import real_repls
from live_server import serving, until
from process_states import is_running

PROJECT = """\
(defproject app "0.1.0"
  :dependencies [[org.clojure/clojure "1.11.1"]]
  :local-repo "/usr/share/maven-repo"
  :offline? true)
"""
CORE = "(ns app.core)\n\n(defn twice [x]\n  (* 2 x))\n"
TEST = """\
(ns app.core-test
  (:require [app.core :refer [twice]]
            [clojure.test :refer [deftest is]]))

(deftest twice-is-double
  (is (= 4 (twice 2))))

(deftest wrong
  (is (= 5 (twice 2))))
"""


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    real_repls.need("leiningen")
    folder = tmp_path_factory.mktemp("leiningen")
    files = {"project.clj": PROJECT, "src/app/core.clj": CORE, "test/app/core_test.clj": TEST}
    for name, text in files.items():
        file = folder / "workspace" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (folder / "workspace" / "codriver.toml").write_text('repl = ["lein"]\n')
    with serving(folder) as live:
        yield live


def evaluate(client, code):
    return client.call("evaluate_code", code=code, replSessionKey="clj", timeoutMs=120_000)


def process_ids(client):
    """Return the ids of the project's own process and of Leiningen's, which started it."""
    code = """
        (let [^java.lang.ProcessHandle project (java.lang.ProcessHandle/current)
              ^java.lang.ProcessHandle leiningen (.get (.parent project))]
          [(.pid project) (.pid leiningen)])"""
    return [int(word) for word in evaluate(client, code)["result"].strip("[]").split()]


@pytest.mark.slow
def test_the_projects_own_code_is_on_the_path(client):
    assert evaluate(client, "(require 'app.core)\n(app.core/twice 21)")["result"] == "42"
    found = client.call("symbol_info", symbol="app.core/twice", replSessionKey="clj")
    assert found["file"].endswith("src/app/core.clj")


@pytest.mark.slow
def test_the_projects_tests_run_and_a_failing_test_is_reported_with_its_location(client):
    answer = client.call("run_tests", namespace="app.core-test", replSessionKey="clj")
    assert (answer["tests"], answer["failed"]) == (2, 1)
    (failure,) = answer["results"]
    assert failure["file"].endswith("test/app/core_test.clj")
    assert failure["line"] == 9


@pytest.mark.slow
def test_a_restart_ends_both_processes_of_a_leiningen_repl(client):
    before = process_ids(client)
    assert all(is_running(process_id) for process_id in before)
    assert client.call("restart_repl", replSessionKey="clj", timeoutMs=120_000)["generation"] == 2
    until(lambda: not any(is_running(process_id) for process_id in before), "the end of both processes")
    assert evaluate(client, "(+ 1 2)")["result"] == "3"
