"""Compare this checkout with an earlier one on the same machine: start, latency, calls and bytes.

Run with `python tests/bench/earlier_checkout.py --before CHECKOUT [--scale N]`, where CHECKOUT is the folder of the
earlier checkout, for example made by `git worktree add`. Both servers run in this interpreter's environment, each with
its own modules, and are measured in turns. `8985385f` is the last commit before Windows was supported.
"""

import contextlib
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from report import main
from windows_client import Client

TITLE = "this checkout beside an earlier one"
STARTS, ROUNDS, BLOCK = 9, 40, 50
ABOUT = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
EDIT = {"type": "replace_def", "filePath": "a.py", "name": "a"}


class Checkout:
    """A checkout, and a workspace of its own in which its server runs."""

    def __init__(self, checkout, folder):
        self.folder = folder
        self.state = folder / ".calva" / "mcp-server"
        folder.mkdir()
        (folder / "a.py").write_text("def a():\n    return 0\n")
        paths = os.pathsep.join(str(checkout / part) for part in ("server", "relay"))
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        self.environ = {**kept, "PYTHONPATH": paths, "XDG_STATE_HOME": str(folder / "state")}

    @contextlib.contextmanager
    def serving(self, took=None):
        """Run a server, and yield a client that is connected to it."""
        command = [sys.executable, "-m", "codriver", "serve", "--port", "0", "--repl", "python"]
        began = time.perf_counter()
        server = subprocess.Popen(
            command, cwd=self.folder, env=self.environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )  # fmt: skip
        assert b"listens on" in (output := server.stdout.readline()), output
        with Client(self.state) as client:
            if took is not None:
                took.append(1000 * (time.perf_counter() - began))
            yield client
        server.terminate()
        server.communicate()


def calls(client, number):
    """Return the calls to measure, by name."""
    code = f"def a():\n    return {next(number)}"
    return {
        "an evaluation": lambda: client.evaluate("1 + 2"),
        "an evaluation that prints": lambda: client.evaluate("print('x' * 3000)"),
        "the log, asked": lambda: client.call("repl_output_log", limit=20),
        "an edit": lambda: client.call("edit_files", edits=[{**EDIT, "code": code}]),
    }


def measure_calls(report, clients):
    """Measure the latency of each call, in alternating blocks."""
    numbers = {name: itertools.count(1) for name in clients}
    for what in calls(None, itertools.count()):
        took = {name: [] for name in clients}
        block = BLOCK if what != "an edit" else 5
        for _ in range(report.rounds(ROUNDS)):
            for name, client in clients.items():
                for _ in range(block):
                    call = calls(client, numbers[name])[what]
                    began = time.perf_counter()
                    call()
                    took[name].append(1000 * (time.perf_counter() - began))
        report.table(f"{TITLE}: {what}", "ms", took, base="before", at_most={"now": 1.1})


def measure(report):
    """Measure the start, the calls and the bytes of both."""
    with tempfile.TemporaryDirectory() as folder:
        both = {name: Checkout(path, Path(folder) / name) for name, path in (("before", BEFORE), ("now", NOW))}
        took = {name: [] for name in both}
        for _ in range(report.rounds(STARTS)):
            for name, checkout in both.items():
                with checkout.serving(took[name]):
                    pass
        report.table(f"{TITLE}: start", "ms", took, base="before", at_most={"now": 1.1})
        with contextlib.ExitStack() as stack:
            clients = {name: stack.enter_context(checkout.serving()) for name, checkout in both.items()}
            sizes = {name: {} for name in both}
            for name, client in clients.items():
                client.evaluate("1")
                sizes[name]["tools/list"] = len(json.dumps(client.ask("tools/list", {})))
                for what, call in calls(client, itertools.count(1)).items():
                    sizes[name][what] = len(json.dumps(call()))
            report.grid(
                f"{TITLE}: bytes of answers", {what: {n: sizes[n][what] for n in both} for what in sizes["now"]}
            )
            measure_calls(report, clients)


NOW = Path(__file__).parents[2]
BEFORE = NOW

if __name__ == "__main__":
    if "--before" in sys.argv:
        place = sys.argv.index("--before")
        BEFORE = Path(sys.argv[place + 1]).resolve()
        del sys.argv[place : place + 2]
    main(measure)
