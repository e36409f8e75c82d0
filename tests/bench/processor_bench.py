"""Measure the server's function calls and processor time for one evaluation of `1+2` in the embedded Python.

Run with `python tests/bench/run.py processor`. The REPL is another process and does not count. The smallest number of
function calls in many rounds is reported. On a busy machine the event loop wakes up more often, which adds up to a
tenth, so the number is only exact on a quiet machine. The processor time varies threefold between machines and hours,
so it is compared with that of a server that only translates, measured in turns.
"""

import signal
import socket
import statistics
import tempfile
from pathlib import Path

from counted_server import Counted, evaluation_calls, seconds_of
from live_server import Bare, until
from peers import serving_least
from report import main

TITLE = "the server's processor for one evaluation of 1+2"
LEAST = "a server that only translates"
CALL = {"name": "evaluate_code", "arguments": {"code": "1+2"}}
BATCH = 100


def measure(report):
    if not hasattr(signal, "SIGUSR1"):
        report.skip(TITLE, "it is asked for by signals, which Windows does not have")
        return
    with tempfile.TemporaryDirectory() as folder:
        live = Counted(Path(folder), "--repl", "python")
        try:
            with live.client() as client:
                until(lambda: "interrupt_evaluation" in client.tools(), "the REPL's tools")
                _measure(report, live, client)
        finally:
            live.stop()


def _measure(report, live, client):
    def evaluate():
        line = client.line("tools/call", CALL)
        assert b'"isError":true' not in line

    calls = evaluation_calls(live, evaluate, rounds=report.rounds(200))
    report.fact(TITLE, "function calls", calls, "calls", at_most=1000)
    samples = {LEAST: [], "codriver serve": []}
    counts = live.counts.with_name("least")
    counts.touch()
    with (
        serving_least(live.repl_address().rpartition(":")[2], counts) as (process, port),
        Bare(socket.create_connection(("127.0.0.1", port))) as least,
    ):
        for _ in range(report.rounds(20)):
            took = seconds_of(process, counts, lambda: [least.line("tools/call", CALL) for _ in range(BATCH)])
            samples[LEAST].append(took / BATCH * 1000)
            samples["codriver serve"].append(live.seconds_of(lambda: [evaluate() for _ in range(BATCH)]) / BATCH * 1000)
    report.fact(TITLE, "time", statistics.median(samples["codriver serve"]), "ms", at_most=0.45)
    report.table(f"{TITLE}, beside {LEAST}", "ms", samples, base=LEAST)


if __name__ == "__main__":
    main(measure)
