"""How cost grows: with the size of the log, of an output and of a file, and with the number of clients.

Run with `python tests/bench/run.py growth`. Each curve's verdict is its exponent: the slope between the logarithms
of its ends. 1 is linear; a straight line with a cost that does not grow stays below. Plots: `run.py --plots DIR`.
"""

import math
import socket
import statistics
import tempfile
import time
from pathlib import Path

from clients_bench import calls_a_second
from live_server import serving
from report import Curve, main, timed_ms

from codriver.log.log_entries import UNASSIGNED_LINE, Entry
from codriver.log.output_log import OutputLog
from codriver_lisp.reader import check_balance

TITLE = "how cost grows: the exponent between the ends of each curve"
LIMIT = 1.15
"""Maximum exponent: 1 for linear, plus what a cache that becomes too small may add."""
QUERY = '[:find ?l :where [?e :output/category "evaluationErrorOutput"] [?e :output/line ?l]]'


def middle_ms(work, rounds):
    return statistics.median(timed_ms(work) for _ in range(rounds))


def log_of(size):
    log = OutputLog(max_entities=size)
    for line in range(size):
        category = "evaluationErrorOutput" if line % 10 == 0 else "evaluationOutput"
        log.append(Entry(UNASSIGNED_LINE, category, f"text {line}", line, who="ann"))
    return log


def log_query(report):
    curve = Curve("a query over the log", "entities", "ms")
    for size in (1_000, 3_000, 10_000, 30_000):
        log = log_of(size)
        curve.points.append((size, middle_ms(lambda log=log: log.query(QUERY), report.rounds(9))))
    return curve


def log_insert(report):
    curve = Curve("one insert at the cap of the log", "entities", "ms")
    for size in (1_000, 3_000, 10_000, 30_000):
        log = log_of(size)

        def insert(log=log):
            for _ in range(200):
                log.append(Entry(UNASSIGNED_LINE, "evaluationOutput", "text", 1))

        curve.points.append((size, middle_ms(insert, report.rounds(9)) / 200))
    return curve


def reading(report):
    curve = Curve("checking the brackets of a file", "forms", "ms")
    form = (
        '(defn function-{0} "Says what it does." [a b] (let [c (+ a b)] {{:sum c :text "a \\"b\\"" :list [1 2 3]}}))\n'
    )
    for size in (100, 1_000, 3_000, 10_000):
        text = "".join(form.format(number) for number in range(size))
        curve.points.append((size, middle_ms(lambda text=text: check_balance(text), report.rounds(5))))
    return curve


def output(report, live):
    curve = Curve("an evaluation that prints", "bytes", "ms")
    client = live.client()
    for size in (10_000, 100_000, 1_000_000, 10_000_000):
        code = f"print('x' * {size})"
        client.call("evaluate_code", code=code)
        work = lambda code=code: client.call("evaluate_code", code=code)  # noqa: E731 - named for the line below
        curve.points.append((size, middle_ms(work, report.rounds(5))))
    client.close()
    return curve


def clients(report, live):
    curve = Curve("one call while so many clients call", "clients", "ms")
    for count in (1, 4, 16, 64, 200):
        seconds = max(0.5, report.scale)
        curve.points.append((count, 1000 * count / calls_a_second(live.port, count, seconds)))
    return curve


def idle_clients(report, live):
    curve = Curve("a call beside so many quiet clients", "clients", "ms")
    caller, quiet = live.client(), []
    for count in (1, 50, 100, 200):
        while len(quiet) < count:
            quiet.append(live.client())
        curve.points.append((count, middle_ms(lambda: caller.call("list_sessions"), report.rounds(50))))
    for client in [caller, *quiet]:
        client.close()
    return curve


def exponent(curve):
    (x0, y0), (x1, y1) = curve.points[0], curve.points[-1]
    return math.log(y1 / y0) / math.log(x1 / x0)


def measure(report):
    found = [log_query(report), log_insert(report), reading(report)]
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder), "--repl", "python") as live:
        time.sleep(0.2)
        found += [output(report, live), clients(report, live), idle_clients(report, live)]
    for curve in found:
        report.curves.append(curve)
        report.fact(TITLE, f"{curve.title}, by {curve.x}", exponent(curve), "", at_most=LIMIT)


if __name__ == "__main__":
    socket.setdefaulttimeout(120)
    main(measure)
