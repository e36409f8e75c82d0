"""The server's processor for one evaluation of `1+2` on the embedded Python: function calls and time.

Run with `python tests/bench/run.py processor`. The REPL is another process, whose work does not count.
Each function call is counted, and the least of many rounds is told: on a busy machine the event loop wakes up more
often for one evaluation, which adds up to a tenth, so the number is exact on a quiet machine alone.
"""

import os
import signal
import statistics
import sys
import tempfile
from pathlib import Path

from live_server import Live, until
from report import main

TITLE = "the server's processor for one evaluation of 1+2"
SERVER = Path(__file__).with_name("profiled_server.py")


class Counted(Live):
    """A server that counts its own work."""

    def __init__(self, folder, *options):
        self.counts = folder / "counts"
        self.counts.touch()
        os.environ["BENCH_COUNTS"] = str(self.counts)
        super().__init__(folder, *options)

    def command(self, name, *options):
        return [sys.executable, str(SERVER), name, "--workspace", str(self.workspace), *options]

    def ask(self, number):
        """What the server tells upon a signal."""
        before = self.counts.read_text()
        self.process.send_signal(number)
        told = until(lambda: self.counts.read_text().removeprefix(before), "the server's count")
        return float(told)

    def calls_of(self, work):
        """The number of function calls of the work."""
        self.ask(signal.SIGUSR1)
        work()
        return self.ask(signal.SIGUSR1)

    def seconds_of(self, work):
        """The processor time of the work."""
        before = self.ask(signal.SIGUSR2)
        work()
        return self.ask(signal.SIGUSR2) - before


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

    for _ in range(50):
        evaluate()
    # The least is the evaluation alone, with no timer of the server in between.
    idle = min(live.calls_of(lambda: None) for _ in range(10))
    calls = min(live.calls_of(evaluate) for _ in range(report.rounds(200))) - idle
    report.fact(TITLE, "function calls", calls, "calls", at_most=1000)
    batch = 200
    times = [live.seconds_of(lambda: [evaluate() for _ in range(batch)]) / batch for _ in range(report.rounds(10))]
    report.fact(TITLE, "time", statistics.median(times) * 1000, "ms", at_most=0.45)


if __name__ == "__main__":
    main(measure)
