"""`wait_for` returns new rows, or reports that there were none."""

from types import SimpleNamespace

import anyio
import pytest
import tools_in_memory
from live_server import serving, until

from codriver.core.state import State
from codriver.log.log_entries import UNASSIGNED_LINE, Entry
from codriver.log.output_log import OutputLog
from codriver.net.fair_threads import WorkThreads
from codriver.settings.durations import Durations
from codriver.settings.model import Settings
from codriver.tools.calls.call import Call
from codriver.tools.ledgers.standing_queries import QueryLimits
from codriver.tools.wait_for import WaitArguments, wait_for

RESULTS = '[:find ?l ?t :where [?e :output/category "evaluationResults"] [?e :output/line ?l] [?e :output/text ?t]]'
BY = "[:find ?l ?t :in $ ?who :where [?e :output/who ?who] [?e :output/line ?l] [?e :output/text ?t]]"
OUTPUT_OF = """[:find ?t :in $ ?id
  :where [?e :output/evaluation ?id] [?e :output/category "evaluationOutput"] [?e :output/text ?t]]"""


pytestmark = pytest.mark.served("memory", client="waiter", durations="progress_s=0.3")


def last_line(client):
    return client.call("repl_output_log", limit=1)["lastLine"] or 0


def settled(client, identity):
    return client.answer(identity)["result"]["structuredContent"]


def test_a_wait_returns_only_new_rows(client, other):
    other.call("evaluate_code", code='"before"')
    waiting = client.begin_call("wait_for", query=RESULTS, timeoutMs=60_000)
    running = until(lambda: open_requests(other, "waiter"), "the wait to begin")
    assert running == 1
    other.call("evaluate_code", code='"after"')
    answer = settled(client, waiting)
    assert (answer["ok"], answer["status"], answer["count"], answer["cut"]) == (True, "found", 1, None)
    [[line, text]] = answer["result"]
    assert text == '"after"'
    assert line <= answer["lastLine"] <= last_line(client)


def open_requests(client, name):
    rows = client.call("server_health")["clients"]
    return sum(row["openRequests"] for row in rows if row["name"] == name)


def test_rows_since_a_given_line_end_a_wait_immediately(client):
    line = last_line(client)
    client.call("evaluate_code", code='"missed"')
    answer = client.call("wait_for", query=RESULTS, since=line, timeoutMs=0)
    assert (answer["status"], [row[1] for row in answer["result"]]) == ("found", ['"missed"'])
    again = client.call("wait_for", query=RESULTS, since=answer["lastLine"], timeoutMs=0)
    assert (again["status"], again["result"]) == ("timed-out", [])


def test_a_wait_that_ends_without_rows_reports_this_and_where_to_continue(client):
    answer = client.call("wait_for", query=BY, inputs=["nobody"], timeoutMs=50)
    assert (answer["ok"], answer["status"], answer["count"]) == (True, "timed-out", 0)
    assert any(f"since: {answer['lastLine']}" in note for note in answer["notes"])
    assert answer["waitedMs"] >= 50


def test_log_lines_that_do_not_match_the_query_do_not_end_a_wait(client, other):
    waiting = client.begin_call("wait_for", query=BY, inputs=["third"], since=last_line(other), timeoutMs=60_000)
    until(lambda: open_requests(other, "waiter"), "the wait to begin")
    for number in range(5):
        other.call("evaluate_code", code=f'"noise {number}"')
    other.call("evaluate_code", code='"signal"', who="third")
    assert settled(client, waiting)["result"][0][1] == '"signal"'


def test_output_is_visible_while_its_evaluation_runs(live, client, other):
    gate = live.workspace / "gate"
    code = f'(println "ready") (await-file "{gate.as_posix()}")'
    running = other.call("evaluate_code", code=code, timeoutMs=1000)
    answer = client.call("wait_for", query=OUTPUT_OF, inputs=[running["evaluationId"]], since=0, timeoutMs=60_000)
    assert answer["result"] == [["ready\n"]]
    gate.touch()
    assert other.call("get_evaluation", evaluationId=running["evaluationId"], waitMs=20_000)["status"] == "done"


def test_a_query_for_a_single_value_returns_the_new_value(client):
    client.call("evaluate_code", code='"one"')
    line = last_line(client)
    client.call("evaluate_code", code='"two"')
    query = '[:find ?t . :where [?e :output/category "evaluationResults"] [?e :output/text ?t]]'
    assert client.call("wait_for", query=query, since=line, timeoutMs=0)["result"] == ['"two"']


def test_a_changed_aggregate_is_a_new_row(client):
    query = "[:find (max ?l) . :where [?e :output/line ?l]]"
    line = last_line(client)
    client.call("evaluate_code", code="1")
    answer = client.call("wait_for", query=query, since=line, timeoutMs=0)
    assert answer["result"] == [answer["lastLine"]]


def test_the_newest_of_many_rows_are_returned_and_the_answer_is_marked_as_truncated(client):
    line = last_line(client)
    for number in range(4):
        client.call("evaluate_code", code=f"{number}")
    answer = client.call("wait_for", query=RESULTS, since=line, timeoutMs=0, limit=2)
    assert ([row[1] for row in answer["result"]], answer["cut"]) == (["2", "3"], "rows")


def test_an_invalid_query_is_refused_immediately(client):
    answer = client.call("wait_for", query="[:find", timeoutMs=60_000)
    assert (answer["ok"], answer["reason"]) == (False, "bad-query")


def test_waiting_is_refused_for_a_query_with_more_rows_than_fit_an_answer(client):
    for _ in range(60):
        client.call("evaluate_code", code="1")
    query = "[:find ?a ?b ?c :where [?x :output/line ?a] [?y :output/line ?b] [?z :output/line ?c]]"
    answer = client.call("wait_for", query=query, timeoutMs=60_000)
    assert (answer["ok"], answer["reason"]) == (False, "bad-query")
    assert "new rows could not be recognized" in answer["message"]


def test_a_client_that_requested_progress_gets_it(client, other):
    params = {
        "name": "wait_for",
        "arguments": {"query": BY, "inputs": ["latecomer"], "timeoutMs": 600_000},
        "_meta": {"progressToken": "mine"},
    }
    waiting = client.begin("tools/call", params)
    notification = client.await_notification("notifications/progress")["params"]
    assert notification["progressToken"] == "mine"
    assert "no new row yet" in notification["message"]
    other.call("evaluate_code", code='"at last"', who="latecomer")
    assert settled(client, waiting)["status"] == "found"


def test_a_cancelled_wait_ends_and_the_client_is_still_served(client, other):
    waiting = client.begin_call("wait_for", query=BY, inputs=["nobody"], timeoutMs=600_000)
    until(lambda: open_requests(other, "waiter"), "the wait to begin")
    client.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": waiting}})
    until(lambda: not open_requests(other, "waiter"), "the wait to end")
    assert client.call("evaluate_code", code="(+ 40 2)")["result"] == "42"


def test_a_wait_ends_when_its_client_disconnects(live, other):
    with live.client(name="leaver") as leaver:
        leaver.begin_call("wait_for", query=BY, inputs=["nobody"], timeoutMs=600_000)
        until(lambda: open_requests(other, "leaver"), "the wait to begin")
    until(lambda: all(row["name"] != "leaver" for row in other.call("server_health")["clients"]), "it to be gone")


def test_a_single_log_line_ends_ten_concurrent_waits(live, other):
    waiters = [live.client(name=f"waiter-{number}") for number in range(10)]
    calls = [each.begin_call("wait_for", query=BY, inputs=["herald"], timeoutMs=60_000) for each in waiters]
    for number in range(10):
        until(lambda number=number: open_requests(other, f"waiter-{number}"), "the wait to begin")
    other.call("evaluate_code", code='"news"', who="herald")
    for each, call in zip(waiters, calls, strict=True):
        assert settled(each, call)["status"] == "found"
        each.close()


def test_evicted_lines_are_reported_as_a_gap(tmp_path):
    with tools_in_memory.serving(tmp_path, settings={"log_max_entities": 10}) as live, live.client() as client:
        line = last_line(client)
        for _ in range(20):
            client.call("evaluate_code", code="1")
        answer = client.call("wait_for", query=RESULTS, since=line, timeoutMs=0)
        assert (answer["status"], answer["gap"]) == ("found", True)
        assert any("were evicted from the log" in note for note in answer["notes"])
        assert client.call("wait_for", query=RESULTS, since=answer["lastLine"], timeoutMs=0)["gap"] is False


def test_a_stopping_server_answers_pending_waits(tmp_path):
    with serving(tmp_path, "--repl", "none") as live, live.client() as client:
        waiting = client.begin_call("wait_for", query=BY, inputs=["nobody"], timeoutMs=600_000)
        with live.client() as other:
            until(lambda: open_requests(other, "bare") > 1, "the wait to begin")
        live.process.terminate()
        assert settled(client, waiting)["status"] == "server-stopping"


def test_consecutive_waits_miss_nothing_and_repeat_nothing(live, client, other):
    since = last_line(client)
    code = "(dotimes number 60 (println number) (sleep (/ number 5000)))"
    running = other.begin_call("evaluate_code", code=code)
    reported = ""
    query = """[:find ?line ?text :where [?e :output/who "other"] [?e :output/category "evaluationOutput"]
                [?e :output/line ?line] [?e :output/text ?text]]"""
    while "59\n" not in reported:
        answer = client.call("wait_for", query=query, since=since, timeoutMs=20_000)
        assert answer["status"] == "found"
        reported += "".join(text for _, text in answer["result"])
        since = answer["lastLine"]
    assert reported == "".join(f"{number}\n" for number in range(60))
    other.answer(running)


class Counted:
    """A log that counts its queries, and what a call needs of a server."""

    def __init__(self):
        self.log = OutputLog()
        self.asked = []
        self.core = SimpleNamespace(state=State())
        self.live = SimpleNamespace(settings=Settings())
        self.work = WorkThreads()
        self.waits = QueryLimits()
        self.durations = Durations()

    def query(self, question):
        self.asked.append(question.until)
        return self.log.query(question.text, limit=question.limit, until=question.until, every_row=question.every_row)

    def append(self, category):
        self.log.append(Entry(UNASSIGNED_LINE, category, "text", 0))


@pytest.mark.anyio
async def test_a_quiet_log_is_not_queried_again_and_a_burst_is_queried_once():
    counted = Counted()
    query = '[:find ?l :where [?e :output/category "evaluationResults"] [?e :output/line ?l]]'
    arguments = WaitArguments.model_validate({"query": query, "timeoutMs": 60_000})
    answers = []

    async def wait():
        answers.append(await wait_for(Call(counted, "c1", "waiter", None), arguments))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            while not counted.asked:
                await anyio.sleep(0.01)
            for _ in range(500):
                counted.append("evaluationOutput")
            while len(counted.asked) < 2:
                await anyio.sleep(0.01)
            counted.append("evaluationResults")
    assert counted.asked == [0, 500, 501]
    assert answers[0].fields["result"] == [[501]]
