"""Measure an idle server: its system calls per second, its processor time, and how soon it finds a REPL.

Run with `python tests/bench/run.py idle`. The server has one embedded REPL and one silent client. System calls are
counted by `strace` if it is installed. Linux only.
"""

import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from live_server import serving, until
from report import main

TITLE = "a server that is idle"
SETTLED_S = 10
WATCHED_S = 60


def processor_s(pid):
    """Return the processor time of all threads in seconds, with a resolution of a nanosecond."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def traced_calls(pid, file, seconds):
    """Return the number of system calls per second of all threads of a process."""
    tracer = subprocess.Popen(["strace", "-f", "-c", "-o", str(file), "-p", str(pid)], stderr=subprocess.DEVNULL)
    time.sleep(seconds)
    tracer.terminate()
    tracer.wait()
    (total,) = re.findall(r"^\s*100\.00\s+\S+\s+(?:\S+\s+)?(\d+)\s.*total$", file.read_text(), re.MULTILINE)
    return int(total) / seconds


def connected(client):
    return [session for session in client.call("list_sessions")["sessions"] if "capabilities" in session]


def measure(report):
    if sys.platform != "linux":
        report.skip(TITLE, "it is read from /proc")
        return
    watched_s = max(5, WATCHED_S * report.scale)
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(folder, "--repl", "python") as live,
        live.client(name="codriver-bench") as client,
    ):
        until(lambda: "interrupt_evaluation" in client.tools(), "the REPL's tools")
        time.sleep(SETTLED_S)
        pid, before = live.process.pid, processor_s(live.process.pid)
        time.sleep(watched_s)
        report.fact(TITLE, "processor", (processor_s(pid) - before) / watched_s * 100, "% of a core", at_most=0.1)
        if shutil.which("strace") is None:
            report.skip(TITLE, "its system calls are counted by strace, which is not installed")
        else:
            calls = traced_calls(pid, Path(folder) / "strace", watched_s)
            report.fact(TITLE, "system calls", calls, "a second", at_most=50)
        took = []
        for number in range(report.rounds(8)):
            with (live.folder / "found").open("w") as printed:
                took.append(_found_after_s(live, client, number, printed))
    report.fact(TITLE, "until it has a REPL that was started", statistics.median(took), "s", at_most=1)


def _found_after_s(live, client, number, printed):
    """Return the time from writing the port file of a REPL until it is connected."""
    worker = Path(__file__).parents[2] / "server" / "codriver" / "repls" / "worker" / "__main__.py"
    port_file = live.workspace / f"app{number}" / ".nrepl-port"
    port_file.parent.mkdir(exist_ok=True)
    (port_file.parent / "pyproject.toml").touch()
    process = subprocess.Popen(
        [sys.executable, str(worker)], stdout=subprocess.PIPE, stderr=printed, stdin=subprocess.PIPE, text=True,
        env={**os.environ, **live.environ},
    )  # fmt: skip
    try:
        port = re.search(r"127\.0\.0\.1:(\d+)", process.stdout.readline())[1]
        time.sleep(4)  # until the folder is known as a project's
        began = time.perf_counter()
        port_file.write_text(port)
        until(lambda: any(session.get("address", "").endswith(f":{port}") for session in connected(client)), "the REPL")
        return time.perf_counter() - began
    finally:
        process.stdin.close()
        process.kill()
        process.wait()


if __name__ == "__main__":
    main(measure)
