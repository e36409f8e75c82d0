"""Many clients: tool calls per second compared with the SDK's own server, and one notification to 200 clients.

Run with `python tests/bench/run.py clients`.
"""

import contextlib
import json
import selectors
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from live_server import Bare, serving
from report import main

from codriver.protocol.resources import LOG_URI

HERE = Path(__file__).parent
LISTENERS = 200
CALL = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "list_sessions", "arguments": {}}}
LINE = json.dumps(CALL).encode() + b"\n"
WRITER = """
import socket, sys
listener = socket.create_server(("127.0.0.1", 0), backlog=512)
print(listener.getsockname()[1], flush=True)
sockets = [listener.accept()[0] for _ in range(int(sys.argv[1]))]
for line in sys.stdin.buffer:
    for one in sockets:
        one.sendall(line)
"""


def calls_a_second(port, count, seconds):
    """Return the calls per second of `count` clients, each of which sends its next call after the last answer."""
    clients = [Bare(socket.create_connection(("127.0.0.1", port))) for _ in range(count)]
    with selectors.DefaultSelector() as ready, contextlib.ExitStack() as stack:
        for client in clients:
            stack.callback(client.close)
            client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            ready.register(client.socket, selectors.EVENT_READ)
            client.socket.sendall(LINE)
        answered, ends = 0, time.perf_counter() + seconds
        began = time.perf_counter()
        while time.perf_counter() < ends:
            for key, _ in ready.select(1):
                # An answer is small and comes whole; notifications are not expected here.
                if key.fileobj.recv(65536).endswith(b"\n"):
                    answered += 1
                    key.fileobj.sendall(LINE)
        return answered / (time.perf_counter() - began)


def throughput(report, port):
    with subprocess.Popen([sys.executable, str(HERE / "sdk_server.py")], stdout=subprocess.PIPE, text=True) as peer:
        theirs = int(peer.stdout.readline())
        for count in (1, 8, 64):
            samples = {"the SDK's stdio transport": [], "codriver serve": []}
            for _ in range(report.rounds(7)):
                samples["the SDK's stdio transport"].append(calls_a_second(theirs, count, 0.5))
                samples["codriver serve"].append(calls_a_second(port, count, 0.5))
            report.table(
                f"tool calls a second, {count} client{'s' if count > 1 else ''}", "1/s", samples,
                base="the SDK's stdio transport", at_least={"codriver serve": 1.3},
            )  # fmt: skip
        peer.kill()


def spread_ms(sockets, trigger):
    """Return the time from the first socket that has a line until all sockets have one."""
    with selectors.DefaultSelector() as ready:
        for item in sockets:
            ready.register(item, selectors.EVENT_READ)
        trigger()
        waiting, began = len(sockets), 0.0
        while waiting:
            found = ready.select(10)
            began = began or time.perf_counter()
            for key, _ in found:
                if key.fileobj.recv(65536).endswith(b"\n"):
                    ready.unregister(key.fileobj)
                    waiting -= 1
        return (time.perf_counter() - began) * 1000


def fan_out(report, live):
    listeners = [live.client() for _ in range(LISTENERS)]
    for listener in listeners:
        listener.request("resources/subscribe", {"uri": LOG_URI})
    caller = live.client()
    note = {"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": LOG_URI}}
    line = json.dumps(note).encode() + b"\n"
    command = [sys.executable, "-c", WRITER, str(LISTENERS)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as peer:
        port = int(peer.stdout.readline())
        bare = [socket.create_connection(("127.0.0.1", port)) for _ in range(LISTENERS)]

        def write():
            peer.stdin.write(line)
            peer.stdin.flush()

        samples = {"200 sockets written bare": [], "codriver serve": []}
        for number in range(report.rounds(20)):
            samples["200 sockets written bare"].append(spread_ms(bare, write))
            sockets = [listener.socket for listener in listeners]
            samples["codriver serve"].append(
                spread_ms(sockets, lambda number=number: caller.call("evaluate_code", code=str(number)))
            )
        for item in bare:
            item.close()
        peer.stdin.close()
    report.table(
        "one notification to 200 clients: first to last arrival", "ms", samples,
        base="200 sockets written bare", at_most={"codriver serve": 3},
    )  # fmt: skip
    for client in [*listeners, caller]:
        client.close()


def measure(report):
    with tempfile.TemporaryDirectory() as folder:
        with serving(Path(folder) / "none", "--repl", "none") as live:
            throughput(report, live.port)
        with serving(Path(folder) / "python", "--repl", "python") as live:
            fan_out(report, live)


if __name__ == "__main__":
    main(measure)
