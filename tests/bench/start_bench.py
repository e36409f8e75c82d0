"""Start times: the server until it listens and until its first evaluation, and the one-shot `codriver eval`.

Run with `python tests/bench/start_bench.py`. Everything runs in turns in one run; each server gets a folder of its own.
"""

import contextlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from live_server import serving
from real_repls import missing, repl
from report import in_turns, main

from codriver.net.relay_install import install_relay, shipped_relay

BARE = [sys.executable, "-I", "-c", "pass"]
IMPORT_MCP = [sys.executable, "-c", "import mcp"]


def run(command, **options):
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, **options)


def measure(report):
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as servers:
        numbers = iter(range(10_000))

        def listening():
            # Its line says that it listens; it is stopped outside of the time measured, at the end.
            return servers.enter_context(serving(Path(folder) / str(next(numbers)), "--repl", "none"))

        def stop_all():
            servers.pop_all().close()

        rounds = report.rounds(15)
        title = "server: start until it listens"
        samples = in_turns({"python -c 'import mcp'": lambda: run(IMPORT_MCP), "codriver serve": listening}, rounds)
        stop_all()
        report.table(title, "ms", samples, base="python -c 'import mcp'", at_most={"codriver serve": 1.05})

        _hook(report, Path(folder), servers)
        _first_evaluation(report, Path(folder), servers)
        stop_all()

        live = servers.enter_context(serving(Path(folder) / "eval", "--repl", "python"))
        installed = Path(sys.executable).with_name("codriver")
        command = [str(installed)] if installed.exists() else [sys.executable, "-m", "codriver"]
        evaluate = [*command, "eval", "--workspace", str(live.workspace), "1 + 2"]
        run(evaluate, env=live.environ)
        samples = in_turns(
            {"python -I -c pass": lambda: run(BARE), "codriver eval": lambda: run(evaluate, env=live.environ)}, rounds
        )
        report.table(
            "one evaluation from the command line, server running", "ms", samples,
            base="python -I -c pass", at_most={"codriver eval": 6},
        )  # fmt: skip


def _hook(report, folder, servers):
    """The program of hooks, as it is installed: without a server, and with the answer of one."""
    install_relay(shipped_relay(), folder / "codriver_relay.py")
    live = servers.enter_context(serving(folder / "hook", "--repl", "none"))
    edited = live.workspace / "core.clj"
    edited.write_text("(ns core)\n")
    given = json.dumps({"hook_event_name": "PostToolUse", "tool_input": {"file_path": str(edited)}}).encode()
    bare = [sys.executable, "-I", "-S", "-c", "pass"]
    hook = [sys.executable, "-I", "-S", str(folder / "codriver_hook.py"), "qwen", "edited"]
    samples = in_turns(
        {
            "python -I -S -c pass": lambda: run(bare, input=given),
            "codriver-hook, no server": lambda: run(hook, input=given, cwd=folder),
            "codriver-hook, answered": lambda: run(hook, input=given, cwd=live.workspace),
        },
        report.rounds(30),
    )
    most = {"codriver-hook, no server": 3, "codriver-hook, answered": 5}
    report.table("hook: start until its answer is printed", "ms", samples, base="python -I -S -c pass", at_most=most)


def _first_evaluation(report, folder, servers):
    title = "server: start until the first evaluation on a running JVM nREPL"
    if why := missing("jvm"):
        report.skip(title, why)
        return
    port = str(repl("jvm").endpoint.port)
    numbers = iter(range(10_000))

    def first_evaluation():
        live = servers.enter_context(serving(folder / f"first{next(numbers)}", "--nrepl", port))
        client = live.client()
        assert client.call("evaluate_code", code="(+ 1 2)")["result"] == "3"
        client.close()

    ways = {"python -c 'import mcp'": lambda: run(IMPORT_MCP), "codriver serve, first answer": first_evaluation}
    samples = in_turns(ways, report.rounds(10))
    report.table(title, "ms", samples, base="python -c 'import mcp'", at_most={"codriver serve, first answer": 1.4})


if __name__ == "__main__":
    main(measure)
