"""Measure what a watched function costs the program: calls that do not match, that match, and beyond the maximum.

`python tests/bench/watch_bench.py PYTHON…` measures in new processes of each interpreter (3.12 or later), which take
turns. WORKER is another directory of the embedded REPL to measure in the same turns, such as one of an earlier
checkout, and ROUNDS the number of turns. The results are medians and minima of the rounds.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

WORKER = Path(__file__).parents[2] / "server" / "codriver" / "repls" / "worker"
ROUNDS = int(os.environ.get("ROUNDS", "9"))
CALLS, REPEATS = 2000, 15
MATCHES = 200
"""Number of matching calls that are measured one by one."""
PAUSE_S = 0.001
"""The pause between two matching calls of a program that waits in between."""
NAMES = (
    "unwatched",
    "false",
    "false, two arguments",
    "beyond the maximum",
    "match",
    "match, one object",
    "match after a pause",
    "unwatched again",
)


def call_ns(function, *arguments):
    """Return how long a call takes in nanoseconds, the minimum of several repetitions of many calls."""
    best = float("inf")
    calls = range(CALLS)
    for _ in range(REPEATS):
        started = time.perf_counter_ns()
        for _ in calls:
            function(*arguments)
        best = min(best, (time.perf_counter_ns() - started) / CALLS)
    return best


def busy_call_ns(function, *arguments):
    """Return how long one call takes in nanoseconds, the median of many, with other work in between."""
    found = []
    for _ in range(MATCHES):
        json.loads(json.dumps({"orders": [{"item": "tea", "count": number} for number in range(20)]}))
        started = time.perf_counter_ns()
        function(*arguments)
        found.append(time.perf_counter_ns() - started)
    return statistics.median(found)


def paused_call_ns(function, *arguments):
    """Return how long one call takes in nanoseconds, the median of many with pauses between them."""
    found = []
    for _ in range(MATCHES):
        time.sleep(PAUSE_S)
        started = time.perf_counter_ns()
        function(*arguments)
        found.append(time.perf_counter_ns() - started)
    return statistics.median(found)


def order(item, count):
    """Do nothing. This function is watched."""
    return count


class Item:
    def __init__(self):
        self.name, self.price, self.tags = "tea", 3, ["green", "loose"]


def measure(worker):
    """Measure in this process. Return the nanoseconds by name; those of watched calls without the unwatched call."""
    loading = {"__name__": "_codriver_worker.loading"}
    exec(compile((Path(worker) / "loading.py").read_bytes(), "<loading>", "exec"), loading)
    loading["load_package"](str(worker), "_codriver_worker")
    import importlib  # noqa: PLC0415  # as the program loads it

    watches = importlib.import_module("_codriver_worker.python.call_watches")
    active, started = watches.CallWatches(), []

    def watch(condition):
        target = watches.Target("order", sys.modules["__main__"])
        started.append(str(len(started)))
        active.start(started[-1], target, condition, 1000, watches.Client(lambda _: True))

    def cost(condition, time_call, *arguments):
        plain = time_call(order, *arguments)
        watch(condition)
        watched = time_call(order, *arguments)
        active.stop(started[-1], "stopped")
        return watched - plain

    found = {"unwatched": call_ns(order, "tea", 3)}
    found["false"] = cost("count > 5", call_ns, "tea", 3)
    found["false, two arguments"] = cost("count > 5 or item == 'milk'", call_ns, "tea", 3)
    plain = found["unwatched"]
    watch("")
    for _ in range(200):
        order("tea", 3)
    found["beyond the maximum"] = call_ns(order, "tea", 3) - plain
    active.stop(started[-1], "stopped")
    watches.MAX_CALLS_PER_S = 10**9
    found["match"] = cost("count > 2", busy_call_ns, "tea", 3)
    found["match, one object"] = cost("", busy_call_ns, Item(), [1, 2, 3])
    found["match after a pause"] = cost("count > 2", paused_call_ns, "tea", 3)
    found["unwatched again"] = call_ns(order, "tea", 3)
    return found


def main():
    if sys.argv[1] == "--measure":
        print(json.dumps(measure(sys.argv[2])))
        return
    workers = [WORKER, *filter(None, [os.environ.get("WORKER")])]
    sides = [(python, str(worker)) for python in sys.argv[1:] for worker in workers]
    results = {side: [] for side in sides}
    for number in range(ROUNDS):
        for python, worker in sides if number % 2 else sides[::-1]:
            words = [python, "-I", __file__, "--measure", worker]
            results[python, worker].append(json.loads(subprocess.check_output(words)))
    for (python, worker), rounds in results.items():
        print(f"{python}, {worker}")
        for name in NAMES:
            values = [found[name] for found in rounds]
            print(f"  {name}: median {statistics.median(values):.0f} ns, minimum {min(values):.0f}")


if __name__ == "__main__":
    main()
