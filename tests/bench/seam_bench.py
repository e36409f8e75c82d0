"""Measure the seam of a Python application: an event, an epoch, and an agent's reads.

Run with `python tests/bench/seam_bench.py` or `run.py seam`. Everything is measured in this process.
"""

import json
import time

from report import main

import codriver_seam as seam
from codriver_seam import recording

EVENTS = 2000
ROUNDS = 15


def subscribe(topic, **arguments):
    answer = json.loads(
        seam.call("subscribe", json.dumps({"topic": topic, "filter": arguments}), write=lambda text: True)
    )
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
    recording.reset()
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
    """Measure an agent's reads, in the process."""
    title = "seam: reads"
    for name in ("health", "trace", "issues"):
        report.fact(title, name, best_ns(lambda name=name: seam.call(name), 1) / 1000, "µs")


def measure(report):
    measure_events(report)
    measure_reads(report)
    recording.reset()


if __name__ == "__main__":
    main(measure)
