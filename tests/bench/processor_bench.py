"""Measure the server's function calls and processor time for one evaluation of `1+2` in the embedded Python.

Run with `python tests/bench/run.py processor`. The REPL is another process and does not count. The smallest number of
function calls in many rounds is reported. On a busy machine the event loop wakes up more often, which adds up to a
tenth, so the number is only exact on a quiet machine. The processor time varies threefold between machines and hours,
so it is compared with that of a server that only translates, measured in turns.
"""

import re
import shutil
import signal
import socket
import statistics
import subprocess
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
TRACED = 500
"""Number of evaluations during which system calls are counted."""
MAX_CALLS = {"epoll_wait": 3, "futex": 1}
"""Goals for the system calls of one evaluation, by name."""


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


def system_calls(pid, work, file):
    """Return the number of system calls by name that all threads of a process make during `work`."""
    tracer = subprocess.Popen(["strace", "-f", "-c", "-o", str(file), "-p", str(pid)], stderr=subprocess.PIPE)
    tracer.stderr.readline()  # says that it is attached
    work()
    tracer.terminate()
    tracer.communicate()
    rows = [line.split() for line in file.read_text().splitlines() if re.match(r"^\s*[\d.]+\s", line)]
    return {row[-1]: int(row[3]) for row in rows if row[-1] != "total"}


def _measure(report, live, client):
    def evaluate():
        line = client.line("tools/call", CALL)
        assert b'"isError":true' not in line

    calls = evaluation_calls(live, evaluate, rounds=report.rounds(200))
    report.fact(TITLE, "function calls", calls, "calls", at_most=1000)
    if shutil.which("strace") is None:
        report.skip(TITLE, "its system calls are counted by strace, which is not installed")
    else:
        counted = system_calls(live.process.pid, lambda: [evaluate() for _ in range(TRACED)], live.folder / "strace")
        for name, at_most in MAX_CALLS.items():
            report.fact(TITLE, name, counted.get(name, 0) / TRACED, "calls", at_most=at_most)
        report.fact(TITLE, "all system calls", sum(counted.values()) / TRACED, "calls")
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
