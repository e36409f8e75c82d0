"""Compare the cost of recording calls with coverage.py, cProfile and a debugger's single steps.

A synthetic project of nested calls, methods and generators runs plainly and with each of them. Run with `python
tests/bench/trace_bench.py`, using the interpreter to measure.
"""

import bdb
import cProfile
import importlib
import importlib.util
import sys
import tempfile
from pathlib import Path

from report import Report, in_turns

sys.path.insert(0, str(Path(__file__).parents[2] / "server"))

from codriver.repls.worker.features.traces import LiveRecording

PLAIN = "plainly"
PROJECT = """
class Cart:
    def __init__(self, items):
        self.items = items
    def total(self):
        return sum(price(item, amount) for item, amount in self.items)

def price(item, amount):
    return item["price"] * amount * rate(amount)

def rate(amount):
    return 0.8 if amount > 10 else 1

def numbers(count):
    for number in range(count):
        yield number

def work(rounds):
    for number in range(rounds):
        Cart([({"price": one}, one + number) for one in numbers(10)]).total()
"""


class Steps(bdb.Bdb):
    """A debugger that stops nowhere."""

    def user_line(self, frame):
        del frame


def measure(report, rounds=300):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "traced_project.py").write_text(PROJECT)
        sys.path.insert(0, name)
        try:
            work = importlib.import_module("traced_project").work

            def recorded(names):
                live = LiveRecording([name], names)
                work(rounds)
                live.end()

            def profiled():
                with cProfile.Profile():
                    work(rounds)

            ways = {
                PLAIN: lambda: work(rounds),
                "all calls recorded": lambda: recorded([]),
                "one function recorded": lambda: recorded(["rate"]),
                "cProfile": profiled,
                "bdb, every line": lambda: Steps().runcall(work, rounds),
            }
            if importlib.util.find_spec("coverage") is not None:
                ways["coverage.py"] = lambda: covered(name, lambda: work(rounds))
            samples = in_turns(ways, report.rounds(10))
        finally:
            sys.path.remove(name)
            sys.modules.pop("traced_project", None)
    report.table(f"{rounds * 41:,} calls of a project, Python {sys.version.split()[0]}", "ms", samples, base=PLAIN)


def covered(folder, act):
    """Do something while coverage.py records the lines below a folder."""
    coverage = importlib.import_module("coverage")
    lines = coverage.Coverage(source=[folder], data_file=None)
    lines.start()
    try:
        act()
    finally:
        lines.stop()


if __name__ == "__main__":
    measure(Report())
