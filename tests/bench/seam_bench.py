"""Measure the seam of a Python application: an event, an epoch, a captured call, and how much other calls slow down.

Run with `python tests/bench/seam_bench.py` or `run.py seam`. Everything is measured in this process, in turns.
"""

import importlib
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

from report import main

import codriver_seam as seam
from codriver_seam import recording

EVENTS = 2000
CALLS = 20_000
ROUNDS = 15
SHOP = """
def price(order, count):
    total = order["unit"] * count
    return total - total // 10

def check(order):
    if order["unit"] > 9:
        raise ValueError("too dear")
    return order

def other(number):
    return number * 3 // 2

def serve(orders):
    gained = 0
    for order in orders:
        try:
            gained += other(price(check(order), 3))
        except ValueError:
            gained -= 1
    return gained
"""


def shop(folder):
    """Create the application. It is a separate module, because capturing needs its source before Python 3.12."""
    (folder / "bench_shop.py").write_text(SHOP)
    sys.path.insert(0, str(folder))
    return importlib.import_module("bench_shop")


def subscribe(topic, **asked):
    answer = json.loads(seam.call("subscribe", json.dumps({"topic": topic, "filter": asked}), write=lambda text: True))
    assert answer["ok"], answer
    return answer["subId"]


def unsubscribe(identity):
    seam.call("unsubscribe", json.dumps({"subId": identity}))


def best_ns(work, number):
    """Return the least time of one of `number` calls in a round in nanoseconds, because noise only adds time."""
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        work()
        times.append((time.perf_counter() - began) / number * 1e9)
    return min(times)


def emits():
    for number in range(EVENTS):
        seam.emit("fx", "db/write", count=number, table="orders")


def epochs():
    for _ in range(EVENTS):
        with seam.epoch("bench", "order/add"):
            state["box"] = {"n": 1}


state = {"box": {"n": 0}}


def measure_events(report):
    """Measure an event and an epoch: disabled, enabled, and with subscribers."""
    title = "seam: events"
    recording.forget()
    report.fact(title, "emit, the seam is off", best_ns(emits, EVENTS), "ns", at_most=1000)
    seam.install(True)
    seam.frame("bench", lambda: state["box"], snapshot="none")
    report.fact(title, "emit, no subscriber", best_ns(emits, EVENTS), "ns", at_most=3000)
    other = subscribe("error")
    report.fact(title, "emit, a subscriber to something else", best_ns(emits, EVENTS), "ns", at_most=4000)
    taken = subscribe("fx")
    report.fact(title, "emit, a subscriber that takes it", best_ns(emits, EVENTS), "ns", at_most=10_000)
    unsubscribe(other)
    unsubscribe(taken)
    report.fact(title, "an epoch of a state that is replaced", best_ns(epochs, EVENTS), "ns", at_most=30_000)


def measure_reads(report):
    """Measure the reads of an agent, in the process."""
    title = "seam: reads"
    for name in ("health", "trace", "issues"):
        report.fact(title, name, best_ns(lambda name=name: seam.call(name), 1) / 1000, "µs")


def measure_capture(report, module):
    """Measure how much a capture slows down other calls, and the captured calls themselves."""
    orders = [{"unit": number % 10} for number in range(CALLS)]
    refusals = [{"unit": 10 if number % 100 == 0 else 3} for number in range(CALLS)]
    file = Path(module.__file__).name
    ways = {}

    def during(work, of=None, **asked):
        def run():
            identity = subscribe("calls", of=of, **asked) if of else None
            if not str(of).startswith((file, "bench_shop")):
                # To begin looks through all functions, which leaves the processor's caches cold.
                work()
            began = time.thread_time()
            work()
            took = time.thread_time() - began
            if identity:
                unsubscribe(identity)
            return took * 1000

        return run

    ways["nothing captured"] = during(lambda: module.serve(orders))
    ways["another function captured"] = during(lambda: module.serve(orders), "statistics:median")
    ways["another line captured"] = during(lambda: module.serve(orders), f"{statistics.__file__}:{line_of_median()}")
    goals = {"another function captured": 1.05, "another line captured": 1.05}
    title = "seam: an application while another function is captured"
    report.table(title, "ms", timed(report, ways), base="nothing captured", at_most=goals)
    ways = {
        "nothing captured": during(lambda: module.serve(refusals)),
        "another function captured": during(lambda: module.serve(refusals), "statistics:median"),
    }
    report.table("seam: the same where 1 in 100 calls raises", "ms", timed(report, ways), base="nothing captured",
                 at_most={"another function captured": 1.05})  # fmt: skip
    line = 1 + module_line("total - total // 10")
    ways = {
        "no capture": during(lambda: module.serve(orders)),
        "a condition that never holds": during(lambda: module.serve(orders), "bench_shop:price", when="count > 3"),
        "a line's condition that never does": during(lambda: module.serve(orders), f"{file}:{line}", when="total < 0"),
        "captured, over after 50 hits": during(lambda: module.serve(orders), "bench_shop:price"),
        "captured, 1,000 hits": during(lambda: module.serve(orders), "bench_shop:price", hits=1000),
    }
    report.table("seam: 20,000 calls of a captured function", "ms", timed(report, ways), base="no capture")


def timed(report, ways):
    """Return the processor time of this thread in milliseconds for each way, measured in turns, without overhead."""
    samples = {name: [] for name in ways}
    for _ in range(report.rounds(ROUNDS)):
        for name, way in ways.items():
            samples[name].append(way())
    return samples


def module_line(text):
    return next(place for place, line in enumerate(SHOP.splitlines()) if text in line)


def line_of_median():
    code = statistics.median.__code__
    return code.co_firstlineno + len((statistics.median.__doc__ or "").splitlines()) + 1


def measure(report):
    with tempfile.TemporaryDirectory() as name:
        module = shop(Path(name))
        measure_events(report)
        measure_reads(report)
        measure_capture(report, module)
        recording.forget()


if __name__ == "__main__":
    main(measure)
