"""`status`: the current state and recent activity, in one read-only tool."""

import pytest

from codriver.tools.activity import parse_time

pytestmark = pytest.mark.served("memory")


def about(client, what, **arguments):
    return client.call("status", about=what, **arguments)


def events(client, **arguments):
    answer = about(client, "activity", **arguments)
    assert answer["ok"], answer
    return answer["events"]


def test_status_returns_the_same_as_list_sessions_and_server_health(client):
    assert about(client, "sessions") == client.call("status") == client.call("list_sessions")
    assert about(client, "server")["pid"] == client.call("server_health")["pid"]


def test_the_server_counts_calls_by_tool_and_argument(other):
    before = other.call("server_health")["calls"]
    other.call("symbol_info", symbol="map", source=True)
    other.call("symbol_info", symbol="map", **{"n" * 100: 1})
    for number in range(100):
        other.call("symbol_info", **{f"invented-{number}": 1})
    after = other.call("status", about="server")["calls"]
    counted = {name: after["symbol_info"][name] - before.get("symbol_info", {}).get(name, 0)
               for name in ("calls", "symbol", "source")}  # fmt: skip
    assert counted == {"calls": 102, "symbol": 2, "source": 1}
    assert after["symbol_info"]["n" * 40] == 1
    assert len(after["symbol_info"]) <= 66


def test_the_jobs_report_lists_running_evaluations_before_finished_evaluations(client):
    ended = client.call("evaluate_code", code="(+ 1 1)", detail=True)["evaluationId"]
    waiting = client.call("evaluate_code", code="(read-line)", detail=True)["evaluationId"]
    jobs = about(client, "jobs", by="me")["jobs"]
    assert (jobs[0]["evaluationId"], jobs[0]["status"], jobs[0]["code"]) == (waiting, "needs-input", "(read-line)")
    rows = {row["evaluationId"]: row["status"] for row in jobs}
    assert rows[ended] == "done"
    client.call("interrupt_evaluation", evaluationId=waiting)
    rows = {row["evaluationId"]: row["status"] for row in about(client, "jobs")["jobs"]}
    assert rows[waiting] == "interrupted"


def test_the_activity_report_lists_code_with_its_results_by_caller(client, other):
    client.call("evaluate_code", code='(str "mine" 1)')
    other.call("evaluate_code", code='(str "theirs" 2)')
    theirs = events(client, by="others")
    assert (theirs[0]["kind"], theirs[0]["code"], theirs[0]["result"]) == ("code", '(str "theirs" 2)', '"theirs2"')
    assert {row["who"] for row in theirs} == {"other"}
    mine = events(client, by="me", text="mine")
    assert [row["result"] for row in mine] == ['"mine1"']
    assert events(client, by="other", text="mine") == []
    assert events(client)[0]["code"] == '(str "theirs" 2)'


def test_the_activity_and_jobs_reports_can_be_limited_to_one_session(client, other):
    client.call("evaluate_code", code='(str "anywhere" 1)')
    (key, *_) = [row["key"] for row in about(client, "sessions")["sessions"]]
    here = events(client, replSessionKey=key, text="anywhere")
    assert [row["result"] for row in here] == ['"anywhere1"']
    assert {row["kind"] for row in events(client, replSessionKey=key)} == {"code"}
    assert events(client, replSessionKey="elsewhere") == []
    assert about(client, "jobs", replSessionKey=key)["count"] > 0
    assert about(client, "jobs", replSessionKey="elsewhere")["count"] == 0


def test_the_activity_report_lists_edits_with_their_diffs_by_file(client, other, live):
    (live.workspace / "pages.py").write_text("def page(n):\n    return n - 1\n")
    (live.workspace / "other_pages.py").write_text("x = 1\n")
    edit = {"filePath": "pages.py", "oldText": "n - 1", "newText": "n"}
    assert other.call("edit_files", edits=[edit], load=False)["ok"]
    assert client.call("edit_files", edits=[{**edit, "filePath": "other_pages.py", "oldText": "1", "newText": "2"}])
    (row,) = events(client, kind="edits", file="pages.py")
    assert (row["kind"], row["who"], row["files"][0]["file"]) == ("edit", "other", "pages.py")
    assert "-    return n - 1\n+    return n" in row["files"][0]["diff"]
    assert other.call("undo_edit")["ok"]
    assert [row["kind"] for row in events(client, file="pages.py")] == ["undo", "edit"]


def test_an_edit_made_by_the_client_itself_also_has_a_diff(client, live):
    file = live.workspace / "by_hand.py"
    file.write_text("rate = 2\n")
    client.call("note_edit", filePath=str(file), replaced=[["rate = 1", "rate = 2"]])
    (row,) = events(client, file="by_hand.py")
    assert row["files"] == [{"file": "by_hand.py", "diff": "@@ -1 +1 @@\n-rate = 1\n+rate = 2"}]


def test_the_failures_report_lists_code_that_ended_in_an_error(client):
    client.call("evaluate_code", code="(undefined-name)")
    client.call("evaluate_code", code="(+ 2 2)")
    rows = events(client, kind="failures", by="me")
    assert rows[0]["code"] == "(undefined-name)"
    assert rows[0]["error"]
    assert "(+ 2 2)" not in {row["code"] for row in rows}


def test_output_is_listed_only_on_request(client):
    client.call("evaluate_code", code='(println "a printed line")')
    assert events(client, kind="output", by="me")[0]["output"] == "a printed line\n"
    assert "output" not in {row["kind"] for row in events(client)}


def test_answers_omit_the_kind_and_data_of_log_entries_by_default(client, live):
    (live.workspace / "listed.py").write_text("x = 1\n")
    client.call("edit_files", edits=[{"filePath": "listed.py", "oldText": "1", "newText": "2"}])
    rows = client.call("repl_output_log", limit=200)["result"]
    assert not [row for row in rows if "data" in row or "kind" in row]
    query = '[:find ?data . :where [?e :output/kind "edit"] [?e :output/data ?data] [?e :output/text ?t]]'
    assert '"file"' in client.call("repl_output_log", query=query)["result"]


@pytest.mark.parametrize("since", ["soon", "25:00", "12:61", "", "-3m"])
def test_an_invalid_time_is_refused_with_valid_examples(client, since):
    refused = about(client, "activity", since=since)
    assert (refused["ok"], refused["reason"]) == (False, "bad-arguments")
    assert '"20m"' in refused["hint"]


def test_the_activity_report_since_a_time_excludes_earlier_events(client):
    client.call("evaluate_code", code="(+ 40 2)")
    assert events(client, since="1h", text="(+ 40 2)")
    assert events(client, since="0s", text="(+ 40 2)") == []


NOON_MS = 1_800_000_000_000


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("20m", 1200), ("20 min ago", 1200), ("2h", 7200), ("1d", 86_400), ("45s", 45), ("3 hours", 10_800)],
)
def test_a_duration_is_counted_back_from_now(text, seconds):
    assert parse_time(text, NOON_MS) == NOON_MS - seconds * 1000


@pytest.mark.parametrize("text", ["00:00", "23:59", "9:30", "09:30:15", "today"])
def test_a_time_of_day_refers_to_its_most_recent_occurrence(text):
    found = parse_time(text, NOON_MS)
    assert NOON_MS - 86_400_000 <= found <= NOON_MS


def test_listing_cells_requires_a_notebook(client):
    refused = about(client, "cells")
    assert (refused["reason"], refused["hint"]) == ("bad-arguments", "Pass its path as file.")


def test_threads_and_variables_are_refused_for_unsupported_sessions(client):
    assert about(client, "variables", replSessionKey="nowhere")["reason"] == "unknown-session"
    assert about(client, "stale")["reason"] == "capability-missing"


def test_get_evaluation_without_an_id_returns_the_callers_newest_evaluation(client, other):
    client.call("evaluate_code", code="(+ 20 1)")
    other.call("evaluate_code", code="(+ 30 1)")
    assert client.call("get_evaluation")["result"] == "21"
    assert other.call("get_evaluation")["result"] == "31"


def test_input_without_an_id_is_sent_to_the_callers_only_evaluation_that_waits_for_it(client):
    refused = client.call("send_input", text="7")
    assert (refused["reason"], refused["message"]) == ("bad-arguments", "none of your evaluations is waiting for input")
    client.call("evaluate_code", code="(read-line)")
    assert client.call("send_input", text="7")["result"] == '"7"'
