"""Memory of the server: at rest, for each client, and with a full log. Linux, by the resident set in /proc.

Run with `python tests/bench/run.py memory`.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from client_starts import STARTS, begin
from live_server import serving
from report import main

from codriver.log.log_entries import Entry
from codriver.log.transit_format import encode_file

TITLE = "memory of the server"
HISTORY_TITLE = "history: a start with 200 texts of 1 MB in its file"
CLIENTS = 200
TEXT_BYTES = 16_000
"""Length of a text. A thousand of them are about as many bytes as the log may hold, so it is full in both respects."""


def resident_kib(live):
    for line in Path(f"/proc/{live.process.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise RuntimeError("the server is gone")


def bare_import_kib():
    """Return the resident memory of a Python process that has only imported the SDK."""
    code = "import mcp; print(*(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmRSS')))"
    return int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)


def settled_kib(live):
    """Return the resident memory when it no longer changes."""
    seen = [0]
    while len(seen) < 4 or len(set(seen[-3:])) > 1:
        time.sleep(0.3)
        seen.append(resident_kib(live))
        if len(seen) > 40:
            break
    return seen[-1]


def stored_kib(client):
    """Return the size of the text in the log, and of what is kept in memory to access any part of it."""
    health = client.call("server_health")
    return health["log"]["textBytes"] / 1024, health["evaluations"]["keptBytes"] / 1024


def peak_kib(live):
    for line in Path(f"/proc/{live.process.pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1])
    raise RuntimeError("the server is gone")


def measure_history(report, folder):
    with serving(folder, "--repl", "none") as live, live.client() as client:
        client.tools()
        without = peak_kib(live)
    [lines] = (folder / "state").rglob("eval-history.transit.json.lines")
    entries = (Entry(line, "evaluatedCode", f"{line} " + "x" * 10**6, line) for line in range(1, 201))
    file = lines.with_name(lines.name.removesuffix(".lines"))
    file.write_bytes(b"".join(encode_file(entries)))
    began = time.perf_counter()
    with serving(folder, "--repl", "none") as live, live.client() as client:
        report.fact(HISTORY_TITLE, "until the first client is served", time.perf_counter() - began, "s")
        report.fact(HISTORY_TITLE, "peak above a start without", (peak_kib(live) - without) / 1024, "MiB", at_most=60)
        taken = client.call("server_health")["history"]
    report.fact(HISTORY_TITLE, "held", taken["bytes"] / 2**20, "MiB", at_most=16)
    report.fact(HISTORY_TITLE, "on disk afterwards", file.stat().st_size / 2**20, "MiB", at_most=17)


def measure(report):
    if sys.platform != "linux":
        report.skip(TITLE, "it is read from /proc, which only Linux has")
        return
    with tempfile.TemporaryDirectory() as folder:
        measure_history(report, Path(folder) / "history")
        with serving(Path(folder) / "rest", "--repl", "python") as live:
            for name in STARTS:
                with live.client(handshake=False) as item:
                    begin(item, name)
            first = live.client()
            at_rest = settled_kib(live)
            beside = bare_import_kib()
            report.fact(TITLE, "at rest, after the starts of seven real clients", at_rest / 1024, "MiB")
            report.fact(TITLE, "the same beside a bare 'import mcp'", at_rest / beside, "x", at_most=0.85)
            clients = [live.client() for _ in range(CLIENTS)]
            for client in clients:
                client.tools()
            with_clients = settled_kib(live)
            report.fact(TITLE, "for each client", (with_clients - at_rest) / CLIENTS, "KiB", at_most=40)
            for client in [first, *clients]:
                client.close()
        with serving(Path(folder) / "log", "--repl", "python") as live:
            client = live.client()
            # What the first long output brings with it for good, such as the thread that writes files, is no growth.
            client.call("evaluate_code", code=f"print('v' * {20 * TEXT_BYTES})")
            before, held_before = settled_kib(live), sum(stored_kib(client))
            # Each piece of output is an entity of its own, and different from all others.
            code = f"import time, sys\nfor n in range(1100): print(str(n).zfill({TEXT_BYTES})); time.sleep(0.02)"
            answer = client.call("evaluate_code", code=code, timeoutMs=120_000)
            assert answer["ok"]
            after = settled_kib(live)
            logged, kept = stored_kib(client)
            report.fact(TITLE, "text in the log", logged, "KiB")
            report.fact(TITLE, "text kept with evaluations", kept, "KiB")
            grown = (after - before) / (logged + kept - held_before)
            report.fact(TITLE, "grown by, for each byte of text held", grown, "x", at_most=1.2)
            client.close()


if __name__ == "__main__":
    main(measure)
