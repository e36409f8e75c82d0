"""Evaluations as tasks: those of 2025-11-25 and the extension of 2026-07-28, directly and over the relay."""

import json

import pytest
import tools_in_memory
from anyio.from_thread import start_blocking_portal
from live_server import serving, until
from mcp_versions import MODERN, TASKS, speaking
from scripted_nrepl import OPS, scripted

pytestmark = pytest.mark.served("memory", durations="progress_s=0.3 task_s=0.7")

OLDER = "2025-11-25"
KNOWS = {OLDER: {"tasks": {}}, MODERN: {"extensions": {TASKS: {}}}}
ASKS = {OLDER: {"tasks": {}, "elicitation": {}}, MODERN: {"extensions": {TASKS: {}}, "elicitation": {"form": {}}}}


@pytest.fixture(params=[OLDER, MODERN])
def version(request):
    return request.param


@pytest.fixture(params=[(OLDER, False), (OLDER, True), (MODERN, True)], ids=["2025", "2025-relay", "2026-relay"])
def client(live, request):
    version, relayed = request.param
    with speaking(live, version, relayed=relayed, capabilities=ASKS[version]) as item:
        yield item


@pytest.fixture
def plain(live):
    """Return a client without tasks."""
    with live.client() as item:
        yield item


@pytest.fixture
def gate(tmp_path):
    """Return a file that waiting code waits for."""
    file = tmp_path / "gate"
    yield file
    file.touch()


def lasting(gate, then='"done"'):
    """Return code that runs until the gate is open."""
    return f'(await-file "{gate.as_posix()}") {then}'


def begin(client, code, **task):
    """Evaluate as a task and return the task."""
    about = {} if client.is_modern else {"task": task}
    answer = client.request("tools/call", name="evaluate_code", arguments={"code": code, "detail": True}, **about)
    return answer if client.is_modern else answer["task"]


def get(client, task):
    return client.request("tasks/get", taskId=task["taskId"])


def result(client, task):
    """Wait for the result of a task."""
    if client.is_modern:
        until(lambda: get(client, task)["status"] not in ("working", "input_required"), "the end of the task")
        return get(client, task)["result"]
    return client.request("tasks/result", taskId=task["taskId"])


def fields(message):
    return json.loads(message["content"][0]["text"])


def test_tasks_are_offered_only_to_clients_that_declare_them(live, client, plain):
    other = {"tools": plain.request("tools/list")["result"]["tools"], "about": plain.about}
    assert "tasks" not in other["about"]["capabilities"]
    assert not any("execution" in tool for tool in other["tools"])
    listed = client.request("tools/list")["tools"]
    if client.is_modern:
        assert client.about["capabilities"]["extensions"][TASKS] == {}
        assert not any("execution" in tool for tool in listed)
    else:
        assert client.about["capabilities"]["tasks"] == {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
        able = {tool["name"] for tool in listed if tool.get("execution") == {"taskSupport": "optional"}}
        assert able == {"evaluate_code", "load_file"}


@pytest.mark.parametrize("name", ["2024-11-05", "2025-06-18", OLDER])
def test_a_client_without_tasks_gets_ordinary_answers(live, name):
    with speaking(live, name) as client:
        answer = client.request("tools/call", is_valid=False, name="evaluate_code", arguments={"code": "1"}, task={})
        assert fields(answer)["result"] == "1"
        for method in ("tasks/get", "tasks/result", "tasks/cancel", "tasks/list", "tasks/update"):
            assert client.request(method, is_valid=False, taskId="x")["code"] == -32601


def test_a_modern_request_without_the_extension_gets_the_missing_capability_error(live):
    with speaking(live, MODERN) as client:
        for method, more in (("tasks/get", {}), ("tasks/cancel", {}), ("tasks/update", {"inputResponses": {}})):
            error = client.request(method, taskId="x", **more)
            assert error["code"] == -32021
            assert error["data"] == {"requiredCapabilities": {"extensions": {TASKS: {}}}}
        listening = client.request("subscriptions/listen", notifications={"taskIds": ["x"]})
        assert listening["code"] == -32021
        for method in ("tasks/result", "tasks/list"):
            assert client.request(method, is_valid=False, taskId="x")["code"] == -32601


def test_a_task_has_the_same_result_as_an_ordinary_call(client, gate):
    task = begin(client, lasting(gate))
    assert task["status"] == "working"
    assert len(bytes.fromhex(task["taskId"])) == 16
    until(lambda: "evaluation " in get(client, task).get("statusMessage", ""), "the evaluation")
    assert get(client, task)["status"] == "working"
    gate.touch()
    reply = result(client, task)
    answer = fields(reply)
    assert (answer["status"], answer["result"], reply["isError"]) == ("done", '"done"', False)
    assert get(client, task)["status"] == "completed"
    assert fields(result(client, task)) == answer
    seen = client.call("get_evaluation", evaluationId=answer["evaluationId"], detail=True)
    assert seen["result"] == '"done"'


def test_reading_a_task_result_does_not_consume_the_clients_output(client, gate):
    task = begin(client, f'(println "before") {lasting(gate)}')
    until(lambda: "evaluation " in get(client, task).get("statusMessage", ""), "the evaluation")
    gate.touch()
    answers = [fields(result(client, task)) for _ in range(2)]
    assert [item["stdout"] for item in answers] == ["before\n"] * 2
    looks = [client.call("get_evaluation", evaluationId=answers[0]["evaluationId"]) for _ in range(2)]
    assert [look.get("stdout") for look in looks] == ["before\n", None]
    assert fields(result(client, task)) == answers[0]


def test_a_short_modern_evaluation_is_answered_at_once(live):
    with speaking(live, MODERN, capabilities=KNOWS[MODERN]) as client:
        answer = client.request("tools/call", name="evaluate_code", arguments={"code": "(+ 40 2)"})
        assert (answer["resultType"], fields(answer)["result"]) == ("complete", "42")
        refused = client.request("tools/call", name="evaluate_code", arguments={"code": "(", "detail": True})
        assert refused["isError"]


def test_a_failed_evaluation_has_the_task_status_of_its_version(client, gate):
    task = begin(client, lasting(gate, "(/ 1 0)"))
    gate.touch()
    answer = result(client, task)
    assert (answer["isError"], fields(answer)["reason"]) == (True, "evaluation-failed")
    now = get(client, task)
    assert now["status"] == ("completed" if client.is_modern else "failed")
    assert "division" in now["statusMessage"]


def test_a_refused_call_becomes_a_failed_task(live):
    with speaking(live, OLDER, capabilities=KNOWS[OLDER]) as client:
        task = begin(client, "(")
        assert fields(client.request("tasks/result", taskId=task["taskId"]))["reason"]
        assert get(client, task)["status"] == "failed"


def test_a_tool_that_does_not_evaluate_cannot_be_a_task(live):
    with speaking(live, OLDER, capabilities=KNOWS[OLDER]) as client:
        assert client.request("tools/call", name="list_sessions", arguments={}, task={})["code"] == -32601
        assert client.request("tools/call", name="no_such_tool", arguments={}, task={})["code"] == -32601


def test_a_cancelled_task_stays_cancelled_and_its_code_is_interrupted(client, gate):
    task = begin(client, lasting(gate))
    until(lambda: "evaluation " in get(client, task).get("statusMessage", ""), "the evaluation")
    answer = client.request("tasks/cancel", taskId=task["taskId"])
    assert client.is_modern or answer["status"] == "cancelled"
    assert get(client, task)["status"] == "cancelled"
    if not client.is_modern:
        assert fields(client.request("tasks/result", taskId=task["taskId"]))["status"] == "interrupted"
        assert client.request("tasks/cancel", taskId=task["taskId"])["code"] == -32602
    assert client.call("evaluate_code", code="1", detail=True)["status"] == "done"


def test_anyone_who_knows_a_task_id_can_use_the_task(live, client, gate):
    task = begin(client, lasting(gate))
    with speaking(live, client.version, capabilities=KNOWS[client.version]) as other:
        assert other.request("tasks/get", taskId=task["taskId"][:-1] + "x")["code"] == -32602
        if not client.is_modern:
            assert other.request("tasks/list")["tasks"] == []
            assert task["taskId"] in [item["taskId"] for item in client.request("tasks/list")["tasks"]]
            assert client.request("tasks/list", cursor="x")["code"] == -32602
        assert get(other, task)["status"] == "working"
        gate.touch()
        assert fields(result(other, task))["status"] == "done"
    assert fields(result(client, task))["status"] == "done"


def test_every_bit_of_a_task_id_is_random(live):
    with speaking(live, OLDER, capabilities=KNOWS[OLDER]) as client:
        ids = []
        for _ in range(40):
            task = begin(client, "1")
            result(client, task)
            ids.append(int(task["taskId"], 16))
    ones = [sum(item >> bit & 1 for item in ids) for bit in range(128)]
    assert all(0 < count < len(ids) for count in ones), "by chance once in four thousand million runs"


def test_a_2025_client_receives_a_request_for_input_while_it_waits_for_the_result(live):
    with speaking(live, OLDER, capabilities=ASKS[OLDER]) as client:
        task = begin(client, '(str (ask "name? ") " " (ask "age? "))')
        client.pop_message(lambda item: item.get("params", {}).get("status") == "input_required")
        waiting = client.begin("tasks/result", taskId=task["taskId"])
        for prompt, text in (("name?", "Ada"), ("age?", "36")):
            requested = client.pop_message(lambda item: item.get("method") == "elicitation/create")
            assert prompt in requested["params"]["message"]
            assert requested["params"]["_meta"]["io.modelcontextprotocol/related-task"] == {"taskId": task["taskId"]}
            given = {"action": "accept", "content": {"text": text}}
            client.bare.send({"jsonrpc": "2.0", "id": requested["id"], "result": given})
        answer = client.answer(waiting)
        assert fields(answer)["result"] == '"Ada 36"'
        assert answer["_meta"]["io.modelcontextprotocol/related-task"] == {"taskId": task["taskId"]}


def test_a_2026_client_sends_input_by_updating_the_task(live):
    with speaking(live, MODERN, capabilities=ASKS[MODERN]) as client:
        task = begin(client, '(str (ask "name? ") " " (ask "age? "))')
        assert task["status"] == "input_required"
        keys = []
        for prompt, text in (("name?", "Ada"), ("age?", "36")):
            now = until(lambda p=prompt: asking(client, task, p), "the question")
            ((key, requested),) = now["inputRequests"].items()
            assert requested["method"] == "elicitation/create"
            keys.append(key)
            wrong = {"no-such-key": {"action": "accept", "content": {"text": "x"}}}
            assert (
                client.request("tasks/update", taskId=task["taskId"], inputResponses=wrong)["resultType"] == "complete"
            )
            answers = {key: {"action": "accept", "content": {"text": text}}}
            client.request("tasks/update", taskId=task["taskId"], inputResponses=answers)
        assert len(set(keys)) == 2
        assert fields(result(client, task))["result"] == '"Ada 36"'


def asking(client, task, prompt):
    """Return the task once it asks this."""
    now = get(client, task)
    return now if prompt in json.dumps(now.get("inputRequests", {})) else None


def test_task_input_can_also_be_given_by_the_tool(client, plain):
    task = begin(client, '(ask "colour? ")')
    until(lambda: get(client, task)["status"] == "input_required", "the question")
    words = get(client, task)["statusMessage"]
    plain.call("send_input", evaluationId=words.split()[1], text="blue")
    assert fields(result(client, task))["result"] == '"blue"'


def test_input_that_the_repl_refuses_is_requested_again(tmp_path, version):
    without_input = [op for op in OPS if op != "stdin"]
    answers = {("eval", "(read)"): [{"status": ["need-input"]}]}
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(scripted(answers, ops=without_input)) as server,
    ):
        settings = {"nrepl": (f"n={server.endpoint}",)}
        with (
            tools_in_memory.serving(tmp_path, has_repl=False, settings=settings) as live,
            speaking(live, version, capabilities=ASKS[version]) as client,
        ):
            until(
                lambda: "evaluate_code" in [item["name"] for item in client.request("tools/list")["tools"]], "the REPL"
            )
            task = begin(client, "(read)")
            until(lambda: get(client, task)["status"] == "input_required", "the question")
            refused = answered(client, task)
            assert refused["code"] == -32000
            assert "stdin" in refused["message"]
            assert get(client, task)["status"] == "input_required"
            assert answered(client, task) == refused


def answered(client, task):
    """Answer a question and return the error of that request."""
    given = {"action": "accept", "content": {"text": "x"}}
    if client.is_modern:
        (key,) = get(client, task)["inputRequests"]
        return client.request("tasks/update", taskId=task["taskId"], inputResponses={key: given})
    waiting = client.begin("tasks/result", taskId=task["taskId"])
    requested = client.pop_message(lambda item: item.get("method") == "elicitation/create")
    client.bare.send({"jsonrpc": "2.0", "id": requested["id"], "result": given})
    return client.answer(waiting)


def test_declining_input_ends_the_evaluation(live):
    with speaking(live, MODERN, capabilities=ASKS[MODERN]) as client:
        task = begin(client, '(ask "colour? ")')
        answers = {next(iter(get(client, task)["inputRequests"])): {"action": "decline"}}
        client.request("tasks/update", taskId=task["taskId"], inputResponses=answers)
        assert fields(result(client, task))["status"] == "interrupted"


def test_the_answer_to_a_client_without_form_support_states_that_input_is_needed(live, version):
    with speaking(live, version, capabilities=KNOWS[version]) as client:
        if client.is_modern:
            reply = client.request("tools/call", name="evaluate_code", arguments={"code": "(read-line)"})
        else:
            reply = result(client, begin(client, "(read-line)"))
        answer = fields(reply)
        assert answer["status"] == "needs-input"
        given = client.call("send_input", evaluationId=answer["evaluationId"], text="x", detail=True)
        assert given["result"] == '"x"'


def test_a_2025_task_sends_progress_and_status_notifications(live, gate):
    with speaking(live, OLDER, capabilities=KNOWS[OLDER]) as client:
        arguments = {"code": lasting(gate), "detail": True}
        meta = {"progressToken": "p"}
        task = client.request("tools/call", name="evaluate_code", arguments=arguments, task={"ttl": 5000}, _meta=meta)[
            "task"
        ]
        assert task["ttl"] == 5000
        notification = client.pop_notification("notifications/progress")["params"]
        assert notification["_meta"]["io.modelcontextprotocol/related-task"] == {"taskId": task["taskId"]}
        gate.touch()
        notification = client.pop_message(lambda item: item.get("params", {}).get("status") == "completed")
        assert (notification["method"], notification["params"]["taskId"]) == (
            "notifications/tasks/status",
            task["taskId"],
        )


def test_a_subscriber_of_a_2026_task_gets_its_result(live, gate):
    with speaking(live, MODERN, capabilities=KNOWS[MODERN]) as client:
        task = begin(client, lasting(gate))
        identity = task["taskId"]
        client.begin("subscriptions/listen", notifications={"taskIds": [identity, "another's"]})
        known = client.pop_notification("notifications/subscriptions/acknowledged")["params"]["notifications"]
        assert known["taskIds"] == [identity]
        gate.touch()
        notification = client.pop_notification("notifications/tasks")["params"]
        assert (notification["taskId"], notification["status"]) == (identity, "completed")
        assert fields(notification["result"])["result"] == '"done"'


def test_a_task_expires_after_its_requested_time(live):
    with speaking(live, OLDER, capabilities=KNOWS[OLDER]) as client:
        task = begin(client, "1", ttl=1)
        assert task["ttl"] == 1000
        assert fields(result(client, task))["result"] == "1"
        until(lambda: get(client, task).get("code") == -32602, "the end of its time")
        assert begin(client, "1", ttl=10**12)["ttl"] == 3_600_000


def test_the_number_of_tasks_is_limited_and_finished_tasks_are_dropped_first(live, gate):
    with speaking(live, OLDER, capabilities=KNOWS[OLDER]) as client:
        for _ in range(40):
            last = begin(client, "1")
            result(client, last)
        listed = client.request("tasks/list")["tasks"]
        assert len(listed) == 32
        assert listed[-1]["taskId"] == last["taskId"]
        running = [begin(client, lasting(gate)) for _ in range(32)]
        assert client.request("tools/call", name="evaluate_code", arguments={"code": "1"}, task={})["code"] == -32000
        gate.touch()
        assert fields(result(client, running[-1]))["status"] == "done"


def test_a_task_keeps_running_when_its_client_disconnects(live, version, plain, gate):
    with speaking(live, version, capabilities=KNOWS[version]) as client:
        task = begin(client, lasting(gate, '"it ran on"'))
        words = until(lambda: get(client, task).get("statusMessage"), "the evaluation")
    until(lambda: len(plain.call("server_health")["clients"]) == 1, "the client's end")
    evaluation = words.split()[1]
    assert plain.call("get_evaluation", evaluationId=evaluation)["status"] == "running"
    gate.touch()
    assert plain.call("get_evaluation", evaluationId=evaluation, waitMs=30_000)["result"] == '"it ran on"'


@pytest.mark.parametrize("is_over_before", [True, False], ids=["over", "under-way"])
def test_a_task_survives_its_clients_connection(live, version, plain, gate, is_over_before):
    with speaking(live, version, capabilities=KNOWS[version]) as client:
        task = begin(client, lasting(gate, '"it ran on"'))
        until(lambda: get(client, task).get("statusMessage"), "the evaluation")
    until(lambda: len(plain.call("server_health")["clients"]) == 1, "the client's end")
    if is_over_before:
        gate.touch()
    with speaking(live, version, capabilities=KNOWS[version]) as again:
        gate.touch()
        assert fields(result(again, task))["result"] == '"it ran on"'
        if version == OLDER:
            assert again.request("tasks/list")["tasks"] == []


def test_cancelling_a_2026_call_before_it_is_a_task_ends_its_evaluation(tmp_path, gate):
    with (
        tools_in_memory.serving(tmp_path / "patient", durations="task_s=60") as live,
        live.client() as plain,
        speaking(live, MODERN, capabilities=KNOWS[MODERN]) as client,
    ):
        calling = client.begin("tools/call", name="evaluate_code", arguments={"code": lasting(gate)})
        until(lambda: plain.call("list_sessions")["sessions"][0].get("running"), "the evaluation")
        client.bare.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": calling}})
        assert plain.call("evaluate_code", code="1")["status"] == "done"


def test_cancelling_a_wait_leaves_the_evaluation_queued(live, plain, gate):
    with live.client(name="first") as first, live.client(name="waiter") as waiter:
        running = first.begin_call("evaluate_code", code=lasting(gate))
        until(lambda: plain.call("list_sessions")["sessions"][0].get("running"), "the evaluation")
        queued = first.call("evaluate_code", code='"it ran"', timeoutMs=1000)["evaluationId"]
        waiting = waiter.begin_call("get_evaluation", evaluationId=queued, waitMs=60_000)
        waiter.request("ping")
        waiter.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": waiting}})
        waiter.request("ping")
        gate.touch()
        assert first.answer(running)
        assert plain.call("get_evaluation", evaluationId=queued, waitMs=60_000)["result"] == '"it ran"'


def test_the_results_of_a_clients_tasks_are_limited_in_bytes(live):
    code = '(show "image/png" (repeat "iVBORw0KGgoA" 322000))'
    with speaking(live, OLDER, capabilities=KNOWS[OLDER]) as client:
        for _ in range(6):
            answer = result(client, begin(client, code))
            assert [part["type"] for part in answer["content"]] == ["text", "image"]
        kept = client.request("tasks/list")["tasks"]
        assert 0 < len(kept) < 6


def begin_call(client, tool, **arguments):
    """Call any tool as a task of 2025-11-25 and return the task."""
    return client.request("tools/call", name=tool, arguments=arguments, task={})["task"]


def test_a_task_outlasts_the_call_timeout_unless_it_is_set_to_interrupt(live, gate):
    with speaking(live, OLDER, capabilities=KNOWS[OLDER]) as client:
        ended = begin_call(client, "evaluate_code", code=lasting(gate), timeoutMs=1000, onTimeout="interrupt")
        assert fields(result(client, ended))["reason"] == "timed-out"
        assert get(client, ended)["status"] == "failed"
        waiting = begin_call(client, "evaluate_code", code=lasting(gate), timeoutMs=1000)
        client.call("wait_for", query='[:find ?l :where [?l :output/text "never"]]', timeoutMs=1500)
        assert get(client, waiting)["status"] == "working"
        gate.touch()
        assert fields(result(client, waiting))["result"] == '"done"'


def test_a_queued_task_that_is_cancelled_never_runs(live, gate):
    with speaking(live, OLDER, capabilities=KNOWS[OLDER]) as client:
        running = begin_call(client, "evaluate_code", code=lasting(gate))
        queued = begin_call(client, "evaluate_code", code="(def ran 1)")
        until(lambda: "queued" in get(client, queued).get("statusMessage", ""), "its place in the queue")
        assert client.request("tasks/cancel", taskId=queued["taskId"])["status"] == "cancelled"
        gate.touch()
        assert fields(result(client, running))["result"] == '"done"'
        assert client.call("evaluate_code", code="ran")["error"]["class"] == "NameError"


def test_a_task_is_lost_with_its_server_and_the_next_server_reports_it(tmp_path):
    with (
        serving(tmp_path, "--repl", "python") as first,
        speaking(first, OLDER, relayed=True, capabilities=KNOWS[OLDER]) as client,
    ):
        task = begin_call(client, "evaluate_code", code="1")
        assert fields(result(client, task))["result"] == "1"
        first.stop()
        with serving(tmp_path, "--repl", "python"):
            client.pop_notification("notifications/tools/list_changed")
            assert get(client, task)["code"] == -32602
            assert begin_call(client, "evaluate_code", code="2")["status"] == "working"
