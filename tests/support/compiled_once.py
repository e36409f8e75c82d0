"""The compilation of what a run of tests loads, done by one process where nothing of it is compiled yet.

On a fresh checkout each process of a run would compile all tests at the same time, some ten seconds of processor, and
each of the first Lisp REPLs Basilisp's core, some fifteen.
"""

import contextlib
import importlib.util
import os
import subprocess
import sys
import time
from pathlib import Path

import lent_servers

TESTS = Path(__file__).parents[1]
POLL_S = 0.1
BASILISP = """
import importlib
import basilisp.main
basilisp.main.init()
for name in ("core", "contrib.nrepl_server", "io", "repl", "string", "test", "walk"):
    importlib.import_module("basilisp." + name)
"""


@contextlib.contextmanager
def one_collects_first():
    """Let one process of the run collect the tests alone, where they are not compiled; the others follow at once."""
    folder = lent_servers.run_folder()
    collected = folder / "collected"
    with (folder / "collects").open("wb") as turn:
        while not (is_done := collected.exists() or _are_tests_compiled()) and not lent_servers.locked(turn.fileno()):
            time.sleep(POLL_S)
        if is_done:
            turn.close()
        yield
        collected.touch()


def _are_tests_compiled():
    """Whether pytest has kept what it compiled of the tests that come last; true where it may keep nothing."""
    return sys.dont_write_bytecode or any(TESTS.glob("wire/__pycache__/test_zmtp.*-pytest-*.pyc"))


def basilisp():
    """A process that compiles Basilisp; None where it is compiled, or not installed."""
    found = importlib.util.find_spec("basilisp")
    core = found and Path(importlib.util.cache_from_source(Path(found.origin).with_name("core.lpy")))
    if core is None or core.with_suffix(".lpyc").exists():
        return None
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environ = kept | {"BASILISP_EMIT_GENERATED_PYTHON": "false"}
    return subprocess.Popen([sys.executable, "-c", BASILISP], env=environ, stderr=subprocess.DEVNULL)
