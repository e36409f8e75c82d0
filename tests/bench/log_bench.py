"""Write 100,000 lines of output to the log, and measure the cost and the delays for other clients.

Run with `python tests/bench/run.py log`. First the embedded REPL prints and then JVM nREPL, while another client sends
a ping every 10 ms. Then an nREPL server sends each line as a separate message at full speed. The time until everything
is logged and answered is compared with decoding the same bytes.
"""

import contextlib
import json
import select
import socket
import statistics
import tempfile
import threading
import time

from live_server import serving, until
from real_repls import missing, repl
from report import main

from codriver.wire.bencode import Decoder, encode

LINES = 100_000
PING_S = 0.01
READ_BYTES = 65_536
TEXT = "line {} of the output that a program prints while it works\n"
PRINTING = f"for number in range({LINES}): print({TEXT!r}.format(number), end='')"
OPS = ("clone", "close", "describe", "eval", "interrupt")
UNKNOWN = "id of the request"
PART = 1000


class Sender:
    """An nREPL that answers the code `go` with all lines at once. `sent` is what it sent, `began` is when."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.sent, self.began = [], 0.0
        # Made beforehand and sent in parts, as making it at once would hold up the pings of this same process.
        messages = [encode({"id": UNKNOWN, "session": "s1", "out": TEXT.format(number)}) for number in range(LINES)]
        self.parts = [b"".join(messages[place : place + PART]) for place in range(0, LINES, PART)]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            connection, _ = self.listener.accept()
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        decoder = Decoder()
        with contextlib.suppress(ConnectionResetError):
            while data := connection.recv(READ_BYTES):
                for request in decoder.feed(data):
                    for answer in self.answers(request):
                        connection.sendall(answer)

    def answers(self, request):
        known = {key: request[key] for key in ("id", "session") if key in request}
        if request.get("code") == "go":
            self.sent, self.began = [], time.perf_counter()
            for part in self.parts:
                data = part.replace(encode("id") + encode(UNKNOWN), encode("id") + encode(request["id"]))
                self.sent.append(data)
                yield data
        more = {"describe": {"ops": {op: {} for op in OPS}}, "clone": {"new-session": "s1"}}.get(request["op"], {})
        yield encode({**known, **more, "status": ["done"]})


def measure_pings(client, pinger, work):
    """Return the time until each ping is answered during the work.

    One is sent every 10 ms without waiting for others.
    """
    began = client.begin_call("evaluate_code", **work)
    sent, delays = {}, []
    buffer = b""
    due = time.perf_counter()
    over = False
    while not over or sent:
        left = 1 if over else max(0, due - time.perf_counter())
        ready, _, _ = select.select([pinger.socket, *([] if over else [client.socket])], [], [], left)
        now = time.perf_counter()
        if pinger.socket in ready:
            *lines, buffer = (buffer + pinger.socket.recv(READ_BYTES)).split(b"\n")
            answered = [message["id"] for message in map(json.loads, lines) if "id" in message]
            delays += [(now - sent.pop(identity)) * 1000 for identity in answered]
        if client.socket in ready:
            answer = client.answer(began)["result"]["structuredContent"]
            assert answer["ok"], answer
            over = True
        if not over and now >= due:
            sent[pinger.begin("ping")] = now
            due += PING_S
    return delays


def decode_alone(parts):
    """Return the seconds to decode the bytes as they are received from a socket."""
    data = b"".join(parts)
    decoder = Decoder()
    began = time.perf_counter()
    count = sum(len(decoder.feed(data[place : place + READ_BYTES])) for place in range(0, len(data), READ_BYTES))
    assert count == LINES
    return time.perf_counter() - began


def report_pings(report, title, delays):
    delays = sorted(delays)
    report.fact(title, "median ping", statistics.median(delays), "ms")
    report.fact(title, "99 of 100 pings", delays[len(delays) * 99 // 100], "ms")
    report.fact(title, f"worst of {len(delays)} pings", delays[-1], "ms", at_most=50)


def measure_embedded(report):
    with tempfile.TemporaryDirectory() as folder, serving(folder, "--repl", "python") as live:
        client, pinger = live.client(), live.client()
        client.call("evaluate_code", code="'ready'")
        delays = []
        for _ in range(report.rounds(5)):
            delays += measure_pings(client, pinger, {"code": PRINTING, "timeoutMs": 120_000})
        report_pings(report, f"log: the embedded REPL prints {LINES:,} lines, another client pings", delays)


def measure_jvm(report):
    title = f"log: JVM nREPL prints {LINES:,} lines, another client pings"
    if why := missing("jvm"):
        report.skip(title, why)
        return
    port = repl("jvm").endpoint.port
    with tempfile.TemporaryDirectory() as folder, serving(folder, "--nrepl", str(port)) as live:
        client, pinger = live.client(), live.client()
        until(lambda: "interrupt_evaluation" in client.tools(), "the REPL")
        code = f'(dotimes [number {LINES}] (println "line" number "of the output of a program while it works"))'
        delays = []
        for _ in range(report.rounds(5)):
            delays += measure_pings(client, pinger, {"code": code, "timeoutMs": 120_000})
        report_pings(report, title, delays)


def measure_flood(report):
    sender = Sender()
    with tempfile.TemporaryDirectory() as folder, serving(folder, "--nrepl", str(sender.port)) as live:
        client, pinger = live.client(), live.client()
        until(lambda: "interrupt_evaluation" in client.tools(), "the REPL")
        samples, delays = {"decoding the same bytes": [], "into the log and answered": []}, []
        for _ in range(report.rounds(5)):
            client.call("evaluate_code", code="go", timeoutMs=120_000)
            samples["into the log and answered"].append((time.perf_counter() - sender.began) * 1000)
            samples["decoding the same bytes"].append(decode_alone(sender.sent) * 1000)
        for _ in range(report.rounds(5)):
            delays += measure_pings(client, pinger, {"code": "go", "timeoutMs": 120_000})
        title = f"log: an nREPL sends {LINES:,} lines, a message each"
        base = "decoding the same bytes"
        report.table(title, "ms", samples, base=base, at_most={"into the log and answered": 3})
        report_pings(report, f"{title}, another client pings", delays)


def measure(report):
    measure_embedded(report)
    measure_jvm(report)
    measure_flood(report)


if __name__ == "__main__":
    main(measure)
