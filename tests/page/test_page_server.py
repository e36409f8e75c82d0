"""The page's port on a real server: who gets in, for how long it is open, and how the next server goes on with it."""

import contextlib
import json
import socket
import stat
import subprocess
import sys

import pytest
import real_kernels
import real_repls
from application import SEAM
from live_server import WAIT_S, serving, until
from other_user import BECOME, needs_root
from page_client import Events, PageClient, opened

TRIES = 20


@pytest.fixture(scope="module")
def live(live):
    with live.client() as client:
        assert client.call("evaluate_code", code="'marker'", timeoutMs=60_000)["ok"]
    return live


@pytest.fixture(scope="module")
def page(live):
    return opened(live)


def record_of(live):
    (found,) = (live.folder / "state").rglob("page.json")
    return found


def test_the_command_prints_an_address_and_opens_nothing(live, page):
    again = live.run("watch", "--web")
    assert again.stdout == f"{page.address}\n"
    assert "ten minutes" in again.stderr


def test_without_a_server_or_with_options_for_lines_there_is_no_page(live, tmp_path):
    assert live.run("watch", "--web", "--who", "ann").returncode == 2
    (tmp_path / ".git").mkdir()
    alone = live.run("watch", "--web", "--workspace", str(tmp_path))
    assert alone.returncode == 3
    assert "no codriver server runs" in alone.stderr
    assert alone.stdout == ""


def test_the_port_and_the_token_lie_where_only_this_user_can_read(live, page):
    assert json.loads(record_of(live).read_text()) == {"port": page.port, "token": page.token}
    assert stat.S_IMODE(record_of(live).stat().st_mode) == 0o600
    assert page.token not in "".join(str(path.read_bytes()) for path in live.workspace.rglob("*") if path.is_file())


def test_no_answer_at_the_port_of_clients_holds_the_token(live, page):
    lines = []
    with socket.create_connection(("127.0.0.1", live.port), timeout=WAIT_S) as sock:
        sock.sendall(b'{"jsonrpc": "2.0", "method": "codriver/token", "params": {"page": "yes"}}\n')
        with sock.makefile("rb") as file:
            lines += file.readlines()
    assert [json.loads(line)["params"] for line in lines] == [{"port": page.port}]


def test_the_bare_page_holds_nothing_of_the_log_and_lets_nothing_in(page):
    connection = page.connection()
    opens = {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    connection.request("GET", "/", headers=opens)
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
        {"Origin": "http://evil.example"},
        {"Origin": None},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": None},
        {"Content-Type": "text/plain"},
    ],
)
def test_a_call_that_is_not_the_pages_gets_no_byte(page, changed):
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
def test_whatever_else_comes_gets_no_byte(page, data):
    assert page.raw(data.replace(b"Host: a\r\nHost: b", b"Host: 127.0.0.1:%d\r\nHost: b" % page.port)) == b""


def test_a_body_that_is_too_long_is_not_read_on(page):
    lines = [f"{name}: {value}" for name, value in page.headers().items()]
    head = "\r\n".join(["POST /do/handoff HTTP/1.1", *lines, "Content-Length: 70000", "", ""])
    assert page.raw(head.encode() + b" " * 70_000) == b""


def test_http_stays_refused_at_the_port_of_clients(live, page):
    lines = [f"{name}: {value}" for name, value in page.headers(Host=f"127.0.0.1:{live.port}").items()]
    asked = "\r\n".join(["POST /do/handoff HTTP/1.1", *lines, "Content-Length: 2", "", "{}"])
    assert PageClient(live.port, page.token).raw(asked.encode()) == b""


@needs_root
def test_another_user_of_the_machine_gets_no_byte_with_the_token(page):
    code = (
        "import encodings.idna, os, socket, sys\n" + BECOME + "sock = socket.create_connection(('127.0.0.1', "
        f"{page.port}))\n"
        "try:\n    sock.sendall(sys.stdin.buffer.read())\n    came = sock.recv(100)\nexcept OSError:\n    came = b''\n"
        "print(came)"
    )
    lines = [f"{name}: {value}" for name, value in page.headers().items()]
    asked = "\r\n".join(["POST /do/handoff HTTP/1.1", *lines, "Content-Length: 2", "", "{}"]).encode()
    assert b"200" in page.raw(asked)[:20]
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], input=asked, capture_output=True, timeout=WAIT_S, check=True
    )
    assert done.stdout == b"b''\n"


def test_the_page_is_told_what_is_there_and_what_comes(live, page, client):
    with Events(page) as events:
        name, about = events.next()
        assert (name, about["workspace"]) == ("hello", str(live.workspace))
        events.row(text="'marker'", result="'marker'", status="done", who="bare")
        code = "import time\nfor n in range(3):\n    print(n)\n    time.sleep(0.1)\n1/0"
        client.call("evaluate_code", code=code, who="ann", timeoutMs=60_000)
        row = events.row(text=code, status="failed")
    assert (row["who"], row["where"], row["error"]) == ("ann", "py", "ZeroDivisionError: division by zero")
    assert row["said"].startswith("0\n1\n2\n")
    assert row["ms"] >= 300


def test_a_page_that_comes_back_is_told_what_it_missed_alone(page, client):
    with Events(page) as events:
        about = events.next()[1]
        events.row(text="'marker'", status="done")
        since = max(row.get("line", 0) for row in events.rows.values())
    client.call("evaluate_code", code="'missed'", timeoutMs=60_000)
    with Events(page, server=about["server"], since=since) as events:
        events.row(text="'missed'", status="done")
        assert all(row["line"] > since for row in events.rows.values() if "line" in row)
    with Events(page, server="of another", since=10**6) as events:
        events.row(text="'marker'", status="done")


def test_a_row_has_at_most_six_thousand_bytes_and_its_texts_can_be_had_whole(page, client):
    code = "'''" + "\x1b é\n" * 4000 + "'''; print('\\x00' * 100_000); 'x' * 100_000"
    asked = client.call("evaluate_code", code=code, timeoutMs=60_000)
    with Events(page) as events:
        row = events.row(id=asked["evaluationId"], status="done")
        del row["id"]
    for update in (row, {**row, "said": row["said"][:1400]}):
        assert len(json.dumps(update | {"said": ""}, ensure_ascii=False).encode()) < 6000
    assert page.call("code", evaluation=asked["evaluationId"])["code"] == code
    part = page.tool("get_evaluation", evaluationId=asked["evaluationId"], part="stdout", length=60_000)
    assert part["totalCharacters"] == 100_001


def test_a_flood_is_told_in_few_updates_of_few_bytes(page, client):
    """At most twenty a second, each row within its bytes, however much is printed; and a gap is told."""
    code = "import time\nover = time.monotonic() + 2\nwhile time.monotonic() < over: print('x' * 10_000)"
    with Events(page) as events:
        events.next()
        begun, times, sizes = client.begin_call("evaluate_code", code=code, who="flood", timeoutMs=60_000), [], []
        while not any(row.get("who") == "flood" and row.get("status") == "done" for row in events.rows.values()):
            name, data = events.next()
            if name == "rows":
                times.append(data["now"])
                sizes += [len(json.dumps(row)) for row in data["rows"]]
    assert client.answer(begun)
    later = [(one, other) for one, other in zip(times, times[20:], strict=False)]
    assert all(other - one >= 900 for one, other in later), times
    assert max(sizes) < 6000


def test_a_row_of_an_answer_leads_to_its_evaluation(page, client):
    asked = client.call("evaluate_code", code="'where' + 'to'", timeoutMs=60_000)
    identity, (_, last) = asked["evaluationId"], asked["outputLines"].values()
    for row in ([identity], [last, "x"], ["'whereto'"], [{"line": last, "text": "x"}]):
        assert page.call("lead", row=row) == {"evaluation": identity}
    assert page.call("lead", row=[1e9, "nothing of it"]) == {"evaluation": None}


def test_the_events_of_an_application_are_rows_of_their_own(page, client):
    install = "import sys; sys.path.insert(0, SEAM); import codriver_seam as seam; seam.install(True)"
    assert client.call("evaluate_code", code=install.replace("SEAM", repr(str(SEAM))), timeoutMs=60_000)["ok"]
    assert client.call("watch_app", topic="error")["ok"]
    client.call("evaluate_code", code="seam.emit('error', 'ValueError', message='no stock')")
    with Events(page) as events:
        row = events.row(kind="app", op="error", status="failed")
    assert "no stock" in row["text"]
    assert row["id"] in page.call("found", part="NO STOCK")["ids"]


def test_recorded_calls_of_an_evaluation_are_told_as_a_tree(live, page, client):
    (live.workspace / "steps.py").write_text("def f(n):\n    return g(n) + 1\n\n\ndef g(n):\n    return n * 2\n")
    asked = client.call("evaluate_code", code="import steps\nsteps.f(3)", trace="true", timeoutMs=60_000)
    told = page.tool("get_evaluation", evaluationId=asked["evaluationId"], part="trace", length=60_000)
    assert "steps.f(3) -> 7\n  #2 steps.g(3) -> 6" in told["text"]
    assert "trace" in page.tool("get_evaluation", evaluationId=asked["evaluationId"])


def test_what_a_kernel_shows_is_told_in_its_own_kind(tmp_path):
    kernel = real_kernels.kernel("ipykernel")
    with serving(tmp_path, "--kernel", f"jup={kernel.file}", "--repl", "none") as live, live.client() as client:
        page = opened(live)

        def shown(bundle):
            code = f"display({bundle!r}, raw=True)"
            asked = client.call("evaluate_code", code=code, timeoutMs=60_000)
            return page.call("shown", evaluation=asked["evaluationId"])

        assert shown({"text/plain": "x", "text/markdown": "**b**"}) == {
            "markdown": [{"tag": "p", "spans": [["strong", "b"]]}]
        }
        assert shown({"text/plain": "x", "text/latex": "$x^2$"}) == {"latex": "$x^2$"}
        assert "<b>hi</b>" in page.frame(shown({"text/plain": "x", "text/html": "<b>hi</b>"})["address"])[2]
        assert shown({"text/plain": "x"}) == {}


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
(deftest z (async done (wait done)))
""",
    "squint": """(ns steps-test (:require [clojure.test :refer [deftest is]] ["fs" :as fs]))
(deftest a (is (= 1 1)))
(deftest b (throw (js/Error. "no")))
(defn wait [done] (if (fs/existsSync "GO") (done) (js/setTimeout (fn [] (wait done)) 10)))
(deftest ^:async z (js-await (js/Promise. wait)))
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
def test_a_run_of_tests_tells_how_far_it_is_and_where_it_is_red(tmp_path, name):
    code = UNDER_WAY[name].replace("GO", str(tmp_path / "go"))
    if name == "ipykernel":
        options = ("--kernel", f"it={real_kernels.kernel(name).file}")
    else:
        options = ("--nrepl", f"it={real_repls.repl(name).endpoint}")
    with serving(tmp_path, *options, "--repl", "none") as live, live.client() as client, live.client() as other:
        until(lambda: "run_tests" in client.tools(), "the REPL's tools")
        named = "steps-test"
        if name == "ipykernel":
            named = "test_steps.py"
            (live.workspace / named).write_text(code)
        else:
            assert client.call("evaluate_code", code=code, timeoutMs=60_000)["ok"]
        page = opened(live)
        begun = client.begin_call("run_tests", namespace=named, timeoutMs=120_000)
        with Events(page) as events:
            row = events.row(kind="tests", done=2, of=3)
            told = other.call("get_evaluation", evaluationId=row["id"], detail=True)
            red, *others = told["results"]
            assert row["red"] == 1 + len(others)
            assert red["test"].removeprefix("test_")[0] == "b"
            assert red.get("frames") or name in ("nbb", "squint")  # whose errors have none
            (tmp_path / "go").touch()
            client.answer(begun)
            events.row(id=row["id"], tests=3, red=row["red"])


def test_a_search_finds_what_stands_anywhere_in_the_texts_of_the_log(page, client):
    codes = (f"x = 1  # {'.' * 3000} The Needle", "print('.' * 9000 + 'needLE')")
    made = [client.call("evaluate_code", code=code, detail=True)["evaluationId"] for code in codes]
    assert page.call("found", part="Needle")["ids"] == sorted(made)
    assert page.call("found", part="no text has this")["ids"] == []


def test_history_and_runs_of_before_are_told(tmp_path):
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


def test_secrets_reach_the_page_as_little_as_an_agent(tmp_path):
    live_environ = {"DEPLOY_TOKEN": "hunter2hunter2"}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in live_environ.items():
            patch.setenv(name, value)
        with serving(tmp_path) as live, live.client() as client:
            client.call("evaluate_code", code="import os; print(os.environ['DEPLOY_TOKEN'])", timeoutMs=60_000)
            asked = client.call("evaluate_code", code="'hunter2hunter2'", timeoutMs=60_000)
            page = opened(live)
            with Events(page) as events:
                events.row(id=asked["evaluationId"], status="done")
                told = json.dumps(events.rows) + json.dumps(page.call("code", evaluation=asked["evaluationId"]))
            told += json.dumps(page.tool("get_evaluation", evaluationId=asked["evaluationId"]))
    assert "hunter2" not in told


def test_the_page_can_do_two_things_alone(page):
    for name in ("evaluate_code", "load_file", "edit_files", "restart_repl", "codriver", "change_app", "../x", ""):
        connection = page.connection()
        connection.request("POST", f"/do/{name}", '{"code": "1"}', page.headers())
        assert connection.getresponse().status == 404
        connection.close()


def test_an_evaluation_is_interrupted_as_the_human_and_the_log_says_so(page, client, other):
    begun = client.begin_call("evaluate_code", code="import time\nwhile True: time.sleep(0.05)", who="ann")
    with Events(page) as events:
        running = events.row(status="running", who="ann")
        answer = page.tool("interrupt_evaluation", evaluationId=running["id"])
        assert answer["status"] == "interrupted"
        assert "human" in events.row(id=running["id"], status="interrupted")["error"]
    assert client.answer(begun)["result"]["isError"]
    said = other.call("get_evaluation", evaluationId=running["id"])
    assert "human asked for it" in json.dumps(said)


def test_an_evaluation_that_waits_for_input_is_answered_from_the_page(page, client):
    begun = client.begin_call("evaluate_code", code="input('name? ') + '!'", who="ann", timeoutMs=30_000)
    with Events(page) as events:
        waiting = events.row(status="needs-input")
        assert "name? " in waiting["said"]
        assert page.tool("send_input", evaluationId=waiting["id"], text="Eve\n")["ok"]
        assert events.row(id=waiting["id"], status="done")["result"] == "'Eve!'"
    assert client.answer(begun)


def test_a_looked_at_page_is_a_client_and_none_when_nobody_looks(live, page, client):
    def names():
        return [row["name"] for row in client.call("server_health")["clients"]]

    with Events(page) as events:
        events.next()
        assert "codriver-page" in names()
    until(lambda: "codriver-page" not in names(), "the page to have left")


def test_an_edit_tells_what_it_changed(live, page, client):
    file = live.workspace / "prices.py"
    file.write_text("def total():\n    return 1\n")
    edit = {"type": "replace_def", "filePath": str(file), "name": "total", "code": "def total():\n    return 2\n"}
    assert client.call("edit_files", edits=[edit])["ok"]
    with Events(page) as events:
        row = events.row(kind="edit", files=1)
    (shown,) = page.call("diffs", line=row["line"])["files"]
    assert shown["file"] == "prices.py"
    assert "-    return 1\n+    return 2" in shown["diff"]


def looked_at(live):
    """A page and its events, of which the first has come. On a busy machine one may close before it is looked at."""
    for _ in range(TRIES):
        page = opened(live)
        with contextlib.suppress(ConnectionError):
            events = Events(page)
            assert events.next()[0] == "hello"
            return page, events
    pytest.fail("each page closed before it was looked at")


def test_the_page_closes_when_nobody_has_looked_for_a_while_and_its_address_with_it(tmp_path):
    with serving(tmp_path, "--repl", "none", durations="page_s=0.3") as live:
        page, events = looked_at(live)
        with events:
            assert record_of(live).exists()
        until(lambda: not [*(live.folder / "state").rglob("page.json")], "the page to be closed")
        with pytest.raises(ConnectionError):
            page.call("handoff")
        again, events = looked_at(live)
        with events:
            assert again.token != page.token


def test_the_next_server_goes_on_with_the_port_and_the_token(tmp_path):
    with serving(tmp_path, "--repl", "none") as live:
        page = opened(live)
    with serving(tmp_path, "--repl", "none") as live:
        until(lambda: is_open(page), "the page to go on")
        assert opened(live).address == page.address
        live.process.kill()
    with serving(tmp_path, "--repl", "none"):
        until(lambda: is_open(page), "the page to go on after a crash")


def is_open(page):
    try:
        return page.call("handoff")
    except OSError:
        return None


def test_where_the_port_is_taken_the_next_server_says_which_command_opens_the_page(tmp_path):
    with serving(tmp_path, "--repl", "none") as live:
        page = opened(live)
    with socket.create_server(("127.0.0.1", page.port)), serving(tmp_path, "--repl", "none") as live:
        with live.client() as client:

            def said():
                told = client.call("repl_output_log", category=["otherErrorOutput"])["result"]
                return "`codriver watch --web` prints another address" in json.dumps(told)

            until(said, "the server to say so")
        assert not [*(live.folder / "state").rglob("page.json")]
        assert opened(live).port != page.port
