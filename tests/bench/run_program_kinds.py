"""The kinds of programs that `run_programs.py` starts, with their files and what is evaluated in them."""

from dataclasses import dataclass, field

SCRIPT = """\
import os, sys
HITS = [len(sys.argv)]
def main():
    print("argv", sys.argv[1:], "path", sys.path[1:3], "modules", "sitecustomize" in sys.modules, flush=True)
    print("ready", flush=True)
    for line in sys.stdin:
        print("read", line.strip(), flush=True)
    print("done", file=sys.stderr, flush=True)
    sys.exit(3)
"""
ASYNCIO = """\
import asyncio, sys
async def main():
    global LOOP, HITS
    LOOP, HITS = asyncio.get_running_loop(), [1]
    reader = asyncio.StreamReader()
    await LOOP.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    print("ready", flush=True)
    await reader.read()
    print("done", flush=True)
asyncio.run(main())
"""
THREADS = """\
import sys, threading
HITS, STOP = [1], threading.Event()
def work(number):
    while not STOP.wait(0.01):
        pass
    HITS.append(number)
threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
for one in threads: one.start()
print("ready", flush=True)
sys.stdin.read()
STOP.set()
for one in threads: one.join()
print("done", len(HITS), flush=True)
"""
POOL = """\
import multiprocessing, sys
HITS = [1]
def square(number):
    return number * number
if __name__ == "__main__":
    method = sys.argv[1]
    with multiprocessing.get_context(method).Pool(2) as pool:
        print(pool.map(square, range(5)), flush=True)
        print("ready", flush=True)
        sys.stdin.read()
        print(pool.map(square, range(5)), flush=True)
        pool.close()
        pool.join()
"""
FORKS = """\
import os, sys, warnings
warnings.simplefilter("always")
HITS = [1]
print("ready", flush=True)
sys.stdin.read()
for number in range(50):
    pid = os.fork()
    if not pid:
        os._exit(number % 7)
    os.waitpid(pid, 0)
print("done", flush=True)
"""
FLASK = """\
from flask import Flask
app = Flask(__name__)
HITS = []
@app.get("/")
def index():
    HITS.append(1)
    return "version 1"
"""
DEBUGGED = (
    FLASK
    + """\
if __name__ == "__main__":
    import sys
    app.run(port=int(sys.argv[1]), debug=True)
"""
)
EVENTLET = """\
import eventlet
eventlet.monkey_patch()
from eventlet import wsgi
import sys
HITS = []
def app(environ, start_response):
    HITS.append(1)
    start_response("200 OK", [("Content-Length", "9")])
    return [b"version 1"]
wsgi.server(eventlet.listen(("127.0.0.1", int(sys.argv[1]))), app, log_output=False)
"""
ASGI = """\
HITS = []
async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        while True:
            message = await receive()
            await send({"type": message["type"] + ".complete"})
            if message["type"] == "lifespan.shutdown":
                return
    HITS.append(1)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"9")]})
    await send({"type": "http.response.body", "body": b"version 1"})
"""
DJANGO = {
    "manage.py": """\
import os, sys
from django.core.management import execute_from_command_line
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "site_settings")
execute_from_command_line(sys.argv)
""",
    "site_settings.py": """\
SECRET_KEY, DEBUG, ROOT_URLCONF, ALLOWED_HOSTS = "x", True, "site_urls", ["*"]
INSTALLED_APPS, MIDDLEWARE, DATABASES, USE_TZ = [], [], {}, True
""",
    "site_urls.py": """\
from django.http import HttpResponse
from django.urls import path
HITS = []
def index(request):
    HITS.append(1)
    return HttpResponse("version 1")
urlpatterns = [path("", index)]
""",
}
CELERY = """\
import os
from celery import Celery
app = Celery("jobs", broker="filesystem://", backend="file://results")
app.conf.broker_transport_options = {"data_folder_in": "queue", "data_folder_out": "queue"}
HITS = []
@app.task
def add(x, y):
    HITS.append(x + y)
    return len(HITS)
"""
TESTS = """\
import time, os, pytest
@pytest.fixture
def order():
    return {"item": "tea"}
@pytest.mark.parametrize("number", [1, 2])
def test_waits(order, number):
    global HITS
    HITS = [order]
    open("ready.%d" % number, "w").close()
    while not os.path.exists("release"):
        time.sleep(0.02)
    assert order["item"] == "tea"
def test_fails():
    assert 1 == 2
"""
SHELL = """\
echo before
python script.py from the shell
echo "after $?"
exit 4
"""


@dataclass(frozen=True)
class Kind:
    """A kind of program, and how it is used."""

    title: str
    command: str
    """The words of the command, in which PORT is replaced."""
    files: dict = field(default_factory=dict)
    key: str = ""
    """The session in which code is evaluated; none if the program ends at once."""
    code: str = "import sys; sys.modules['__main__'].HITS[0]"
    result: str = "1"
    ready: str = "ready"
    """A text in the output, after which the program is used; with `/`, a path of a web server."""
    ready_files: tuple = ()
    settled: tuple = ()
    """A directory of an installed package, and the text that it prints when no more threads start."""
    send: str = ""
    """What is written to its standard input before it is closed."""
    end: str = "eof"
    """How it is ended: `eof`, `release` (a file), the name of a signal, or empty if it ends by itself."""
    save: tuple = ()
    """A file that is saved while the program runs, and the signal after which it is loaded, if there is no reloader."""
    fails: str = ""
    """What fails if that file has a syntax error: the `code`, the `start` of the next process, or the `program`."""
    before: str = ""
    """A command that uses the program once it is ready."""
    environ: dict = field(default_factory=dict)
    hangs_up: bool = False
    """Whether its server is stopped before the program continues."""
    is_terminal: bool = False
    has_order: bool = True
    """Whether its lines always come in the same order."""


GUNICORN_SETTLED = ("gunicorn/ctl", "Control socket listening")
"""The arbiter of gunicorn 25 and later starts a thread after its workers, which may have answered requests by then."""


def _http(module):
    return f"import {module}; {module}.HITS[0]"


SCRIPT_FILE = {"script.py": SCRIPT + "main()\n"}
KINDS = (
    Kind("script", "python script.py a b", SCRIPT_FILE, "script", result="3", send="one\ntwo\n"),
    Kind(
        "asyncio",
        "python aio.py",
        {"aio.py": ASYNCIO},
        "aio",
        "import __main__, asyncio; await asyncio.sleep(0); asyncio.get_running_loop() is __main__.LOOP",
        "True",
    ),
    Kind("threads", "python threaded.py", {"threaded.py": THREADS}, "threaded"),
    Kind("pool, fork", "python pool.py fork", {"pool.py": POOL}, "pool"),
    Kind("pool, spawn", "python pool.py spawn", {"pool.py": POOL}, "pool"),
    Kind("pool, forkserver", "python pool.py forkserver", {"pool.py": POOL}, "pool"),
    Kind("50 forks with warnings", "python -X dev forks.py", {"forks.py": FORKS}, "forks", hangs_up=True),
    Kind("Flask", "flask --app shop run -p PORT", {"shop.py": FLASK}, "shop", _http("shop"), ready="/", end="INT"),
    Kind(
        "Flask --debug",
        "flask --app shop run --debug -p PORT",
        {"shop.py": FLASK},
        "shop",
        _http("shop"),
        ready="/",
        end="INT",
        save=("shop.py",),
        fails="code",
        has_order=False,
    ),
    Kind(
        "Flask, app.run(debug=True)",
        "python shop.py PORT",
        {"shop.py": DEBUGGED},
        "shop",
        "import __main__; __main__.HITS[0]",
        ready="/",
        end="",
        save=("shop.py",),
        fails="program",
        has_order=False,
    ),
    Kind(
        "Django runserver",
        "python manage.py runserver PORT",
        DJANGO,
        "manage",
        _http("site_urls"),
        ready="/",
        end="INT",
        save=("site_urls.py",),
        fails="code",
        has_order=False,
    ),
    Kind("uvicorn", "uvicorn --port PORT shop:app", {"shop.py": ASGI}, "shop", _http("shop"), ready="/", end="INT"),
    Kind(
        "uvicorn --reload",
        "uvicorn --reload --port PORT shop:app",
        {"shop.py": ASGI},
        "shop",
        _http("shop"),
        ready="/",
        end="INT",
        save=("shop.py",),
        fails="start",
        has_order=False,
    ),
    Kind(
        "uvicorn --workers 2",
        "uvicorn --workers 2 --port PORT shop:app",
        {"shop.py": ASGI},
        "shop/2",
        "import shop; type(shop.HITS).__name__",
        "'list'",
        ready="/",
        end="TERM",
        has_order=False,
    ),
    Kind(
        "gunicorn",
        "gunicorn -w 2 -b 127.0.0.1:PORT shop:app",
        {"shop.py": FLASK},
        "shop/2",
        "import shop; type(shop.HITS).__name__",
        "'list'",
        ready="/",
        settled=GUNICORN_SETTLED,
        end="TERM",
        has_order=False,
    ),
    Kind(
        "gunicorn, SIGHUP",
        "gunicorn -w 2 -b 127.0.0.1:PORT shop:app",
        {"shop.py": FLASK},
        "shop/2",
        "import shop; type(shop.HITS).__name__",
        "'list'",
        ready="/",
        settled=GUNICORN_SETTLED,
        end="",
        save=("shop.py", "HUP"),
        fails="program",
        has_order=False,
    ),
    Kind(
        "gunicorn --reload",
        "gunicorn -w 1 --reload -b 127.0.0.1:PORT shop:app",
        {"shop.py": FLASK},
        "shop",
        _http("shop"),
        ready="/",
        settled=GUNICORN_SETTLED,
        end="TERM",
        save=("shop.py",),
        fails="code",
        has_order=False,
    ),
    Kind(
        "gunicorn --preload",
        "gunicorn -w 1 --preload -b 127.0.0.1:PORT shop:app",
        {"shop.py": FLASK},
        "shop",
        _http("shop"),
        ready="/",
        settled=GUNICORN_SETTLED,
        end="TERM",
        has_order=False,
    ),
    Kind(
        "gunicorn -k gevent",
        "gunicorn -w 1 -k gevent -b 127.0.0.1:PORT shop:app",
        {"shop.py": FLASK},
        "shop",
        _http("shop"),
        ready="/",
        settled=GUNICORN_SETTLED,
        end="TERM",
        has_order=False,
    ),
    Kind(
        "hypercorn",
        "hypercorn -w 1 -b 127.0.0.1:PORT shop:app",
        {"shop.py": ASGI},
        "shop",
        _http("shop"),
        ready="/",
        end="TERM",
        has_order=False,
    ),
    Kind(
        "hypercorn, 2 workers",
        "hypercorn -w 2 -b 127.0.0.1:PORT shop:app",
        {"shop.py": ASGI},
        "shop/2",
        "import shop; type(shop.HITS).__name__",
        "'list'",
        ready="/",
        end="TERM",
        has_order=False,
    ),
    Kind(
        "granian, 2 workers",
        "granian --interface asgi --workers 2 --port PORT shop:app",
        {"shop.py": ASGI},
        "shop/2",
        "import shop; type(shop.HITS).__name__",
        "'list'",
        ready="/",
        end="TERM",
        has_order=False,
    ),
    Kind(
        "eventlet",
        "python green.py PORT",
        {"green.py": EVENTLET},
        "green",
        "import __main__; __main__.HITS[0]",
        ready="/",
        end="TERM",
        has_order=False,
    ),
    Kind(
        "Celery, prefork",
        "celery -A jobs worker -c 1 -l INFO --without-mingle --without-gossip",
        {"jobs.py": CELERY, "queue/empty": "", "results/empty": ""},
        "jobs:CHILD",
        "import jobs; jobs.HITS",
        "[5]",
        ready=" ready.",
        end="TERM",
        before="python -c 'import jobs; print(jobs.add.delay(2, 3).get(timeout=60))'",
        has_order=False,
    ),
    Kind(
        "pytest",
        "pytest -q -p no:cacheprovider test_waits.py",
        {"test_waits.py": TESTS},
        "pytest",
        "import sys; sys.modules['test_waits'].HITS[0]",
        "{'item': 'tea'}",
        ready="",
        ready_files=("ready.1",),
        end="release",
    ),
    Kind(
        "pytest-xdist",
        "pytest -q -n 2 -p no:cacheprovider test_waits.py",
        {"test_waits.py": TESTS},
        "pytest:CHILD",
        "import sys; sys.modules['test_waits'].HITS[0]",
        "{'item': 'tea'}",
        ready="",
        ready_files=("ready.1", "ready.2"),
        end="release",
        has_order=False,
    ),
    Kind("uv run", "uv run --no-project --python ENVIRONMENT/bin/python script.py", SCRIPT_FILE, "script"),
    Kind("debugpy", "python -m debugpy --listen 127.0.0.1:PORT script.py", SCRIPT_FILE, "script"),
    Kind("coverage", "sh -c 'coverage run script.py; coverage report'", SCRIPT_FILE, "sh"),
    Kind("ddtrace", "ddtrace-run python script.py", SCRIPT_FILE, "script"),
    Kind("ddtrace before", "ddtrace-run RUN python script.py", SCRIPT_FILE, "script"),
    Kind("opentelemetry before", "opentelemetry-instrument RUN python script.py", SCRIPT_FILE, "script"),
    Kind(
        "python -c",
        'python -c "import script; HITS = [7]; script.main()"',
        {"script.py": SCRIPT},
        "python",
        "HITS",
        "[7]",
    ),
    Kind(
        "python -m",
        "python -m package.script x",
        {"package/__init__.py": "", "package/script.py": SCRIPT + "main()\n"},
        "package.script",
        result="2",
    ),
    Kind(
        "python -, from a pipe",
        "sh -c 'cat script.py fifo | RUN python - y'",
        {
            "script.py": "import time, os\nHITS = [9]\nprint('ready', flush=True)\n"
            "while not os.path.exists('release'): time.sleep(0.02)\nprint('done')\n",
            "fifo": "",
        },
        "python",
        "HITS",
        "[9]",
        end="release",
    ),
    Kind("a shell script", "sh start.sh", {**SCRIPT_FILE, "start.sh": SHELL}, "start", result="4"),
    Kind("a terminal, Ctrl-C", "python script.py", SCRIPT_FILE, "script", is_terminal=True, send="one\n", end="^C"),
    Kind(
        "signal.pause, SIGTERM",
        "python pauses.py",
        {
            "pauses.py": "import signal\nHITS = [1]\nsignal.signal("
            "signal.SIGTERM, lambda *_: print('handled'))\nprint('ready', flush=True)\nsignal.pause()\nprint('done')\n"
        },
        "pauses",
        end="TERM",
    ),
    Kind("SIGTERM", "python script.py", SCRIPT_FILE, "script", end="TERM"),
    Kind("SIGINT", "python script.py", SCRIPT_FILE, "script", end="INT"),
    Kind("SIGKILL", "python script.py", SCRIPT_FILE, "script", end="KILL"),
    Kind("exit status 0", "python -c pass", ready="", end=""),
    Kind("an uncaught error", "python -c 1/0", ready="", end=""),
    Kind("os._exit(200)", 'python -c "import os; os._exit(200)"', ready="", end=""),
    Kind("killed by itself", 'python -c "import os; os.kill(os.getpid(), 9)"', ready="", end=""),
    Kind("a closed pipe", 'sh -c "RUN yes | head -2"', ready="", end=""),
    Kind("a closed pipe, Python", """sh -c 'RUN python -c "while True: print(1)" | head -2'""", ready="", end=""),
    Kind("python -I", 'python -I -c "import sys; print(sys.flags.isolated)"', ready="", end=""),
    Kind("env -i", "env -i ENVIRONMENT/bin/python -c 'import os; print(sorted(os.environ))'", ready="", end=""),
    Kind(
        "own sitecustomize",
        "python script.py",
        {**SCRIPT_FILE, "site/sitecustomize.py": "print('customized')\n"},
        "script",
        environ={"PYTHONPATH": "site"},
    ),
    Kind(
        "own sitecustomize that fails",
        "python script.py",
        {**SCRIPT_FILE, "site/sitecustomize.py": "print('customized')\n1 / 0\n"},
        "script",
        environ={"PYTHONPATH": "site"},
    ),
)
