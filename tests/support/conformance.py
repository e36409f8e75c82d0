"""A bridge from streamable HTTP, which the published MCP conformance suite uses, to the relay of a server.

The resource that the suite watches is the log.
"""

import http.server
import json
import subprocess
import sys
import threading
import uuid
from contextlib import contextmanager
from typing import ClassVar

from live_server import RELAY
from needs import expect_clients
from real_clients import HERE

WATCHED = b"test://watched-resource", b"codriver://log"
SESSION = "mcp-session-id"
LONGEST_S = 120


NEWEST = "0.2.0-alpha.12"
"""The first release with the scenarios for the Skills extension; it needs Node 22."""


def suite():
    """Return the command of the suite and the Node installed next to it; if missing, skip the test, or fail on CI."""
    packages = HERE / "node_modules"
    package = packages / "@modelcontextprotocol" / "conformance"
    node = packages / ".bin" / "node"
    about = package / "package.json"
    if not node.exists() or not about.exists() or json.loads(about.read_text())["version"] != NEWEST:
        expect_clients(f"conformance {NEWEST} and its Node are not installed: npm install --prefix tests/clients")
    return [str(node), str(package / "dist" / "index.js")]


class Bridge(http.server.BaseHTTPRequestHandler):
    """As much of streamable HTTP as the suite needs: one POST for each message, one relay for each session."""

    protocol_version = "HTTP/1.1"
    relays: ClassVar[dict[str, subprocess.Popen]] = {}
    """The relays, by session."""

    @staticmethod
    def relay():
        """Start a new relay to the server under test."""
        raise NotImplementedError

    def do_POST(self):
        text = self.rfile.read(int(self.headers["content-length"])).replace(*WATCHED)
        message = json.loads(text)
        name = self.headers.get(SESSION) or uuid.uuid4().hex
        if name not in self.relays:
            self.relays[name] = self.relay()
        process = self.relays[name]
        process.stdin.write(json.dumps(message).encode() + b"\n")
        if "id" not in message or "method" not in message:
            self._answer(202, name)
            return
        while line := process.stdout.readline():
            if json.loads(line).get("id") == message["id"]:
                break
        self._answer(200, name, line)

    def do_GET(self):
        self._answer(405, "")

    def do_DELETE(self):
        self._answer(200, "")

    def _answer(self, status, session, body=b""):
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        if session:
            self.send_header(SESSION, session)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Print nothing: only the table of results is printed."""


class Listener(http.server.ThreadingHTTPServer):
    """The bridge's own listener."""

    def handle_error(self, *_):
        """Ignore it: the suite disconnects at any time."""


@contextmanager
def bridged(live):
    """Return the address of a bridge to a server."""

    def relay():
        command = [sys.executable, "-I", "-S", RELAY, str(live.port_file)]
        pipe = subprocess.PIPE
        return subprocess.Popen(
            command, env=live.environ, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, bufsize=0
        )

    relays: dict[str, subprocess.Popen] = {}
    handler = type("BridgeToOne", (Bridge,), {"relay": staticmethod(relay), "relays": relays})
    server = Listener(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/mcp"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        for process in relays.values():
            process.stdin.close()
            process.wait(LONGEST_S)
            process.stdout.close()
