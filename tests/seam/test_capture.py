"""Capture: arguments, results and exceptions of an application's functions, and variables at a line."""

import importlib
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import captured_calls
import pytest
from captured_calls import CAPTURED, line_of
from needs import interpreter
from seam_shop import query, refused

import codriver_seam as seam
from codriver_seam import recording, streams

SERVER = Path(seam.__file__).parents[1]
PAY = f"call pay args=(amount={{}}, token=<not shown>) result={{}} from={captured_calls.__file__}"


@pytest.fixture(scope="module", params=["3.8", "3.11", "3.12", "3.13"])
def captured_by_script(request, tmp_path_factory):
    path = interpreter(f"python{request.param}")
    folder = tmp_path_factory.mktemp("captured")
    (folder / "shop.py").write_text(CAPTURED)
    env = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{SERVER}"}
    command = [path, "-W", "error", captured_calls.__file__]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    answers = json.loads(done.stdout)
    answers["is_monitored"] = request.param >= "3.12" and len(request.param) > 3
    return answers


def shortened(lines):
    """Return the events without the lines of their callers."""
    return [line.rpartition(":")[0] for line in lines]


def test_a_call_is_an_event_with_arguments_result_and_caller(captured_by_script):
    gave, is_same, answer, lines, is_own = captured_by_script["calls"]
    assert gave == 16
    [line] = shortened(lines)
    assert line == (
        "call Shop.add args=(self=<Shop>, order=Order(total=10, password=<not shown>), vip=True, more=(5, 6), "
        f"rest={{'zap': {{'a': [1, 2]}}}}) result=16.0 from={captured_calls.__file__}"
    )
    assert is_same, "the signature or the docstring is another"
    assert is_own, "the function did not get its own code back"
    assert (answer["of"], answer["hits"]) == ("Shop.add", 50)
    assert answer["how"] == ("monitored" if captured_by_script["is_monitored"] else "copied")


def test_an_exception_is_reported_and_keeps_its_traceback(captured_by_script):
    lines, places, wanted = captured_by_script["failures"]
    assert [line.split(" from=")[0] for line in lines] == [
        "call fail args=(n=5) raised=ValueError('too many', 5)",
        "call fail args=(n=6) raised=ValueError('too many', 6)",
    ]
    assert places == wanted


def test_a_captured_line_reports_variables_in_old_and_new_closures(captured_by_script):
    gave, closures, conditional, is_one_code = captured_by_script["lines"]
    assert gave == [15, 3]
    assert [line.split("locals=")[1].split(" from=")[0] for line in closures] == [
        "(x=5, y=15, k=10)",
        "(x=2, y=3, k=1)",
    ]
    [line] = conditional
    assert "vip=True" in line
    assert "price=10)" in line
    assert is_one_code, "a closure kept what listened to it"


def test_conditions_can_use_arguments_variables_results_and_exceptions(captured_by_script):
    by_condition, gave, lines = captured_by_script["conditions"]
    raised = by_condition.pop("raised")
    assert by_condition == {
        "n == 3": ["(n=3)"],
        "result == 0": ["(n=0)"],
        "n > 3 and n < 5": ["(n=4)"],
        "n in (1, 2)": ["(n=1)", "(n=2)"],
    }
    assert ["n=3" in line for line in raised] == [True]
    assert gave == [10, 20]
    assert ["price=20" in line for line in lines] == [True]


def test_an_error_in_a_condition_is_counted_and_not_raised(captured_by_script):
    gave, again, *rows, lines = captured_by_script["faults"]
    assert (gave, again, lines) == (9, 10, [])
    assert [(row["failed"], row["hits"]) for row in rows] == [(1, 0)] * 3
    assert [row["why"].partition("(")[0] for row in rows] == ["KeyError", "TypeError", "ZeroDivisionError"]


def test_generators_coroutines_and_properties_are_reported_when_they_finish(captured_by_script):
    gave, (count, fetch, feed, size) = captured_by_script["kinds"]
    assert gave == [[0, 1], 5, [0, 1], 3]
    assert [line.split(" from=")[0] for line in count + fetch + feed + size] == [
        "call count args=(n=2) result='end'",
        "call fetch args=(n=4) result=5",
        "call feed args=(n=2) result=None",
        "call Shop.size args=(self=<Shop>) result=3",
    ]


def test_a_capture_ends_after_enough_hits_and_restores_the_code(captured_by_script):
    lines, is_own, is_there = captured_by_script["hits"]
    assert lines[-1].endswith(" ended=2 hits")
    assert shortened(lines) == [PAY.format(0, -1), PAY.format(1, 0)]
    assert is_own
    assert not is_there


def test_captures_of_one_function_can_start_and_end_in_any_order(captured_by_script):
    (one, two, three), is_own = captured_by_script["together"]
    assert shortened(one) == [PAY.format(1, 0)]
    assert ["left=0" in two[0], "left=1" in two[1], len(two)] == [True, True, 2]
    assert shortened(three) == [PAY.format(3, 2)]
    assert is_own


def test_sensitive_values_are_redacted_by_path_and_by_name(captured_by_script):
    text = "\n".join(captured_by_script["secrets"])
    assert "ada" not in text
    assert "tok-" not in text
    assert "hunter" not in text
    assert text.count("<redacted>") == 2
    assert "token=<not shown>" in text
    assert "password=<not shown>" in text


def test_a_function_without_source_is_captured_if_possible(captured_by_script):
    gave, is_same, lines, is_own, stream = captured_by_script["without_source"]
    assert gave == [7, 14]
    assert [line.split("args=")[1].split(" from=")[0] for line in lines] == [
        "(a=1, b=2, d=4, c=(), e={}) result=7",
        "(a=1, b=3, d=5, c=(4,), e={'f': 6}) result=14",
    ]
    assert is_same
    assert is_own
    if captured_by_script["is_monitored"]:
        assert stream["ok"]
    else:
        assert (stream["ok"], stream["reason"]) == (False, "band-missing")
        assert "asynchronous generator" in stream["hint"]


def test_a_running_call_is_captured_or_reported_as_missed(captured_by_script):
    missed, lines = captured_by_script["running"]
    if captured_by_script["is_monitored"]:
        assert missed is None
        assert ["number=2" in lines[0], "number=3" in lines[1]] == [True, True]
    else:
        assert "calls that are already running (1)" in missed
        assert lines == []


def test_a_condition_can_be_a_predicate_registered_by_the_application(captured_by_script):
    lines, seen = captured_by_script["named"]
    assert shortened(lines) == [PAY.format(9, 8)]
    assert seen == [["locals", "opType", "operation"]] * 2


def test_no_other_function_is_changed_or_traced(captured_by_script):
    assert captured_by_script["alone"] == [[None, None], True]


@pytest.fixture(scope="module")
def module(tmp_path_factory):
    """Load the application as a module of this process."""
    yield from imported(tmp_path_factory.mktemp("here"), "captured_shop")


def imported(folder, name):
    (folder / f"{name}.py").write_text(CAPTURED)
    sys.path.insert(0, str(folder))
    try:
        yield importlib.import_module(name)
    finally:
        sys.path.remove(str(folder))
        sys.modules.pop(name)


def begin(of, **more):
    asked = {"topic": "calls", "filter": {"of": of, **more}}
    return json.loads(seam.call("subscribe", json.dumps(asked), write=lambda text: True))


def calls():
    return [line.split("args=")[1].split(" from=")[0] for line in query("trace", filter={"opType": "call"})["lines"]]


REFUSED = {
    "no_such_module:pay": "no module no_such_module is loaded",
    "captured_shop:no_such": "there is no no_such",
    "captured_shop:Order": "name one of its methods",
    "builtins:len": "has no Python code",
    "no_such_file.py:3": "no function of it is loaded",
    "captured_shop.py:4000": "is not in any loaded function",
    "captured_shop.py:1": "is not in any loaded function",
    "captured_shop": "of must be module:function",
    "captured-shop/pay": "there is no var captured-shop/pay",
}


@pytest.mark.parametrize("of", REFUSED)
def test_an_impossible_capture_is_refused_with_a_reason(module, of):
    answer = refused("subscribe", "path-not-found", topic="calls", filter={"of": of})
    assert REFUSED[of] in answer["hint"]
    assert query("subscriptions")["count"] == 0


def test_a_line_without_code_is_refused_with_nearby_lines(module):
    line = line_of("return wrapper") - 1
    answer = refused("subscribe", "path-not-found", topic="calls", filter={"of": f"captured_shop.py:{line}"})
    assert str(line + 1) in answer["hint"]


@pytest.mark.parametrize(
    ("when", "reason"),
    [
        ("amount", "accessor-failed"),
        ("__import__('os').abort() == 1", "accessor-failed"),
        ("amount > left", "accessor-failed"),
        ("1 < amount < 3", "accessor-failed"),
        ("amuont > 1", "path-not-found"),
    ],
)
def test_a_condition_that_does_not_compare_with_a_literal_is_refused(module, when, reason):
    refused("subscribe", reason, topic="calls", filter={"of": "captured_shop:pay", "when": when})


def test_an_unregistered_predicate_is_refused(module):
    refused("subscribe", "no-such-predicate", topic="calls", filter={"of": "captured_shop:pay", "pred": "vip"})


def test_a_capture_ends_with_its_lease(module, monkeypatch):
    now, own = [0.0], module.pay.__code__
    clock = SimpleNamespace(monotonic=lambda: now[0], time=time.time, sleep=time.sleep)
    monkeypatch.setattr(streams, "time", clock)
    begin("captured_shop:pay")
    module.pay(1, "t")
    now[0] = 61.0
    writer = recording.seam.streams._writer
    recording.seam.streams._wakeups.put(None)
    writer.join(20)
    module.pay(2, "t")
    assert calls() == ["(amount=1, token=<not shown>) result=0"]
    assert module.pay.__code__ is own


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="a line needs no source there")
def test_a_line_of_a_changed_file_is_refused_and_a_function_still_captured(tmp_path):
    making = imported(tmp_path, "changed_shop")
    module = next(making)
    path = Path(module.__file__)
    path.write_text(CAPTURED.replace("amount - 1", "amount - 22"))
    line = f"changed_shop.py:{line_of('left = amount')}"
    answer = refused("subscribe", "band-missing", topic="calls", filter={"of": line})
    assert "load it again" in answer["hint"]
    assert begin("changed_shop:pay")["capture"]["how"].startswith("wrapped")
    assert module.pay(5, "t") == 4
    assert calls() == ["(amount=5, token=<not shown>) result=4"]
    making.close()


def test_calls_made_for_a_reading_agent_are_not_events(module):
    seam.frame("paid", lambda: module.pay(1, "t"))
    begin("captured_shop:pay")
    assert query("state", frame="paid")["value"] == "0"
    assert calls() == []


def test_threads_are_unaffected_while_captures_start_and_end(module):
    own, is_over, gained = module.maker.__code__, threading.Event(), set()

    def work():
        while not is_over.is_set():
            gained.add((module.depth(9), module.maker(2)(3), *module.count(2), module.pay(3, "t")))
            time.sleep(0)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for of in ("depth", "maker", "count", "pay"):
            line = f"{module.__file__}:{line_of('return y')}"
            begun = [begin(f"captured_shop:{of}", hits=1000)["subId"], begin(line, hits=1000)["subId"]]
            for one in begun:
                query("unsubscribe", subId=one)
    finally:
        is_over.set()
        for thread in threads:
            thread.join(20)
    assert gained == {(9, 5, 0, 1, 2)}
    assert module.maker.__code__ is own
