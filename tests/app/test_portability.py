"""A server, its REPL and a relay without POSIX-only modules, as far as a POSIX system can show it."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from live_server import WAIT_S, Relayed, environ, serving, until
from process_states import is_running

SUPPORT = Path(__file__).parents[1] / "support"
IMPORT_ALL = """
import importlib, pkgutil, sys
import codriver, codriver_relay
assert sys.without_posix
for package in (codriver, codriver_relay):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        elsewhere = ("__main__", ".data.", ".worker.fresh.isolation")
        if not any(part in module.name for part in elsewhere):
            importlib.import_module(module.name)
"""


@pytest.fixture(scope="module")
def hidden(tmp_path_factory):
    """Return the variables of a process for which these features are hidden."""
    folder = tmp_path_factory.mktemp("hidden")
    shutil.copy(SUPPORT / "without_posix.py", folder / "sitecustomize.py")
    return {"PYTHONPATH": str(folder)}


def test_every_module_can_be_imported(hidden, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL], env={**environ(tmp_path), **hidden}, capture_output=True, text=True,
        timeout=WAIT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def live(hidden, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        for name, value in hidden.items():
            patch.setenv(name, value)
        with serving(tmp_path_factory.mktemp("portable"), "--repl", "python", "--python", sys.executable) as running:
            yield running


def evaluate(live, code, **arguments):
    """Evaluate over a relay that never polls, in the REPL of a server without process groups."""
    with Relayed([sys.executable, "-m", "codriver_relay", str(live.port_file)], live.environ) as client:
        return client.call("evaluate_code", code=code, timeoutMs=60_000, **arguments)


def test_code_evaluated_through_a_relay_returns_its_output(live):
    answer = evaluate(
        live, "import os, sys\nos.system('echo below')\nprint('out')\nsys.without_posix, hasattr(os, 'killpg')"
    )
    assert answer["result"] == "(True, False)", answer
    assert sorted(answer["stdout"].split()) == ["below", "out"]


def test_an_endless_loop_can_be_interrupted_and_a_repl_can_be_restarted(live):
    with live.client() as client:
        running = client.call("evaluate_code", code="while True: pass", timeoutMs=1000)
        assert client.call("interrupt_evaluation", evaluationId=running["evaluationId"])["ok"]
        until(lambda: client.call("evaluate_code", code="1 + 1").get("result") == "2", "the interrupt")
        before = client.call("evaluate_code", code="import os; os.getpid()")
        assert client.call("restart_repl", timeoutMs=60_000)["ok"]
        after = client.call("evaluate_code", code="import os; os.getpid()", timeoutMs=60_000)
    assert (before["generation"], after["generation"]) == (1, 2)
    assert before["result"] != after["result"]


def test_a_repl_that_exits_is_reported_and_restarted(live):
    with live.client() as client:
        gone = client.call("evaluate_code", code="import os; os._exit(3)", timeoutMs=60_000)
        assert gone["reason"] == "repl-disconnected"
        assert client.call("evaluate_code", code="40 + 2", timeoutMs=60_000)["result"] == "42"


def test_the_repl_ends_with_its_server(hidden, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", hidden["PYTHONPATH"])
    with serving(tmp_path, "--repl", "python", "--python", sys.executable) as live:
        worker = int(evaluate(live, "import os; os.getpid()")["result"])
        live.process.kill()
        live.process.wait(WAIT_S)
        until(lambda: not is_running(worker), "the end of the REPL")
