"""Web applications with an embedded REPL, each in a process of its own, as in a real project."""

import contextlib
import os
import signal
import subprocess
import urllib.request
from pathlib import Path

import posix_only
from application import SEAM
from live_server import until
from needs import do_without
from ports import closed_port

PYTHON = Path(__file__).parents[1] / "seam" / ".venv" / "bin" / "python"


def environment():
    """Return the interpreter of applications; skip the test if there is none."""
    if not PYTHON.exists():
        do_without("make tests/seam/.venv with tests/seam/applications.txt")
    return PYTHON


class Application:
    """An application that serves in the workspace, and its answers."""

    def __init__(self, live, client, process, port):
        self.live, self.client, self.process, self.port = live, client, process, port
        self.printed = ""
        """All of its output, once the application has ended."""

    def get(self, path, body=None):
        """Return what it answers, as soon as it does; with `body`, to a POST of JSON."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data=body and body.encode())
        request.add_header("Content-Type", "application/json")

        def answer():
            with contextlib.suppress(OSError), urllib.request.urlopen(request) as got:
                return got.read().decode()

        return until(answer, "the application to answer")

    def result_of(self, code):
        """Return the result of an evaluation in the process that currently serves; None if there is none."""
        (session,) = until(self.sessions, "the application to be found")
        answer = self.client.call("evaluate_code", code=code, replSessionKey=session["key"])
        return answer.get("result")

    def sessions(self):
        """Return the sessions of connected applications."""
        rows = self.client.call("list_sessions")["sessions"]
        return [
            row for row in rows if row["phase"] == "connected" and "runs in the application" in str(row.get("notes"))
        ]


@contextlib.contextmanager
def application(live, client, *words, **environ):
    """Run the application of a Python module in the workspace until it is interrupted.

    It gets its own port, which replaces PORT in its command.
    """
    port = closed_port()
    process = subprocess.Popen(
        [environment(), "-m", *[word.replace("PORT", str(port)) for word in words]],
        cwd=live.workspace,
        env={**os.environ, "PYTHONPATH": str(SEAM), **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    serving = Application(live, client, process, port)
    try:
        yield serving
    finally:
        # As Ctrl+C does, which all processes at a terminal get.
        posix_only.kill_group(process.pid, signal.SIGINT)
        serving.printed = process.communicate(timeout=60)[0]
    assert "by the agent" not in serving.printed
    until(lambda: not (live.workspace / ".nrepl-port").exists(), "the port file to be removed")
