"""A caller never waits for its own running evaluation: new code is refused, and the evaluation can be seen and
ended.
"""

import pytest
from live_server import until

pytestmark = pytest.mark.served("memory")


@pytest.fixture
def running(client):
    """Return an evaluation of the client that was answered `running`; it is ended after the test."""
    answer = client.call("evaluate_code", code="(wait)", timeoutMs=100)
    assert answer["status"] == "running"
    yield answer["evaluationId"]
    client.call("interrupt_evaluation", evaluationId=answer["evaluationId"])


@pytest.fixture(autouse=True)
def _all_over(live):
    """End everything that a test left."""
    yield
    with live.client() as last:
        until(lambda: not unfinished(last), "the end of what was begun")


def unfinished(client):
    counts = client.call("server_health")["evaluations"]
    return counts["queued"] + counts["running"]


def test_code_is_refused_while_an_evaluation_of_the_same_caller_runs(client, running):
    refused = client.call("evaluate_code", code="(exit)", timeoutMs=60_000)
    assert (refused["ok"], refused["reason"]) == (False, "busy")
    assert "was not sent and will not run" in refused["message"]
    assert running in refused["message"]
    assert "get_evaluation" in refused["hint"]
    assert "interrupt_evaluation" in refused["hint"]
    assert client.call("interrupt_evaluation")["ok"]
    until(lambda: not unfinished(client), "the end of what ran")
    assert client.call("evaluate_code", code="(+ 1 1)")["result"] == "2"


def test_a_load_is_refused_while_an_evaluation_of_the_same_caller_runs(live, client, running):
    (live.workspace / "low.clj").write_text("(def low 1)\n")
    refused = client.call("load_file", filePath="low.clj")
    assert (refused["reason"], running in refused["message"]) == ("busy", True)
    assert unfinished(client) == 1


def test_a_refusal_names_the_caller_whose_evaluation_is_still_running(live):
    with live.client(name="ann") as connection:
        answer = connection.call("evaluate_code", code="(wait)", timeoutMs=100)
        refused = connection.call("evaluate_code", code="1", who="reader")
        owner = f"evaluation {answer['evaluationId']} of ann, started on this connection before a call passed who, "
        owner += "has been"
        assert (refused["reason"], owner in refused["message"]) == ("busy", True), refused
        connection.call("interrupt_evaluation", evaluationId=answer["evaluationId"])


def test_code_of_another_client_queues_behind_a_running_evaluation(client, other, running):
    theirs = other.call("evaluate_code", code="1", timeoutMs=1000)
    assert theirs["status"] == "queued"
    other.call("interrupt_evaluation", evaluationId=theirs["evaluationId"])


def test_code_of_a_named_sub_agent_queues_behind_a_running_evaluation(client):
    client.call("evaluate_code", code="(wait)", who="one", timeoutMs=100)
    theirs = client.call("evaluate_code", code="1", who="two", timeoutMs=1000)
    assert theirs["status"] == "queued"
    client.call("interrupt_evaluation", evaluationId=theirs["evaluationId"])
    assert client.call("interrupt_evaluation", who="one")["ok"]


def test_concurrent_calls_of_a_client_are_queued(client):
    slow = client.begin_call("evaluate_code", code="(sleep 0.5) 1")
    fast = client.begin_call("evaluate_code", code="2")
    results = [client.answer(item)["result"]["structuredContent"]["result"] for item in (slow, fast)]
    assert results == ["1", "2"]


def test_code_is_refused_while_an_evaluation_of_the_same_caller_waits_for_input(client):
    prompt = client.call("evaluate_code", code="(read-line)", timeoutMs=60_000)
    assert prompt["status"] == "needs-input"
    refused = client.call("evaluate_code", code="1")
    assert (refused["reason"], "send_input" in refused["hint"]) == ("busy", True)
    assert client.call("send_input", evaluationId=prompt["evaluationId"], text="hi")["result"] == '"hi"'


def test_interrupt_without_an_id_ends_the_callers_only_evaluation(client, other, running):
    nothing = other.call("interrupt_evaluation")
    assert (nothing["ok"], nothing["reason"]) == (False, "bad-arguments")
    assert running in nothing["hint"]
    ended = client.call("interrupt_evaluation")
    assert (ended["ok"], ended["status"], ended["evaluationId"]) == (True, "interrupted", running)


def test_stacks_of_a_running_evaluation_can_be_read_without_ending_it(client, running):
    seen = client.call("get_evaluation", evaluationId=running, part="stacks")
    assert seen["status"] == "running"
    assert "(wait)" in seen["text"]
    assert client.call("get_evaluation", evaluationId=running)["status"] == "running"
