"""Calls made by evaluations and test runs, recorded on request: in the answer, expanded, and queried."""

import sys

import needs
import pytest
from live_server import serving, until_connected
from real_repls import repl

SHOP = """
def price(item, amount):
    return item["price"] * amount * (0.8 if amount > 10 else 1)

def total(items):
    return sum(price(item, amount) for item, amount in items)

def fails():
    return price({}, 3)
"""
TESTS = """
import shop

def test_total():
    assert shop.total([({"price": 2}, 20)]) == 36

def test_other():
    assert shop.price({"price": 1}, 1) == 1
"""


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    repls = ("--repl", "python", "--repl", "lisp", "--python", sys.executable)
    with serving(tmp_path_factory.mktemp("traced"), *repls) as running:
        (running.workspace / "shop.py").write_text(SHOP)
        (running.workspace / "test_shop.py").write_text(TESTS)
        yield running


@pytest.fixture
def client(live):
    with live.client() as connected:
        connected.call("evaluate_code", code="import shop", replSessionKey="py")
        yield connected


def traced(client, code, trace="true", **more):
    """Return the answer to code with recorded calls, without the line that is added to the trace on a slow machine."""
    answer = client.call("evaluate_code", code=code, trace=trace, replSessionKey="py", **more)
    if "trace" in answer:
        lines = answer["trace"].splitlines()
        answer["trace"] = "\n".join(line for line in lines if not line.startswith("longest self times: "))
    return answer


def walked(client, answer, **where):
    return client.call("get_evaluation", evaluationId=answer["evaluationId"], part="trace", **where)[
        "text"
    ].splitlines()


def test_an_answer_lists_the_calls_in_few_lines(client):
    answer = traced(client, "shop.total([({'price': 2}, 20)] * 3)", detail=True)
    assert answer["trace"].splitlines() == [
        f"run {answer['evaluationId']}: 4 calls to 2 functions",
        "#1 shop.total([(dict of 1, 20), (dict of 1, 20), (dict of 1, 20)]) -> 96.0",
        "  #2 x3 shop.price({'price': 2}, 20) -> 32.0",
    ]
    assert answer["result"] == "96.0"


@pytest.mark.parametrize("trace", ["price", "shop.price", ["price"], "fails, price"])
def test_function_names_are_accepted_in_any_form(client, trace):
    answer = traced(client, "shop.total([({'price': 2}, 20)])", trace)
    assert answer["trace"].splitlines()[1:] == ["#1 shop.price({'price': 2}, 20) -> 32.0"]


def test_nothing_is_recorded_without_a_request(client):
    for trace in (False, None, "false"):
        assert "trace" not in traced(client, "shop.total([])", trace)


def test_a_failure_names_the_call_that_raised_first(client):
    answer = traced(client, "shop.fails()")
    assert answer["error"]["class"] == "KeyError"
    assert answer["trace"].splitlines()[-1].startswith("raised first in #2 shop.price({}, 3): ")


def test_two_runs_can_be_compared(client):
    before = traced(client, "shop.total([({'price': 2}, 20)])", detail=True)
    try:
        code = "def price(item, amount): return item['price'] * amount\nshop.price = price\nprice.__module__ = 'shop'"
        assert client.call("evaluate_code", code=code, replSessionKey="py")["ok"]
        now = traced(client, "shop.total([({'price': 2}, 20)])", detail=True)
        assert walked(client, now, diffWith=before["evaluationId"])[0] == "#1 shop.total([(dict of 1, 20)]) 32.0 -> 40"
        assert walked(client, now, diffWith=now["evaluationId"]) == [
            f"no recorded call differs from those in {now['evaluationId']}"
        ]
    finally:
        client.call("load_file", filePath="shop.py", replSessionKey="py")


def test_recorded_runs_can_be_queried_with_datalog(client):
    answer = traced(client, "shop.total([({'price': 2}, 20), ({'price': 1}, 3)])", detail=True)
    query = (
        '[:find ?args :in $ $run ?id :where [$run ?a :run/arg "amount"] [$run ?a :run/value ?v] [(> ?v 10)]'
        " [$run ?a :run/of ?e] [$run ?e :run/id ?id] [$run ?e :run/args ?args]]"
    )
    found = client.call("repl_output_log", query=query, inputs=[answer["evaluationId"]])
    assert found["result"] == [["{'price': 2}, 20"]]


def test_a_missing_run_is_refused_with_an_explanation(client):
    answer = client.call("evaluate_code", code="1", replSessionKey="py", detail=True)
    reply = client.call("get_evaluation", evaluationId=answer["evaluationId"], part="trace")
    assert (reply["ok"], reply["reason"]) == (False, "forgotten")
    assert "with trace" in reply["hint"]


def test_nothing_runs_if_the_repl_cannot_record_calls(tmp_path):
    with serving(tmp_path, "--nrepl", f"nbb={repl('nbb').endpoint}", "--repl", "none") as live, live.client() as nbb:
        until_connected(nbb)
        answer = nbb.call("evaluate_code", code="(def mine 1)", trace=True)
        assert (answer["ok"], answer["reason"]) == (False, "capability-missing")
        assert nbb.call("evaluate_code", code="(resolve 'mine)").get("result") in (None, "nil")


def test_calls_of_the_embedded_lisp_have_lisp_names(live, client):
    text = """(ns stall (:require [basilisp.test :refer [deftest is]]))
(defn price [item amount] (* (:price item) amount (if (> amount 10) 0.8 1)))
(defn total [items] (reduce + (map (fn [[item amount]] (price item amount)) items)))
(defn open? ([api-key] (open? api-key 1 2)) ([api-key n & more] [n more]))
(deftest totals (is (= 36 (total [[{:price 2} 20]]))))
"""
    (live.workspace / "stall.lpy").write_text(text)
    assert client.call("load_file", filePath="stall.lpy", replSessionKey="lpy")["ok"]
    ask = {"replSessionKey": "lpy", "detail": True, "trace": "true", "timeoutMs": 60_000}
    answer = client.call("evaluate_code", code="(stall/total [[{:price 2} 20]])", **ask)
    assert answer["trace"].splitlines()[1:3] == [
        "#1 (stall/total [[PersistentMap of 1 20]]) -> 32.0",
        "  #2 (stall/price {:price 2} 20) -> 32.0",
    ]
    answer = client.call("evaluate_code", code="(stall/open? 1)", **{**ask, "trace": "stall/open?"})
    assert [line.partition(" -> ")[0] for line in answer["trace"].splitlines()[1:3]] == [
        "#1 (stall/open? <not shown>)",
        "  #2 (stall/open? <not shown> 1 2)",
    ]
    red = client.call("run_tests", namespace="stall", **ask)
    assert "(stall/totals)" in red["trace"]
    assert "(stall/price {:price 2} 20) -> 32.0" in red["trace"]


def test_calls_of_a_hy_file_are_recorded_in_python(live, client):
    needs.modules("hy")
    (live.workspace / "shop_in_hy.hy").write_text("(defn twice [n] (* 2 n))\n(defn both [ns] (lfor n ns (twice n)))\n")
    answer = traced(client, "import hy, shop_in_hy\nshop_in_hy.both([1])")
    assert "  #2 shop_in_hy.twice(1) -> 2" in answer["trace"].splitlines()


def test_the_slowest_functions_are_listed(client):
    code = "for n in range(2000): shop.price({'price': 2}, n)\nshop.total([({'price': 2}, 20)])"
    answer = client.call("evaluate_code", code=code, profile=True, replSessionKey="py")
    first, *lines = answer["profile"].splitlines()
    assert first == "self ms, total ms, calls"
    assert next(line.split()[2:] for line in lines) == ["2001", "price", "shop.py:2"]
    assert len(answer["profile"].encode()) <= 600
    assert "trace" not in answer
