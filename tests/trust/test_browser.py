"""A real browser at the ports of clients and of the page: a web page can neither read nor evaluate anything.

The page's own script is tested in `tests/features/page`.
"""

import contextlib
import http.server
import json
import socket
import subprocess
import threading

import pytest
from browser import command
from live_server import WAIT_S, until
from page_client import opened

# Each way in which a page can reach a port, by name. `at` is the address; `lines` is what a client sends to evaluate.
WAYS = """
const lines = LINES;
const ways = {
  fetchText: at => fetch(at, {method: 'POST', mode: 'no-cors', body: lines}).then(r => 'type ' + r.type),
  fetchJson: at => fetch(at, {method: 'POST', headers: {'content-type': 'application/json'}, body: lines})
    .then(r => r.text()),
  fetchGet: at => fetch(at + encodeURIComponent(lines)).then(r => r.text()),
  fetchPut: at => fetch(at, {method: 'PUT', body: lines}).then(r => r.text()),
  fetchOddMethod: at => fetch(at, {method: 'patch', body: lines}).then(r => r.text()),
  fetchStream: at => fetch(at, {method: 'POST', mode: 'no-cors', body: new Blob([lines])}).then(r => 'type ' + r.type),
  beacon: at => navigator.sendBeacon(at, lines) && 'queued',
  xhr: at => new Promise((done, fail) => {
    const request = new XMLHttpRequest();
    request.onload = () => done(request.responseText);
    request.onerror = () => fail('refused');
    request.open('POST', at);
    request.send(lines);
  }),
  webSocket: at => new Promise((done, fail) => {
    const socket = new WebSocket(at.replace('http', 'ws'));
    socket.onopen = () => { socket.send(lines); done('open'); };
    socket.onerror = () => fail('refused');
  }),
  eventSource: at => new Promise((done, fail) => {
    const source = new EventSource(at);
    source.onopen = () => done('open');
    source.onerror = () => { source.close(); fail('refused'); };
  }),
  image: at => new Promise((done, fail) => {
    const image = new Image();
    image.onload = () => done('loaded');
    image.onerror = () => fail('refused');
    image.src = at + 'image.png';
  }),
  script: at => new Promise((done, fail) => {
    const script = document.createElement('script');
    script.onload = () => done('loaded');
    script.onerror = () => fail('refused');
    script.src = at + 'script.js';
    document.head.append(script);
  }),
  tls: at => fetch(at.replace('http', 'https'), {mode: 'no-cors'}).then(r => 'type ' + r.type),
};
for (const kind of ['text/plain', 'multipart/form-data', 'application/x-www-form-urlencoded'])
  ways['form ' + kind] = at => new Promise((done, fail) => {
    const frame = document.createElement('iframe');
    frame.name = 'frame ' + kind + at;
    document.body.append(frame);
    const form = document.createElement('form');
    Object.assign(form, {method: 'POST', action: at, enctype: kind, target: frame.name});
    const area = document.createElement('textarea');
    Object.assign(area, {name: lines.split('=')[0], value: lines});
    form.append(area);
    document.body.append(form);
    frame.onload = () => done('navigated');
    form.submit();
  });

async function attempt(name, at) {
  const limit = new Promise(done => setTimeout(() => done('silence'), 5000));
  try { return String(await Promise.race([ways[name](at), limit])); }
  catch (error) { return 'failed: ' + error; }
}
(async () => {
  const results = {};
  const all = Object.entries(TARGETS).flatMap(([target, at]) => Object.keys(ways).map(name => [target, at, name]));
  await Promise.all(all.map(async ([target, at, name]) => { results[target + ' ' + name] = await attempt(name, at); }));
  await fetch('/done', {method: 'POST', body: JSON.stringify(results)});
})();
"""


class Way:
    """A port that forwards to the server and records what passes: what a page sends, and what comes back."""

    def __init__(self, host, port, target):
        self.target, self.sent, self.came_back = target, [], []
        self.listener = socket.create_server((host, port))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self.listener.accept()
                threading.Thread(target=self.carry, args=(near,), daemon=True).start()

    def carry(self, near):
        far = socket.create_connection(("127.0.0.1", self.target))
        with near, far:
            threading.Thread(target=self.bring_back, args=(far, near), daemon=True).start()
            with contextlib.suppress(OSError):
                while data := near.recv(65536):
                    self.sent.append(data)
                    far.sendall(data)
                far.shutdown(socket.SHUT_WR)
                near.recv(1)

    def bring_back(self, far, near):
        with contextlib.suppress(OSError):
            while data := far.recv(65536):
                self.came_back.append(data)
                near.sendall(data)
            near.shutdown(socket.SHUT_RDWR)

    def close(self):
        self.listener.close()


class PageServer(http.server.ThreadingHTTPServer):
    script = ""
    found = None


class Page(http.server.BaseHTTPRequestHandler):
    """Serves the page and receives what it found."""

    server: PageServer

    def do_GET(self):
        text = f"<!doctype html><body><script>{self.server.script}</script>".encode()
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_POST(self):
        self.server.found = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


def evaluation(mark):
    """Return what a client sends to create the file `mark`, on one line each. No `=`, so that it can be the name of
    a form.
    """
    client = {"name": "page", "version": "1"}
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
    call = {"name": "evaluate_code", "arguments": {"code": f"open({str(mark)!r}, 'w').close()"}}
    messages = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call},
    ]
    return "\n" + "\n".join(json.dumps(message) for message in messages) + "\n"


@contextlib.contextmanager
def browsing(folder, address, *options):
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [*command(folder, *options), address], stdout=log, stderr=log, start_new_session=True
        )
    try:
        yield
    finally:
        process.terminate()
        process.wait(WAIT_S)


@pytest.fixture(scope="module")
def live(live):
    with live.client() as client:
        assert client.call("evaluate_code", code="'marker'", timeoutMs=60_000)["ok"]
    return live


@contextlib.contextmanager
def page(host, targets, mark):
    """Open a page on its own port that attacks every target in every way."""
    server = PageServer((host, 0), Page)
    lines, at = json.dumps(evaluation(mark)), json.dumps(targets)
    server.script = WAYS.replace("LINES", lines).replace("TARGETS", at)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def evaluated(live):
    with live.client() as client:
        return [entry["text"] for entry in client.call("repl_output_log", category=["evaluatedCode"])["result"]]


@pytest.mark.slow
def test_no_web_page_can_evaluate_or_read_anything(live, tmp_path):
    """From another origin: by address, by `localhost`, by a rebound name, and by the page's own name, if it were
    known.
    """
    mark, profile = tmp_path / "mark", tmp_path / "profile"
    profile.mkdir()
    served = opened(live)
    way, page_port = Way("127.0.0.1", 0, live.port), served.port
    to_page = Way("127.0.0.1", 0, page_port)
    hosts = ("127.0.0.1", "localhost", "rebound.example")
    ports = {"": way.port, "page ": to_page.port, "page itself ": page_port}
    targets = {f"{name}{host}": f"http://{host}:{port}/" for name, port in ports.items() for host in hosts}
    targets |= {f"{name}by name": f"http://{served.host}:{port}/" for name, port in ports.items() if name}
    with (
        contextlib.closing(way),
        contextlib.closing(to_page),
        page("127.0.0.1", targets, mark) as server,
        browsing(
            profile, f"http://127.0.0.1:{server.server_port}/", "--host-resolver-rules=MAP rebound.example 127.0.0.1"
        ),
    ):
        until(lambda: server.found, "the page to have tried everything")
    for item in (way, to_page):
        sent = b"".join(item.sent)
        assert sent.count(b"POST / HTTP/1.1") >= 9, "the browser did not reach the port"
        assert b"OPTIONS / HTTP/1.1" in sent
        assert b"Upgrade: websocket" in sent
        assert b"\x16\x03\x01" in sent
        assert b"evaluate_code" in sent
        assert b"".join(item.came_back) == b""
    for name, result in server.found.items():
        assert result.startswith("failed") or result in ("queued", "navigated", "silence"), (name, result)
    assert not mark.exists()
    assert evaluated(live) == ["'marker'"]


METHODS = ["POST", "PUT", "patch", "null", "NULL", "x", "1", "!"]
# The page tries every method for as long as it lives, and tells of each round what came of it.
REBOUND = """
const lines = LINES, methods = METHODS;
(async () => {
  for (let round = 1;; round++) {
    const results = [];
    for (const method of methods) {
      try { results.push(await (await fetch('/', {method, body: lines})).text()); }
      catch (error) { results.push('failed: ' + error); }
    }
    await fetch('REPORT', {method: 'POST', mode: 'no-cors', body: JSON.stringify({round, results})}).catch(() => 0);
  }
})();
"""


def tried_again(report):
    """Return the result of the page's repeated attacks."""
    last = report.found["round"] + 2
    until(lambda: report.found["round"] >= last, "the page to have tried everything again")
    return report.found["results"]


@pytest.mark.slow
def test_a_web_page_using_dns_rebinding_cannot_evaluate_code(live, tmp_path):
    """The page's origin is the port itself: the browser allows any method and would let it read every answer."""
    mark, profile = tmp_path / "mark", tmp_path / "profile"
    profile.mkdir()
    with page("127.0.0.1", {}, mark) as report, page("127.0.0.1", {}, mark) as server:
        port, script = server.server_port, REBOUND.replace("LINES", json.dumps(evaluation(mark)))
        script = script.replace("METHODS", json.dumps(METHODS))
        server.script = script.replace("REPORT", f"http://127.0.0.1:{report.server_port}/done")
        address = f"http://rebound.example:{port}/"
        with browsing(profile, address, "--host-resolver-rules=MAP rebound.example 127.0.0.1"):
            until(lambda: report.found, "the page to be loaded")
            # Now the name leads to the server, as after a change in the DNS.
            server.shutdown()
            server.server_close()
            with contextlib.closing(Way("127.0.0.1", port, live.port)) as way:
                requests = [f"{method} / HTTP/1.1".encode() for method in METHODS]
                until(lambda: all(line in b"".join(way.sent) for line in requests), "every method to be tried")
                tried = tried_again(report)
                way.target = opened(live).port
                tried += tried_again(report)
    assert b"evaluate_code" in b"".join(way.sent)
    assert b"".join(way.came_back) == b""
    assert all(result.startswith("failed") for result in tried)
    assert not mark.exists()
    assert evaluated(live) == ["'marker'"]
