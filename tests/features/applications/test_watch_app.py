"""Application events, pushed into the log and waited for: in the embedded Python and in a web application."""

import json
import re
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from all_tools import BY_NAME
from application import SEAM
from jsonschema import validate
from live_server import WAIT_S, serving, until

APP = """
import sys
sys.path.insert(0, {seam!r})
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
import codriver_seam as seam

class Shop(BaseHTTPRequestHandler):
    def do_GET(self):
        try:
            if self.path == "/fail":
                raise ValueError("no stock")
            with seam.epoch("shop", self.path):
                state["hits"] += 1
        except Exception as error:
            seam.note_error(error, event_id=self.path)
            self.send_response(500)
        else:
            self.send_response(200)
        self.end_headers()

    def log_message(self, *args):
        pass

state = {{"hits": 0}}
seam.install(True)
seam.frame("shop", lambda: state, snapshot="deepcopy")
server = ThreadingHTTPServer(("127.0.0.1", 0), Shop)
repl = seam.start_repl()
print(server.server_port, flush=True)
server.serve_forever()
"""
IN_REPL = "import codriver_seam as seam; seam.install(True)"


PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "seam.md").read_text()
JOINED = re.search(r"<!-- seam-query -->\n```clojure\n(.*?)```", PAGE, re.DOTALL)[1]


def begin(client, topic, **arguments):
    answer = client.call("watch_app", topic=topic, **arguments)
    validate(answer, BY_NAME["watch_app"].output)
    assert answer["ok"], answer
    return answer


def gained(client, watch):
    """Return the first rows that were added since."""
    return client.call("wait_for", query=watch["query"], since=watch["since"])["result"]


def lines(client, op=None):
    where = f'[$app ?e :output/op "{op}"]' if op else ""
    query = f"[:find ?l ?t :in $ $app :where [$app ?e :output/line ?l] [$app ?e :output/text ?t] {where}]"
    return [text for _, text in sorted(client.call("repl_output_log", query=query, limit=3000)["result"])]


@pytest.fixture
def watching(client):
    """Return the client, with an application in the embedded Python."""
    assert client.call("evaluate_code", code=IN_REPL, who="setup")["ok"]
    yield client
    client.call("evaluate_code", code="None", who="setup")
    for line in client.call("watch_app")["lines"]:
        assert client.call("watch_app", stop=line.split()[0])["existed"] is True


def test_an_event_ends_a_wait_and_belongs_to_no_evaluation(watching, other):
    watch = begin(watching, "error")
    waiting = other.begin_call("wait_for", query=watch["query"], since=watch["since"])
    code = "seam.emit('fx', 'quiet'); seam.emit('error', 'ValueError', message='no stock')"
    watching.call("evaluate_code", code=code)
    answer = json.loads(other.answer(waiting)["result"]["content"][0]["text"])
    assert answer["status"] == "found"
    [[_, text]] = answer["result"]
    assert re.fullmatch(r"\d+ error ValueError by=\S+/\S+ message=no stock", text)


def test_events_of_a_change_can_be_joined_with_their_evaluation(watching):
    code = "box = {'n': 0}\ndef put(event): box.update(n=event[1])\n"
    watching.call("evaluate_code", code=code + "seam.frame('box', lambda: box, dispatch=put, snapshot='deepcopy')")
    watch = begin(watching, "trace")
    changed = watching.call("change_app", what="dispatch", event="['put', 3]", sync=True, who="ann")
    assert gained(watching, watch)
    query = JOINED
    until(lambda: len(watching.call("repl_output_log", query=query, inputs=["ann"])["result"]) == 2, "both events")
    rows = watching.call("repl_output_log", query=query, inputs=["ann"])["result"]
    assert all(f"by=ann/{changed['evaluationId']}" in text for _, text in rows)
    assert watching.call("repl_output_log", query=query, inputs=["bob"])["result"] == []


def test_an_event_in_two_streams_is_logged_once(watching, other):
    watch = begin(watching, "error")
    begin(other, "trace")
    watching.call("evaluate_code", code="seam.emit('error', 'Twice'); seam.emit('fx', 'after')")
    query = watch["query"].replace('"error"', '"fx"')
    assert gained(watching, {**watch, "query": query})
    assert gained(watching, watch)
    assert sum(" Twice" in line for line in lines(watching)) == 1


def test_line_numbers_used_by_events_are_not_reported_as_a_gap_in_the_log(watching):
    watch = begin(watching, "trace")
    watching.call("evaluate_code", code="seam.emit('fx', 'between')")
    [line, _] = watching.call("wait_for", query=watch["query"], since=watch["since"])["result"][0]
    watching.call("evaluate_code", code="'after'")
    read = watching.request("resources/read", {"uri": f"codriver://log?since={line - 1}"})
    log = json.loads(read["result"]["contents"][0]["text"])
    assert (log["gap"], log["entities"][-1]["text"]) == (False, "'after'")


def test_streams_are_listed_with_their_owners_and_can_be_stopped(watching):
    watch = begin(watching, "fx", filter={"operation": "db/write"}, who="ann")
    watching.call("evaluate_code", code="seam.emit('fx', 'db/write'); seam.emit('fx', 'other')")
    assert gained(watching, watch)
    line = f'{watch["subId"]} fx {{"operation": "db/write"}} by ann: 1 sent, 0 dropped'
    until(lambda: watching.call("watch_app")["lines"] == [line], "the stream with what it sent")
    assert watching.call("watch_app", stop=watch["subId"]) == {"ok": True, "subId": watch["subId"], "existed": True}
    assert watching.call("watch_app", stop=watch["subId"])["existed"] is False
    assert watching.call("watch_app")["lines"] == []


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"topic": "trace", "filter": {"since_ms": 1}}, "accessor-failed"),
        ({"topic": "trace", "filter": {"pred": "none"}}, "no-such-predicate"),
        ({"topic": "nonsense"}, "bad-arguments"),
    ],
)
def test_an_invalid_subscription_is_refused(watching, arguments, reason):
    assert watching.call("watch_app", **arguments)["reason"] == reason
    assert watching.call("watch_app")["count"] == 0


def test_a_failing_filter_is_reported_in_the_list_of_streams(watching):
    begin(watching, "fx", filter={"since": "yesterday"})
    watching.call("evaluate_code", code="seam.emit('fx', 'a')")
    [line] = watching.call("watch_app")["lines"]
    assert "0 sent, 0 dropped, 1 conditions failed: TypeError: " in line


def test_an_eleventh_stream_is_refused_with_a_list_of_streams_to_stop(watching):
    pending = [begin(watching, "fx")["subId"] for _ in range(10)]
    refused = watching.call("watch_app", topic="fx")
    assert refused["reason"] == "too-many-subscriptions"
    assert pending[0] in refused["hint"]


def test_a_flood_of_events_evicts_no_evaluation_and_is_counted(watching):
    watching.call("evaluate_code", code="'the oldest'", who="first")
    before = watching.call("repl_output_log", by="first")["result"]
    begin(watching, "fx")
    flood = "for n in range(100_000): seam.emit('fx', 'busy', n=n)"
    watching.call("evaluate_code", code=flood, who="second")

    count_query = '[:find (count ?e) . :in $ $app :where [$app ?e :output/name "busy"]]'

    def counted_events():
        dropped = sum(int(row.split()[0]) for row in lines(watching, "stream"))
        return dropped + (watching.call("repl_output_log", query=count_query)["result"] or 0)

    until(lambda: counted_events() >= 100_000, "all to be counted")
    assert counted_events() == 100_000
    assert "inspect_app trace, filter since " in lines(watching, "stream")[-1]
    assert watching.call("repl_output_log", by="first")["result"] == before


def test_the_streams_of_a_client_end_when_it_disconnects(live, watching):
    with live.client(name="short-lived") as short:
        begin(short, "trace")
        assert watching.call("watch_app")["count"] == 1
    code = "len(seam.seam.streams.describe_all())"
    until(lambda: watching.call("evaluate_code", code=code)["result"] == "0", "the application to know")
    assert watching.call("watch_app")["count"] == 0


def test_a_restarted_repl_has_no_streams_and_old_streams_are_reported_as_unknown(tmp_path):
    with serving(tmp_path, "--repl", "python") as live, live.client() as client:
        first = client.call("evaluate_code", code=IN_REPL)
        watch = begin(client, "error")
        session = client.call("inspect_app")["sessionId"]
        client.call("restart_repl", replSessionKey="py")
        assert "ended because the REPL py restarts. Call watch_app again" in gained(client, watch)[0][1]
        again = client.call("evaluate_code", code=IN_REPL)
        assert again["generation"] > first["generation"]
        assert client.call("inspect_app")["sessionId"] != session
        assert client.call("watch_app")["lines"] == []
        assert client.call("watch_app", stop=watch["subId"])["existed"] is False
        assert begin(client, "error")["subId"] != watch["subId"]


class WebShop:
    """A threaded web application with its own REPL."""

    def __init__(self, folder):
        file = folder / "shop.py"
        file.write_text(APP.format(seam=str(SEAM)))
        self.process = subprocess.Popen([sys.executable, file], cwd=folder, stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline())

    def get(self, path):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=WAIT_S) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code

    def end(self):
        """Kill the application and return what it has printed."""
        self.process.kill()
        rest = self.process.stdout.read()
        self.process.wait(WAIT_S)
        self.process.stdout.close()
        return rest


@pytest.fixture
def web(tmp_path):
    """Return a web application, and a server that found it."""
    with serving(tmp_path, "--repl", "none") as live:
        shop = WebShop(live.workspace)
        with live.client() as client:
            until(lambda: "seam" in str(client.call("list_sessions")), "the application to be found")
            yield shop, live, client
        assert shop.end() == "", "nothing of it is on the application's own output"


def test_a_failing_request_ends_a_wait_without_any_evaluation(web):
    shop, live, client = web
    watch = begin(client, "error")
    before = client.call("server_health")["evaluations"]
    with live.client(name="second") as second:
        waiting = second.begin_call("wait_for", query=watch["query"], since=watch["since"])
        assert shop.get("/") == 200
        assert shop.get("/fail") == 500
        answer = json.loads(second.answer(waiting)["result"]["content"][0]["text"])
    [[_, text]] = answer["result"]
    assert "ValueError" in text
    assert " at=shop.py:" in text
    assert client.call("server_health")["evaluations"] == before
    assert client.call("repl_output_log", category=["evaluatedCode"])["result"] == []


def test_a_killed_server_leaves_no_subscription_in_the_application(tmp_path):
    with serving(tmp_path, "--repl", "none") as live:
        shop = WebShop(live.workspace)
        with live.client() as client:
            until(lambda: "seam" in str(client.call("list_sessions")), "the application to be found")
            begin(client, "trace")
        live.stop(9)
    with serving(tmp_path, "--repl", "none") as live, live.client() as client:
        until(lambda: "seam" in str(client.call("list_sessions")), "the application to be found again")
        code = "__import__('codriver_seam').seam.streams.describe_all()"
        until(lambda: client.call("evaluate_code", code=code)["result"] == "[]", "the application to know")
    assert shop.end() == ""


def test_requests_are_served_while_all_topics_are_streamed(web):
    shop, _, client = web
    watch = begin(client, "trace")
    threads = [threading.Thread(target=lambda: [shop.get("/") for _ in range(20)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert client.call("evaluate_code", code="state['hits']")["result"] == "80"
    assert gained(client, watch)


def test_streaming_calls_of_a_python_function_is_refused_with_a_pointer_to_watch_calls(watching):
    answer = watching.call("watch_app", topic="calls", filter={"of": "__main__:pay"})
    assert (answer["ok"], answer["reason"]) == (False, "capability-missing")
    assert answer["hint"] == "in Python 3.12 and later, the tool watch_calls records calls to a function"
    assert watching.call("watch_app")["lines"] == []


def following(live, **arguments):
    """Run the command that follows a stream in a separate process."""
    return subprocess.Popen(
        live.command("call", "watch_app", json.dumps({"who": "cli", **arguments}), "--follow"),
        env=live.environ, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


@pytest.mark.slow
def test_a_command_follows_the_stream_it_starts_or_reports_that_the_stream_ended(live, watching):
    done = live.run("call", "watch_app", '{"topic": "error"}')
    assert done.returncode == 0
    assert "the stream ended with this command. To keep it open and print its events, use --follow" in done.stderr
    done = live.run("call", "--follow", "list_sessions")
    assert done.returncode == 2
    assert "--follow requires watch_app with a topic" in done.stderr
    with following(live, topic="error") as command:
        until(lambda: "by cli" in str(watching.call("watch_app")["lines"]), "the stream to begin")
        watching.call("evaluate_code", code="seam.emit('fx', 'quiet'); seam.emit('error', 'NoStock')")
        printed = next(line for line in command.stdout if " error " in line)
        assert "NoStock" in printed
        command.send_signal(signal.SIGINT)
        assert command.wait(WAIT_S) == 130
    until(lambda: "by cli" not in str(watching.call("watch_app")["lines"]), "the stream to end with its command")
