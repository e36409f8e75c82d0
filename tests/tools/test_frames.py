"""Code evaluated in a frame of the last failure, by its number in `stacktrace`."""

import pytest
from live_server import until
from tests_tool import PLAIN

from codriver.tools.answers.lean_answers import FRAMES_HINT, SECOND_FAILURE_PREFIX

pytestmark = pytest.mark.served("python", "lisp")

SHOP = """rate = 20


def price(item, percent):
    part = 1 - percent / 100
    return [item["price"] * part][0]
"""
TESTS = """import unittest

import shop


def test_price():
    basket = {"price": 2}
    assert shop.price(basket, 20) == 2


def test_broken():
    basket = {"cost": 3}
    shop.price(basket, 10)


class OfUnittest(unittest.TestCase):
    def test_more(self):
        expected = 7
        self.assertEqual(shop.price({"price": 1}, 0), expected)
"""


@pytest.fixture(scope="module")
def live(live):
    for name, text in (("shop.py", SHOP), ("test_shop.py", TESTS), ("pytest.ini", PLAIN)):
        (live.workspace / name).write_text(text)
    with live.client() as client:
        until(lambda: "stacktrace" in client.tools(), "the REPL's tools")
    return live


@pytest.fixture
def py(client):
    """Return a function that calls tools in a session of the test."""

    def call(tool, **arguments):
        return client.call(tool, **arguments, replSessionKey="py")

    assert call("evaluate_code", code="import shop")["ok"]
    return call


def frame_of(trace, function):
    return next(frame["frame"] for frame in trace["frames"] if frame["function"] == function)


def test_code_is_evaluated_in_a_frame_numbered_by_stacktrace(py):
    py("evaluate_code", code="shop.price({}, 50)")
    number = frame_of(py("stacktrace"), "price")
    seen = py("evaluate_code", code="item, [part for _ in '1'], rate", frame=number)
    assert seen["result"] == "({}, [0.5], 20)"
    assert number == frame_of(py("stacktrace", whole=True), "price")


def test_the_local_variables_of_a_frame_are_those_of_its_function(py):
    py("evaluate_code", code="shop.price({}, 50)")
    number = frame_of(py("stacktrace"), "price")
    seen = py("evaluate_code", code="locals()", frame=number)
    assert seen["result"] == "{'item': {}, 'percent': 50, 'part': 0.5}"
    assert py("evaluate_code", code="half = part / 2\ndir(), vars()['half'], 'rate' in locals()", frame=number)[
        "result"
    ] == ("(['half', 'item', 'part', 'percent'], 0.25, False)")
    assert py("evaluate_code", code="'append' in dir([]), vars(price)", frame=number)["result"] == "(True, {})"


def test_a_failure_in_a_frame_leaves_the_frames_unchanged(py):
    py("evaluate_code", code="shop.price({}, 50)")
    number = frame_of(py("stacktrace"), "price")
    assert py("evaluate_code", code="item['nothing']", frame=number)["error"]["class"] == "KeyError"
    assert py("evaluate_code", code="part", frame=number)["result"] == "0.5"
    trace = py("stacktrace")
    assert (trace["message"], frame_of(trace, "price")) == ("'price'", number)


def test_frames_of_an_earlier_error_have_no_numbers(client, py):
    first = py("evaluate_code", code="shop.price({}, 50)")
    py("evaluate_code", code="shop.price(None, 50)")
    old = client.call("stacktrace", evaluationId=first["evaluationId"])
    assert old["frames"]
    assert [frame for frame in old["frames"] if "frame" in frame] == []


def test_a_session_without_failures_has_no_frames(client):
    answer = client.call("evaluate_code", code="1", frame=0, isolate=True, who="careful", replSessionKey="py")
    assert (answer["reason"], "nothing has failed" in answer["message"]) == ("no-frame", True)


def test_only_the_second_identical_failure_suggests_frames(py):
    code = "shop.price({'a': 1}, 5)"
    hints = [py("evaluate_code", code=code, detail=False).get("hint") for _ in range(3)]
    assert (hints[0], hints[2], hints[1].startswith(SECOND_FAILURE_PREFIX + FRAMES_HINT)) == (None, None, True)


def test_a_lisp_form_is_evaluated_in_a_frame_of_the_last_failed_test(client, live):
    text = (
        "(ns rack (:require [basilisp.test :refer [deftest is]]))\n(defn split [an-item n]\n  (/ (count an-item) n))\n"
    )
    (live.workspace / "rack.lpy").write_text(text + "(deftest splits (is (= 1 (split [7] 0))))\n")
    assert client.call("load_file", filePath="rack.lpy", replSessionKey="lpy", timeoutMs=120_000)["ok"]
    red = client.call("run_tests", namespace="rack", replSessionKey="lpy", timeoutMs=120_000)
    assert red["reason"] == "tests-failed", red
    number = frame_of(client.call("stacktrace", evaluationId=red["evaluationId"], replSessionKey="lpy"), "split")
    seen = client.call("evaluate_code", code="[an-item (+ n 1)]", frame=number, replSessionKey="lpy")
    assert seen["result"] == "[[7] 1]"
    again = client.call("run_tests", namespace="rack", replSessionKey="lpy", timeoutMs=120_000)
    assert again["hint"].startswith(SECOND_FAILURE_PREFIX + FRAMES_HINT)


def test_a_lisp_form_is_evaluated_in_a_frame(client, live):
    (live.workspace / "shelf.lpy").write_text("(ns shelf)\n(defn fill [an-item n]\n  (/ (count an-item) n))\n")
    assert client.call("load_file", filePath="shelf.lpy", replSessionKey="lpy", timeoutMs=120_000)["ok"]
    client.call("evaluate_code", code="(shelf/fill [7] 0)", replSessionKey="lpy")
    trace = client.call("stacktrace", replSessionKey="lpy")
    number = frame_of(trace, "fill")
    seen = client.call("evaluate_code", code="[an-item (+ n 1)]", frame=number, replSessionKey="lpy")
    assert seen["result"] == "[[7] 1]"
