"""Send 200 requests a second to programs of `codriver run`, with and without an agent that evaluates in them.

`python tests/bench/run_load.py FOLDER [TITLE…]` uses the environment of `run_programs.py` in FOLDER. A separate process
sends the requests at fixed times, whether or not earlier ones were answered. Rounds without and with the agent take
turns. The agent evaluates through relay and server, ROUND_S seconds in each round. In the last round the server is
killed, and the next server must find the program. The exit status is 1 if a request failed or a value is wrong.
"""

import contextlib
import http.client
import json
import os
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "tests"), str(ROOT / "tests" / "support")]

ROUND_S = float(os.environ.get("ROUND_S", "10"))
PAIRS = int(os.environ.get("PAIRS", "4"))
RATE = 200
SENDERS = 8
"""Number of threads that send requests, so that a slow answer does not delay the next requests."""
PAUSE_S = 0.05
"""Pause of the agent between two evaluations, in which a model would read the answer."""
WAIT_S = 60
WITHOUT, WITH = "without", "with"
APPLICATION = """\
HITS = []
def total(orders):
    return sum(orders)
async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        while True:
            message = await receive()
            await send({"type": message["type"] + ".complete"})
            if message["type"] == "lifespan.shutdown":
                return
    HITS.append(total(range(100)))
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})
"""
FLASK = """\
import logging
from flask import Flask
logging.getLogger("werkzeug").setLevel(logging.ERROR)
app = Flask(__name__)
HITS = []
def total(orders):
    return sum(orders)
@app.get("/")
def index():
    HITS.append(total(range(100)))
    return "ok"
"""
PROGRAMS = {
    "Flask": ("flask --app shop run -p PORT", FLASK),
    "uvicorn": ("uvicorn --no-access-log --port PORT shop:app", APPLICATION),
    "gunicorn, 2 workers": ("gunicorn -w 2 -b 127.0.0.1:PORT shop:app", FLASK),
}


def send_requests(port, seconds):
    """Send requests at fixed times, and print the latencies in ms and the failures as JSON."""
    latencies, failures, lock = [], [], threading.Lock()
    count = int(RATE * seconds)
    start = time.perf_counter() + 0.2

    def send(first):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        for number in range(first, count, SENDERS):
            due = start + number / RATE
            time.sleep(max(0, due - time.perf_counter()))
            try:
                connection.request("GET", "/")
                answer = connection.getresponse()
                ok = (answer.status, answer.read()) == (200, b"ok")
                failure = "" if ok else f"status {answer.status}"
            except (OSError, http.client.HTTPException) as error:
                failure = repr(error)
                connection.close()
            with lock:
                latencies.append((time.perf_counter() - due) * 1000)
                failures.extend([failure] if failure else [])

    threads = [threading.Thread(target=send, args=(first,)) for first in range(SENDERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps({"latencies": latencies, "failures": failures}))


def begin_requests(port, seconds):
    """Start the process that sends requests."""
    words = [sys.executable, "-I", str(Path(__file__).resolve()), "--send", str(port), str(seconds)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


def evaluate_until(sender, client, key, counts):
    """Evaluate until the requests have been sent. Count the evaluations and those with a wrong value."""
    while sender.poll() is None:
        answer = client.call("evaluate_code", code="import shop; len(shop.HITS) > 0", replSessionKey=key)
        counts["evaluated"] += 1
        counts["wrong"] += answer.get("result") not in ("True", "False")
        time.sleep(PAUSE_S)


def quantiles(latencies):
    """Return the median and the 99th percentile."""
    ordered = sorted(latencies)
    return statistics.median(ordered), ordered[int(len(ordered) * 0.99)]


def measure(live, title, environment, folder):
    from run_programs import CODRIVER, free_port  # noqa: PLC0415  # not in the process that sends requests

    command, text = PROGRAMS[title]
    port = free_port()
    (folder / "shop.py").write_text(text)
    words = shlex.split(command.replace("PORT", str(port)))
    environ = {**live.environ, "PATH": f"{environment / 'bin'}{os.pathsep}{live.environ['PATH']}"}
    with (folder / "output.txt").open("w") as output:
        program = subprocess.Popen(
            [*CODRIVER, "run", "-w", str(folder), "--", *words], cwd=folder, env=environ, stdout=output, stderr=output
        )
    rounds, failed, counts = {WITHOUT: [], WITH: []}, [], {"evaluated": 0, "wrong": 0}
    try:
        wait_for(port)
        for number in range(PAIRS * 2):
            way = (WITHOUT, WITH)[number % 2]
            sender = begin_requests(port, ROUND_S)
            if way == WITH:
                with contextlib.closing(live.relay(name="bench")) as client:
                    evaluate_until(sender, client, "shop", counts)
            found = json.loads(sender.communicate()[0])
            failed += found["failures"]
            rounds[way].append(quantiles(found["latencies"]))
        with contextlib.closing(live.relay(name="bench")) as client:
            killed = kill_server(live, client, port)
        failed += killed["failures"]
    finally:
        program.terminate()
        program.wait(WAIT_S)
    print(f"{title}: {len(failed)} failed, {counts['evaluated']} evaluations, {counts['wrong']} wrong", set(failed))
    for name, index in (("p50", 0), ("p99", 1)):
        for way, found in rounds.items():
            values = [found_round[index] for found_round in found]
            listed = " ".join(f"{value:.2f}" for value in values)
            print(f"  {name} {way:8} median {statistics.median(values):.2f} ms, rounds {listed}")
    print(f"  server killed: p50 {killed['p50']:.2f} ms, p99 {killed['p99']:.2f} ms; {killed['text']}", flush=True)
    return not failed and not counts["wrong"] and killed["is_found"]


def wait_for(port):
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError, http.client.HTTPException):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=1)
            connection.request("GET", "/")
            if connection.getresponse().status == 200:
                return
        time.sleep(0.05)
    raise TimeoutError


def kill_server(live, client, port):
    """Kill the server while requests are sent, start another one, and evaluate through it."""
    sender = begin_requests(port, ROUND_S)
    before = client.call("evaluate_code", code="import os; os.getpid()", replSessionKey="shop").get("result")
    live.stop(signal.SIGKILL)
    live.process = live.start("serve", "--port", "0")
    live.process.stdout.readline()
    started = time.perf_counter()
    with contextlib.closing(live.relay(name="bench")) as other:
        answer = other.call("evaluate_code", code="import os; os.getpid()", replSessionKey="shop")
        text = f"the next server found process {answer.get('result')} (before: {before}) in "
        text += f"{(time.perf_counter() - started) * 1000:.0f} ms"
    found = json.loads(sender.communicate()[0])
    p50, p99 = quantiles(found["latencies"])
    return {"failures": found["failures"], "p50": p50, "p99": p99, "text": text,
            "is_found": answer.get("result") == before}  # fmt: skip


def main():
    if sys.argv[1] == "--send":
        send_requests(int(sys.argv[2]), float(sys.argv[3]))
        return
    from live_server import serving  # noqa: PLC0415  # not in the process that sends requests
    from run_programs import environment_of  # noqa: PLC0415  # as above

    environment = environment_of(Path(sys.argv[1]).resolve())
    good = True
    for title in sys.argv[2:] or PROGRAMS:
        with tempfile.TemporaryDirectory() as place, serving(Path(place)) as live:
            good &= measure(live, title, environment, live.workspace)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
