"""Measure start times: of the server until `initialize` and until its first evaluation, and of `codriver eval`.

Run with `python tests/bench/run.py start`. Everything is measured in turns, and each server has its own directory.
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

from codriver.net.relay_install import install_relay, shipped_relay_directory

BARE = [sys.executable, "-I", "-c", "pass"]
IMPORT_MCP = [sys.executable, "-c", "import mcp"]


def run(command, **options):
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, **options)


def measure(report):
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as servers:
        numbers = iter(range(10_000))

        def answering(repl, code=None):
            # It is stopped outside of the time measured, at the end.
            live = servers.enter_context(serving(Path(folder) / str(next(numbers)), "--repl", repl))
            client = servers.enter_context(live.client())
            assert code is None or client.call("evaluate_code", code=code)["ok"]

        def stop_all():
            servers.pop_all().close()

        rounds = report.rounds(15)
        first_words, first_value = "codriver serve, initialize answered", "codriver serve, 1+2 in embedded Python"
        ways = {
            "python -c 'import mcp'": lambda: run(IMPORT_MCP),
            first_words: lambda: answering("none"),
            first_value: lambda: answering("python", "1+2"),
        }
        samples = in_turns(ways, rounds)
        stop_all()
        report.table(
            "server: start until it is of use", "ms", samples,
            base="python -c 'import mcp'", at_most={first_words: 0.75, first_value: 1.05},
        )  # fmt: skip

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
            base="python -I -c pass", at_most={"codriver eval": 5},
        )  # fmt: skip


def _hook(report, folder, servers):
    """Measure the installed hook program: without a server, and with an answer from one."""
    install_relay(shipped_relay_directory(), folder / "codriver_relay.py")
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
    """Measure the first evaluation in a REPL that is already running.

    A JVM takes 50 ms and more of its own for the first queries about it.
    """
    title = "server: start until the first evaluation on a running nREPL"
    numbers = iter(range(10_000))

    def first_evaluation(port, code):
        live = servers.enter_context(serving(folder / f"first{next(numbers)}", "--nrepl", str(port)))
        client = live.client()
        assert client.call("evaluate_code", code=code)["result"] == "3"
        client.close()

    light = "codriver serve, first answer"
    ways = {"python -c 'import mcp'": lambda: run(IMPORT_MCP)}
    ways[light] = lambda: first_evaluation(repl("python").endpoint.port, "1 + 2")
    if why := missing("jvm"):
        report.skip("the same of a JVM", why)
    else:
        ways["codriver serve, first answer of a JVM"] = lambda: first_evaluation(repl("jvm").endpoint.port, "(+ 1 2)")
    samples = in_turns(ways, report.rounds(10))
    report.table(title, "ms", samples, base="python -c 'import mcp'", at_most={light: 0.8})


if __name__ == "__main__":
    main(measure)
