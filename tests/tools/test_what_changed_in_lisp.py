"""Drift as agents see it in Lisp: where loaded code differs from its files, and which old objects survive."""

import json
import re
import time

import pytest
from all_tools import BY_NAME
from jsonschema import validate
from live_server import serving, until, until_connected
from real_repls import repl

LOW = """\
(ns shop.low)
(defprotocol Shape (area [this]))
(defmulti price :kind)
(defmethod price :book [x] 1)
(defonce limit 10)
(def rate 2)
(defn cost [x] (* x rate))
"""
HIGH = {
    "jvm": """\
(ns shop.high (:require [shop.low :as low :refer [cost]]))
(def cache (atom {:a 1}))
(defrecord Square [a] low/Shape (area [_] (* a a)))
(defn total [x] (cost x))
""",
    "lisp": """\
(ns shop.high (:require [shop.low :as low :refer [cost]]))
(def cache (atom {:a 1}))
(deftype Square [a] low/Shape (area [_] (* a a)))
(defn total [x] (cost x))
""",
}
"""Namespaces without records in Lisp, because each takes Basilisp half a second of processor time to compile."""
CIRCLE_FORM = "(defrecord Circle [r])\n"
IMPORT = {"jvm": "(import '[shop.low Circle])\n", "lisp": "(def Circle low/Circle)\n"}
ENDING = {"jvm": "clj", "lisp": "lpy"}
TEST = {"jvm": "clojure.test", "lisp": "basilisp.test"}
ONCE = {"jvm": ("limit", "price"), "lisp": ("limit",)}
CIRCLE = {"jvm": "shop.low.Circle", "lisp": "shop.low/Circle"}


@pytest.fixture(scope="module", params=["jvm", "lisp"])
def live(request, tmp_path_factory):
    """Run a server with a REPL of that kind."""
    options = ("--nrepl", f"x={repl(request.param).endpoint}", "--repl", "none")
    with serving(tmp_path_factory.mktemp(request.param), *options) as running:
        running.kind = request.param
        with running.client() as client:
            until_connected(client)
        yield running


HINT = "to load the namespaces that require this one too, pass dependents: true"


def path(live, name):
    return live.workspace / f"{name}.{ENDING[live.kind]}"


def load(live, client, name, text=None):
    if text is not None:
        path(live, name).write_text(text)
    answer = client.call("load_file", filePath=str(path(live, name)))
    assert answer["ok"], answer
    return [note for note in answer.get("notes", []) if not note.startswith("same result")]


@pytest.fixture(autouse=True)
def loaded(live, client):
    """Load both namespaces again."""
    client.call("evaluate_code", code="(remove-ns 'shop.high) (remove-ns 'shop.low)")
    load(live, client, "low", LOW)
    load(live, client, "high", HIGH[live.kind])


def differences(client):
    answer = client.call("what_changed")
    validate(answer, BY_NAME["what_changed"].output)
    assert answer["count"] == len(answer["differences"])
    return answer["differences"]


def test_edits_and_redefinitions_are_reported_with_their_caller_until_a_load(live, client):
    assert differences(client) == []
    path(live, "low").write_text(LOW.replace("(* x", "; why\n (+ x").replace("rate 2", "rate  2") + "(defn new [])\n")
    assert differences(client) == ["shop.low: edited in the file since the load: cost; only in the file: new"]
    cost = client.call("evaluate_code", code="(defn cost [x] 5)", namespace="shop.low", who="ann")["evaluationId"]
    extra = client.call("evaluate_code", code="(def extra 1)", namespace="shop.low", who="bob")["evaluationId"]
    [line] = differences(client)
    assert f"redefined in the REPL: cost (ann, {cost}, " in line
    assert f"only in the REPL: extra (bob, {extra}, " in line
    assert line.endswith("; only in the file: new")
    load(live, client, "low", LOW.replace("rate 2", "rate 3"))
    client.call("evaluate_code", code="(ns-unmap 'shop.low 'extra)")
    load(live, client, "high")
    assert differences(client) == []
    same = live.run("drift")
    assert (same.returncode, same.stdout, same.stderr) == (0, "the loaded code matches the files\n", "")
    path(live, "low").write_text(LOW)
    other = live.run("drift", "--json")
    assert other.returncode == 1
    assert json.loads(other.stdout)["differences"] == ["shop.low: edited in the file since the load: rate"]


def test_definitions_that_a_load_does_not_update_are_reported_by_loads_and_test_runs(live, client):
    edited = LOW.replace("limit 10", "limit 11").replace("price :kind", "price :sort")
    notes = load(live, client, "low", edited)
    kept = [
        (
            f"shop.low/{name} is defined only once, so a load does not update it. Remove it with ns-unmap, then call "
            "load_file"
        )
        for name in ONCE[live.kind]
    ]
    assert set(kept) < set(differences(client))
    assert set(kept) < set(notes)
    client.call("evaluate_code", code="(ns-unmap 'shop.low 'limit) (ns-unmap 'shop.low 'price)")
    load(live, client, "low")
    load(live, client, "high")
    assert differences(client) == []
    path(live, "low").write_text(LOW)
    test = f"(ns shop.low-test (:require [{TEST[live.kind]} :refer [deftest is]]))\n(deftest adds (is (= 2 (+ 1 1))))\n"
    load(live, client, "low_test", test)
    run = client.call("run_tests", namespace="shop.low-test", timeoutMs=60_000)
    assert run["passed"] == 1
    price = [] if "price" in ONCE[live.kind] else ["shop.low was edited since its load (price): load_file it"]
    assert set(run["notes"]) == {*kept, *price}


def test_old_types_and_what_refers_to_them_are_reported(live, client):
    load(live, client, "low", LOW + CIRCLE_FORM)
    high = HIGH[live.kind].replace("deftype", "defrecord").replace("{:a 1}", "{:a (low/->Circle 1)}")
    load(live, client, "high", high.replace("(def cache", f"{IMPORT[live.kind]}(def cache"))
    notes = load(live, client, "low")
    message = {
        f"shop.high/Circle is still the old {CIRCLE[live.kind]}: load shop.high as well",
        "shop.high/Square implements the old protocol shop.low/Shape. Load shop.high as well",
    }
    for found in (notes, differences(client)):
        [living] = set(found) - message - {HINT}
        # In Basilisp, objects of earlier tests may still exist, and all of them are found.
        assert re.fullmatch(r"(1 of .* still exists|\d of .* still exist)", living)
        assert "of the old class shop.low.Circle" in living
        assert message < set(found)
    assert not message & set(load(live, client, "high"))
    assert not message & set(differences(client))


def test_dependents_load_in_order_and_removed_names_are_unmapped_on_request(live, client):
    top = "(ns shop.top (:require [shop.high :as high]))\n(defn all [] (high/total 2))\n"
    load(live, client, "top", top)
    path(live, "low").write_text(LOW.replace("(def rate 2)\n(defn cost [x] (* x rate))", "(defn cost [x] (* x 7))"))
    file = str(path(live, "low"))
    first = client.call("load_file", filePath=file)["notes"]
    assert HINT in first
    assert "no longer defined in the file: shop.low/rate. To remove such names, pass prune: true" in first
    client.call("evaluate_code", code="(def extra 1)", namespace="shop.low", who="bob")
    notes = client.call("load_file", filePath=file, dependents=True, prune=True)["notes"]
    done = ["removed, because the file no longer defines it: rate", "also loaded: shop.high, shop.top"]
    assert [note for note in notes if note in done] == done
    assert not any("still the old" in note or "any more" in note for note in notes)
    code = "[(shop.top/all) (ns-resolve 'shop.low 'rate) (some? (ns-resolve 'shop.low 'extra))]"
    assert client.call("evaluate_code", code=code)["result"] == "[14 nil true]"
    answers = [item["text"] for item in client.call("repl_output_log", query=EVALUATED)["result"]]
    assert "(ns-unmap 'shop.low 'rate)" in answers
    client.call("evaluate_code", code="(remove-ns 'shop.top)")


EVALUATED = """[:find [(pull ?e [:output/text]) ...] :where [?e :output/category "evaluatedCode"]]"""


def test_a_dependent_namespace_that_fails_to_load_is_reported_in_the_answer(live, client):
    path(live, "high").write_text(HIGH[live.kind] + "(no-such-function)\n")
    answer = client.call("load_file", filePath=str(path(live, "low")), dependents=True)
    assert answer["reason"] == "evaluation-failed"
    assert "no-such-function" in answer["error"]["message"]
    assert "shop.high did not load" in answer["notes"]


def test_a_file_loaded_by_evaluated_code_counts_as_loaded(live, client):
    file = path(live, "other")
    file.write_text("(ns shop.other)\n(def a 1)\n(def b 2)\n")
    # The clock of the file system may be one tick behind.
    until(lambda: time.time_ns() > file.stat().st_mtime_ns + 100_000_000, "the next tick")
    answer = client.call("evaluate_code", code=f'(load-file "{file}")')
    assert answer["ok"], answer
    assert not any("shop.other" in line for line in differences(client))
    file.write_text("(ns shop.other)\n(def a 1)\n(def b 3)\n")
    assert "shop.other: edited in the file since the load: b" in differences(client)
    client.call("evaluate_code", code="(remove-ns 'shop.other)")


IN_WORKSPACE = """\
(let [found (clojure.lang.DynamicClassLoader. (clojure.lang.RT/baseLoader))]
  (.addURL found (java.net.URL. "file:{0}/"))
  (System/setProperty "java.class.path" (str (System/getProperty "java.class.path") java.io.File/pathSeparator "{0}"))
  (with-bindings {{clojure.lang.Compiler/LOADER found}} {1}))
"""
"""Code that finds the namespaces of a folder, as where that was on the class path from the start."""


def require(live, client, form, **more):
    """Evaluate a form that requires namespaces of the workspace."""
    code = IN_WORKSPACE.format(live.workspace, form)
    if live.kind == "lisp":
        code = f'(import sys) (.insert sys/path 0 "{live.workspace}") {form}'
    answer = client.call("evaluate_code", code=code, **more)
    assert answer["ok"], answer


FORGET = {
    "jvm": "(remove-ns 'shop.asked)",
    "lisp": '(remove-ns \'shop.asked) (import sys) (.pop sys/modules "shop.asked" nil)',
}


@pytest.fixture
def required_file(live, client):
    """Return a namespace that was loaded by `require` and whose path follows from its name."""
    file = live.workspace / "shop" / f"asked.{ENDING[live.kind]}"
    file.parent.mkdir(exist_ok=True)
    file.write_text("(ns shop.asked)\n(defn price [x] (* 2 x))\n(defn other [x] x)\n")
    until(lambda: time.time_ns() > file.stat().st_mtime_ns + 100_000_000, "the next tick")
    require(live, client, "(require 'shop.asked :reload)")
    yield file
    client.call("evaluate_code", code=FORGET[live.kind])
    file.unlink()


def test_a_require_with_reload_counts_as_a_load(live, client, required_file):
    required_file.write_text(required_file.read_text().replace("* 2 x", "* 3 x"))
    assert "shop.asked: edited in the file since the load: price" in differences(client)
    until(lambda: time.time_ns() > required_file.stat().st_mtime_ns + 100_000_000, "the next tick")
    require(live, client, "(require 'shop.asked :reload)")
    assert client.call("evaluate_code", code="(shop.asked/price 1)")["result"] == "3"
    assert not any("shop.asked" in line for line in differences(client))
    required_file.write_text(required_file.read_text().replace("[x] x", "[x] (inc x)"))
    assert "shop.asked: edited in the file since the load: other" in differences(client)


def test_a_caller_using_a_required_namespace_is_notified_who_redefined_it(live, client, other, required_file):
    client.call("evaluate_code", code="0", who="bob")
    require(live, other, "(require '[shop.asked :as a] :reload)", who="ann")
    client.call("evaluate_code", code="(defn price [x] 7)", namespace="shop.asked", who="bob")
    used = other.call("evaluate_code", code="(shop.asked/price 1)", who="ann")
    assert used["result"] == "7"
    assert any("bob" in note and "price" in note for note in used.get("notes", [])), used
    require(live, other, "(require 'shop.asked :reload)", who="ann")
    again = client.call("evaluate_code", code="(shop.asked/price 1)", who="bob")
    assert again["result"] == "2"
    assert any("ann" in note and "shop.asked" in note for note in again.get("notes", [])), again


def of_modules(client):
    """Return the differences of modules, without leftovers of other tests' loads."""
    return [line for line in differences(client) if line.startswith("shop.") and "/" not in line.partition(": ")[0]]


def test_rebound_added_and_removed_names_are_reported_with_their_caller(live, client):
    assert of_modules(client) == []
    evaluated = [
        client.call("evaluate_code", code=code, namespace="shop.low", who="bob")["evaluationId"]
        for code in ("(alter-var-root #'rate inc)", "(defmethod price :pen [x] 2)")
    ]
    (line,) = of_modules(client)
    assert f"redefined in the REPL: rate (bob, {evaluated[0]}, " in line
    assert f"only in the REPL: price :pen (bob, {evaluated[1]}, " in line


def test_old_functions_are_found_where_they_are_referenced(live, client):
    retained = "(ns shop.held (:require [shop.low :as low]))\n(def one low/cost)\n(def many {:a [low/cost]})\n"
    load(
        live,
        client,
        "held",
        retained + "(def made (comp low/cost inc))\n(def kept (atom low/cost))\n(defn other [] 1)\n",
    )
    try:
        load(live, client, "low", LOW.replace("(* x rate)", "(+ x rate)"))
        load(live, client, "high")
        reported = [line for line in differences(client) if line.startswith("shop.held")]
        line = "shop.held/{} is still the old shop.low/cost: load shop.held as well"
        assert sorted(reported) == [line.format(name) for name in ("kept", "made", "many", "one")]
        load(live, client, "held")
        assert [line for line in differences(client) if line.startswith("shop.held")] == []
    finally:
        client.call("evaluate_code", code="(remove-ns 'shop.held)")


def test_a_deleted_or_unparsable_file_is_reported(live, client):
    path(live, "high").write_text("(ns shop.high\n(defn total [x]")
    assert of_modules(client) == [f"shop.high: no longer parses: high.{ENDING[live.kind]}"]
    path(live, "high").unlink()
    assert of_modules(client) == [f"shop.high: deleted: high.{ENDING[live.kind]}"]


USED = "shop.low was edited since its load (cost): load_file it"


def test_code_that_uses_an_edited_definition_is_noted_once(live, client):
    assert of_modules(client) == []
    path(live, "low").write_text(LOW.replace("(* x rate)", "(+ x rate)"))
    assert USED not in client.call("evaluate_code", code="(+ 1 2)").get("notes", [])
    assert USED in client.call("evaluate_code", code="(shop.low/cost 1)")["notes"]
    assert USED not in client.call("evaluate_code", code="(shop.low/cost 2)").get("notes", [])
    load(live, client, "low")
    path(live, "low").write_text(LOW.replace("rate 2", "rate 3").replace("(* x rate)", "(+ x rate)"))
    answer = client.call("evaluate_code", code="(shop.low/cost shop.low/rate)")["notes"]
    assert USED.replace("cost", "rate") in answer


MIXED = {
    "jvm": """\
(ns shop.mixed (:require [clojure.string :as string]))
(declare total)
(defprotocol Written (-write [this out]))
(defmacro defword [name text] `(def ~name ~text))
(defn- helper [x] (string/trim x))
(defword greeting "hello")
(defn shown [x] (helper x))
(extend java.lang.Long Written {:-write (fn [this out] [this out])})
(extend-protocol Written String (-write [this out] (shown this)))
(definterface Reads (^int readOne []))
#?(:clj (defn only-here [x] (shown x)) :default nil)
(def ^{:dynamic true} *width* 80)
(when-not (System/getProperty "unset") (def later 1))
(defn total [xs] (reduce + (map only-here xs)))
""",
    "lisp": """\
(ns shop.mixed (:require [basilisp.string :as string]))
(declare total)
(defprotocol Written (-write [this out]))
(defmacro defword [name text] `(def ~name ~text))
(defn- helper [x] (string/trim x))
(defword greeting "hello")
(defn shown [x] (helper x))
(extend python/int Written {:-write (fn [this out] [this out])})
#?(:lpy (defn only-here [x] (shown x)) :default nil)
(def ^:dynamic *width* 80)
(defn total [xs] (reduce + (map only-here xs)))
""",
}
UNCHANGING = ("(declare",)
"""Forms whose edit or removal changes nothing that is loaded."""


def of(client, namespace):
    """Return the differences of one namespace."""
    return [line for line in differences(client) if line.startswith(namespace)]


def variants(form):
    """Return the file with a form removed, and with it edited."""
    edited = form.rstrip()[:-1] + " :edited)\n"
    if form.startswith("#?"):
        edited = form.replace("(shown x)", "(shown :edited)")
    return "", edited


def test_every_removed_or_edited_form_is_reported_in_a_mixed_file(live, client):
    text = MIXED[live.kind]
    file = live.workspace / f"mixed.{'cljc' if live.kind == 'jvm' else 'lpy'}"
    file.write_text(text)
    assert client.call("load_file", filePath=str(file))["ok"]
    assert of(client, "shop.mixed") == []
    silent = []
    for form in text.splitlines(keepends=True):
        for variant in variants(form):
            file.write_text(text.replace(form, variant))
            if not of(client, "shop.mixed"):
                silent.append(variant or form)
    assert [form for form in silent if not form.startswith(UNCHANGING)] == []
    file.write_text(text)
    assert of(client, "shop.mixed") == []
    file.unlink()
    client.call("evaluate_code", code="(remove-ns 'shop.mixed)")


def test_an_edited_ns_form_is_reported_until_it_is_loaded(live, client):
    client.call("evaluate_code", code="(ns shop.low)\n(ns user)")
    assert of(client, "shop.low") == []
    path(live, "low").write_text(LOW.replace("(ns shop.low)", '(ns shop.low "Prices.")'))
    assert of(client, "shop.low:") == ["shop.low: edited in the file since the load: ns form"]
    load(live, client, "low")
    assert of(client, "shop.low:") == []
