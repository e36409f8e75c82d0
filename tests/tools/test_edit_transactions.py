"""Edits of Lisp as one transaction: a failing test restores files, vars and namespaces without rerunning code."""

import pytest
from live_server import serving, until, until_connected, user_settings_file
from real_repls import repl

SHOP = """\
(ns shop.core)

(swap! shop.seen/loads inc)

(def ^{:doc "What one costs."} price 2)

(defn total [n] (* n price))

(defmulti show :kind)

(defmethod show :a [_] "a")

(defprotocol Sized (size [this]))
"""
SEEN = "(ns shop.seen)\n(def loads (atom 0))\n"
TESTS = {
    "jvm": "(ns shop.core-test (:require [clojure.test :refer [deftest is]] [shop.core :as core]))\n\n"
    "(deftest totals (is (= 4 (core/total 2))))\n",
    "lisp": "(ns shop.core-test (:require [basilisp.test :refer [deftest is]] [shop.core :as core]))\n\n"
    "(deftest totals (is (= 4 (core/total 2))))\n",
}
ENDING = {"jvm": "clj", "lisp": "lpy"}
INTEGER = {"jvm": "Long", "lisp": "python/int"}
PICTURE = """(let [n (find-ns 'shop.core) vs (ns-interns n)]
 [(sort (map str (keys vs))) (into {} (map (fn [[k v]] [k @v]) vs)) (into {} (map (fn [[k v]] [k (meta v)]) vs))
  (methods shop.core/show) (sort (map str (keys (ns-aliases n)))) (boolean (find-ns 'shop.fresh))])"""


@pytest.fixture(scope="module", params=["lisp", "jvm"])
def live(request, tmp_path_factory):
    """Run a server with a REPL of that kind, in which the files of the tests are loaded."""
    folder = tmp_path_factory.mktemp(request.param)
    options = ("--nrepl", f"x={repl(request.param).endpoint}", "--repl", "none")
    with serving(folder, *options) as running:
        running.kind, running.ending = request.param, ENDING[request.param]
        with running.client() as client:
            until_connected(client)
            for name, text in (("seen", SEEN), ("core", SHOP)):
                assert client.call("load_file", filePath=str(write(running, name, text)))["ok"]
            assert client.call("load_file", filePath=str(write(running, "core_test", TESTS[running.kind])))["ok"]
        yield running


def write(live, name, text):
    file = live.workspace / "src" / "shop" / f"{name}.{live.ending}"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def evaluate(client, code):
    answer = client.call("evaluate_code", code=code)
    assert answer["ok"], answer
    return answer["result"]


@pytest.fixture
def core(live, client):
    return write(live, "core", SHOP)


@pytest.fixture
def as_before(client, core):
    """Return whether everything is as it was when the test began, including the identity of each value."""
    evaluate(client, "(ns user)")
    evaluate(client, f"(def before {PICTURE})")
    loads = evaluate(client, "@shop.seen/loads")
    same = f"(= before {PICTURE})"

    def is_as_before(text=SHOP):
        now = evaluate(client, same), evaluate(client, "@shop.seen/loads"), core.read_text()
        return now == ("true", loads, core.read_text() if text is None else text)

    return is_as_before


def edit(client, core, *edits, detail=False, **arguments):
    path = f"src/shop/{core.name}"
    return client.call(
        "edit_files", edits=[{"filePath": path, **item} for item in edits], detail=detail, load=True, **arguments
    )


PRICE = {"type": "replace", "line": 5, "targetLineText": '(def ^{:doc "What one costs."} price 2)'}
DEARER = {**PRICE, "newForm": "(def price 3)"}
MORE = {
    "type": "append",
    "code": '(def added 1)\n\n(defmethod show :b [_] "b")\n\n(defmethod show :a [_] "A")\n\n(defmacro twice [x] x)',
}


def test_failing_tests_restore_files_and_definitions(live, client, core, as_before):
    new = {"type": "create", "filePath": f"src/shop/fresh.{live.ending}", "content": "(ns shop.fresh)\n(def x 1)\n"}
    answer = edit(client, core, DEARER, MORE, new, test=["shop.core-test"], onFailure="restore")
    assert (answer["ok"], answer["reason"]) == (False, "tests-failed"), answer
    assert [row["test"] for row in answer["results"]] == ["totals"]
    assert answer["restored"].startswith("files and definitions are as before")
    assert as_before()
    assert evaluate(client, "[(shop.core/total 2) (shop.core/show {:kind :a})]") == '[4 "a"]'
    assert evaluate(client, "(:doc (meta #'shop.core/price))") == '"What one costs."'


@pytest.mark.parametrize("broken", ["(strr 1)", "(extend-protocol Sized INTEGER (size [n] n)) (throw (ex-info 1 {}))"])
def test_a_failed_load_restores_definitions_but_keeps_the_edited_file(live, client, core, as_before, broken):
    code = broken.replace("INTEGER", INTEGER[live.kind])
    answer = edit(client, core, DEARER, MORE, {"type": "append", "code": code}, onFailure="restore", detail=True)
    assert (answer["ok"], answer["reason"], "restored" in answer) == (False, "evaluation-failed", False), answer
    assert answer["hint"].startswith("see error. Other effects of the code that ran remain")
    assert as_before(text=None)
    assert code in core.read_text()
    refused = client.call("evaluate_code", code="(shop.core/size 1)")
    assert not refused["ok"], "what the protocol was extended by is gone"


def test_a_load_that_never_started_reports_what_blocked_it(tmp_path):
    user_settings_file(tmp_path).write_text("evaluateTimeoutMs = 1000\n")
    with serving(tmp_path, "--nrepl", f"x={repl('lisp').endpoint}", "--repl", "none") as running:
        running.ending = "lpy"
        file = write(running, "queued", "(ns shop.queued)\n\n(def price 2)\n")
        with running.client() as client, running.client(name="ann") as ann:
            until_connected(client)
            assert client.call("load_file", filePath=str(file))["ok"]
            wait = '(.sleep (python/__import__ "time") 60)'
            retained = ann.call("evaluate_code", code=wait)
            assert retained["ok"], retained
            retained = retained["evaluationId"]
            until(lambda: ann.call("get_evaluation", evaluationId=retained)["status"] == "running", "it to run")
            change = {"type": "append", "code": "(def added 1)"}
            answer = edit(client, file, change, onFailure="restore")
            client.call("interrupt_evaluation", evaluationId=retained)
    assert (answer["ok"], answer["reason"]) == (False, "timed-out"), answer
    words = "the load of src/shop/queued.lpy never started and was removed from the queue: "
    assert answer["message"].startswith(f"{words}the session has been occupied by evaluation {retained} of ann for ")
    assert "interrupt_evaluation" in answer["hint"]
    assert answer["kept"].startswith("the edit is kept although its load failed")
    assert "added" in file.read_text()


def test_an_edit_whose_tests_pass_is_kept_and_reports_their_number(client, core, as_before):
    same = {**PRICE, "newForm": "(def price (+ 1 1))"}
    answer = edit(client, core, same, test=["affected"], onFailure="restore")
    assert answer["ok"], answer
    assert (answer["tests"]["passed"], answer["chosen"]) == (1, "namespaces that require the changed ones"), answer
    assert "(+ 1 1)" in core.read_text()
    assert edit(client, core, {**PRICE, "targetLineText": "(def price (+ 1 1))", "newForm": PRICE["targetLineText"]})[
        "ok"
    ]


def test_tests_in_a_separate_directory_are_found_by_file_name(live, client):
    if live.kind == "jvm":
        pytest.skip("namespaces of Clojure's tests are named after the namespace")
    file = write(live, "lone", "(ns shop.lone)\n\n(def price 2)\n")
    tests = live.workspace / "tests" / "test_lone.lpy"
    tests.parent.mkdir(exist_ok=True)
    tests.write_text(TESTS["lisp"].replace("shop.core-test", "tests.test-lone").replace("shop.core", "shop.lone"))
    text = tests.read_text().replace("(core/total 2)", "(* 2 core/price)")
    tests.write_text(text)
    assert client.call("load_file", filePath=str(file))["ok"]
    price = {"type": "replace", "line": 3, "targetLineText": "(def price 2)"}
    answer = edit(client, file, {**price, "newForm": "(def price 3)"}, test=["affected"], onFailure="restore")
    assert (answer["ok"], answer["reason"], "restored" in answer) == (False, "tests-failed", True), answer
    answer = edit(client, file, {**price, "newForm": "(def price (+ 1 1))"}, test=["affected"], onFailure="restore")
    assert (answer["ok"], answer["tests"]["passed"]) == (True, 1), answer


def test_an_edit_without_tests_is_kept(live, client):
    text = "(ns shop.untested)\n\n(def price 2)\n"
    file = write(live, "untested", text)
    assert client.call("load_file", filePath=str(file))["ok"]
    change = {"type": "append", "code": "(def added 1)"}
    answer = edit(client, file, change, test=["affected"], onFailure="restore")
    assert (answer["ok"], "notTested" in answer, "added" in file.read_text()) == (True, True, True), answer


def test_undoing_a_loaded_edit_loads_the_previous_code(live, client):
    file = write(live, "undone", "(ns shop.undone)\n\n(def price 2)\n")
    assert client.call("load_file", filePath=str(file))["ok"]
    change = {"type": "replace", "line": 3, "targetLineText": "(def price 2)", "newForm": "(def price 9)"}
    assert edit(client, file, change)["ok"]
    assert "note" not in client.call("undo_edit")
    assert evaluate(client, "shop.undone/price") == "2"
    assert edit(client, file, {"type": "append", "code": "(def added 1)"})["ok"]
    note = client.call("undo_edit")["note"]
    assert note == f"x still runs the edited code: load_file src/shop/{file.name}", "names are not removed by a load"
    assert client.call("load_file", filePath=str(file), prune=True)["ok"]
    evaluate(client, "(ns shop.undone)")
    evaluate(client, "(def tried 1)")
    evaluate(client, "(ns user)")
    path = f"src/shop/{file.name}"
    assert client.call("edit_files", edits=[{**change, "filePath": path}])["ok"]
    assert "note" not in client.call("undo_edit"), "it was never loaded"


@pytest.fixture
def tests_pass_afterwards(client, core):
    """Leave the tests with a passing last run, which other edits of this module start from."""
    yield
    core.write_text(SHOP)
    assert client.call("load_file", filePath=str(core))["ok"]
    assert client.call("run_tests", paths=["shop.core-test"])["ok"]


def test_failing_tests_of_an_edit_that_is_not_reverted_are_not_called_flaky(client, core, tests_pass_afterwards):
    answer = edit(client, core, DEARER, test=["shop.core-test"])
    assert (answer["ok"], answer["reason"], "flaky" in answer) == (False, "tests-failed", False), answer
    assert core.read_text() != SHOP


def test_a_test_with_an_outdated_failure_runs_with_the_previous_definitions(client, core, tests_pass_afterwards):
    assert not edit(client, core, DEARER, test=["shop.core-test"])["ok"]
    core.write_text(SHOP)
    assert client.call("load_file", filePath=str(core))["ok"]
    answer = edit(client, core, DEARER, MORE, test=["shop.core-test"], onFailure="restore")
    assert (answer["ok"], [row["test"] for row in answer["results"]]) == (False, ["totals"]), answer
    assert answer["restored"].startswith("files and definitions are as before"), answer
    assert core.read_text() == SHOP
    assert evaluate(client, "[(shop.core/total 2) (shop.core/show {:kind :a})]") == '[4 "a"]'
    assert client.call("run_tests", paths=["shop.core-test"])["ok"]


def test_an_edit_is_kept_and_loaded_if_its_failed_test_also_fails_with_the_previous_definitions(
    client, core, tests_pass_afterwards
):
    core.write_text(SHOP.replace("price 2", "price 3"))
    assert client.call("load_file", filePath=str(core))["ok"]
    dearer = {**PRICE, "targetLineText": '(def ^{:doc "What one costs."} price 3)', "newForm": "(def price 4)"}
    answer = edit(client, core, dearer, test=["shop.core-test"], onFailure="restore")
    assert (answer["ok"], answer["failedBefore"]) == (False, ["shop.core-test/totals"]), answer
    assert answer["kept"] == "the edit is kept: the failing tests had already failed before it", answer
    assert "price 4" in core.read_text()
    assert evaluate(client, "shop.core/price") == "4"


def test_an_edit_is_kept_if_its_failed_test_did_not_exist_before(live, client, core, tests_pass_afterwards):
    tests = write(live, "core_test", TESTS[live.kind])
    new = {"type": "append", "filePath": f"src/shop/{tests.name}", "code": "(deftest added (is (= 1 2)))"}
    answer = edit(client, core, new, test=["shop.core-test"], onFailure="restore")
    assert answer["kept"] == "the edit is kept: no failed test is known to have passed before the edit", answer
    assert "added" in tests.read_text()
    write(live, "core_test", TESTS[live.kind])
    assert client.call("load_file", filePath=str(tests), prune=True)["ok"]
