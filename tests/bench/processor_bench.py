"""The server's processor for one evaluation of `1+2` on the embedded Python: function calls and time.

Run with `python tests/bench/run.py processor`. The REPL is another process, whose work does not count.
Each function call is counted, and the least of many rounds is told: on a busy machine the event loop wakes up more
often for one evaluation, which adds up to a tenth, so the number is exact on a quiet machine alone.
"""

import signal
import statistics
import tempfile
from pathlib import Path

from counted_server import Counted, evaluation_calls
from live_server import until
from report import main

TITLE = "the server's processor for one evaluation of 1+2"


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
        line = client.line("tools/call", {"name": "evaluate_code", "arguments": {"code": "1+2"}})
        assert b'"isError":true' not in line

    calls = evaluation_calls(live, evaluate, rounds=report.rounds(200))
    report.fact(TITLE, "function calls", calls, "calls", at_most=1000)
    batch = 200
    times = [live.seconds_of(lambda: [evaluate() for _ in range(batch)]) / batch for _ in range(report.rounds(10))]
    report.fact(TITLE, "time", statistics.median(times) * 1000, "ms", at_most=0.45)


if __name__ == "__main__":
    main(measure)
