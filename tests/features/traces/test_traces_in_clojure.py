"""Clojure calls on the JVM, recorded by wrapped vars: reported like Python calls, with nothing left wrapped."""

import json
from contextlib import contextmanager

import pytest
from live_server import serving, until_connected
from real_repls import repl

from codriver.features.traces.outline import MORE_CALLS_HINT
from codriver.tools.answers.lean_answers import SECOND_FAILURE_PREFIX

TRACED_AGAIN = SECOND_FAILURE_PREFIX + (
    'to record the calls in the next run, pass trace: "true". To compare two runs, call get_evaluation with diffWith'
)


SHOP = """\
(ns traced.shop)
(defn price [item amount] (* (:price item) amount (if (> amount 10) 0.8 1)))
(defn total [items] (reduce + (map (fn [[item amount]] (price item amount)) items)))
(defn login [user password & more] {:user user :password password :api-key "k"})
(defn fails [] (price {:price nil} 3))
(defn fact [n] (if (< n 2) 1 (*' n (fact (dec n)))))
(defn deep [n] (if (pos? n) (inc (deep (dec n))) 0))
(defn lazily [xs] (map (fn [x] (println "computed" x) (price {:price x} 1)) xs))
(defn first-two [x & more] (take 2 more))
(defn lost [x] (throw (ex-info "no such item" {:item x})))
(defn twice ^long [^long n] (* 2 n))
(defn uses-twice [n] (twice n))
(defmulti area :kind)
(defmethod area :square [{:keys [side]}] (* side side))
(defprotocol Named (called [this]))
(defrecord Item [name price] Named (called [_] name))
(deftype Hostile [] Object (toString [_] (throw (Error. "no text"))))
(defn adding [n]
  (fn [step] (fn ([] (step)) ([to] (step to)) ([to x] (step to (+ x n))))))
(def half (partial price {:price 0.5}))
"""
UNRECORDED = "constructors (3), multimethods (1), primitive signatures (1), protocol methods (1), stored functions (1)"
NOT_RECORDED = f"not recorded: {UNRECORDED}"
TESTS = """\
(ns traced.shop-test (:require [clojure.test :refer [deftest is]] [traced.shop :as shop]))
(deftest totals (is (= 36 (shop/total [[{:price 2} 20]]))))
(deftest others (is (= 1 (shop/price {:price 1} 1))))
"""


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    options = ("--nrepl", f"clj={repl('jvm').endpoint}", "--repl", "none")
    with serving(tmp_path_factory.mktemp("clojure"), *options) as running:
        with running.client() as client:
            until_connected(client)
            for name, text in {"src/traced/shop.clj": SHOP, "test/traced/shop_test.clj": TESTS}.items():
                (running.workspace / name).parent.mkdir(parents=True, exist_ok=True)
                (running.workspace / name).write_text(text)
                assert client.call("load_file", filePath=name)["ok"]
        yield running


@pytest.fixture
def client(live):
    with live.client() as connected:
        yield connected


def traced(client, code, trace="true", **more):
    return client.call("evaluate_code", code=code, trace=trace, namespace="traced.shop", detail=True, **more)


def call_lines(client, code, trace="true"):
    """Return the lines about calls, without the first line and without invisible characters."""
    return [
        line
        for line in traced(client, code, trace)["trace"].splitlines()[1:]
        if not line.startswith(("not recorded", "longest self times"))
    ]


def walked(client, answer, **where):
    return client.call("get_evaluation", evaluationId=answer["evaluationId"], part="trace", **where)[
        "text"
    ].splitlines()


def test_an_answer_lists_the_calls_in_few_lines(client):
    answer = traced(client, "(total (repeat 3 [{:price 2} 20]))", "traced")
    lines = answer["trace"].splitlines()
    assert [line for line in lines if not line.startswith("longest self times")] == [
        f"run {answer['evaluationId']}: 4 calls to 2 functions",
        "#1 (shop/total ([map of 1 20] [map of 1 20] [map of 1 20])) -> 96.0",
        "  #2 x3 (shop/price {:price 2} 20) -> 32.0",
        NOT_RECORDED,
    ]
    assert answer["result"] == "96.0"


@pytest.mark.parametrize("trace", ["price", "traced.shop/price", ["price"], "fails, price"])
def test_function_names_are_accepted_in_any_form(client, trace):
    assert call_lines(client, "(total [[{:price 2} 20]])", trace) == ["#1 (shop/price {:price 2} 20) -> 32.0"]


def test_a_namespace_is_selected_by_its_name_or_a_prefix(client):
    for name in ("traced.shop", "traced"):
        assert call_lines(client, "(price {:price 2} 1)", name) == ["#1 (shop/price {:price 2} 1) -> 2"]
    assert call_lines(client, "(clojure.string/join [1 2])", "clojure.string") == ['#1 (string/join [1 2]) -> "12"']
    answer = traced(client, '(clojure.string/starts-with? "ab" "a")', "clojure.string")
    assert "functions that are linked directly (" in answer["trace"]
    assert call_lines(client, "(map inc [1])", "clojure.core no.such/name") == [
        "no loaded function matches clojure.core, no.such/name"
    ]


def test_calls_during_printing_are_recorded_and_no_lazy_sequence_is_realized(client):
    assert call_lines(client, "(lazily [1 2])") == [
        "#1 (shop/lazily [1 2]) -> (1 2)",
        "#2 (shop/price {:price 1} 1) -> 1",
        "#3 (shop/price {:price 2} 1) -> 2",
    ]
    answer = traced(client, "(do (lazily (lazily [1 2])) nil)")
    assert "stdout" not in answer
    assert walked(client, answer, path=[2])[0].startswith("#2 (traced.shop/lazily xs=<lazy>) -> <lazy>")
    assert call_lines(client, "(count (apply first-two 1 (map #(do (assert (< % 40)) %) (range 100))))") == [
        "#1 (shop/first-two 1 0 1 2 3 4 5 6 …) -> (0 1)"
    ]


def test_describing_values_runs_no_user_code(client):
    code = (
        "(do (defmethod print-method Item [_ w] (assert false)) (first-two (->Item 1 2) (Hostile.) area (atom 1)) nil)"
    )
    try:
        (line,) = call_lines(client, code)
        assert line == "#1 (shop/first-two #Item{:name 1, :price 2} <Hostile> <MultiFn> <Atom 1>) -> <lazy>"
    finally:
        traced(client, "(remove-method print-method Item)")


def test_secrets_are_redacted(client):
    answer = traced(client, '(login "me" "hunter2")')
    assert "hunter2" not in json.dumps(answer["trace"])
    whole = '#1 (traced.shop/login user="me" password=<not shown>) -> {:user "me", :password <not shown>, :api-key '
    assert walked(client, answer, path=[1])[0].startswith(whole + "<not shown>}")


def test_a_failure_names_the_call_that_threw(client):
    answer = traced(client, "(do (fails))")
    (line,) = [item for item in answer["trace"].splitlines() if item.startswith("raised first")]
    assert line.startswith("raised first in #2 (shop/price {:price nil} 3): NullPointe")
    assert call_lines(client, "(lost :book)")[0].endswith('raised ExceptionInfo("no such item" {:item :book})')


def test_recursion_is_recorded_to_its_depth_with_a_limit_per_function(client):
    answer = traced(client, "(deep 1500)")
    assert answer["result"] == "1500"
    assert answer["trace"].splitlines()[0].endswith(f": 200+ calls to 1 function{MORE_CALLS_HINT}")
    answer = traced(client, "(fact 3)")
    assert walked(client, answer, path=[2]) == [
        "#2 (traced.shop/fact n=2) -> 2, " + walked(client, answer, path=[2])[0].split(", ", 1)[1],
        "  #3 (shop/fact 1) -> 1",
    ]


def test_a_function_with_a_primitive_signature_still_works(client):
    answer = traced(client, "(uses-twice 4)")
    assert (answer["result"], answer["trace"].splitlines()[1]) == ("8", "#1 (shop/uses-twice 4) -> 8")


def test_calls_in_futures_are_recorded_but_calls_in_other_sessions_are_not(client):
    answer = traced(client, "@(future (price {:price 1} 2))")
    assert answer["trace"].splitlines()[1] == "#1 (shop/price {:price 1} 2) -> 2"
    traced(client, "(do (def gate (promise)) (def ready (promise)))")
    begin = client.begin_call("evaluate_code", code="(do (deliver ready 1) @gate (fact 1))", trace="true",
                              namespace="traced.shop", detail=True)  # fmt: skip
    other = {"code": "(do @ready [(price {:price 9} 1) (deliver gate 1)])", "namespace": "traced.shop"}
    assert client.call("evaluate_code", **other, isolate=True)["ok"]
    lines = client.answer(begin)["result"]["structuredContent"]["trace"].splitlines()
    assert lines[1] == "#1 (shop/fact 1) -> 1"


@contextmanager
def recording(client):
    """Evaluate with recorded calls for the duration of the context."""
    user = {"namespace": "user", "isolate": True}
    assert client.call("evaluate_code", code="(def gate (promise))\n(def ready (promise))", **user)["ok"]
    pending = client.begin_call("evaluate_code", code="(do (deliver user/ready 1) @user/gate)", trace="true",
                              namespace="traced.shop", detail=True)  # fmt: skip
    assert client.call("evaluate_code", code="@ready", **user)["ok"]
    try:
        yield
    finally:
        assert client.call("evaluate_code", code="(deliver gate 1)", **user)["ok"]
        client.answer(pending)


def changed(client):
    return client.call("what_changed")


def test_wrapping_by_a_recording_is_not_reported_as_a_change(client, live):
    before = changed(client)
    with live.client() as other, recording(other):
        assert changed(client) == before
    assert changed(client) == before


def test_redefinitions_during_a_recording_are_kept_and_the_rest_restored(client):
    plain = "(mapv (fn [v] (.getName (class @v))) [#'price #'total])"
    before = client.call("evaluate_code", code=plain, namespace="traced.shop")["result"]
    assert before == '["traced.shop$price" "traced.shop$total"]'
    answer = traced(client, "(defn price [item amount] :new)\n(price 1 2)")
    try:
        assert answer["trace"].splitlines()[1] == "#1 (shop/price 1 2) -> :new"
        code = '[(price 1 2) (.startsWith (.getName (class price)) "traced.shop$price")]'
        assert client.call("evaluate_code", code=code, namespace="traced.shop")["result"] == "[:new true]"
        assert client.call("evaluate_code", code=plain, namespace="traced.shop")["result"] == before
    finally:
        assert client.call("load_file", filePath="src/traced/shop.clj")["ok"]


def test_the_trace_of_a_failed_test_contains_the_call_with_the_wrong_result(client):
    answer = client.call("run_tests", namespace="traced.shop-test", trace=True)
    lines = answer["trace"].splitlines()
    assert (answer["failed"], lines[0]) == (1, f"run {answer['evaluationId']}: 5 calls to 4 functions")
    assert lines[1:3] == ["#1 (shop-test/totals) -> nil", "  #2 (shop/total [[map of 1 20]]) -> 32.0"]
    assert walked(client, answer, path=[2])[1:] == ["  #3 (shop/price {:price 2} 20) -> 32.0"]
    assert len(json.dumps(answer["trace"])) < 1000


def test_only_the_second_identical_failure_suggests_trace_and_comparison(client):
    assert client.call("run_tests", namespace="traced.shop-test", test="others")["ok"]
    hints = [client.call("run_tests", namespace="traced.shop-test")["hint"] for _ in range(2)]
    assert [hint == TRACED_AGAIN for hint in hints] == [False, True]


def test_two_runs_can_be_compared(client):
    before = traced(client, "(total [[{:price 2} 20]])")
    try:
        assert client.call("evaluate_code", code="(defn price [item amount] (* (:price item) amount))",
                           namespace="traced.shop")["ok"]  # fmt: skip
        now = traced(client, "(total [[{:price 2} 20]])")
        assert walked(client, now, diffWith=before["evaluationId"])[0] == "#2 (shop/price {:price 2} 20) 32.0 -> 40"
    finally:
        client.call("load_file", filePath="src/traced/shop.clj")


def test_a_function_that_differs_only_in_its_source_is_reported(client, live):
    file = live.workspace / "src/traced/shop.clj"
    before = traced(client, "(into [] (adding 1) [2])")
    try:
        file.write_text(SHOP.replace("(+ x n)", "(- x n)"))
        client.call("load_file", filePath="src/traced/shop.clj")
        now = traced(client, "(into [] (adding 1) [2])")
        (line,) = walked(client, now, diffWith=before["evaluationId"])
        assert line == "#1 (shop/adding 1) -> <fn traced.shop/adding/fn>, its source changed"
    finally:
        file.write_text(SHOP)
        client.call("load_file", filePath="src/traced/shop.clj")


def test_recorded_runs_can_be_queried_with_datalog(client):
    answer = traced(client, "(total [[{:price 2} 20] [{:price 1} 3]])")
    query = (
        '[:find ?name ?args :in $ $run ?id :where [$run ?a :run/arg "amount"] [$run ?a :run/value ?v] [(> ?v 10)]'
        " [$run ?a :run/of ?e] [$run ?e :run/id ?id] [$run ?e :run/args ?args] [$run ?e :run/name ?name]]"
    )
    found = client.call("repl_output_log", query=query, inputs=[answer["evaluationId"]])
    assert found["result"] == [["traced.shop/price", "{:price 2} 20"]]


def test_line_and_time_profiles_are_refused_with_an_explanation(client):
    answer = client.call("evaluate_code", code="(price {:price 1} 1)", profile=True)
    assert (answer["ok"], answer["reason"]) == (False, "capability-missing")
    assert "Only Python can" in answer["message"]
