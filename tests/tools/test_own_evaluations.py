"""Nobody waits for himself: what comes behind one's own running evaluation is refused, and it can be seen and ended."""

import pytest
from live_server import until

ENDLESS = "import time\ndef turn():\n  while True: time.sleep(0.01)\nturn()"
TASKS = """
import asyncio
async def consumer(queue):
    await queue.get()
async def main():
    task = asyncio.create_task(consumer(asyncio.Queue()), name="eater")
    await task
asyncio.run(main())
"""


@pytest.fixture
def running(client):
    """An evaluation of the client's that was answered `running`; it is ended after the test."""
    answer = client.call("evaluate_code", code=ENDLESS, timeoutMs=1000)
    assert answer["status"] == "running"
    yield answer["evaluationId"]
    client.call("interrupt_evaluation", evaluationId=answer["evaluationId"])


@pytest.fixture(autouse=True)
def _all_over(live):
    """Nothing of a test is left to the next one."""
    yield
    with live.client() as last:
        until(lambda: not unfinished(last), "the end of what was begun")


def unfinished(client):
    counts = client.call("server_health")["evaluations"]
    return counts["queued"] + counts["running"]


def test_code_behind_ones_own_running_evaluation_is_refused_and_never_runs(client, running):
    refused = client.call("evaluate_code", code="import os; os._exit(1)", timeoutMs=60_000)
    assert (refused["ok"], refused["reason"]) == (False, "busy")
    assert "does not run, now or later" in refused["message"]
    assert running in refused["message"]
    assert "get_evaluation" in refused["hint"]
    assert "interrupt_evaluation" in refused["hint"]
    assert client.call("interrupt_evaluation")["ok"]
    until(lambda: not unfinished(client), "the end of what ran")
    assert client.call("evaluate_code", code="1 + 1")["result"] == "2"


@pytest.mark.parametrize("tool", ["load_file", "run_tests"])
def test_no_other_tool_queues_behind_ones_own_running_evaluation_either(live, client, running, tool):
    (live.workspace / "test_low.py").write_text("def test_low(): pass\n")
    arguments = {"load_file": {"filePath": "test_low.py"}, "run_tests": {"namespace": "test_low.py"}}
    refused = client.call(tool, **arguments[tool])
    assert (refused["reason"], running in refused["message"]) == ("busy", True)
    assert unfinished(client) == 1


def test_an_edit_that_is_to_be_loaded_behind_it_is_refused_before_anything_is_written(live, client, running):
    (live.workspace / "low.py").write_text("x = 1\n")
    edits = [{"type": "append", "filePath": "low.py", "code": "y = 2\n"}]
    refused = client.call("edit_files", edits=edits, load=True)
    assert (refused["reason"], running in refused["message"]) == ("busy", True)
    assert (live.workspace / "low.py").read_text() == "x = 1\n"


def test_code_of_another_queues_behind_it(client, other, running):
    theirs = other.call("evaluate_code", code="1", timeoutMs=1000)
    assert theirs["status"] == "queued"
    other.call("interrupt_evaluation", evaluationId=theirs["evaluationId"])


def test_code_of_a_sub_agent_with_a_name_of_its_own_queues_behind_it(client):
    client.call("evaluate_code", code=ENDLESS, who="one", timeoutMs=1000)
    theirs = client.call("evaluate_code", code="1", who="two", timeoutMs=1000)
    assert theirs["status"] == "queued"
    client.call("interrupt_evaluation", evaluationId=theirs["evaluationId"])
    assert client.call("interrupt_evaluation", who="one")["ok"]


def test_calls_sent_side_by_side_and_not_answered_yet_queue(client):
    slow = client.begin_call("evaluate_code", code="import time; time.sleep(0.5); 1")
    fast = client.begin_call("evaluate_code", code="2")
    results = [client.answer(one)["result"]["structuredContent"]["result"] for one in (slow, fast)]
    assert results == ["1", "2"]


def test_code_behind_ones_own_prompt_is_refused_with_the_way_to_answer_it(client):
    prompt = client.call("evaluate_code", code="input()", timeoutMs=60_000)
    assert prompt["status"] == "needs-input"
    refused = client.call("evaluate_code", code="1")
    assert (refused["reason"], "send_input" in refused["hint"]) == ("busy", True)
    assert client.call("send_input", evaluationId=prompt["evaluationId"], text="hi")["result"] == "'hi'"


def test_interrupt_without_a_name_ends_the_callers_only_one(client, other, running):
    nothing = other.call("interrupt_evaluation")
    assert (nothing["ok"], nothing["reason"]) == (False, "bad-arguments")
    assert running in nothing["hint"]
    ended = client.call("interrupt_evaluation")
    assert (ended["ok"], ended["status"], ended["evaluationId"]) == (True, "interrupted", running)


def test_stacks_of_what_runs_are_had_without_ending_it(client, running):
    seen = client.call("get_evaluation", evaluationId=running, part="stacks")
    assert seen["status"] == "running"
    assert "in turn" in seen["text"]
    assert client.call("get_evaluation", evaluationId=running)["status"] == "running"


def test_stacks_of_a_hung_program_have_each_task_with_its_innermost_frame(client):
    hung = client.call("evaluate_code", code=TASKS, timeoutMs=1000)
    seen = client.call("get_evaluation", evaluationId=hung["evaluationId"], part="stacks")
    assert "eater" in seen["text"]
    assert "in consumer" in seen["text"]
    ended = client.call("interrupt_evaluation")
    assert "in consumer" in ended["stacks"]
