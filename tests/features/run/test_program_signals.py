"""Signals and the terminal of a program, before and after a REPL was requested."""

# mypy: disable-error-code="attr-defined"
# It is skipped on systems that lack some of these functions.

import os
import pty
import signal
import subprocess
import sys
from contextlib import suppress

import pytest
from live_server import until
from started_programs import SHOP, program, rows

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")

READS = """\
import os, sys
print("starts", os.getpid(), os.isatty(0), os.getpgrp() == os.tcgetpgrp(0), flush=True)
try:
    for line in sys.stdin: print("it read", line.strip(), flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
    sys.exit(4)
"""
PAUSES = """\
import signal, sys
signal.signal(signal.SIGTERM, lambda *_: print("handled", flush=True))
print("starts", flush=True)
signal.pause()
print("continues", flush=True)
sys.exit(5)
"""
both_states = pytest.mark.parametrize("is_attached", [False, True], ids=["waiting", "attached"])


@both_states
def test_input_and_ctrl_c_of_a_terminal_reach_the_program(live, client, is_attached):
    file = live.workspace / "reads.py"
    file.write_text(READS)
    terminal, other = pty.openpty()
    # The first terminal that the leader of a session opens controls it.
    words = ["sh", "-c", 'exec "$@" <>"$0" >&0 2>&0', os.ttyname(other), *live.run_command(), sys.executable, str(file)]
    process = subprocess.Popen(words, env=live.environ, start_new_session=True)
    output = b""

    def has_printed(text):
        nonlocal output
        with suppress(OSError):  # the program has ended
            output += os.read(terminal, 4096)
        return text in output

    try:
        until(lambda: has_printed(f"starts {process.pid} True True".encode()), "the start in the foreground")
        if is_attached:
            assert client.call("evaluate_code", code="1", replSessionKey="reads")["ok"]
        os.write(terminal, b"tea\n")
        until(lambda: has_printed(b"it read tea"), "the line")
        os.write(terminal, b"\x03")
        until(lambda: has_printed(b"interrupted"), "the interrupt")
        assert process.wait(60) == 4
    finally:
        process.kill()
        process.wait()
        os.close(terminal)
        os.close(other)


@both_states
def test_a_pause_ends_only_with_a_signal_for_the_program(live, client, is_attached):
    with program(live, PAUSES, "pauses.py") as pauses:
        os.kill(pauses.process.pid, signal.SIGURG)
        if is_attached:
            code = "import sys, threading; sys._current_frames()[threading.main_thread().ident].f_code.co_name"
            assert client.call("evaluate_code", code=code, replSessionKey="pauses").get("result") == "'pause'"
        else:
            (row,) = rows(client, "pauses")
            assert row["phase"] == "ready"
        pauses.process.send_signal(signal.SIGTERM)
        assert pauses.process.stdout.read() == "handled\ncontinues\n"
        assert pauses.end() == 5


@both_states
def test_a_signal_that_ends_a_program_is_its_exit_status(live, client, is_attached):
    with program(live, SHOP) as shop:
        if is_attached:
            assert client.call("evaluate_code", code="1", replSessionKey="shop")["ok"]
        shop.process.send_signal(signal.SIGTERM)
        assert shop.end() == -signal.SIGTERM
