"""What a page that is looked at costs who evaluates: the latency beside a reader of its events, and without, in turns.

Run with `python tests/bench/run.py page`. Two servers with an embedded Python each; to one a reader in a process of its
own is connected that takes every event and draws nothing. A client evaluates on both in blocks, by turns. With
Chromium in the reader's place the time is told, and not bounded: it draws on the same two cores.
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
    with browser.page(page.address) as shown:
        shown.shows("live", "#link")
        yield
    browser.close()


def block(client, took):
    for number in range(BLOCK):
        began = time.perf_counter()
        client.call("evaluate_code", code=f"{number} + 1")
        took.append(1000 * (time.perf_counter() - began))


def compare(report, name, looked_at, alone, count, **bounds):
    """The times of both servers, by turns."""
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


if __name__ == "__main__":
    main(measure)
