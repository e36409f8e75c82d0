"""Code that a person evaluates in a shared REPL, bypassing the server: logged and waited for like any evaluation."""

import pytest
from live_server import until
from tools_in_memory import serving

PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("live"), settings={"lanes": True}) as live, live.client() as client:
        yield client


def evaluate(client, code, **more):
    return client.call("evaluate_code", code=code, who="ann", **more)


def log_of(client, who):
    query = "[:find ?line ?category ?text :in $ ?who :where [?e :output/who ?who] [?e :output/line ?line] \
             [?e :output/category ?category] [?e :output/text ?text]]"
    return [row[1:] for row in client.call("repl_output_log", query=query, inputs=[who])["result"]]


def test_code_evaluated_by_a_person_is_attributed_to_them_in_the_log(client):
    evaluate(client, '(human "price = 7" 0 7)')
    until(lambda: ["evaluationResults", "7"] in log_of(client, "jupyter"), "his value in the log")
    assert log_of(client, "jupyter")[:3] == [
        ["evaluatedCode", "price = 7"],
        ["evaluationOutput", "by hand\n"],
        ["evaluationResults", "7"],
    ]


def test_the_next_answer_mentions_an_evaluation_by_a_person(client):
    evaluate(client, "(+ 1 1)")
    evaluate(client, '(human "price = 8" 0 8)')
    until(lambda: ["evaluationResults", "8"] in log_of(client, "jupyter"), "his value in the log")
    answer = evaluate(client, "(+ 1 2)")
    assert answer["otherWhosSinceLast"] == ["jupyter"]


def test_code_waits_for_the_evaluation_of_a_person_who_is_named_in_the_answer(client):
    evaluate(client, '(human "train()" 60 1)')
    waiting = evaluate(client, "(+ 20 1)", timeoutMs=1000, replSessionKey="mem")
    assert waiting["status"] == "queued"
    assert "jupyter" in " ".join(waiting["notes"])
    his = next(row for row in client.call("list_sessions")["sessions"] if row["key"] == "mem")["running"]
    assert his["who"] == "jupyter"
    # By its id, because nobody should interrupt a person's code by accident.
    ended = client.call("interrupt_evaluation", evaluationId=his["evaluationId"])
    assert (ended["ok"], ended["status"]) == (True, "interrupted")
    done = client.call("get_evaluation", evaluationId=waiting["evaluationId"], waitMs=20_000)
    assert (done["status"], done["result"]) == ("done", "21")


def test_waiting_for_a_log_entry_ends_with_the_result_of_a_persons_evaluation(client):
    evaluate(client, '(human "fit()" 1 "fitted")')
    query = '[:find [?text ...] :where [?e :output/who "jupyter"] [?e :output/text ?text] \
             [(clojure.string/includes? ?text "fitted")]]'
    answer = client.call("wait_for", query=query, timeoutMs=20_000)
    assert "fitted" in str(answer["result"])


def test_a_persons_evaluation_is_reported_as_lost_if_the_repl_ends(client):
    evaluate(client, '(human "lost()" 60 1)')
    his = next(row for row in client.call("list_sessions")["sessions"] if row["key"] == "mem")["running"]
    evaluate(client, "(exit)", timeoutMs=1000)
    answer = client.call("get_evaluation", evaluationId=his["evaluationId"], waitMs=20_000)
    assert answer["status"] == "lost"
    assert "It is unknown how much of the code ran" in answer["error"]["message"]


@pytest.fixture
def showing(tmp_path):
    with serving(tmp_path) as live, live.client() as client:
        yield client


def test_display_data_is_logged_as_a_value_of_its_richest_type(showing):
    code = f'(show "image/png" "{PICTURE}") (+ 1 2)'
    answer = showing.request("tools/call", {"name": "evaluate_code", "arguments": {"code": code, "who": "ann"}})
    (image,) = [block for block in answer["result"]["content"] if block["type"] == "image"]
    assert (image["mimeType"], image["data"]) == ("image/png", PICTURE)
    page = showing.call("evaluate_code", code='(show "text/html" "<b>hi</b>")', who="ann")
    assert page["values"][0] == '<text/html, 9 characters: get_evaluation with path ["text/html"]>'


def test_a_progress_bar_is_reduced_to_its_first_and_last_state(showing):
    states = " ".join(f'"{percent} %"' for percent in range(0, 101, 10))
    answer = showing.call("evaluate_code", code=f"(progress {states})", who="ann")
    assert [value for value in answer["values"] if "%" in value] == ["0 %", "100 %"]
