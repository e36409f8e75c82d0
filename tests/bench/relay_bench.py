"""Compare the relay with a bare interpreter, a direct socket, and other ways from stdio to TCP.

Run with `python tests/bench/run.py relay`. All rows of a table are measured in turns with one scripted server, which
answers every line immediately. `mcp-remote` (npm) and `mcp-proxy` (PyPI) are included if they are on the PATH. They
only support HTTP, so they use a scripted server of their own that answers equally fast.
"""

from __future__ import annotations

import http.server
import io
import json
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from report import main, timed_ms

from codriver.net.relay_install import install_relay, shipped_relay_directory

HERE = Path(__file__).parent
COMMAND = Path(sys.executable).with_name("codriver-relay")
BARE = [sys.executable, "-I", "-S", "-c", "pass"]
PEER_ROUNDS = 5
OURS = "relay, python -I -S"
INITIALIZE = (
    b'{"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},'
    b'"clientInfo":{"name":"bench","version":"1"}},"jsonrpc":"2.0","id":0}\n'
)
CALL = (
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"evaluate_code","arguments":{"code":"(+ 1 2)"}}}\n'
)
BIG = b'{"jsonrpc":"2.0","id":2,"method":"big"}\n'
SHORT_ANSWER = b'{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"3"}],"isError":false}}\n'
BIG_ANSWER = b'{"jsonrpc":"2.0","id":2,"result":{"text":"' + b"x" * 10_000_000 + b'"}}\n'


def serve(listener: socket.socket) -> None:
    """Answer every line of every connection until the process ends."""
    while True:
        connection = listener.accept()[0]
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=answer, args=(connection,), daemon=True).start()


def answer(connection: socket.socket) -> None:
    with connection, connection.makefile("rb") as lines:
        for line in lines:
            connection.sendall(BIG_ANSWER if b'"big"' in line else SHORT_ANSWER)


class OverHttp(http.server.BaseHTTPRequestHandler):
    """As much of MCP's streamable HTTP as a handshake and a call need."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "id" not in message:
            self._send(202, b"")
            return
        about = {"capabilities": {"tools": {}}, "serverInfo": {"name": "peer", "version": "1"}}
        about["protocolVersion"] = message.get("params", {}).get("protocolVersion", "2025-11-25")
        result = about if message["method"] == "initialize" else {"content": [{"type": "text", "text": "3"}]}
        self._send(200, json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode())

    def do_GET(self):
        self._send(405, b"")

    do_DELETE = do_GET  # noqa: N815 - as above

    def _send(self, status, body):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Ignore log messages, because only the table is displayed."""


def http_peers():
    """Return the commands of the installed peers, with a server that runs as long as this process."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), OverHttp)
    server.handle_error = lambda *_: None  # a peer that is killed hangs up in the middle
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/mcp"
    known = {"mcp-remote": [url, "--allow-http"], "mcp-proxy": [url, "--transport", "streamablehttp"]}
    return {name: [found, *options] for name, options in known.items() if (found := shutil.which(name))}


class Way:
    """A way to the server: lines are written to it and read from it. `command` None is a direct socket."""

    def __init__(self, command: list[str] | None, port: int) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self.socket: socket.socket | None = None
        if command is None:
            self.socket = socket.create_connection(("127.0.0.1", port))
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.out, self.write = self.socket.makefile("rb"), self.socket.sendall
        else:
            pipe = subprocess.PIPE
            process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, bufsize=0)
            if process.stdin is None or not isinstance(process.stdout, io.RawIOBase):
                raise RuntimeError("a process was started without its pipes")
            self.process = process
            self.out, self.write = io.BufferedReader(process.stdout), process.stdin.write

    def request(self, line: bytes) -> bytes:
        self.write(line)
        return self.out.readline()

    def close(self) -> None:
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process.stdin.close()
        self.out.close()
        if self.socket:
            self.socket.close()


def time_start_ms(command: list[str], port: int) -> float:
    """Return the time from the start of the process until its client has the answer to `initialize`."""
    start = time.perf_counter()
    way = Way(command, port)
    way.request(INITIALIZE)
    passed = (time.perf_counter() - start) * 1000
    way.close()
    return passed


def measure(report) -> None:
    """Measure the three tables: start, one message with its answer, and a 10 MB answer."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    threading.Thread(target=serve, args=(listener,), daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        relay = install_relay(shipped_relay_directory(), Path(folder) / "codriver_relay.py")
        measure_ways(report, port, relay)


def measure_ways(report, port: int, relay: Path) -> None:
    """Measure the tables for a server at `port` and an installed relay."""
    commands = {OURS: [sys.executable, "-I", "-S", str(relay), str(port)]}
    (folder,) = relay.with_name("relays").iterdir()
    commands["relay, python -I -S FOLDER"] = [sys.executable, "-I", "-S", str(folder), str(port)]
    if COMMAND.exists():
        commands["relay, installed command"] = [str(COMMAND), str(port)]
    if node := shutil.which("node"):
        commands["node pipe"] = [node, str(HERE / "relay_pipe.mjs"), str(port)]
    if socat := shutil.which("socat"):
        commands["socat"] = [socat, "-", f"TCP:127.0.0.1:{port},nodelay"]
    starting(report, commands, port)
    passing(report, commands, port)


def starting(report, commands: dict[str, list[str]], port: int) -> None:
    peers = http_peers()
    starts: dict[str, list[float]] = {"bare interpreter": [], **{name: [] for name in {**commands, **peers}}}
    for number in range(report.rounds(21)):
        starts["bare interpreter"].append(timed_ms(lambda: subprocess.run(BARE, check=True)))
        for name, command in {**commands, **(peers if number < PEER_ROUNDS else {})}.items():
            starts[name].append(time_start_ms(command, port))
    at_least = dict.fromkeys(peers, 3)
    report.table(
        "relay: spawn to initialize answered", "ms", starts,
        base="bare interpreter", at_most={OURS: 2.5}, at_least=at_least,
    )  # fmt: skip


def passing(report, commands: dict[str, list[str]], port: int) -> None:
    ways = {"direct socket": Way(None, port), **{name: Way(command, port) for name, command in commands.items()}}
    for way in ways.values():
        way.request(INITIALIZE)
    calls: dict[str, list[float]] = {name: [] for name in ways}
    big: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(report.rounds(21)):
        for name, way in ways.items():
            calls[name] += [1000 * timed_ms(lambda way=way: way.request(CALL)) for _ in range(100)]
    for _ in range(report.rounds(21)):
        for name, way in ways.items():
            big[name].append(timed_ms(lambda way=way: way.request(BIG)))
    report.table("relay: one message and its answer", "us", calls, base="direct socket")
    added = statistics.median(calls[OURS]) - statistics.median(calls["direct socket"])
    report.fact("relay: one message and its answer", "the relay adds", added, "us", at_most=60)
    report.table("relay: a 10 MB answer", "ms", big, base="direct socket", at_most={OURS: 2})
    for way in ways.values():
        way.close()


if __name__ == "__main__":
    main(measure)
