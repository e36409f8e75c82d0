"""The page's port on a real server: who is admitted, how long it is open, and what an address allows."""

import contextlib
import hmac
import http.client
import json
import random
import re
import signal
import socket
import subprocess
import sys

import pytest
import real_kernels
import real_repls
from application import SEAM
from live_server import WAIT_S, serving, until, until_connected
from other_user import BECOME, needs_root
from page_client import Events, PageClient, address_of, opened

from codriver.features.page.page_server import MAX_CONNECTIONS

TRIES = 20


@pytest.fixture(scope="module")
def live(live):
    with live.client() as client:
        assert client.call("evaluate_code", code="'marker'", timeoutMs=60_000)["ok"]
    return live


@pytest.fixture(scope="module")
def page(live):
    return opened(live)


def private_files(live):
    """Return the files that a page leaves in the state directory, besides those of every server."""
    return [path for path in (live.folder / "state").rglob("page*") if path.is_file()]


def test_the_command_prints_a_new_address_each_time_and_opens_nothing(live, page):
    first, again = live.run("watch", "--web"), live.run("watch", "--web")
    assert first.stdout.startswith(f"{page.origin}/#")
    assert again.stdout.startswith(f"{page.origin}/#")
    assert again.stdout != first.stdout
    assert "ten minutes" in again.stderr
    assert page.token not in again.stdout + again.stderr
    assert private_files(live) == []


def test_the_command_needs_no_option_in_a_directory_of_the_workspace(live, page):
    within = live.workspace / "inner"
    within.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "codriver", "watch", "--web"]
    for place in (live.workspace, within):
        printed = subprocess.run(command, cwd=place, env=live.environ, capture_output=True, text=True, timeout=60,
                                 check=False)  # fmt: skip
        assert printed.stdout.startswith(f"{page.origin}/#"), printed.stderr


def test_the_page_is_refused_without_a_server_or_with_options_of_the_text_output(live, tmp_path):
    assert live.run("watch", "--web", "--who", "ann").returncode == 2
    assert live.run("watch", "--open").returncode == 2
    assert live.run("watch", "--web", "--open", "--address", "127.0.0.1").returncode == 2
    assert live.run("watch", "--web", "--address", "0.0.0.0").returncode == 2
    (tmp_path / ".git").mkdir()
    alone = live.run("watch", "--web", "--workspace", str(tmp_path))
    assert alone.returncode == 3
    assert "no codriver server is running" in alone.stderr
    assert alone.stdout == ""


def test_no_file_contains_the_token_or_the_code(live, page):
    code = address_of(live).partition("#")[2]
    for folder in (live.workspace, live.folder):
        texts = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
        assert not [text for text in texts if page.token.encode() in text or code.encode() in text]


def request_page_as_client(live):
    with socket.create_connection(("127.0.0.1", live.port), timeout=WAIT_S) as sock:
        sock.sendall(b'{"jsonrpc": "2.0", "method": "codriver/token", "params": {"request": "page"}}\n')
        with sock.makefile("rb") as file:
            return [json.loads(line)["params"] for line in file]


def test_the_client_port_returns_a_one_time_code_and_no_token(live, page):
    (answer,) = request_page_as_client(live)
    assert page.token not in json.dumps(answer)
    other = PageClient(live, answer["address"]).enter()
    assert other.token == page.token
    assert other.post("/enter", code=other.code) == {"refused": "used"}


def test_the_oldest_of_more_than_eight_addresses_is_replaced(live, page):
    addresses = [address_of(live) for _ in range(9)]
    first, *others = [PageClient(live, address) for address in addresses]
    assert first.post("/enter", code=first.code) == {"refused": "replaced"}
    assert {other.enter().token for other in others} == {page.token}


def test_another_tab_gets_its_own_code(live, page):
    code = page.call("another")["code"]
    other = PageClient(live, f"{page.origin}/#{code}").enter()
    assert other.token == page.token


def test_the_server_proves_that_it_knows_the_token(page):
    nonce = "0f" * 32
    expected = hmac.new(page.token.encode(), f"codriver page {nonce}".encode(), "sha256").hexdigest()
    assert page.post("/prove", nonce=nonce) == {"proof": expected}
    assert page.post("/prove", nonce="0f") == {"proof": None}


def test_the_page_accepts_requests_on_both_loopback_addresses_for_any_port(live, page):
    answers = set()
    for address in ("127.0.0.1", "::1"):
        for port in (page.port, 9999):
            origin = f"http://{page.host}:{port}"
            connection = http.client.HTTPConnection(address, page.port, timeout=WAIT_S)
            connection.request("POST", "/do/examples", "{}", page.headers(Host=f"{page.host}:{port}", Origin=origin))
            answers.add(connection.getresponse().status)
            connection.close()
    assert answers == {200}


def test_the_numeric_address_works_only_if_requested_and_is_described_as_less_secure(tmp_path):
    with serving(tmp_path, "--repl", "none") as live:
        page = opened(live)
        bare = f"127.0.0.1:{page.port}"
        given = page.headers(Host=bare, Origin=f"http://{bare}")
        lines = "".join(f"{name}: {value}\r\n" for name, value in given.items())
        request = f"POST /do/examples HTTP/1.1\r\n{lines}Content-Length: 2\r\n\r\n{{}}".encode()
        assert page.raw(request) == b""
        chosen = live.run("watch", "--web", "--address", "127.0.0.1")
        assert "less secure" in chosen.stderr
        assert PageClient(live, chosen.stdout.strip()).enter().call("examples")
        assert b"200" in page.raw(request)[:20]


BROWSER = """#!/bin/sh
tr '\\0' '\\n' < /proc/$$/cmdline > "$0.line"
case "$1" in file://*) cp "${1#file://}" "$0.file"; stat -c %a "${1#file://}" > "$0.mode";; esac
"""


@pytest.mark.skipif(sys.platform != "linux", reason="command lines are read in /proc")
def test_the_browser_is_given_a_redirect_file_and_never_the_code(tmp_path):
    browser = tmp_path / "browser"
    browser.write_text(BROWSER)
    browser.chmod(0o755)
    with serving(tmp_path, "--repl", "none") as live:
        live.environ["BROWSER"] = str(browser)
        done = live.run("watch", "--web", "--open", stdin=subprocess.DEVNULL)
        assert done.returncode == 0, done.stderr
        file = until(lambda: (tmp_path / "browser.mode").exists() and (tmp_path / "browser.file"), "the browser")
        (address,) = re.findall(r'http://[^"<]+', file.read_text())[:1]
        assert (tmp_path / "browser.mode").read_text().strip() == "600"
        code = address.partition("#")[2]
        assert code
        assert code not in (tmp_path / "browser.line").read_text()
        assert len(private_files(live)) == 1
        PageClient(live, address).enter()
        assert private_files(live) == []
        live.run("watch", "--web", "--open", stdin=subprocess.DEVNULL)
        assert len(private_files(live)) == 1
    assert private_files(live) == []


def test_the_page_without_a_code_contains_no_log_and_admits_nothing(page):
    connection = page.connection()
    opens = {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    connection.request("GET", "/", headers={"Host": page.origin.removeprefix("http://"), **opens})
    answer = connection.getresponse()
    text = answer.read().decode()
    assert answer.status == 200
    assert "marker" not in text
    assert page.token not in text
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    assert answer.headers["cache-control"] == "no-store"
    assert "set-cookie" not in answer.headers
    assert "access-control-allow-origin" not in answer.headers
    connection.close()


@pytest.mark.parametrize(
    "changed",
    [
        {"Codriver-Token": None},
        {"Codriver-Token": "A" * 43},
        {"Host": "localhost:1"},
        {"Host": "127.0.0.1"},
        {"Service-Worker": "script"},
        {"Origin": "http://evil.example"},
        {"Origin": None},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": None},
        {"Content-Type": "text/plain"},
    ],
)
def test_a_call_that_does_not_come_from_the_page_gets_no_response(page, changed):
    lines = [f"{name}: {value}" for name, value in page.headers(**changed).items()]
    body = b'{"query": "[:find ?t :where [_ :output/text ?t]]"}'
    head = "\r\n".join(["POST /do/repl_output_log HTTP/1.1", *lines, f"Content-Length: {len(body)}", "", ""])
    assert page.raw(head.encode() + body) == b""


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\r\n\r\n",
        b'{"jsonrpc": "2.0", "id": 1, "method": "initialize"}\n',
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET /\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"X: " + b"x" * 200_000,
        b"POST /do/events HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\n",
    ],
    ids=lambda data: repr(data[:24]),
)
def test_a_malformed_or_unexpected_request_gets_no_response(page, data):
    assert page.raw(data.replace(b"Host: a\r\nHost: b", f"Host: {page.host}\r\nHost: b".encode())) == b""


def test_an_oversized_body_is_not_read(page):
    lines = [f"{name}: {value}" for name, value in page.headers().items()]
    head = "\r\n".join(["POST /do/handoff HTTP/1.1", *lines, "Content-Length: 70000", "", ""])
    assert page.raw(head.encode() + b" " * 70_000) == b""


def test_the_maximum_number_of_idle_connections_does_not_block_new_connections(page):
    """Connections that never sent anything, half requests, and those whose request was answered."""
    with contextlib.ExitStack() as stack:
        for number in range(3 * MAX_CONNECTIONS):
            sock = stack.enter_context(socket.create_connection(("127.0.0.1", page.port), timeout=WAIT_S))
            if number % 3 == 1:
                sock.sendall(b"POST /do/handoff HTTP/1.1\r\nHost: ")
        kept = page.connection()
        kept.request("POST", "/do/examples", "{}", page.headers())
        kept.getresponse().read()
        for _ in range(MAX_CONNECTIONS):
            assert page.call("examples")
        with Events(page) as events:
            assert events.next()[0] == "hello"
        kept.close()


VALUES = [
    None, True, False, 0, -1, 1.5, 10**30, "", "x", "\ud800", "\x00", [], [[]], [None, {}], {}, {"a": [1]}, "$",
    "9999-1",
]  # fmt: skip
RAW = [
    b"", b"{", b"[]", b"null", b"\xff\xfe", b"NaN", b'{"since": 1e999}', b'{"since": NaN}', b'{"a": "\\ud800"}',
    b"[" * 50_000, b'{"a":' * 9_000, b'{"line": 1' + b"0" * 5_000 + b"}", b'{"since": {"$": 1}}', b"\x00" * 9,
]  # fmt: skip
MEMBERS = [
    "since",
    "before",
    "line",
    "evaluation",
    "row",
    "part",
    "run",
    "code",
    "nonce",
    "evaluationId",
    "query",
    "text",
]
TARGETS = [
    "/enter", "/prove", "/do/events", "/do/another", "/do/code", "/do/diffs", "/do/rich-formats", "/do/lead",
    "/do/search", "/do/history", "/do/run", "/do/get_evaluation", "/do/repl_output_log", "/do/inspect_app",
    "/do/interrupt_evaluation", "/do/send_input", "/do/", "/do/x",
]  # fmt: skip


def test_the_server_survives_any_request_body(tmp_path):
    drawn = random.Random(5)
    with serving(tmp_path, "--repl", "none") as live:
        page = opened(live)
        bodies = [*RAW, *(json.dumps({name: value}).encode() for name in MEMBERS for value in VALUES)]
        for target in TARGETS:
            for body in [*RAW, *drawn.sample(bodies, 40)]:
                connection = page.connection()
                connection.request("POST", target, body, page.headers())
                answer = connection.getresponse()
                assert answer.status in (200, 400, 404), (target, body[:50], answer.status)
                if answer.headers["content-type"] != "text/event-stream":
                    answer.read()
                connection.close()
        assert page.call("examples")
        text = end_of(live)
    assert "Traceback" not in text
    assert "fault" not in text


def end_of(live):
    """End a server and return its output."""
    live.process.send_signal(signal.SIGTERM)
    output = live.process.stdout.read()
    live.process.wait(WAIT_S)
    return output


def test_refused_requests_are_logged_once(tmp_path):
    with serving(tmp_path, "--repl", "none") as live:
        page = opened(live)
        for _ in range(50):
            with pytest.raises(ConnectionError):
                page.post("/do/examples", headers={"Codriver-Token": "A" * 43})
        text = end_of(live)
    assert text.count("refused a request to the page") == 1


def test_http_is_still_refused_on_the_client_port(live, page):
    lines = [f"{name}: {value}" for name, value in page.headers(Host=f"127.0.0.1:{live.port}").items()]
    requested = "\r\n".join(["POST /do/handoff HTTP/1.1", *lines, "Content-Length: 2", "", "{}"])
    assert page.raw(requested.encode(), port=live.port) == b""


@needs_root
def test_another_local_user_with_the_token_gets_no_response(page):
    code = (
        "import encodings.idna, os, socket, sys\n" + BECOME + "sock = socket.create_connection(('127.0.0.1', "
        f"{page.port}))\n"
        "try:\n    sock.sendall(sys.stdin.buffer.read())\n    came = sock.recv(100)\nexcept OSError:\n    came = b''\n"
        "print(came)"
    )
    lines = [f"{name}: {value}" for name, value in page.headers().items()]
    requested = "\r\n".join(["POST /do/handoff HTTP/1.1", *lines, "Content-Length: 2", "", "{}"]).encode()
    assert b"200" in page.raw(requested)[:20]
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], input=requested, capture_output=True, timeout=WAIT_S, check=True
    )
    assert done.stdout == b"b''\n"


def test_the_page_receives_existing_and_new_rows(live, page, client):
    with Events(page) as events:
        name, about = events.next()
        assert (name, about["workspace"]) == ("hello", str(live.workspace))
        events.row(text="'marker'", result="'marker'", status="done", who="bare")
        code = "import time\nfor n in range(3):\n    print(n)\n    time.sleep(0.1)\n1/0"
        client.call("evaluate_code", code=code, who="ann", timeoutMs=60_000)
        row = events.row(text=code, status="failed")
    assert (row["who"], row["where"], row["error"]) == ("ann", "py", "ZeroDivisionError: division by zero")
    assert row["newOutput"].startswith("0\n1\n2\n")
    assert row["ms"] >= 300


def test_a_reconnected_page_receives_only_what_it_missed(page, client):
    with Events(page) as events:
        events.row(text="'marker'", status="done")
        since = max(row.get("line", 0) for row in events.rows.values())
    client.call("evaluate_code", code="'missed'", timeoutMs=60_000)
    with Events(page, since=since) as events:
        events.row(text="'missed'", status="done")
        assert all(row["line"] > since for row in events.rows.values() if "line" in row)


def test_a_row_is_limited_to_6000_bytes_but_its_strings_can_be_read_in_full(page, client):
    code = "'''" + "\x1b é\n" * 4000 + "'''; print('\\x00' * 100_000); 'x' * 100_000"
    answer = client.call("evaluate_code", code=code, timeoutMs=60_000)
    with Events(page) as events:
        row = events.row(id=answer["evaluationId"], status="done")
        del row["id"]
    for update in (row, {**row, "newOutput": row["newOutput"][:1400]}):
        assert len(json.dumps(update | {"newOutput": ""}, ensure_ascii=False).encode()) < 6000
    assert page.call("code", evaluation=answer["evaluationId"])["code"] == code
    part = page.tool("get_evaluation", evaluationId=answer["evaluationId"], part="stdout", length=60_000)
    assert part["totalCharacters"] == 100_001


def test_a_flood_is_sent_in_few_small_updates(page, client):
    """At most twenty updates a second, each row within its limit, however much is printed; gaps are reported."""
    code = "import time\nover = time.monotonic() + 2\nwhile time.monotonic() < over: print('x' * 10_000)"
    with Events(page) as events:
        events.next()
        pending, times, sizes = client.begin_call("evaluate_code", code=code, who="flood", timeoutMs=60_000), [], []
        while not any(row.get("who") == "flood" and row.get("status") == "done" for row in events.rows.values()):
            name, data = events.next()
            if name == "rows":
                times.append(data["now"])
                sizes += [len(json.dumps(row)) for row in data["rows"]]
    assert client.answer(pending)
    later = [(item, other) for item, other in zip(times, times[20:], strict=False)]
    assert all(other - element >= 900 for element, other in later), times
    assert max(sizes) < 6000


def test_a_row_of_a_query_answer_links_to_its_evaluation(page, client):
    answer = client.call("evaluate_code", code="'where' + 'to'", timeoutMs=60_000)
    identity, (_, last) = answer["evaluationId"], answer["outputLines"].values()
    for row in ([identity], [last, "x"], ["'whereto'"], [{"line": last, "text": "x"}]):
        assert page.call("lead", row=row) == {"evaluation": identity}
    assert page.call("lead", row=[1e9, "nothing of it"]) == {"evaluation": None}


def test_application_events_are_separate_rows(page, client):
    install = "import sys; sys.path.insert(0, SEAM); import codriver_seam as seam; seam.install(True)"
    assert client.call("evaluate_code", code=install.replace("SEAM", repr(str(SEAM))), timeoutMs=60_000)["ok"]
    assert client.call("watch_app", topic="error")["ok"]
    client.call("evaluate_code", code="seam.emit('error', 'ValueError', message='no stock')")
    with Events(page) as events:
        row = events.row(kind="app", op="error", status="failed")
    assert "no stock" in row["text"]
    assert row["id"] in page.call("search", part="NO STOCK")["ids"]


def test_recorded_calls_of_an_evaluation_are_a_tree(live, page, client):
    (live.workspace / "steps.py").write_text("def f(n):\n    return g(n) + 1\n\n\ndef g(n):\n    return n * 2\n")
    answer = client.call("evaluate_code", code="import steps\nsteps.f(3)", trace="true", timeoutMs=60_000)
    reply = page.tool("get_evaluation", evaluationId=answer["evaluationId"], part="trace", length=60_000)
    assert "steps.f(3) -> 7\n  #2 steps.g(3) -> 6" in reply["text"]
    assert "trace" in page.tool("get_evaluation", evaluationId=answer["evaluationId"])


def test_kernel_output_keeps_its_media_type(tmp_path):
    kernel = real_kernels.kernel("ipykernel")
    with serving(tmp_path, "--kernel", f"jup={kernel.file}", "--repl", "none") as live, live.client() as client:
        page = opened(live)

        def display(bundle):
            code = f"display({bundle!r}, raw=True)"
            answer = client.call("evaluate_code", code=code, timeoutMs=60_000)
            return page.call("rich-formats", evaluation=answer["evaluationId"])

        assert display({"text/plain": "x", "text/markdown": "**b**"}) == {
            "markdown": [{"tag": "p", "spans": [["strong", "b"]]}]
        }
        assert display({"text/plain": "x", "text/latex": "$x^2$"}) == {"latex": "$x^2$"}
        assert "<b>hi</b>" in page.frame(display({"text/plain": "x", "text/html": "<b>hi</b>"})["address"])[2]
        assert display({"text/plain": "x"}) == {}


UNDER_WAY = {
    "jvm": """(ns steps-test (:require [clojure.test :refer [deftest is]]))
(def begun (atom 0))
(defn step []
  (when (< (swap! begun inc) 3) (throw (Exception. "no")))
  (while (not (.exists (java.io.File. "GO"))) (Thread/sleep 10))
  (is true))
(deftest b (step))
(deftest b-too (step))
(deftest b-as-well (step))
""",
    "basilisp": """(ns steps-test (:require [basilisp.test :refer [deftest is]]) (:import os time))
(def begun (atom 0))
(defn step []
  (when (< (swap! begun inc) 3) (throw (python/ValueError "no")))
  (while (not (os.path/exists "GO")) (time/sleep 0.01)))
(deftest b (step))
(deftest b-too (step))
(deftest b-as-well (step))
""",
    "nbb": """(ns steps-test (:require [cljs.test :refer [deftest is async]] ["fs" :as fs]))
(deftest a (is (= 1 1)))
(deftest b (throw (js/Error. "no")))
(defn wait [done] (if (fs/existsSync "GO") (done) (js/setTimeout #(wait done) 10)))
(deftest z (async done (is true) (wait done)))
""",
    "ipykernel": """import pathlib, time
def test_a(): pass
def test_b(): raise ValueError("no")
def test_z():
    while not pathlib.Path("GO").exists(): time.sleep(0.01)
""",
}
"""Three tests, of which one is red and the last waits for a file; where none are sorted (JVM, Basilisp) two are red."""


@pytest.mark.parametrize("name", UNDER_WAY)
def test_a_test_run_reports_progress_and_failures(tmp_path, name):
    code = UNDER_WAY[name].replace("GO", str(tmp_path / "go"))
    if name == "ipykernel":
        options = ("--kernel", f"it={real_kernels.kernel(name).file}")
    else:
        options = ("--nrepl", f"it={real_repls.repl(name).endpoint}")
    with serving(tmp_path, *options, "--repl", "none") as live, live.client() as client, live.client() as other:
        until_connected(client)
        named = "steps-test"
        if name == "ipykernel":
            named = "test_steps.py"
            (live.workspace / named).write_text(code)
        else:
            assert client.call("evaluate_code", code=code, timeoutMs=60_000)["ok"]
        page = opened(live)
        pending = client.begin_call("run_tests", namespace=named, timeoutMs=120_000)
        with Events(page) as events:
            row = events.row(kind="tests", done=2, total=3)
            answer = other.call("get_evaluation", evaluationId=row["id"], detail=True)
            red, *others = answer["results"]
            assert row["failures"] == 1 + len(others)
            assert red["test"].rpartition("::")[2].removeprefix("test_")[0] == "b"
            if name == "ipykernel":  # a failure in the test itself includes its line
                assert red["line"] == 3
            else:
                assert red.get("frames") or name == "nbb"  # whose errors have none
            (tmp_path / "go").touch()
            client.answer(pending)
            events.row(id=row["id"], tests=3, failures=row["failures"])


def test_a_search_finds_text_anywhere_in_the_log(page, client):
    codes = (f"x = 1  # {'.' * 3000} The Needle", "print('.' * 9000 + 'needLE')")
    made = [client.call("evaluate_code", code=code, detail=True)["evaluationId"] for code in codes]
    assert page.call("search", part="Needle")["ids"] == sorted(made)
    assert page.call("search", part="no text has this")["ids"] == []


def test_history_and_earlier_runs_are_listed(tmp_path):
    with serving(tmp_path) as live, live.client() as client:
        client.call("evaluate_code", code="'of before'", who="ann", timeoutMs=60_000)
    with serving(tmp_path, "--repl", "none") as live:
        page = opened(live)
        history = page.call("history", part="before")
        (row,) = history["rows"]
        assert row[1:] == ["ann", "py", "'of before'"]
        assert history["forget"].startswith("codriver stop --workspace ")
        assert "&& codriver forget history --workspace " in history["forget"]
        assert page.call("history", part="nothing such")["count"] == 0
        ((name, begin, end, count),) = page.call("runs")["rows"]
        assert begin <= end
        entries = page.call("run", run=name)["rows"]
        assert len(entries) == count
        assert ["evaluationResults", "ann", "'of before'"] in [entry[1:] for entry in entries]


def test_secrets_are_redacted_on_the_page_as_for_agents(tmp_path):
    live_environ = {"DEPLOY_TOKEN": "hunter2hunter2"}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in live_environ.items():
            patch.setenv(name, value)
        with serving(tmp_path) as live, live.client() as client:
            client.call("evaluate_code", code="import os; print(os.environ['DEPLOY_TOKEN'])", timeoutMs=60_000)
            answer = client.call("evaluate_code", code="'hunter2hunter2'", timeoutMs=60_000)
            page = opened(live)
            with Events(page) as events:
                events.row(id=answer["evaluationId"], status="done")
                reply = json.dumps(events.rows) + json.dumps(page.call("code", evaluation=answer["evaluationId"]))
            reply += json.dumps(page.tool("get_evaluation", evaluationId=answer["evaluationId"]))
    assert "hunter2" not in reply


def test_tools_that_evaluate_code_or_change_state_cannot_be_called_from_the_page(page):
    for name in ("evaluate_code", "load_file", "edit_files", "restart_repl", "codriver", "change_app", "../x", ""):
        connection = page.connection()
        connection.request("POST", f"/do/{name}", '{"code": "1"}', page.headers())
        assert connection.getresponse().status == 404
        connection.close()


def test_an_interruption_from_the_page_is_logged_as_made_by_a_human(page, client, other):
    pending = client.begin_call("evaluate_code", code="import time\nwhile True: time.sleep(0.05)", who="ann")
    with Events(page) as events:
        running = events.row(status="running", who="ann")
        answer = page.tool("interrupt_evaluation", evaluationId=running["id"])
        assert answer["status"] == "interrupted"
        assert "human" in events.row(id=running["id"], status="interrupted")["error"]
    assert client.answer(pending)["result"]["isError"]
    reply = other.call("get_evaluation", evaluationId=running["id"])
    assert "human called interrupt_evaluation" in json.dumps(reply)


def test_an_evaluation_waiting_for_input_is_answered_from_the_page(page, client):
    pending = client.begin_call("evaluate_code", code="input('name? ') + '!'", who="ann", timeoutMs=30_000)
    with Events(page) as events:
        events.row(status="needs-input")
        # The prompt may come in a later update than the status.
        waiting = events.until(lambda rows: next((row for row in rows if "name? " in row.get("newOutput", "")), None))
        assert page.tool("send_input", evaluationId=waiting["id"], text="Eve\n")["ok"]
        assert events.row(id=waiting["id"], status="done")["result"] == "'Eve!'"
    assert client.answer(pending)


def test_an_open_page_counts_as_a_client_only_while_somebody_watches_it(live, page, client):
    def names():
        return [row["name"] for row in client.call("server_health")["clients"]]

    with Events(page) as events:
        events.next()
        assert "codriver-human" in names()
    until(lambda: "codriver-human" not in names(), "the page to have left")


def test_an_edit_includes_its_diff(live, page, client):
    file = live.workspace / "prices.py"
    file.write_text("def total():\n    return 1\n")
    edit = {"type": "replace_def", "filePath": str(file), "name": "total", "code": "def total():\n    return 2\n"}
    assert client.call("edit_files", edits=[edit])["ok"]
    with Events(page) as events:
        row = events.row(kind="edit", files=1)
    (display,) = page.call("diffs", line=row["line"])["files"]
    assert display["file"] == "prices.py"
    assert "-    return 1\n+    return 2" in display["diff"]


def open_events(live):
    """Return a page and its events after the first event. On a busy machine a page may close before it is used."""
    for _ in range(TRIES):
        page = opened(live)
        with contextlib.suppress(ConnectionError):
            events = Events(page)
            assert events.next()[0] == "hello"
            return page, events
    pytest.fail("each page closed before it was looked at")


def test_the_page_opened_after_an_unused_page_expired_has_a_new_host_and_token(tmp_path):
    with serving(tmp_path, "--repl", "none", durations="page_s=0.3") as live:
        page, events = open_events(live)
        with events:
            assert page.call("examples")
        until(lambda: not is_open(page), "the page to be closed")
        again, events = open_events(live)
        with events:
            assert again.token != page.token
            assert again.host != page.host


def is_open(page):
    try:
        return page.call("handoff")
    except (OSError, http.client.HTTPException):
        return None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
def test_the_next_server_shares_nothing_with_the_previous_one(tmp_path, number):
    """Host name, port, token and code are all different, and no page is open until somebody requests it."""
    with serving(tmp_path, "--repl", "none") as live:
        page, left = opened(live), PageClient(live, address_of(live))
        live.stop(number)
    with serving(tmp_path, "--repl", "none") as live:
        assert not is_open(page)
        again = opened(live)
        assert (again.host, again.token) != (page.host, page.token)
        assert again.port != page.port
        assert again.post("/enter", code=left.code) == {"refused": "unknown"}
        for old in ({"Codriver-Token": page.token}, {"Host": page.host, "Origin": f"http://{page.host}"}):
            with pytest.raises(ConnectionError):
                post(again, "/do/examples", again.headers(**old))


def post(page, target, headers):
    connection = page.connection()
    try:
        connection.request("POST", target, "{}", headers)
        return connection.getresponse().status
    finally:
        connection.close()
