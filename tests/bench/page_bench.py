"""Measure how much an open page slows down evaluations.

Run with `python tests/bench/run.py page`. There are two servers with an embedded Python each. A reader in a process of
its own receives every event of one of them and draws nothing. A client evaluates on both in alternating blocks. The
times with Chromium instead of the reader are reported but not limited, because Chromium draws on the same two cores.

The benchmark also reports the time between two frames of the page in Chromium while a REPL prints a gigabyte, and the
size of the page.
"""

import contextlib
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from browser import Browser
from live_server import serving
from page_client import opened
from report import main

TITLE = "an evaluation beside a page"
EVALUATIONS, BLOCK = 10_000, 250
AT_MOST = 1.1
READER = """
import http.client, json, sys
headers = json.loads(sys.argv[2])
connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))
connection.request("POST", "/do/events", "{}", headers)
answer = connection.getresponse()
print(answer.status, flush=True)
while answer.readline():
    pass
"""


@contextlib.contextmanager
def reader(page):
    import json  # noqa: PLC0415  # for the headers alone

    command = [sys.executable, "-I", "-c", READER, str(page.port), json.dumps(page.headers())]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"200\n"
        yield
        process.kill()


@contextlib.contextmanager
def chromium(page, folder):
    folder.mkdir()
    browser = Browser(folder)
    with browser.page(page.address) as tab:
        tab.shows("live", "#connection")
        yield
    browser.close()


FLOOD_MB = 1024
FRAMES = """(() => {
  window.took = [];
  let last = performance.now();
  const tick = (now) => { took.push(now - last); last = now; requestAnimationFrame(tick); };
  requestAnimationFrame(tick);
})()"""
HELD = "[document.querySelectorAll('*').length, performance.memory?.usedJSHeapSize ?? 0]"


def flood(report, live, client):
    """Measure the frames of a page with an open row while a REPL prints a gigabyte."""
    size = max(1, round(FLOOD_MB * report.scale))
    with tempfile.TemporaryDirectory() as folder:
        browser = Browser(Path(folder))
        with browser.page(opened(live).address) as tab:
            tab.shows("live", "#connection")
            pending = client.begin_call(
                "evaluate_code", code=f"for _ in range({size} * 16): print('x' * 65_535)", timeoutMs=600_000
            )
            tab.click(".alive .line")
            tab.run(FRAMES)
            began = time.perf_counter()
            client.answer(pending)
            seconds = time.perf_counter() - began
            took = sorted(tab.run("took"))
            elements, heap = tab.run(HELD)
        browser.close()
    name = f"a page while {size} MB are printed"
    report.fact(TITLE, f"{name}: median between two frames", statistics.median(took), "ms", at_most=34)
    report.fact(TITLE, f"{name}: 95 of 100 frames within", took[len(took) * 95 // 100], "ms", at_most=100)
    report.fact(TITLE, f"{name}: the longest", took[-1], "ms")
    report.fact(TITLE, f"{name}: elements", elements, "")
    report.fact(TITLE, f"{name}: JavaScript's heap", heap / 2**20, "MB")
    report.fact(TITLE, f"{name}: all of it took", seconds, "s")


def block(client, took):
    for number in range(BLOCK):
        began = time.perf_counter()
        client.call("evaluate_code", code=f"{number} + 1")
        took.append(1000 * (time.perf_counter() - began))


def compare(report, name, looked_at, alone, count, **bounds):
    """Measure both servers in turns."""
    times = [], []
    for _ in range(max(1, count // BLOCK)):
        for client, took in zip((looked_at, alone), times, strict=True):
            block(client, took)
    for part, of in (("median", statistics.median), ("mean", statistics.fmean)):
        there, here = map(of, times)
        report.fact(TITLE, f"{name}, {part}", there / here, f"x of {here:.3g} ms", **bounds)


def measure(report):
    count = round(EVALUATIONS * report.scale)
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(Path(folder) / "looked-at") as live,
        serving(Path(folder) / "alone") as quiet,
        live.client() as looked_at, quiet.client() as alone,
    ):  # fmt: skip
        for client in (looked_at, alone):
            client.call("evaluate_code", code="1", timeoutMs=60_000)
            block(client, [])
        page = opened(live)
        with reader(page):
            compare(report, "a reader of all events", looked_at, alone, count, at_most=AT_MOST)
        with chromium(page, Path(folder) / "browser"):
            compare(report, "Chromium", looked_at, alone, count // 5)
        flood(report, live, looked_at)


if __name__ == "__main__":
    main(measure)
