"""With `load: true`, real REPLs load the forms that `edit_files` changed, once, and errors are in the answer."""

import json
import sys

import pytest
from live_server import serving, until, until_connected, user_settings_file
from real_repls import repl

from codriver.repls.launch import recipes

GREET = """\
(ns shop.greet)

(defn greeting [name]
  (str "Hello, " name))

(defn twice [name]
  (str (greeting name) (greeting name)))

(swap! shop.seen/loads inc)
"""
SEEN = "(ns shop.seen)\n(def loads (atom 0))\n"
GREETING = {"type": "replace", "line": 3, "targetLineText": "(defn greeting [name]"}
GOOD_DAY = {**GREETING, "newForm": '(defn greeting [name]\n  (str "Good day, " name))'}
BROKEN = {**GREETING, "newForm": "(defn greeting [name]\n  (strr name))"}
ENDING = {"jvm": "clj", "lisp": "lpy", "nbb": "cljs", "basilisp": "lpy"}


@pytest.fixture(scope="module", params=["jvm", "lisp", "nbb", "basilisp"])
def live(request, tmp_path_factory):
    """Run a server with a REPL of that kind, in which the files of the tests are loaded."""
    folder = tmp_path_factory.mktemp(request.param)
    options = ("--nrepl", f"x={repl(request.param).endpoint}", "--repl", "none")
    with serving(folder, *options) as running:
        running.kind, running.ending = request.param, ENDING[request.param]
        with running.client() as client:
            until_connected(client)
            write(running, "seen", SEEN)
            assert client.call("load_file", filePath=f"src/shop/seen.{running.ending}")["ok"]
        yield running


def write(live, name, text):
    file = live.workspace / "src" / "shop" / f"{name}.{live.ending}"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


@pytest.fixture
def greet(live, client):
    file = write(live, "greet", GREET)
    answer = client.call("load_file", filePath=str(file))
    assert answer["ok"], answer
    return file


def evaluate(client, code):
    answer = client.call("evaluate_code", code=code)
    assert answer["ok"], answer
    return answer["result"]


def edit(client, live, *edits, name="greet", **arguments):
    path = f"src/shop/{name}.{live.ending}"
    return client.call("edit_files", edits=[{"filePath": path, **item} for item in edits], load=True, **arguments)


def test_only_the_changed_forms_are_loaded_into_the_namespace_of_the_file(live, client, greet):
    loads, home = evaluate(client, "@shop.seen/loads"), evaluate(client, "(str *ns*)")
    answer = edit(client, live, GOOD_DAY, detail=False)
    assert answer["ok"], answer
    [row] = answer["files"]
    assert row["applied"]
    assert "greeting" in row["load"]["result"]
    assert '"Good day, AdaGood day, Ada"' in evaluate(client, '(shop.greet/twice "Ada")')
    assert (evaluate(client, "@shop.seen/loads"), evaluate(client, "(str *ns*)")) == (loads, home)


def test_a_load_error_is_in_the_same_answer_with_its_file_and_line(live, client, greet):
    answer = edit(client, live, BROKEN, detail=False)
    assert (answer["ok"], answer["reason"]) == (False, "evaluation-failed")
    assert answer["files"][0]["applied"]
    assert "strr" in greet.read_text()
    error = answer["error"]
    assert "strr" in error["message"]
    # The server of Basilisp reports no position, so it is that of the form.
    assert (error["file"], error["line"]) == (f"src/shop/greet.{live.ending}", 3 if live.kind == "basilisp" else 4)


def test_a_failure_in_an_edited_function_points_to_its_file(live, client, greet):
    failing = {**GREETING, "newForm": "(defn greeting [name]\n  (str name)\n  (/ 1 0))"}
    assert edit(client, live, failing)["ok"]
    answer = client.call("evaluate_code", code="(shop.greet/greeting 1)", detail=False)
    if live.kind == "jvm":
        assert answer["error"].get("trace") == ["greet.clj:5 in shop.greet/greeting"]
        client.call("load_file", filePath="src/shop/greet.clj")
        whole = client.call("evaluate_code", code="(shop.greet/greeting 1)", detail=False)
        assert whole["error"] == answer["error"]


def test_a_failing_top_level_form_is_reported_with_its_file_and_line(live, client, greet):
    failing = {**GREETING, "newForm": "(defn greeting [name]\n  (str name))\n\n(count 1)"}
    error = edit(client, live, failing, detail=False)["error"]
    if live.kind == "jvm":
        assert (error["file"], error["line"]) == ("src/shop/greet.clj", 6)
        assert "trace" not in error
        client.call("evaluate_code", code="(remove-ns 'codriver.kept)")
        assert edit(client, live, GOOD_DAY)["ok"], "a namespace of ours that is gone holds up nobody"
        stack = client.call("stacktrace")
        assert "NO_SOURCE_FILE" not in json.dumps(stack), stack


def test_a_failing_test_loaded_by_an_edit_reports_its_file_and_line(live, client):
    if live.kind == "jvm":
        text = "(ns shop.fresh-test (:require [clojure.test :refer [deftest is]]))\n\n(deftest one\n  (is (= 1 1)))\n"
        file = write(live, "fresh_test", text)
        assert client.call("load_file", filePath=str(file))["ok"]
        other = {
            "type": "replace",
            "line": 3,
            "targetLineText": "(deftest one",
            "newForm": "(deftest one\n  (is (= 1 2)))",
        }
        assert edit(client, live, other, name="fresh_test")["ok"]
        [row] = client.call("run_tests", namespace="shop.fresh-test")["results"]
        assert (row["file"], row["line"]) == (str(file), 4)


def test_a_file_whose_namespace_is_not_loaded_is_loaded_whole_and_once(live, client):
    name = "fresh"
    write(live, name, GREET.replace("shop.greet", "shop.fresh"))
    loads = int(evaluate(client, "@shop.seen/loads"))
    answer = edit(client, live, GOOD_DAY, name=name)
    assert answer["ok"], answer
    assert any("shop.fresh was not" in note for note in answer["files"][0]["load"]["notes"])
    assert '"Good day, AdaGood day, Ada"' in evaluate(client, '(shop.fresh/twice "Ada")')
    assert int(evaluate(client, "@shop.seen/loads")) == loads + 1


def test_a_changed_ns_form_is_loaded_first(live, client, greet):
    header = {"type": "replace", "line": 1, "targetLineText": "(ns shop.greet)"}
    answer = edit(
        client, live, {**GREETING, "newForm": "(defn greeting [name]\n  (s/loud name))"},
        {**header, "newForm": "(ns shop.greet\n  (:require [shop.loud :as s]))"},
        {"type": "create", "content": '(ns shop.loud)\n(defn loud [text] (str text "!"))\n',
         "filePath": f"src/shop/loud.{live.ending}", "overwrite": True},
    )  # fmt: skip
    assert answer["ok"], answer
    assert '"Ada!Ada!"' in evaluate(client, '(shop.greet/twice "Ada")')


def test_a_file_that_enters_another_namespace_is_loaded_into_that_namespace(live, client, greet):
    part = write(live, "part", "(in-ns 'shop.greet)\n(def suffix 1)\n")
    assert client.call("load_file", filePath=str(part))["ok"]
    new = {"type": "replace", "line": 2, "targetLineText": "(def suffix 1)", "newForm": "(def suffix 2)"}
    assert edit(client, live, new, name="part")["ok"]
    assert evaluate(client, "shop.greet/suffix") == "2"


def test_the_log_names_the_caller_and_path_of_a_load(live, client, greet):
    edit(client, live, GOOD_DAY, who="greeter")
    query = '[:find ?text ?who :where [?e :output/text ?text] [?e :output/who ?who] [(= ?who "greeter")]]'
    rows = client.call("repl_output_log", query=query)
    texts = str(rows)
    assert f"edit_files loads src/shop/greet.{live.ending}, line 3" in texts
    assert "Good day" in texts


FORM = {"type": "create", "filePath": "a.clj", "content": "(ns a)\n(def x 1)\n"}


class TestNotLoaded:
    def test_loading_with_evaluation_disabled_is_refused_before_writing(self, tmp_path):
        user_settings_file(tmp_path).write_text("enableMcpReplEvaluation = false\n")
        with serving(tmp_path, "--repl", "none") as live, live.client() as client:
            refused = client.call("edit_files", edits=[FORM], load=True)
            assert refused["reason"] == "switched-off"
            assert "nothing was written" in refused["message"]
            assert not (live.workspace / "a.clj").exists()
            assert client.call("edit_files", edits=[FORM])["ok"]

    def test_an_edit_without_a_matching_session_is_written_with_advice_on_how_to_load_it(self, tmp_path):
        with serving(tmp_path, "--repl", "python") as live, live.client() as client:
            data = {"type": "create", "filePath": "a.edn", "content": "{:a 1}\n"}
            data_only = {**data, "filePath": "b.edn"}
            answer = client.call("edit_files", edits=[FORM, data], load=True)
            code, data = answer["files"]
            assert (answer["ok"], answer["reason"]) == (False, "no-repl")
            assert answer["message"] == "a.clj was written, but not loaded: no connected REPL serves this file"
            assert client.call("edit_files", edits=[{**data_only, "content": "{:a 2}\n"}], load=True)["ok"]
            assert (live.workspace / "a.clj").exists()
            assert (
                code["notLoaded"] == "no connected REPL serves this file. Start one (see status), then call load_file"
            )
            assert data["notLoaded"] == "no REPL loads files that end in .edn"

    @pytest.mark.parametrize("more", [{}, {"test": ["affected"], "onFailure": "restore"}])
    def test_a_load_waits_for_a_repl_that_is_starting(self, tmp_path, more):
        python, go = tmp_path / "slow-python", tmp_path / "go"
        python.write_text(f'#!/bin/sh\nwhile [ ! -e {go} ]; do sleep 0.1; done\nexec {sys.executable} "$@"\n')
        python.chmod(0o755)
        create = {"type": "create", "filePath": "here.py", "content": "def here():\n    return 1\n"}
        tested = {"type": "create", "filePath": "test_here.py", "content": "def test_here():\n    assert True\n"}
        with serving(tmp_path / "work", "--repl", "python", "--python", str(python)) as live, live.client() as client:
            edit = client.begin_call("edit_files", edits=[create, tested], load=True, **more)
            with live.client() as other:
                if not more:
                    until((live.workspace / "here.py").exists, "the edit")
                assert other.call("list_sessions")["sessions"][0]["phase"] != "connected"
            go.touch()
            answer = client.answer(edit)["result"]["structuredContent"]
            assert answer["ok"], answer
            assert "notLoaded" not in answer["files"][0]
            assert evaluate(client, "import sys; sys.modules['here'].here()") == "1"

    def test_a_load_waits_its_turn_in_a_busy_session_and_runs_once(self, tmp_path):
        user_settings_file(tmp_path).write_text("evaluateTimeoutMs = 1000\nlanes = false\n")
        address = repl("jvm").endpoint
        with (
            serving(tmp_path, "--nrepl", f"x={address}", "--repl", "none") as live,
            live.client() as client,
            live.client(name="other") as other,
        ):
            until_connected(client)
            client.call("evaluate_code", code="(def gate (promise)) (def runs (atom 0)) (ns busy) (ns user)")
            retained = other.call("evaluate_code", code="@gate")
            assert retained["status"] == "running"
            file = {**FORM, "content": "(ns busy)\n(swap! user/runs inc)\n"}
            [row] = client.call("edit_files", edits=[file], load=True)["files"]
            assert row["load"]["status"] == "queued"
            assert retained["evaluationId"] in str(row["load"]["notes"])
            client.call("interrupt_evaluation", evaluationId=retained["evaluationId"])
            identity = row["load"]["evaluationId"]
            until(lambda: client.call("get_evaluation", evaluationId=identity)["status"] == "done", "the load")
            assert client.call("evaluate_code", code="@user/runs")["result"] == "1"

    def test_a_dry_run_loads_nothing(self, client):
        [row] = client.call("edit_files", edits=[FORM], load=True, dryRun=True)["files"]
        assert not row.keys() & {"load", "notLoaded"}

    def test_files_following_a_failed_load_are_listed_but_not_loaded(self, live, client):
        end = live.ending
        texts = {"late": "(ns late (:require [early]))\n(def y 1)\n", "early": "(ns early)\n(nope)\n"}
        edits = [
            {"type": "create", "filePath": f"{name}.{end}", "content": text, "overwrite": True}
            for name, text in texts.items()
        ]
        answer = client.call("edit_files", edits=edits, load=True)
        late, early = answer["files"]
        assert (answer["ok"], answer["error"]["file"].endswith(f"early.{end}")) == (False, True)
        assert "load" in early
        assert late["notLoaded"] == f"the load of early.{end} has not finished. When it has, call load_file"


def test_a_watched_file_is_loaded_once(tmp_path):
    user_settings_file(tmp_path).write_text("watch = true\n")
    with serving(tmp_path, "--repl", "lisp") as live, live.client() as client:
        until_connected(client)
        client.call("evaluate_code", code="(ns seen) (def loads (atom 0)) (ns user)")
        count = {"type": "create", "filePath": "counted.lpy", "content": "(ns counted)\n(swap! seen/loads inc)\n"}
        assert client.call("edit_files", edits=[count], load=True)["ok"]
        (live.workspace / "other.lpy").write_text("(ns seen)\n(def other 1)\n")
        until(lambda: client.call("evaluate_code", code="seen/other")["ok"], "the watcher's load of a later save")
        assert client.call("evaluate_code", code="@seen/loads")["result"] == "1"


def test_code_evaluated_after_a_load_is_not_attributed_to_the_file(live, client, greet):
    assert edit(client, live, GOOD_DAY)["ok"]
    first = client.call("evaluate_code", code="(no-such-name)")
    assert "greet" not in str(first["error"].get("file"))
    second = client.call("evaluate_code", code="(no-such-name)")
    assert "greet" not in str(second["error"].get("file"))


@pytest.mark.parametrize("key", ["py", "py-2"])
def test_the_session_that_loads_an_edit_can_be_selected(tmp_path, key):
    # The same command given twice would start only one REPL. The server treats this one as another command.
    second = f"{sys.executable} {recipes.WORKER_PROGRAM} --dialect python"
    with serving(tmp_path, "--repl", "python", "--repl", second) as live, live.client() as client:
        (live.workspace / "named.py").write_text("rate = 1\n")
        until_connected(client, 2)
        for item in ("py", "py-2"):
            client.call("evaluate_code", code="import named", replSessionKey=item)
        edit = {"filePath": "named.py", "oldText": "1", "newText": "2"}
        answer = client.call("edit_files", edits=[edit], load=True, replSessionKey=key)
        assert "notLoaded" not in str(answer)
        for element in ("py", "py-2"):
            rate = client.call("evaluate_code", code="named.rate", replSessionKey=element)["result"]
            assert rate == ("2" if element == key else "1")
        again = {"filePath": "named.py", "oldText": "2", "newText": "3"}
        refused = client.call("edit_files", edits=[again], load=True, replSessionKey="nowhere")
        assert refused["reason"] == "unknown-session"
        assert (live.workspace / "named.py").read_text() == "rate = 2\n"
