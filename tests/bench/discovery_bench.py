"""Measure the time from writing a REPL's port file until the REPL's tools are listed.

Run with `python tests/bench/discovery_bench.py`. Each round uses a new server without any REPL, and a client that waits
until `tools/list` contains the tools of a connected REPL. The port file appears in the workspace itself, in a project
of a monorepo (a directory with a `deps.edn`), or in place of one that led to no listener.
"""

import random
import statistics
import tempfile
import time
from pathlib import Path

import ports
import real_repls
from live_server import serving
from report import main

LIMIT_S = 1.0
REPLS = ("python", "jvm", "nbb")
STALE_S = 4.0
"""By then the pause between two tries at the stale address has grown to seconds."""


def round_s(port, where):
    """Return the seconds from writing the port file until the tools are listed."""
    with tempfile.TemporaryDirectory() as folder:
        workspace = Path(folder) / "workspace"
        project = workspace / "services" / "billing" if where == "monorepo" else workspace
        project.mkdir(parents=True)
        (project / "deps.edn").write_text("{}")
        file = project / ".nrepl-port"
        if where == "stale":
            file.write_text(str(ports.closed_port()))
        with serving(folder, "--repl", "none") as live, live.client() as client:
            # At any moment between two checks.
            time.sleep(random.uniform(0, 1) + (STALE_S if where == "stale" else 0))
            began = time.perf_counter()
            file.write_text(str(port))
            while "symbol_info" not in client.tools():
                client.await_notification("notifications/tools/list_changed")
            return time.perf_counter() - began


def measure(report):
    for name in REPLS:
        title = f"from the port file of a REPL to its tools, {name}"
        if why := real_repls.missing(name):
            report.skip(title, why)
            continue
        port = real_repls.repl(name).endpoint.port
        for where in ("workspace", "monorepo", "stale"):
            times = [round_s(port, where) for _ in range(report.rounds(9))]
            report.fact(title, where, statistics.median(times), "s", at_most=LIMIT_S)


if __name__ == "__main__":
    main(measure)
