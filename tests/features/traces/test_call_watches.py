"""Watched functions: the calls that the worker reports, on Pythons with `sys.monitoring` and one without."""

import contextlib
import json

import pytest
from needs import interpreter
from worker_client import Repl, text, texts

SHOP = """
import asyncio
import functools

def total(prices, rate=1):
    return sum(prices) * rate

def buys(prices):
    return total(prices, rate=2)

def fails(order):
    raise ValueError("no", order)

def logs_in(user, password):
    return user

def cached(function):
    @functools.wraps(function)
    def wrapper(*args):
        return function(*args)
    return wrapper

@cached
@cached
def price(item):
    return len(item)

class Cart:
    def __init__(self, *items):
        self.items = list(items)
    def __repr__(self):
        ran.append("repr")
        raise OSError
    def size(self):
        return len(self.items)
    @classmethod
    def empty(cls):
        return cls()
    @property
    def first(self):
        return self.items[0]

ran = []

def numbers(count):
    for number in range(count):
        yield number
    return "all"

async def waits(value):
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return value * 2

def deep(count):
    return count and deep(count - 1)
"""
STATE = (
    "[[sys.monitoring.get_tool(n) for n in range(6)], "
    "[sys.monitoring.get_local_events(n, shop.total.__code__) for n in range(6) if sys.monitoring.get_tool(n)], "
    "shop.total.__code__._co_code_adaptive == shop.total.__code__.co_code]"
)


@pytest.fixture(scope="module", params=["python3.12", "python3.13"])
def process(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("watches")
    (folder / "shop.py").write_text(SHOP)
    with contextlib.closing(Repl(folder, "--supervised", python=interpreter(request.param))) as repl:
        repl.connect()
        repl.evaluate("import sys, shop")
        yield repl


@pytest.fixture
def python(process):
    with process.fresh_session() as repl:
        repl.evaluate("import sys, shop; shop.ran.clear()")
        yield repl


def request(python, watch, **arguments):
    """Start a watch, or end it if there are no arguments, and return the answer."""
    return json.loads(text(python.ask("codriver/watch-calls", watch=watch, args=json.dumps(arguments)), "answer"))


def start(python, function, condition="", limit=50, watch="w"):
    answer = request(python, watch, function=function, condition=condition, limit=limit)
    assert "refused" not in answer, answer
    return answer


def frames(python, watch="w"):
    """Return the frames of a watch up to its last, in the order in which they were sent."""
    found = []
    while not any("end" in frame for frame in found):
        rest = []
        for message in python.received:
            frame = json.loads(message["codriver/watched-calls"]) if "codriver/watched-calls" in message else {}
            (found if frame.get("watch") == watch else rest).append(frame if frame.get("watch") == watch else message)
        python.received = rest
        if not any("end" in frame for frame in found):
            data = python.socket.recv(65536)
            assert data, "the worker hung up"
            python.received += python.decoder.feed(data)
    return found


def stopped(python, watch="w"):
    """End a watch, and return the calls that it reported."""
    assert request(python, watch) == {"existed": True}
    return calls(frames(python, watch))


def calls(found):
    return [call for frame in found for call in frame["calls"]]


def value(python, code):
    (printed,) = texts(python.evaluate(code), "value")
    return printed


def test_a_matching_call_is_reported_with_arguments_result_duration_and_caller(python):
    answer = start(python, "shop.total", "len(prices) > 1 and rate == 2")
    assert (answer["function"], answer["at"].endswith("shop.py:5")) == ("total", True)
    python.evaluate("shop.total([1, 2]), shop.buys([3]), shop.buys([3, 4])")
    (call,) = stopped(python)
    assert call["function"] == "total"
    assert call["arguments"] == [["prices", "[3, 4]"], ["rate", "2"]]
    assert (call["result"], call["us"] >= 0) == ("14", True)
    assert call["caller"].endswith("shop.py:9 in buys")


def test_an_exception_is_reported_and_reaches_the_caller(python):
    start(python, "shop.fails")
    assert value(python, "try: shop.fails(7)\nexcept ValueError as error: caught = error.args\ncaught") == "('no', 7)"
    (call,) = stopped(python)
    assert (call["raised"], "result" in call) == ("ValueError('no', 7)", False)


@pytest.mark.parametrize(
    ("function", "code", "result"),
    [
        ("shop:Cart.size", "shop.Cart(1, 2).size()", "2"),
        ("shop.Cart.empty", "shop.Cart.empty()", "Cart(items=[])"),
        ("shop.Cart.first", "shop.Cart('a').first", "'a'"),
        ("shop.Cart.__init__", "shop.Cart(5)", "Cart(items=[5])"),
        ("shop.numbers", "list(shop.numbers(3))", "'all'"),
        ("shop.waits", "import asyncio; asyncio.run(shop.waits(4))", "8"),
    ],
)
def test_methods_generators_and_coroutines_are_reported_when_they_return(python, function, code, result):
    start(python, function)
    python.evaluate(f"_ = [{code}]" if "import" not in code else code)
    assert [call["result"] for call in stopped(python)] == [result]


def test_decorators_are_followed_and_do_not_count_as_callers(python):
    start(python, "shop.price")
    python.evaluate("def asks(): return shop.price('tea')\nasks()")
    (call,) = stopped(python)
    assert (call["arguments"], call["result"]) == ([["item", "'tea'"]], "3")
    assert call["caller"].endswith(" in asks")


def test_a_recursive_function_is_reported_once_for_each_matching_call(python):
    start(python, "shop.deep", "count % 2 == 0")
    python.evaluate("shop.deep(4)")
    assert [call["arguments"] for call in stopped(python)] == [[["count", "0"]], [["count", "2"]], [["count", "4"]]]


def test_taking_a_snapshot_of_arguments_runs_no_code_of_the_program(python):
    start(python, "shop.Cart.size")
    python.evaluate("shop.Cart([[[[1]]]], 'x' * 1000).size()")
    (call,) = stopped(python)
    assert len(call["arguments"][0][1]) <= 160
    assert value(python, "shop.ran") == "[]"


def test_arguments_with_the_name_of_a_secret_are_not_shown(python):
    start(python, "shop.logs_in")
    python.evaluate("shop.logs_in('ann', 'hunter2')")
    (call,) = stopped(python)
    assert call["arguments"] == [["user", "'ann'"], ["password", "<not shown>"]]


def test_a_watch_ends_after_its_limit_and_leaves_no_monitoring(python):
    before = value(python, STATE)
    start(python, "shop.total", limit=2)
    assert value(python, STATE) != before
    python.evaluate("for _ in range(5): shop.total([1])")
    found = frames(python)
    assert (len(calls(found)), found[-1]["end"]) == (2, "limit")
    assert request(python, "w") == {"existed": False}
    assert value(python, STATE) == before


def test_several_watches_of_one_function_are_independent(python):
    start(python, "shop.total", "rate == 1", watch="one")
    start(python, "shop.total", "rate > 1", watch="two")
    python.evaluate("shop.total([1]), shop.total([1], 5)")
    assert [call["result"] for call in stopped(python, "one")] == ["1"]
    python.evaluate("shop.total([2], 6)")
    assert [call["result"] for call in stopped(python, "two")] == ["5", "12"]


def test_calls_beyond_the_number_per_second_are_counted(python):
    start(python, "shop.total", limit=1000)
    python.evaluate("for _ in range(5000): shop.total([1])")
    request(python, "w")
    found = frames(python)
    reported, omitted = len(calls(found)), sum(frame.get("omitted", 0) for frame in found)
    assert (reported + omitted, omitted > 0, reported % 100) == (5000, True, 0)


def test_an_error_in_a_condition_is_counted_and_does_not_reach_the_program(python):
    start(python, "shop.total", "prices[3] > 1")
    assert value(python, "shop.total([1])") == "1"
    request(python, "w")
    found = frames(python)
    assert calls(found) == []
    assert [(frame["failed"], frame["why"]) for frame in found if "failed" in frame] == [
        (1, "IndexError('list index out of range')")
    ]


@pytest.mark.parametrize(
    ("function", "condition", "message"),
    [
        ("shop.missing", "", "shop has no missing: missing does not exist"),
        ("nowhere.f", "", "no loaded module contains nowhere.f"),
        ("shop.Cart", "", "shop.Cart is a class: name one of its methods"),
        ("shop.asyncio.sys.exit", "", "not a function written in Python"),
        ("shop.total", "prices >", "the condition is not a Python expression"),
        ("shop.total", "x = 1", "the condition is not a Python expression"),
        ("shop.total", "price > 3 and pries", "the condition uses pries, which does not exist: the arguments are "),
    ],
)
def test_a_function_or_condition_that_does_not_exist_is_refused(python, function, condition, message):
    answer = request(python, "w", function=function, condition=condition, limit=1)
    assert answer["refused"] == "bad-arguments"
    assert message in answer["message"]
    assert value(python, "[sys.monitoring.get_tool(n) for n in range(6)]") == str([None] * 6)


def test_an_edited_function_is_still_watched(python):
    start(python, "shop.total")
    python.evaluate("old = shop.total.__code__; shop.total.__code__ = (lambda prices, rate=1: 'new').__code__")
    python.evaluate(
        "import time\n"
        "for _ in range(600):\n"
        "    if any(sys.monitoring.get_tool(n) and sys.monitoring.get_local_events(n, shop.total.__code__) "
        "for n in range(6)): break\n"
        "    time.sleep(0.01)\n"
        "shop.total([1]); shop.total.__code__ = old"
    )
    assert [call["result"] for call in stopped(python)] == ["'new'"]


def test_a_watch_ends_with_its_client(python):
    before = value(python, STATE)
    start(python, "shop.total")
    python.connect()
    python.session = None
    repeated = (
        f"import time\nfor _ in range(600):\n    if repr({STATE}) == {before!r}: break\n    time.sleep(0.01)\n{STATE}"
    )
    assert value(python, "import sys, shop\n" + repeated) == before


def test_a_watch_that_ends_does_not_end_a_later_watch_with_the_same_id(python):
    """The client of a watch receives its end before the thread that delivered it has finished."""
    code = (
        "import threading, time\n"
        "from _codriver_worker.python.call_watches import CallWatches, Client, Target\n"
        "watches, target, finished = CallWatches(), Target('shop.total', shop), threading.Event()\n"
        "class Restarting(Client):\n"
        "    def end(self): finished.set()\n"
        "def restart(frame):\n"
        "    if 'end' in frame: watches.start('w', target, '', 5, Client(lambda frame: True))\n"
        "    return True\n"
        "_ = watches.start('w', target, '', 5, Restarting(restart))\n"
        "watches.stop('w', 'stopped'), finished.wait(60), watches.identities(), watches.stop('w', 'stopped')"
    )
    assert value(python, code) == "(True, True, {'w'}, True)"


def test_a_client_that_disconnects_does_not_end_a_later_watch_with_the_same_id(python):
    start(python, "shop.total")
    assert stopped(python) == []
    code = (
        "from _codriver_worker.features.traces import ClientWatches, PROCESS_WATCHES\n"
        "from _codriver_worker.python.call_watches import Client, Target\n"
        "first, target = ClientWatches(), Target('shop.total', shop)\n"
        "_ = PROCESS_WATCHES.start('w', target, '', 5, Client(lambda frame: True))\n"
        "_ = first.add('w'), PROCESS_WATCHES.stop('w', 'stopped')\n"
        "_ = PROCESS_WATCHES.start('w', target, '', 5, Client(lambda frame: True))\n"
        "(first(), PROCESS_WATCHES.stop('w', 'stopped'))[1]"
    )
    assert value(python, code) == "True"


def test_a_forked_child_is_not_monitored(python):
    start(python, "shop.total")
    code = (
        "import os; read, write = os.pipe(); child = os.fork()\n"
        "if not child:\n"
        "    os.write(write, repr(sys.monitoring.get_tool(4)).encode()); os._exit(0)\n"
        "_ = os.waitpid(child, 0); os.read(read, 100)"
    )
    assert value(python, code) == "b'None'"
    assert value(python, "sys.monitoring.get_tool(4)") == "'codriver watch_calls'"
    stopped(python)


def test_watching_calls_is_refused_on_earlier_versions_of_python(tmp_path):
    with contextlib.closing(Repl(tmp_path, "--supervised", python=interpreter("python3.11"))) as repl:
        repl.connect()
        answer = request(repl, "w", function="json.dumps", limit=1)
    assert answer == {
        "refused": "capability-missing",
        "message": "watch_calls needs sys.monitoring, which requires Python 3.12 or later",
    }  # fmt: skip


@pytest.mark.parametrize("event", ["PY_RETURN", "PY_UNWIND"])
@pytest.mark.parametrize("raised", ["", "ValueError"], ids=["returns", "raises"])
def test_the_end_of_a_call_has_a_callback_only_while_a_reported_call_is_in_progress(python, raised, event):
    """Exceptions cannot be limited to the code of the watched function, and most calls do not match."""
    code = (
        "import sys\n"
        "def listens():\n"
        f"    tool, event = 4, sys.monitoring.events.{event}\n"
        "    callback = sys.monitoring.register_callback(tool, event, None)\n"
        "    sys.monitoring.register_callback(tool, event, callback)\n"
        "    return callback is not None\n"
        "def checks(error):\n"
        "    seen.append(listens())\n"
        "    if error: raise ValueError\n"
        "seen = []\n"
    )
    python.evaluate(code)
    assert value(python, "sys.monitoring.get_tool(4)") == "None"
    start(python, "checks", "error != 3", limit=5)
    python.evaluate(
        f"seen.append(listens())\ntry: checks({raised or None})\nexcept ValueError: pass\nseen.append(listens())"
    )
    assert value(python, "seen") == "[False, True, False]"
    python.evaluate("try: checks(3)\nexcept ValueError: pass")
    assert value(python, "seen[3:]") == "[False]"
    (call,) = stopped(python)
    assert call.get("raised", call.get("result")) == ("ValueError()" if raised else "None")


def test_a_condition_may_use_any_argument_name_and_assign_its_own_names(python):
    code = "def ranks(values, values_, frame): return frame\ndef asks():\n    x = 1\n    return ranks([1], [2], 3)"
    python.evaluate(code)
    condition = (
        "any(frame == 3 for frame in [*values, *values_, 3]) and (code := frame) == 3 and values_[0] == code - 1"
    )
    start(python, "ranks", condition)
    python.evaluate("asks(), ranks([1], [3], 3)")
    (call,) = stopped(python)
    assert call["arguments"] == [["values", "[1]"], ["values_", "[2]"], ["frame", "3"]]
    assert call["caller"].endswith(":4 in asks")
    assert value(python, "'condition' in globals()") == "False"
