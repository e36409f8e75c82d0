"""Measure the server's memory during floods from a Jupyter kernel, and the delays for other clients.

Run with `python tests/bench/run.py flood`. A client of a server with an ipykernel and one of a server without any REPL
send pings in turns until the flood ends. All floods run in one server, whose memory is not reset. Linux only.
"""

import os
import select
import statistics
import sys
import tempfile
import time
from pathlib import Path

import real_kernels
from live_server import serving
from report import main

TITLE = "floods of a kernel"
MAX_MIB = 200
MAX_TIMES_LONGER = 5
REST_S = 0.002
"""Pause between two pings, which must not be what keeps the server busy."""
FLOODS = {
    "15 s of displays of 1 MB": "import time\nover = time.time() + SECONDS\n"
    "while time.time() < over: display({'text/plain': 'a' * (1 << 20)}, raw=True)",
    "1 GB in one print": "print('y' * (1 << 30))",
    "a display of 900 MB": "display({'text/plain': 'a' * (900 << 20)}, raw=True)",
    "15 s of prints": "import time\nover = time.time() + SECONDS\nwhile time.time() < over: print('x' * 20_000)",
    "15 s of displays after all": "import time\nover = time.time() + SECONDS\n"
    "while time.time() < over: display({'text/plain': 'a' * (1 << 20)}, raw=True)",
}


def memory_mib(live, name):
    """Return the server's memory (`VmRSS`), or its maximum since the last reset (`VmHWM`)."""
    status = Path(f"/proc/{live.process.pid}/status").read_text()
    return int(status.partition(f"{name}:")[2].split()[0]) / 1024


def forget_peak(live):
    """Reset the maximum memory of the process. Source: proc(5), `clear_refs`."""
    Path(f"/proc/{live.process.pid}/clear_refs").write_text("5")


def pings(waits, flooded, idle):
    """Return the times of both clients' pings in ms, sent in turns until the answer for `waits` is received."""
    took = {flooded: [], idle: []}
    while not select.select([waits.socket], [], [], REST_S)[0]:
        for client, times in took.items():
            began = time.perf_counter()
            client.request("ping")
            times.append(1000 * (time.perf_counter() - began))
    return took[flooded], took[idle]


def measure(report):
    if sys.platform != "linux" or real_kernels.missing("ipykernel"):
        report.skip(TITLE, real_kernels.missing("ipykernel") or "memory is read from /proc")
        return
    seconds = max(2, round(15 * report.scale))
    os.environ["PATH"] = f"{real_kernels.VENV / 'bin'}:{os.environ['PATH']}"
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(Path(folder) / "flooded", "--repl", "jupyter") as live,
        serving(Path(folder) / "idle", "--repl", "none") as quiet,
        live.client() as client, live.client() as other, quiet.client() as idle,
    ):  # fmt: skip
        client.call("evaluate_code", code="1", timeoutMs=120_000)
        for name, code in FLOODS.items():
            forget_peak(live)
            evaluation = client.begin_call(
                "evaluate_code", code=code.replace("SECONDS", str(seconds)), timeoutMs=600_000
            )
            flooded, without = pings(client, other, idle)
            client.answer(evaluation)
            report.fact(TITLE, f"{name}: at most", memory_mib(live, "VmHWM"), "MiB", at_most=MAX_MIB)
            report.fact(TITLE, f"{name}: afterwards", memory_mib(live, "VmRSS"), "MiB")
            _compare(report, f"pings beside {name}", flooded, without)


def _compare(report, title, flooded, without):
    """Compare the pings of both servers, as multiples of the median when idle, because a busy machine delays both."""
    median = statistics.median(without)
    report.fact(title, "pings of each", len(flooded), "")
    for name, part in (("median", 0.5), ("nine of ten", 0.9), ("99 of 100", 0.99)):
        here, there = (sorted(times)[int(len(times) * part)] / median for times in (flooded, without))
        report.fact(title, f"{name}, flooded", here, f"x, idle {there:.3g}x", at_most=MAX_TIMES_LONGER * there)
    longest, there = (max(times) / median for times in (flooded, without))
    report.fact(title, "longest, flooded", longest, f"x, idle {there:.3g}x", at_most=MAX_TIMES_LONGER * there)


if __name__ == "__main__":
    main(measure)
