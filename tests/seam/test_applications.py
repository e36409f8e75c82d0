"""Real applications with an embedded REPL, found and used through a running server: Flask with its reloader, and
uvicorn.
"""

import json
import urllib.error
import urllib.request

import pytest
from live_server import serving, until
from web_application import application, environment

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
FAILING = """\
from flask import Flask
import codriver_seam as seam

app = Flask(__name__)

@app.get("/")
def index():
    return "well"

@app.get("/fail")
def fail():
    raise ValueError("no stock")

seam.install(True)
seam.watch_flask(app)
seam.start_repl()
"""


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    environment()
    with serving(tmp_path_factory.mktemp("live"), "--repl", "none") as running:
        yield running


def test_a_flask_application_can_be_used_before_and_after_a_reload(live, client):
    (live.workspace / "shop.py").write_text(SHOP)
    with application(live, client, "flask", "--app", "shop", "run", "--debug", "--port", "PORT") as app:
        serving_process = app.get("/add/7")
        assert app.result_of("import shop; print('by the agent'); shop.orders") == "[7]"
        assert app.result_of("import os; str(os.getpid())") == repr(serving_process)
        assert serving_process != str(app.process.pid)
        (session,) = app.sessions()
        assert (session["key"], session["processId"], session["kind"]) == ("shop", int(serving_process), "port-file")
        refused = client.call("restart_repl", replSessionKey=session["key"])
        assert refused["reason"] == "capability-missing"
        endless = client.call("evaluate_code", code="while True: pass", timeoutMs=1000, replSessionKey=session["key"])
        assert app.get("/add/8")
        ended = client.call("interrupt_evaluation", evaluationId=endless["evaluationId"])
        assert ended["status"] == "interrupted"
        (live.workspace / "shop.py").write_text(SHOP.replace("orders = []", "orders = ['anew']"))
        until(lambda: app.result_of("import shop; shop.orders") == "['anew']", "the reloaded application")
        assert app.sessions()[0]["generation"] > session["generation"]


def test_a_call_without_a_session_uses_the_running_application(tmp_path):
    environment()
    with (
        serving(tmp_path, "--repl", "python") as live,
        live.client() as early,
        live.client(name="late") as late,
    ):
        (live.workspace / "shop.py").write_text(SHOP)
        assert early.call("evaluate_code", code="orders = 'of the REPL'")["ok"]
        with application(live, early, "flask", "--app", "shop", "run", "--port", "PORT") as app:
            app.get("/add/7")
            until(app.sessions, "the application's REPL")
            (session,) = app.sessions()
            first = late.call("evaluate_code", code="import shop; shop.orders")
            assert (first["result"], first["notes"]) == (
                "[7]",
                ["in shop, the running application; replSessionKey selects another REPL: py"],
            )
            assert not late.call("evaluate_code", code="shop.orders").get("notes")
            assert early.call("evaluate_code", code="orders")["result"] == "'of the REPL'"
            (live.workspace / "shop.py").write_text(SHOP.replace("return str", "return 'pid ' + str"))
            loaded = late.call("load_file", filePath="shop.py")
            assert (loaded["ok"], session["key"]) == (True, "shop")
            assert app.get("/add/8").startswith("pid ")


def test_await_runs_on_the_loop_of_an_asyncio_application(live, client):
    (live.workspace / "web.py").write_text(WEB)
    with application(live, client, "uvicorn", "web:app", "--port", "PORT") as app:
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


PRELOADED = """
def post_fork(server, worker):
    import codriver_seam
    codriver_seam.start_repl(True)
"""


@pytest.mark.parametrize("way", ["each worker loads it", "it is loaded before the fork"])
def test_each_gunicorn_worker_has_its_own_repl(live, client, way):
    is_preloaded = way.endswith("fork")
    (live.workspace / "shop.py").write_text(
        SHOP.replace("codriver_seam.start_repl(True)", "") if is_preloaded else SHOP
    )
    (live.workspace / "conf.py").write_text(PRELOADED if is_preloaded else "")
    words = ["gunicorn", "--workers", "2", "--bind", "127.0.0.1:PORT", "--config", "conf.py"]
    with application(live, client, *words, *["--preload"] * is_preloaded, "shop:app") as app:
        rows = until(lambda: len(app.sessions()) == 2 and app.sessions(), "both workers to be found")
        processes = {row["processId"] for row in rows}
        assert app.process.pid not in processes
        assert len(processes) == 2
        for row in rows:
            code = "import os; print('by the agent'); os.getpid()"
            answer = client.call("evaluate_code", code=code, replSessionKey=row["key"])
            assert answer["result"] == str(row["processId"])
        assert int(app.get("/add/7")) in processes
    assert app.printed.split() == ["added"]


def test_an_application_prints_the_same_with_and_without_a_repl(live, client):
    (live.workspace / "shop.py").write_text(SHOP.replace("start_repl(True)", "start_repl()"))
    printed = []
    for environ in ({"CODRIVER_SEAM": "1"}, {"CODRIVER_SEAM": "0"}):
        with application(live, client, "flask", "--app", "shop", "run", "--port", "PORT", **environ) as app:
            app.get("/add/7")
            if environ["CODRIVER_SEAM"] == "1":
                assert app.result_of("import shop; print('by the agent'); shop.orders") == "[7]"
            app.get("/add/8")
        printed.append(app.printed)
    assert printed[0] == printed[1]
    assert printed[0].count("added") == 2


def test_a_failing_flask_request_ends_a_wait_without_any_evaluation(live, client):
    (live.workspace / "failing.py").write_text(FAILING)
    with (
        application(live, client, "flask", "--app", "failing", "run", "--port", "PORT") as app,
        live.relay() as watching,
    ):
        assert app.get("/") == "well"
        until(lambda: "watch_app" in watching.tools(), "the application to show itself")
        watch = watching.call("watch_app", topic="error", who="watcher")
        evaluated = client.call("server_health")["evaluations"]["accepted"]
        waiting = client.begin_call("wait_for", query=watch["query"], since=watch["since"])
        with pytest.raises(urllib.error.HTTPError, match="500"):
            urllib.request.urlopen(f"http://127.0.0.1:{app.port}/fail")
        answer = json.loads(client.answer(waiting)["result"]["content"][0]["text"])
        [[_, text]] = answer["result"]
        assert "error ValueError - /fail " in text
        assert " message=no stock at=failing.py:12" in text
        assert "by=" not in text, "nobody of ours caused it"
        assert client.call("server_health")["evaluations"]["accepted"] == evaluated
        [line] = client.call("inspect_app", what="issues")["lines"]
        assert line.endswith(" message=no stock at=failing.py:12 status=500")
        assert app.get("/") == "well"
