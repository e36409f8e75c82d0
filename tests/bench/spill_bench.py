"""Compare long texts in files with long texts in memory: the cost for the server and for its other clients.

Run with `python tests/bench/run.py spill`. There are two servers, one with `spillMaxBytes = 0`, which take turns. While
each receives long texts, another client sends a ping every 10 ms. Memory is the maximum resident set since the server's
start, from /proc (Linux).
"""

import contextlib
import statistics
import sys
import tempfile
import time
from pathlib import Path

from live_server import serving
from log_bench import PRINTING, measure_pings
from report import main, timed_ms

IN_MEMORY, IN_FILES = "in memory", "in files"
FLOOD = "import sys\nfor n in range({0}): sys.stdout.write(f'{{n:07}}\\n' * 8192); sys.stdout.flush()\nNone"
WORK = {
    "100,000 lines": PRINTING,
    "a value of 10 MB": "'x' * 10_485_760",
    "a value of 10 M characters, half of them Cyrillic": "'жx' * 5_242_880",
    "50 MB printed at full speed (in memory 32 of them)": FLOOD.format(800),
}
RANGE = 50_000


def highest_mib(live):
    for line in Path(f"/proc/{live.process.pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("the server is gone")


@contextlib.contextmanager
def servers():
    """Run a server for each way, with two clients each."""
    with contextlib.ExitStack() as stack:
        ways = {}
        for way, most in ((IN_MEMORY, 0), (IN_FILES, 2**30)):
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            (folder / "workspace").mkdir()
            (folder / "workspace" / "codriver.toml").write_text(f"spillMaxBytes = {most}\n")
            live = stack.enter_context(serving(folder, "--repl", "python"))
            client = live.client()
            client.call("evaluate_code", code="'ready'")
            ways[way] = live, client, live.client()
        yield ways


def measure(report):
    with servers() as ways:
        for name, code in WORK.items():
            times = {way: [] for way in ways}
            pings = {way: [] for way in ways}
            worst = {way: [] for way in ways}
            for _ in range(report.rounds(9)):
                for way, (_, client, pinger) in ways.items():
                    began = time.perf_counter()
                    delays = measure_pings(client, pinger, {"code": code, "timeoutMs": 120_000})
                    times[way].append((time.perf_counter() - began) * 1000)
                    pings[way] += delays
                    worst[way].append(max(delays))
            report.table(f"{name}: until it is answered", "ms", times, base=IN_MEMORY)
            report.table(f"{name}: a ping meanwhile", "ms", pings, base=IN_MEMORY)
            report.table(f"{name}: the worst ping of each time", "ms", worst, base=IN_MEMORY)
        if sys.platform == "linux":
            for way, (live, _, _) in ways.items():
                report.fact("highest memory by then", way, highest_mib(live), "MiB")
        _, client, _ = ways[IN_FILES]
        identity = client.call("evaluate_code", code=FLOOD.format(3200), timeoutMs=120_000)["evaluationId"]
        for name, requested in (
            ("50 KB from the middle of 200 MB", {"part": "stdout", "from": 100 * 2**20, "length": RANGE}),
            ("200 MB searched for a text", {"grep": "no such text"}),
        ):
            took = [
                timed_ms(lambda a=requested: client.call("get_evaluation", evaluationId=identity, **a))
                for _ in range(report.rounds(5))
            ]
            report.fact("reading a long text", name, statistics.median(took), "ms")


if __name__ == "__main__":
    main(measure)
