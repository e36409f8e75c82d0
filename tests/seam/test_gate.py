"""An application that does not enable the seam pays nothing and opens nothing."""

import os
import subprocess
import sys
from pathlib import Path

SERVER = Path(__file__).parents[2] / "server"
OFF = """\
import logging, sys, threading
sys.dont_write_bytecode = True
opened = []

def hear(event, args):
    if event.startswith(("socket.", "_thread.start", "subprocess.", "signal.")):
        opened.append((event, args))
    elif event == "open" and (args[1] or "r")[0] != "r":
        opened.append((event, args))

sys.addaudithook(hear)
handlers = list(logging.getLogger().handlers)
import codriver_seam as seam
assert not opened, opened
for number in range(1_000_000):
    seam.emit("log", "x")
with seam.epoch("shop", "add"):
    seam.frame("shop", dict)
assert seam.session_id is None
assert not seam.recording.seam.events and not seam.recording.seam.frames
assert seam.start_repl() is None and seam.start_repl(False) is None
assert not opened, opened
assert threading.active_count() == 1 and logging.getLogger().handlers == handlers
"""


def test_a_disabled_seam_opens_nothing_records_nothing_and_starts_no_repl(tmp_path):
    env = {name: value for name, value in os.environ.items() if name != "CODRIVER_SEAM"} | {"PYTHONPATH": str(SERVER)}
    done = subprocess.run(
        [sys.executable, "-c", OFF], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert not list(tmp_path.iterdir())
