"""Real applications with a REPL in them, found and used through a running server: Flask and its reloader, uvicorn."""

import contextlib
import os
import signal
import socket
import subprocess
import urllib.request
from pathlib import Path

import pytest
from application import SEAM
from live_server import serving, until
from needs import do_without

PYTHON = Path(__file__).parent / ".venv" / "bin" / "python"
SHOP = """\
import os
from flask import Flask
import codriver_seam

app = Flask(__name__)
orders = []

@app.get("/add/<int:amount>")
def add(amount):
    print("added", flush=True)
    orders.append(amount)
    return str(os.getpid())

codriver_seam.start_repl(True)
"""
WEB = """\
import asyncio, os
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
import codriver_seam

queue = asyncio.Queue()

async def add(request):
    await queue.put(int(request.path_params["amount"]))
    return PlainTextResponse(str(os.getpid()))

app = Starlette(routes=[Route("/add/{amount}", add)])
codriver_seam.start_repl(True)
"""


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    if not PYTHON.exists():
        do_without("make tests/seam/.venv with tests/seam/applications.txt")
    with serving(tmp_path_factory.mktemp("live"), "--repl", "none") as running:
        yield running


class Application:
    """One that serves in the workspace, and what answers there."""

    def __init__(self, live, client, process, port):
        self.live, self.client, self.process, self.port = live, client, process, port

    def get(self, path):
        def answer():
            with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}") as got:
                return got.read().decode()

        return until(answer, "the application to answer")

    def result_of(self, code):
        """The result of an evaluation in the process that serves now; None where there is none."""
        (session,) = until(self.sessions, "the application to be found")
        answer = self.client.call("evaluate_code", code=code, replSessionKey=session["key"])
        return answer.get("result")

    def sessions(self):
        rows = self.client.call("list_sessions")["sessions"]
        return [row for row in rows if row["phase"] == "connected" and "runs in the application" in str(row["notes"])]


@contextlib.contextmanager
def application(live, client, name, text, *words):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (live.workspace / name).write_text(text)
    process = subprocess.Popen(
        [PYTHON, "-m", *words, "--port", str(port)],
        cwd=live.workspace,
        env={**os.environ, "PYTHONPATH": str(SEAM)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    try:
        yield Application(live, client, process, port)
    finally:
        # As Ctrl+C does, which all processes at a terminal get.
        os.killpg(process.pid, signal.SIGINT)
        printed = process.communicate(timeout=60)[0]
    assert "by the agent" not in printed
    until(lambda: not (live.workspace / ".nrepl-port").exists(), "the port file to be removed")


def test_flask_is_found_used_and_found_again_after_its_reloader(live, client):
    with application(live, client, "shop.py", SHOP, "flask", "--app", "shop", "run", "--debug") as app:
        serving_process = app.get("/add/7")
        assert app.result_of("import shop; print('by the agent'); shop.orders") == "[7]"
        assert app.result_of("import os; str(os.getpid())") == repr(serving_process)
        assert serving_process != str(app.process.pid)
        (session,) = app.sessions()
        assert (session["processId"], session["kind"]) == (int(serving_process), "port-file")
        refused = client.call("restart_repl", replSessionKey=session["key"])
        assert refused["reason"] == "capability-missing"
        endless = client.call("evaluate_code", code="while True: pass", timeoutMs=1000, replSessionKey=session["key"])
        assert app.get("/add/8")
        ended = client.call("interrupt_evaluation", evaluationId=endless["evaluationId"])
        assert ended["status"] == "interrupted"
        (live.workspace / "shop.py").write_text(SHOP.replace("orders = []", "orders = ['anew']"))
        until(lambda: app.result_of("import shop; shop.orders") == "['anew']", "the reloaded application")
        assert app.sessions()[0]["generation"] > session["generation"]


def test_an_asyncio_application_is_awaited_on_its_own_loop(live, client):
    with application(live, client, "web.py", WEB, "uvicorn", "web:app") as app:
        serving_process = app.get("/add/5")
        assert app.result_of("import os; str(os.getpid())") == repr(serving_process)
        assert app.result_of("import web; await web.queue.get()") == "5"
        (session,) = app.sessions()
        waiting = client.call(
            "evaluate_code", code="await web.queue.get()", timeoutMs=1000, replSessionKey=session["key"]
        )
        ended = client.call("interrupt_evaluation", evaluationId=waiting["evaluationId"])
        assert ended["status"] == "interrupted"
        assert app.get("/add/6")
        assert app.result_of("await web.queue.get()") == "6"
