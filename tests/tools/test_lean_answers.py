"""Lean answers: they contain what the reader cannot know, and everything if detail is requested."""

import json
from dataclasses import replace

import pytest
from tools_in_memory import serving
from untimed import untimed

from codriver.core.state import ReportedStatus
from codriver.tools.answers.lean_answers import AnswerReader, omit_known_fields
from codriver.tools.answers.lean_runs import lean_run_fields

FULL = {
    "ok": True,
    "evaluationId": "ab12-7",
    "status": "done",
    "sessionKey": "py",
    "who": "ann",
    "generation": 2,
    "elapsedMs": 99,
    "result": "3",
    "outputLines": {"first": 5, "last": 6},
    "ns": "user",
    "notes": [],
}
ANN = AnswerReader(who="ann", session_key="py", seen=ReportedStatus(2, "user"))


def omitted_fields(reader=ANN, **fields):
    full = FULL | fields
    return full.keys() - omit_known_fields(full, reader).keys()


def test_a_successful_evaluation_is_reduced_to_its_result():
    assert omit_known_fields(FULL, ANN) == {"ok": True, "result": "3"}


@pytest.mark.parametrize(
    ("reader", "changed", "displayed"),
    [
        (ANN, {"status": "running"}, {"status", "evaluationId"}),
        (ANN, {"status": "interrupted", "reason": "interrupted"}, {"status", "evaluationId"}),
        (ANN, {"status": "failed", "reason": "evaluation-failed"}, {"evaluationId"}),
        (ANN, {"notes": ["a note"]}, {"notes", "evaluationId"}),
        (ANN, {"sessionKey": "clj"}, {"sessionKey"}),
        (ANN, {"who": "bob"}, {"who"}),
        (ANN, {"generation": 3}, {"generation"}),
        (ANN, {"ns": "shop.orders"}, {"ns"}),
        (ANN, {"elapsedMs": 100}, {"elapsedMs"}),
        (ANN, {"stdout": "hi\n"}, set()),
        (AnswerReader("ann", "py"), {}, {"generation", "ns"}),
        (AnswerReader("ann", None, seen=ReportedStatus(2, "user")), {}, {"sessionKey"}),
        (AnswerReader("ann", "py", namespace="user"), {}, {"generation"}),
        (AnswerReader("ann", "py", seen=ReportedStatus(2, "user"), requests_status=True), {}, {"status"}),
        (
            AnswerReader("ann", "py", evaluation="ab12-7", seen=ReportedStatus(2, "user")),
            {"notes": ["a note"]},
            {"notes"},
        ),
    ],
)
def test_unexpected_fields_stay_in_a_lean_answer(reader, changed, displayed):
    known = {"evaluationId", "status", "sessionKey", "who", "generation", "elapsedMs", "outputLines", "ns", "notes"}
    assert omitted_fields(reader, **changed) == known - displayed


@pytest.mark.parametrize("given", ["<module 'shop' from '/w/shop.py'>", "#'shop.core/total"])
def test_a_load_does_not_return_the_name_of_what_was_loaded(given):
    assert "result" not in omit_known_fields(FULL | {"result": given}, replace(ANN, loads=True))
    assert "result" in omit_known_fields(FULL | {"result": given}, ANN)
    assert "result" in omit_known_fields(FULL | {"result": "3"}, replace(ANN, loads=True))


def test_a_lean_answer_omits_the_hint_of_a_failed_but_not_of_an_interrupted_evaluation():
    assert "hint" in omitted_fields(status="failed", reason="evaluation-failed", hint="read error")
    assert "hint" not in omitted_fields(status="interrupted", reason="timed-out", hint="read notes")


def test_an_error_in_the_first_form_omits_the_form_number():
    assert omit_known_fields(FULL | {"error": {"class": "E", "form": 1}}, ANN)["error"] == {"class": "E"}
    assert omit_known_fields(FULL | {"error": {"class": "E", "form": 2}}, ANN)["error"] == {"class": "E", "form": 2}


@pytest.mark.parametrize(
    ("message", "displayed"),
    [
        ({"result": "None"}, {}),
        ({"result": "6", "values": ["None", "6"]}, {"result": "6"}),
        ({"result": "None", "values": ["5", "None"]}, {"values": ["5"]}),
        ({"result": "6", "values": ["5", "None", "6"]}, {"result": "6", "values": ["5", "6"]}),
        ({"result": "None", "values": ["None", "None"]}, {}),
        ({"result": "'None'"}, {"result": "'None'"}),
    ],
)
def test_a_value_of_none_is_omitted_as_at_the_python_prompt(message, displayed):
    python = AnswerReader("ann", "py", seen=ReportedStatus(2, "user"), reads_python=True)
    assert omit_known_fields({"status": "done", **message}, python) == displayed
    assert omit_known_fields({"status": "done", **message}, ANN) == message


# Over the wire


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("lean")) as running:
        yield running


@pytest.fixture
def client(live):
    with live.client(name="ann") as client:
        client.call("evaluate_code", code='"so that ann knows the session"')
        yield client


def lean_call(client, tool, **arguments):
    return client.call(tool, detail=False, **arguments)


def test_the_answer_to_a_sum_is_just_the_sum(client):
    assert untimed(lean_call(client, "evaluate_code", code="(+ 1 2) ;")) == {"ok": True, "result": "3"}


def test_answers_are_lean_by_default(live):
    with live.client(name="carl") as carl:
        line = carl.line("tools/call", {"name": "evaluate_code", "arguments": {"code": "(+ 2 3)"}})
        first = json.loads(line)["result"]["structuredContent"]
        line = carl.line("tools/call", {"name": "evaluate_code", "arguments": {"code": "(+ 3 3)"}})
    assert untimed(first).keys() == {"ok", "result", "generation", "ns"}
    assert (first["generation"], first["ns"]) == (1, "user")
    assert untimed(json.loads(line)["result"]["structuredContent"]) == {"ok": True, "result": "6"}


def test_the_command_line_returns_all_fields_by_default(live):
    done = live.run("eval", "--json", "(+ 4 4)")
    assert {
        "evaluationId",
        "status",
        "sessionKey",
        "who",
        "generation",
        "elapsedMs",
        "outputLines",
        "ns",
    } <= json.loads(done.stdout).keys()
    lean_done = live.run("call", "--json", "evaluate_code", '{"code": "(+ 4 5)", "detail": false}')
    assert "status" not in json.loads(lean_done.stdout)


def test_each_caller_of_a_client_gets_the_session_fields_once(client):
    lean_call(client, "evaluate_code", code="(+ 5 4)", who="one")
    arguments = {"code": "(+ 5 5)", "who": "newcomer"}
    first = lean_call(client, "evaluate_code", **arguments)
    assert (first["generation"], first["ns"]) == (1, "user")
    second = lean_call(client, "evaluate_code", code="(+ 5 6)", who="newcomer")
    assert untimed(second).keys() == {"ok", "result"}


def test_get_evaluation_always_returns_the_status_but_never_the_given_id(client):
    identity = client.call("evaluate_code", code='"asked for"')["evaluationId"]
    assert untimed(lean_call(client, "get_evaluation", evaluationId=identity)) == {
        "ok": True, "status": "done", "result": '"asked for"',
    }  # fmt: skip
    assert lean_call(client, "get_evaluation", evaluationId=identity, length=3)["status"] == "done"


def test_the_answer_about_an_unfinished_evaluation_includes_its_id(client):
    answer = lean_call(client, "evaluate_code", code="(read-line)")
    assert answer["status"] == "needs-input"
    answer = lean_call(client, "send_input", evaluationId=answer["evaluationId"], text="yes")
    assert (answer["ok"], answer["result"]) == (True, '"yes"')


def test_the_answer_of_an_isolated_evaluation_names_its_session(client):
    answer = lean_call(client, "evaluate_code", code="(+ 6 6)", isolate=True)
    assert answer["sessionKey"] != "mem"
    again = lean_call(client, "evaluate_code", code="(+ 6 7)", replSessionKey=answer["sessionKey"])
    assert untimed(again) == {"ok": True, "result": "13"}


def results(rows, folder):
    return lean_run_fields({"results": rows}, folder)["results"]


def test_only_the_first_of_many_failures_is_reported_in_full(tmp_path):
    lines = ("assert [1] == [2]", "  ", "  At index 0 diff: 1 != 2", "  Use -v to get more diff",
             "    self=<T object at 0x7f1>,", "    n=1")  # fmt: skip
    text = "\n".join(lines)
    rows = [{"test": f"test_{n}", "outcome": "fail", "line": n, "actual": f"{n}: {text}"} for n in range(3)]
    first, *others = results(rows, tmp_path)
    assert first["actual"] == "0: assert [1] == [2]\n  At index 0 diff: 1 != 2\n    n=1"
    assert [row["actual"] for row in others] == ["1: assert [1] == [2]", "2: assert [1] == [2]"]
