"""What libraries of an application report: logging, threads, asyncio, requests, statements, calls."""

import asyncio
import json
import logging
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from needs import interpreter
from seam_shop import TOKEN, query
from web_application import environment

import codriver_seam as seam

SERVER = Path(seam.__file__).parents[1]
PYENV = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))


@pytest.fixture
def logger():
    made = logging.getLogger("shop.orders")
    seam.watch_logging(made)
    seam.watch_logging(made)
    yield made
    made.handlers.clear()


@pytest.fixture
def hooks():
    previous = threading.excepthook, sys.excepthook
    received = []
    threading.excepthook, sys.excepthook = received.append, lambda *error: received.append(error)
    yield received
    threading.excepthook, sys.excepthook = previous


def test_a_log_record_is_one_event_with_its_location(logger):
    logger.warning("low on %s", "tea")
    logger.info("fine")
    try:
        int("no stock")
    except ValueError:
        logger.exception("order failed")
    first, second = query("trace")["lines"]
    assert "warning shop.orders message=low on tea at=" in first
    assert f"{Path(__file__).name}:" in first
    assert "error ValueError message=invalid literal" in second
    assert "logger=shop.orders said=order failed" in second


def test_a_log_record_that_cannot_be_formatted_causes_no_failure(logger, monkeypatch):
    monkeypatch.setattr(logging, "raiseExceptions", False)
    logger.warning("%d", "no number")
    assert query("trace")["total"] == 0


def test_a_log_record_of_a_library_has_the_location_in_the_application(logger, tmp_path):
    library = tmp_path / "site-packages" / "library.py"
    library.parent.mkdir()
    library.write_text("def warn(logger): logger.warning('old')")
    exec(compile(library.read_text(), str(library), "exec"), code := {})
    code["warn"](logger)
    assert f"at={__file__}:" in query("trace")["lines"][0]


def test_log_records_caused_by_an_agents_query_are_not_events(logger):
    seam.frame("chatty", lambda: logger.warning("read"))
    query("state")
    assert query("trace")["total"] == 0


def test_an_exception_that_ends_a_thread_is_an_event_and_reaches_other_hooks(hooks):
    seam.watch_threads()
    seam.watch_threads()
    thread = threading.Thread(target=lambda: 1 / 0, name="worker-1")
    thread.start()
    thread.join()
    [line] = query("issues")["lines"]
    assert "error ZeroDivisionError message=division by zero" in line
    assert "thread=worker-1" in line
    assert len(hooks) == 1
    sys.excepthook(ValueError, ValueError("at the end"), None)
    assert "at the end" in query("issues")["lines"][-1]
    assert len(hooks) == 2


def test_an_unhandled_task_exception_is_an_event():
    async def fail():
        raise LookupError("no order")

    async def main():
        loop = asyncio.get_running_loop()
        received = []
        loop.set_exception_handler(lambda _loop, context: received.append(context))
        seam.watch_asyncio(loop)
        seam.watch_asyncio(loop)
        task = loop.create_task(fail())
        await asyncio.wait([task])
        del task
        await asyncio.sleep(0)
        return received

    received = asyncio.run(main())
    [line] = query("issues")["lines"]
    assert "error LookupError message=no order" in line
    assert len(received) == 1


def application(environ, start_response):
    seam.emit("fx", "db/write")
    if environ["PATH_INFO"] == "/bad":
        raise ValueError(f"for {TOKEN}")
    start_response("201 Created", [])
    return [b"made"]


def test_a_request_is_an_event_with_a_dispatch_id_shared_by_its_effects():
    watched = seam.watch_wsgi(application)
    assert seam.watch_wsgi(watched) is watched
    body = watched({"REQUEST_METHOD": "POST", "PATH_INFO": "/orders"}, lambda status, headers: None)
    assert body == [b"made"]
    inside, request = query("trace", raw=True)["events"]
    assert inside["dispatchId"] == request["dispatchId"]
    assert (request["opType"], request["operation"], request["eventId"]) == ("http", "POST", "/orders")
    assert request["tags"] == {"status": 201}


def test_a_failing_request_is_an_error_with_its_location():
    with pytest.raises(ValueError, match="for"):
        seam.watch_wsgi(application)({"REQUEST_METHOD": "GET", "PATH_INFO": "/bad"}, None)
    [raised] = query("issues")["lines"]
    assert "error ValueError - /bad" in raised
    assert f"{Path(__file__).name}:" in raised
    assert "status=500" in raised
    assert "http GET - /bad" in query("trace")["lines"][-1]


def test_an_asgi_request_is_an_event():
    async def inner(scope, receive, send):
        await send({"type": "http.response.start", "status": 404})
        await send({"type": "http.response.body"})

    watched = seam.watch_asgi(inner)
    assert watched.__name__ == "inner"
    sent = []

    async def send(message):
        sent.append(message["type"])

    asyncio.run(watched({"type": "http", "method": "GET", "path": "/x"}, None, send))
    assert sent == ["http.response.start", "http.response.body"]
    [line] = query("trace")["lines"]
    assert "http GET - /x" in line
    assert line.endswith("status=404")


FLASK = '''
import flask, codriver_seam as seam
seam.install(True)
app = flask.Flask("shop")
seam.watch_flask(app)
seam.watch_flask(app)

@app.route("/<int:number>")
def divide(number):
    """One of so many."""
    return str(1 // number)

client = app.test_client()
assert client.get("/1").status_code == 200
assert client.get("/0").status_code == 500
'''
STARLETTE = """
import asyncio, codriver_seam as seam
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
seam.install(True)

async def add(request):
    return PlainTextResponse("added")

app = seam.watch_asgi(Starlette(routes=[Route("/add/{amount}", add)]))
async def send(message): pass
scope = {"type": "http", "method": "GET", "path": "/add/7", "headers": [], "query_string": b"", "root_path": ""}
asyncio.run(app(scope, None, send))
"""
STATEMENTS = """
import sqlalchemy, codriver_seam as seam
seam.install(True)
engine = sqlalchemy.create_engine("sqlite://")
seam.watch_sqlalchemy(engine)
seam.watch_sqlalchemy(engine)
with engine.connect() as connection:
    connection.execute(sqlalchemy.text("select\\n  :secret"), {"secret": "%s"})
    try:
        connection.execute(sqlalchemy.text("select * from no_such"))
    except sqlalchemy.exc.OperationalError:
        pass
"""


TOLD = """
print(seam.call("trace", '{"raw": true}'))
print(seam.call("handlers"))
"""


def output_of(code, folder):
    """Return the events and routes of a program whose libraries are in the environment of applications."""
    (folder / "program.py").write_text(
        f"{code}\nprint(seam.call('trace', '{{\"raw\": true}}'))\nprint(seam.call('handlers'))"
    )
    done = subprocess.run(
        [environment(), "program.py"], env={**os.environ, "PYTHONPATH": str(SERVER)}, cwd=folder,
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    trace, handlers = map(json.loads, done.stdout.splitlines())
    return trace["events"], [(row["kind"], row["id"], row["line"]) for row in handlers["handlers"]]


def test_a_flask_request_and_its_exception_are_events_with_their_route(tmp_path):
    (fine, raised, request), routes = output_of(FLASK, tmp_path)
    assert (fine["opType"], fine["operation"], fine["eventId"]) == ("http", "GET", "/1")
    assert (raised["opType"], raised["operation"], raised["eventId"]) == ("error", "ZeroDivisionError", "/0")
    assert raised["tags"]["at"].endswith("program.py:11")
    assert raised["tags"]["status"] == 500
    assert (request["opType"], request["tags"]) == ("http", {"status": 500})
    assert fine["handlerId"] == raised["handlerId"] == request["handlerId"] == "GET /<int:number>"
    assert ("route", "GET /<int:number>", 8) in routes
    assert not [name for _, name, _ in routes if name.startswith(("HEAD", "OPTIONS"))]


def test_a_starlette_request_is_an_event_with_its_route(tmp_path):
    (request,), routes = output_of(STARLETTE, tmp_path)
    assert (request["operation"], request["eventId"], request["tags"]) == ("GET", "/add/7", {"status": 200})
    assert routes == [("route", request["handlerId"], 8)] == [("route", "GET /add/{amount}", 8)]


def test_a_statement_is_an_event_with_its_location_and_without_parameters(tmp_path):
    (statement, failed), _ = output_of(STATEMENTS % TOKEN, tmp_path)
    assert (statement["opType"], statement["operation"]) == ("sql", "select")
    assert TOKEN not in str(statement)
    assert statement["tags"]["sql"] == "select ?"
    assert "rows" not in statement["tags"], "few drivers know it when they read"
    assert statement["tags"]["at"].endswith("program.py:8")
    assert failed["tags"]["message"] == "no such table: no_such"
    assert failed["tags"]["at"].endswith("program.py:10")


CALLS = """
import shop_calls, codriver_seam as seam
seam.install(True)
def other(): return 1
print(seam.trace_calls(shop_calls.total, shop_calls.fail))
shop_calls.total(2)
other()
try:
    shop_calls.fail()
except ValueError:
    pass
print(seam.call("trace"))
"""
CALLED = """
def total(n):
    return inner(n) if n else 'end'
def inner(n):
    return total(n - 1)
def fail():
    raise ValueError
"""


@pytest.mark.parametrize(("version", "how"), [("3.8", "wrapped"), ("3.11", "wrapped"), ("3.12", "monitored")])
def test_only_calls_of_named_functions_are_events(version, how, tmp_path):
    (tmp_path / "shop_calls.py").write_text(CALLED)
    env = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{SERVER}"}
    done = subprocess.run(
        [interpreter(f"python{version}"), "-c", CALLS], env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    lines, trace = done.stdout.splitlines()
    assert lines.startswith(how)
    reported = [
        line.split()[1:3] + [word for word in line.split() if "=" in word][:1] for line in json.loads(trace)["lines"]
    ]
    assert reported == [["call", "total", "result=str"]] * 3 + [["call", "fail", "result=raised"]]


def test_importing_a_disabled_seam_installs_nothing():
    code = (
        "import sys, threading, logging\n"
        "before = threading.excepthook, sys.excepthook, list(logging.getLogger().handlers), threading.active_count()\n"
        "import codriver_seam as seam\n"
        "seam.watch_threads(); seam.watch_logging(); app = seam.watch_wsgi(print); seam.trace_calls(print)\n"
        "after = threading.excepthook, sys.excepthook, list(logging.getLogger().handlers), threading.active_count()\n"
        "assert before == after and app is print and 'flask' not in sys.modules\n"
    )
    env = {name: value for name, value in os.environ.items() if name != "CODRIVER_SEAM"} | {"PYTHONPATH": str(SERVER)}
    subprocess.run([sys.executable, "-c", code], env=env, check=True, timeout=60)
