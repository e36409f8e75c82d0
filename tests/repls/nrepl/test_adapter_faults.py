"""The adapter with a scripted server: faults, and answers of servers that are not installed."""

import asyncio
import json
import socket
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from evaluations import evaluate
from refusals import refused_as
from scripted_nrepl import CLOSE, OPS, scripted

from codriver.core.requests import Form, Request
from codriver.errors import ReplDisconnectedError
from codriver.repls.contract.adapter import (
    CapabilityMissingError,
    EvaluationFailedError,
    NotAReplError,
    OpTimedOutError,
)
from codriver.repls.contract.events import LOAD_IT_SUFFIX, InputNeeded, Output, Value
from codriver.repls.contract.queries import Complete, LastError, Lookup
from codriver.repls.nrepl.nrepl_adapter import connect
from codriver.wire.bencode import encode

pytestmark = pytest.mark.anyio

CIDER = json.loads((Path(__file__).parents[2] / "cases" / "cider_answers.json").read_text("utf-8"))
CIDER_OPS = (
    *OPS, "info", "complete", "macroexpand", "test", "stacktrace", "analyze-last-stacktrace",
)  # fmt: skip
CLOJURE_FACTS = {"value": json.dumps('{"root":"/project","java":"17"}'), "ns": "user"}
DONE = {"status": ["done"]}
VALUE = {"value": "3", "ns": "user"}


def is_facts(code):
    return "java.specification.version" in code


@asynccontextmanager
async def adapter(answers=None, *, ops=OPS, op_timeout_s=30.0):
    events = []
    async with (
        scripted(answers, ops=ops) as server,
        connect(
            server.endpoint,
            listener=lambda identity, event: events.append((identity, event)),
            op_timeout_s=op_timeout_s,
        ) as opened,
    ):
        with anyio.fail_after(60):
            yield opened, events, server


def in_haste(monkeypatch, opened):
    """Shorten the wait for ops from now on, after the adapter was opened with all the time it needed."""
    monkeypatch.setattr(opened, "_op_timeout_s", 0.1)
    monkeypatch.setattr(opened.query.__self__, "_op_timeout_s", 0.1)


def answering(*steps):
    return {("eval", "code"): list(steps)}


def code(*texts):
    forms = tuple(Form(text, line, 1) for line, text in enumerate(texts, 1))
    return Request("e", "\n".join(texts), forms=forms)


async def until(condition):
    with anyio.fail_after(30):
        while not condition():
            await anyio.sleep(0.005)


async def test_an_evaluation_returns_the_value_in_the_answer():
    async with adapter(answering(VALUE, DONE)) as (opened, events, _):
        assert (await evaluate(opened, code("code"))).status == "done"
        assert events == [("e", Value("3", "user"))]


@pytest.mark.parametrize("status", [["done", "eval-error"], ["eval-error", "done", "x"], "done"])
async def test_the_status_is_recognized_in_any_order_and_as_a_string_or_list(status):
    async with adapter(answering({"status": status})) as (opened, _, _):
        assert (await evaluate(opened, code("code"))).status == ("done" if status == "done" else "failed")


@pytest.mark.parametrize(
    "steps",
    [
        [{"ex": "Error: boom"}, DONE],
        [{"status": ["eval-error"]}, DONE],
        [{"status": ["error", "done"]}],
        [{"err": "boom\n"}, {"ex": "boom", "status": ["eval-error"]}, DONE],
    ],
)
async def test_every_format_of_an_error_is_recognized_as_a_failure(steps):
    async with adapter(answering(*steps)) as (opened, _, _):
        ending = await evaluate(opened, code("code"))
        assert ending.status == "failed"
        assert ending.failure.type


async def test_notes_of_the_forms_of_an_evaluation_are_combined_up_to_the_first_failure():
    edited = {"codriver/edited": "shop is edited", **VALUE}
    answers = {
        ("eval", "one"): [edited, DONE],
        ("eval", "two"): [VALUE, DONE],
        ("eval", "bad"): [{"ex": "Error: boom", "status": ["eval-error", "done"]}],
    }
    async with adapter(answers) as (opened, _, server):
        whole = await evaluate(opened, code("one", "two", "one"))
        failed = await evaluate(opened, code("one", "bad", "two"))
        assert (whole.status, failed.status, failed.failure.form) == ("done", "failed", 2)
        assert whole.notes == failed.notes == (f"shop is edited{LOAD_IT_SUFFIX}",)
        sent = [request["code"] for request in server.seen("eval") if request["code"] in ("one", "two", "bad")]
        assert sent == ["one", "two", "one", "one", "bad"]


async def test_a_successful_evaluation_ends_without_starting_a_task():
    async with adapter(answering(VALUE, DONE)) as (opened, events, _):
        endings, found = [], []

        def ended(how):
            endings.append(how)
            tasks = [task for task in asyncio.all_tasks() if "Evaluator" in repr(task.get_coro())]
            found.append((tasks, opened._main.turn.is_acquired, opened._main.running))

        opened.start_evaluation(code("code"), ended)
        await until(lambda: endings)
        assert [how.status for how in endings] == ["done"]
        assert found == [([], False, None)]
        assert events == [("e", Value("3", "user"))]


async def test_output_that_arrives_with_the_end_of_an_evaluation_is_reported_before_the_end():
    seen = []
    async with adapter(answering((VALUE, DONE, {"out": "late"}))) as (opened, events, _):
        opened.start_evaluation(code("code"), lambda _: seen.extend(events))
        await until(lambda: seen)
        assert seen == [("e", Value("3", "user")), ("e", Output("out", "late"))]


async def test_an_end_callback_can_start_the_next_evaluation():
    async with adapter({**answering(VALUE, DONE), ("eval", "next"): [{"value": "4"}, DONE]}) as (opened, events, _):
        endings = []

        def then_next(how):
            endings.append(how)
            opened.start_evaluation(code("next"), endings.append)

        opened.start_evaluation(code("code"), then_next)
        await until(lambda: len(endings) == 2)
        assert [how.status for how in endings] == ["done", "done"]
        assert [event.text for _, event in events] == ["3", "4"]


async def test_a_failing_end_callback_does_not_close_the_connection(caplog):
    async with adapter({**answering(VALUE, DONE), ("eval", "next"): [VALUE, DONE]}) as (opened, _, _):
        received = []

        def failing(how):
            received.append(how)
            raise ValueError("nobody wants to know")

        opened.start_evaluation(code("code"), failing)
        await until(lambda: received)
        assert (await evaluate(opened, code("next"))).status == "done"
        assert "the end of the evaluation e could not be reported" in caplog.text


async def test_an_evaluation_waits_for_an_earlier_one_that_started_immediately():
    steps = {**answering({"out": "x"}, 0.05, VALUE, DONE), ("eval", "next"): [VALUE, DONE]}
    async with adapter(steps) as (opened, _, _):
        endings = []
        opened.start_evaluation(code("code"), lambda _: endings.append("code"))
        opened.start_evaluation(code("next"), lambda _: endings.append("next"))
        assert opened._main.running is not None
        await until(lambda: len(endings) == 2)
        assert endings == ["code", "next"]


async def test_a_second_done_status_is_ignored_and_later_messages_are_handled():
    late = {"out": "late", "status": []}
    async with adapter(answering(VALUE, DONE, DONE, 0.05, late, {"status": ["state"]})) as (opened, events, _):
        assert (await evaluate(opened, code("code"))).status == "done"
        await until(lambda: ("e", Output("out", "late")) in events)
        assert (await evaluate(opened, code("code"))).status == "done"


async def test_a_late_value_does_not_belong_to_the_next_form():
    late, second = {"value": "late"}, {"value": "4"}
    answers = {("eval", "first"): [(VALUE, DONE, late, DONE)], ("eval", "second"): [second, DONE]}
    async with adapter(answers) as (opened, events, _):
        assert (await evaluate(opened, code("first", "second"))).status == "done"
        text = [(event.text, event.is_late) for _, event in events]
        assert text == [("3", False), ("late", True), ("4", False)]


async def test_a_value_sent_after_an_input_request_belongs_to_the_same_evaluation():
    answers = {("eval", "reads"): [{"status": ["need-input"]}, 0.3, VALUE, DONE], "stdin": [DONE]}
    async with adapter(answers) as (opened, events, server), anyio.create_task_group() as tasks:
        tasks.start_soon(evaluate, opened, code("reads"))
        await until(lambda: events)
        await opened.send_input("x\n")
        await until(lambda: len(events) > 1)
        assert server.seen("stdin")
        assert events == [("e", InputNeeded()), ("e", Value("3", "user"))]


async def test_a_failure_without_a_done_status_ends_the_evaluation(monkeypatch):
    monkeypatch.setattr("codriver.repls.nrepl.evaluation.AFTER_FAILURE_TIMEOUT_S", 0.1)
    async with adapter(answering({"err": "boom"}, {"ex": "Error: boom"})) as (opened, _, _):
        ending = await evaluate(opened, code("code"))
        assert (ending.status, ending.failure.message) == ("failed", "boom")


async def test_a_message_without_an_id_belongs_to_the_running_evaluation():
    async with adapter(answering({**VALUE, "id": None}, {**DONE, "id": None})) as (opened, events, _):
        assert (await evaluate(opened, code("code"))).status == "done"
        assert events == [("e", Value("3", "user"))]


async def test_output_without_an_id_belongs_to_no_evaluation():
    async with adapter(answering({"id": None, "out": "bg"}, DONE)) as (opened, events, _):
        await evaluate(opened, code("code"))
        assert events == [(None, Output("out", "bg"))]


@pytest.mark.parametrize("identity", ["", [], "nobody", 7])
async def test_a_message_with_an_unknown_id_is_ignored(identity):
    async with adapter(answering({"id": identity, "foo": "x"}, VALUE, DONE)) as (opened, _, _):
        assert (await evaluate(opened, code("code"))).status == "done"


async def test_an_empty_list_in_place_of_text_is_ignored():
    async with adapter(answering({"out": [], "ns": [], "value": "1", "ex": []}, DONE)) as (opened, events, _):
        assert (await evaluate(opened, code("code"))).status == "done"
        assert events == [("e", Value("1", None))]


async def test_invalid_utf8_is_escaped():
    async with adapter(answering({"out": b"a\xff"}, DONE)) as (opened, events, _):
        await evaluate(opened, code("code"))
        assert events == [("e", Output("out", "a\\xff"))]


@pytest.mark.parametrize("garbage", [b"HTTP/1.1 400\r\n", b"d3:foo", b"i1e", b"le", b"99999999999999:"])
async def test_invalid_bytes_close_the_connection_and_end_the_evaluation(garbage):
    async with adapter(answering(VALUE, garbage, 0.01, CLOSE)) as (opened, events, _):
        with pytest.raises(ReplDisconnectedError):
            await evaluate(opened, code("code"))
        assert events == [("e", Value("3", "user"))]
        assert await opened.wait_closed()


async def test_a_connection_cut_at_any_byte_loses_the_evaluation_but_never_gives_a_wrong_result():
    whole = encode({"id": "codriver-9", "out": "hi", "status": ["done"]})
    for cut in range(len(whole)):
        async with adapter(answering(whole[:cut], CLOSE)) as (opened, events, server):
            with pytest.raises(ReplDisconnectedError, match="closed the connection"):
                await evaluate(opened, code("code"))
            assert events == []
            assert len([request for request in server.seen("eval") if request["code"] == "code"]) == 1


async def test_nothing_is_sent_again_after_a_lost_connection():
    async with adapter(answering(CLOSE)) as (opened, _, server):
        for _ in range(2):
            with pytest.raises(ReplDisconnectedError):
                await evaluate(opened, code("code"))
        assert len([request for request in server.seen("eval") if request["code"] == "code"]) == 1


async def test_an_incomplete_message_is_reported_when_the_connection_ends():
    async with adapter(answering(b"d2:id", CLOSE)) as (opened, _, _):
        with pytest.raises(ReplDisconnectedError, match="in the middle of a message"):
            await evaluate(opened, code("code"))


async def test_a_message_received_byte_by_byte_is_decoded():
    whole = encode({"out": "ж", "status": []})
    async with adapter(answering(*(whole[at : at + 1] for at in range(len(whole))), DONE)) as (opened, events, _):
        await evaluate(opened, code("code"))
        assert events == [(None, Output("out", "ж"))]


async def test_a_server_that_never_answers_is_not_a_repl(monkeypatch):
    monkeypatch.setattr("codriver.repls.nrepl.nrepl_adapter.DESCRIBE_TIMEOUT_S", 0.1)
    with pytest.raises(NotAReplError, match="did not answer 'describe' in time"):
        async with adapter({"describe": []}):
            pass


async def test_the_adapter_waits_for_a_busy_server():
    ops = {"ops": {"eval": {}}, "status": ["done"]}
    async with adapter({"describe": [0.5, ops]}, op_timeout_s=0.1) as (_, _, server):
        assert len(server.streams) == 1


async def test_a_server_too_busy_to_identify_itself_is_refused_rather_than_unknown(monkeypatch):
    monkeypatch.setattr("codriver.repls.nrepl.probe.PROBE_TIMEOUT_S", 0.1)
    with pytest.raises(NotAReplError, match="did not answer 'eval' in time"):
        async with adapter({"eval": []}):
            pass


async def test_a_server_that_was_busy_at_first_is_probed_again(monkeypatch):
    monkeypatch.setattr("codriver.repls.nrepl.probe.PROBE_TIMEOUT_S", 0.2)
    async with adapter() as (_, _, server):
        question = next(request["code"] for request in server.seen("eval") if is_facts(request["code"]))
    waits = [1.0]

    class OnceLate:
        def __iter__(self):
            yield from [waits.pop()] if waits else []
            yield from [CLOJURE_FACTS, DONE]

    async with adapter({("eval", question): OnceLate()}) as (opened, _, _):
        assert opened.profile.dialect == "clojure"


async def test_a_server_that_closes_immediately_is_not_a_repl():
    with pytest.raises(NotAReplError, match="closed the connection"):
        async with adapter({"describe": [CLOSE]}):
            pass


@pytest.mark.parametrize("answer", [{"ops": []}, {"ops": {"x": {}}}, {"status": ["unknown-op", "error"]}])
async def test_a_server_without_the_eval_op_is_not_a_repl(answer):
    with pytest.raises(NotAReplError, match="does not include the op `eval`"):
        async with adapter({"describe": [answer, DONE]}):
            pass


async def test_ops_that_a_server_describes_as_a_list_are_recognized():
    async with adapter({"describe": [{"ops": ["eval", "interrupt"]}, DONE]}) as (opened, _, _):
        assert opened._probed.ops == {"eval", "interrupt"}


async def test_an_unanswered_op_times_out_and_the_connection_survives(monkeypatch):
    answers = {"info": [], **answering(VALUE, DONE)}
    async with adapter(answers, ops=CIDER_OPS) as (opened, _, _):
        in_haste(monkeypatch, opened)
        with pytest.raises(OpTimedOutError, match=r"'info' within 0\.1 s"):
            await opened.query(Lookup("map"))
        assert (await evaluate(opened, code("code"))).status == "done"


async def test_an_interrupt_answered_on_another_connection_ends_the_evaluation(monkeypatch):
    monkeypatch.setattr("codriver.repls.nrepl.nrepl_adapter.AFTER_INTERRUPT_TIMEOUT_S", 0.1)
    answers = {**answering({"err": "x", "status": []}), "interrupt": [DONE]}
    async with adapter(answers) as (opened, events, _), anyio.create_task_group() as tasks:
        endings = []

        async def run():
            endings.append(await evaluate(opened, code("code", "code")))

        tasks.start_soon(run)
        await until(lambda: events)
        interruption = await opened.interrupt()
        assert (interruption.outcome, "may still be running" in interruption.note) == ("requested", True)
        await until(lambda: endings)
        assert endings[0].status == "interrupted"


async def test_an_evaluation_interrupted_while_queued_is_never_sent():
    async with adapter(answering(VALUE, DONE)) as (opened, _, server):
        endings = []
        async with opened._main.turn:
            opened.start_evaluation(code("code"), endings.append)
            assert (await opened.interrupt()).outcome == "requested"
        await until(lambda: endings)
        assert endings[0].status == "interrupted"
        assert not [request for request in server.seen("eval") if request["code"] == "code"]
        assert (await opened.interrupt()).outcome == "idle"
        assert (await evaluate(opened, code("code"))).status == "done"


async def test_interrupting_a_session_that_only_runs_a_query_reports_it_as_idle():
    async with adapter(answering(VALUE, DONE)) as (opened, _, _), opened._main.turn:
        assert (await opened.interrupt()).outcome == "idle"


@pytest.mark.parametrize("status", ["session-idle", "interrupt-id-mismatch"])
async def test_an_interrupt_of_a_finished_evaluation_reports_an_idle_session(status):
    answers = {**answering({"out": "x"}), "interrupt": [{"status": ["done", status]}]}
    async with adapter(answers) as (opened, events, server), anyio.create_task_group() as tasks:
        tasks.start_soon(evaluate, opened, code("code"))
        await until(lambda: events)
        assert (await opened.interrupt()).outcome == "idle"
        assert server.seen("interrupt")[0]["interrupt-id"] == server.requests[-2]["id"]
        tasks.cancel_scope.cancel()


async def test_an_interrupt_frees_a_session_whose_evaluation_never_reported_its_end(monkeypatch):
    monkeypatch.setattr("codriver.repls.nrepl.nrepl_adapter.IDLE_DISTRUST_S", 0)
    monkeypatch.setattr("codriver.repls.nrepl.nrepl_adapter.AFTER_INTERRUPT_TIMEOUT_S", 0.1)
    answers = {**answering(VALUE), ("eval", "next"): [VALUE, DONE], "interrupt": [{"status": ["done", "session-idle"]}]}
    async with adapter(answers) as (opened, events, _):
        endings = []
        opened.start_evaluation(code("code"), endings.append)
        await until(lambda: events)
        interruption = await opened.interrupt()
        assert (interruption.outcome, "but not that the evaluation has ended" in interruption.note) == (
            "requested",
            True,
        )
        await until(lambda: endings)
        assert endings[0].status == "interrupted"
        assert (await evaluate(opened, code("next"))).status == "done"


async def test_an_idle_session_that_never_reported_its_end_is_replaced_by_a_clone(monkeypatch):
    monkeypatch.setattr("codriver.repls.nrepl.nrepl_adapter.IDLE_DISTRUST_S", 0)
    monkeypatch.setattr("codriver.repls.nrepl.nrepl_adapter.AFTER_INTERRUPT_TIMEOUT_S", 0.1)
    answers = {**answering(VALUE), ("eval", "next"): [VALUE, DONE], "interrupt": [{"status": ["done", "session-idle"]}]}
    async with adapter(answers) as (opened, events, server):
        endings = []
        opened.start_evaluation(code("code"), endings.append)
        await until(lambda: events)
        server.answers["clone"] = [{"new-session": "s2", "status": ["done"]}]
        interruption = await opened.interrupt()
        assert "A new session replaces this one" in interruption.note
        await until(lambda: endings)
        assert [(await evaluate(opened, code("next"))).status for _ in range(2)] == ["done", "done"]
        assert [request["session"] for request in server.seen("eval") if request["code"] == "next"] == ["s2", "s2"]
        assert [request["session"] for request in server.seen("clone") if "session" in request] == ["s1"]
        assert [request["session"] for request in server.seen("eval") if request["code"] == "(in-ns 'user)"] == ["s2"]


async def test_an_unanswered_interrupt_times_out(monkeypatch):
    answers = {**answering({"out": "x"}), "interrupt": []}
    async with adapter(answers) as (opened, events, _), anyio.create_task_group() as tasks:
        in_haste(monkeypatch, opened)
        tasks.start_soon(evaluate, opened, code("code"))
        await until(lambda: events)
        with pytest.raises(OpTimedOutError, match="'interrupt'"):
            await opened.interrupt()
        tasks.cancel_scope.cancel()


async def test_two_evaluations_of_a_session_never_run_concurrently():
    may_end = anyio.Event()
    answers = answering(may_end, VALUE, DONE)
    async with adapter(answers) as (opened, _, server), anyio.create_task_group() as tasks:
        tasks.start_soon(evaluate, opened, code("code"))
        tasks.start_soon(evaluate, opened, code("code"))
        await until(lambda: len([r for r in server.seen("eval") if r["code"] == "code"]) == 1)
        await anyio.wait_all_tasks_blocked()
        assert len([r for r in server.seen("eval") if r["code"] == "code"]) == 1
        may_end.set()


async def test_the_first_form_is_sent_before_other_tasks_run(monkeypatch):
    async with adapter(answering(VALUE, DONE)) as (opened, _, server):
        endings, sent = [], []
        link = opened._main.connection._transport
        monkeypatch.setattr(link, "write", lambda data, write=link.write: (sent.append(data), write(data)))
        opened.start_evaluation(code("code", "code"), endings.append)
        assert [b"4:code4:code" in data for data in sent] == [True]
        assert opened._main.running is not None, "an interrupt finds it"
        await until(lambda: endings)
        assert endings[0].status == "done"
        assert len([r for r in server.seen("eval") if r["code"] == "code"]) == 2, "each form once"


async def test_two_evaluations_started_together_run_one_after_the_other():
    async with adapter(answering(VALUE, DONE)) as (opened, _, server):
        endings = []
        for text in ("code", "code", "code"):
            opened.start_evaluation(code(text), endings.append)
        await until(lambda: len(endings) == 3)
        assert [ending.status for ending in endings] == ["done"] * 3
        assert len([r for r in server.seen("eval") if r["code"] == "code"]) == 3


@pytest.mark.parametrize("turns", [0, 1, 30])
async def test_closing_the_adapter_ends_each_evaluation_exactly_once_without_an_error(turns, caplog):
    endings = []
    async with adapter(answering()) as (opened, _, server):
        opened.start_evaluation(code("code"), endings.append)
        opened.start_evaluation(code("waits"), endings.append)
        for _ in range(turns):
            await anyio.lowlevel.checkpoint()
    assert [type(ending) for ending in endings] == [ReplDisconnectedError] * 2
    assert not [request for request in server.seen("eval") if request["code"] == "waits"]
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []


async def test_a_form_that_cannot_be_sent_does_not_occupy_its_session(monkeypatch):
    async with adapter(answering(VALUE, DONE)) as (opened, _, _):
        endings = []

        def fail(_):
            raise OSError("no way out")

        with monkeypatch.context() as broken:
            broken.setattr(opened._main.connection._transport, "write", fail)
            with pytest.raises(OSError, match="no way out"):
                opened.start_evaluation(code("code"), endings.append)
        assert not opened._main.connection.is_waiting
        assert (await opened.interrupt()).outcome == "idle"
        assert (await evaluate(opened, code("code"))).status == "done"
        assert endings == []


async def test_an_immediate_interrupt_prevents_the_remaining_forms_from_running():
    async with adapter({**answering(0.1, VALUE, DONE), "interrupt": [DONE]}) as (opened, _, server):
        endings = []
        opened.start_evaluation(code("code", "code"), endings.append)
        await opened.interrupt()
        await until(lambda: endings)
        assert endings[0].status == "interrupted"
        assert len([r for r in server.seen("eval") if r["code"] == "code"]) == 1


async def test_a_lone_surrogate_is_refused_without_side_effects():
    async with adapter(answering(VALUE, DONE)) as (opened, _, _):
        with refused_as("request-unsafe", match=r"\\ud83d\) at position 1"):
            await evaluate(opened, code('"\ud83d"'))
        with refused_as("request-unsafe"):
            await opened.send_input("\udc00", "main")
        assert (await evaluate(opened, code("code"))).status == "done"


async def test_a_half_open_connection_is_detected_within_30_seconds():
    if sys.platform != "linux":
        pytest.skip("the options have other names elsewhere")
    else:
        async with adapter() as (opened, _, _):
            raw = opened._main.connection._transport._socket
            assert raw.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            idle, interval, probes = (
                raw.getsockopt(socket.IPPROTO_TCP, option)
                for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
            )
            assert idle + interval * probes <= 30
            assert raw.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) <= 30_000


async def test_a_flood_of_messages_with_new_ids_uses_limited_memory():
    async with adapter(answering(VALUE, DONE)) as (opened, _, _):
        for _ in range(600):
            await evaluate(opened, code("code"))
        connection = opened._main.connection
        assert len(connection._routes) == 512
        assert not connection._active


async def test_output_of_other_threads_is_received_and_attributed_to_no_evaluation():
    answers = {"forward-system-output": [DONE, 0.01, {"out": "thread", "source": "out"}]}
    async with adapter(answers, ops=(*OPS, "forward-system-output")) as (_, events, _):
        await until(lambda: events)
        assert events == [(None, Output("out", "thread"))]


async def test_a_server_with_shared_sessions_is_detected():
    shared = {("eval", "*1"): [{"value": '"codriver-probe"'}, DONE]}
    clone = {"clone": [{"new-session": "s"}, DONE]}
    async with adapter({**shared, **clone}) as (opened, _, _):
        assert opened.profile.isolation == "none"
        with pytest.raises(CapabilityMissingError, match="'sessions'"):
            await opened.open_session("mine")


async def test_the_flag_that_a_jvm_needs_for_interrupts_is_reported():
    facts = {"value": json.dumps('{"root":"/p","java":"21"}')}
    async with adapter() as (opened, _, server):
        question = next(request["code"] for request in server.seen("eval") if is_facts(request["code"]))
        assert opened.profile.dialect == "unknown"
    async with adapter({("eval", question): [facts, DONE]}) as (opened, _, _):
        assert opened.profile.dialect == "clojure"
        assert opened.profile.project_root == "/p"
        assert "-Djdk.attach.allowAttachSelf" in opened.profile.notes[0]


async def test_a_missing_capability_names_what_provides_it():
    async with adapter() as (opened, _, _):
        assert "cider-nrepl" in opened.profile.missing["lookup"]
        with pytest.raises(CapabilityMissingError) as caught:
            await opened.query(Lookup("map"))
        assert "cider-nrepl" in caught.value.hint


async def test_cider_symbols_are_parsed():
    async with adapter({"info": CIDER["info"]}, ops=CIDER_OPS) as (opened, _, server):
        symbol = await opened.query(Lookup("docfn", namespace="tt.core"))
        assert (symbol.name, symbol.namespace, symbol.doc, symbol.arglists) == (
            "docfn", "tt.core", "The doc.", ("[a & b]",)
        )  # fmt: skip
        assert (symbol.line, symbol.file) == (1, None)
        assert server.seen("info")[0]["ns"] == "tt.core"


async def test_looking_up_a_symbol_unknown_to_cider_returns_none():
    async with adapter({"info": CIDER["info none"]}, ops=CIDER_OPS) as (opened, _, _):
        assert await opened.query(Lookup("nosuch")) is None


async def test_cider_completions_are_parsed():
    async with adapter({"complete": CIDER["complete-docs"]}, ops=CIDER_OPS) as (opened, _, _):
        (found,) = await opened.query(Complete("docf"))
        assert (found.candidate, found.type, found.namespace) == ("docfn", "function", "tt.core")


async def test_cider_expansions_are_parsed():
    async with adapter({"macroexpand": CIDER["macroexpand-1"]}, ops=CIDER_OPS) as (opened, _, server):
        assert await opened.macroexpand("(when 1 2)", None) == "(if 1 (do 2))"
        assert server.seen("macroexpand")[0]["expander"] == "macroexpand-1"


async def test_a_failed_cider_expansion_is_reported_with_its_reason():
    async with adapter({"macroexpand": CIDER["macroexpand err"]}, ops=CIDER_OPS) as (opened, _, _):
        with pytest.raises(EvaluationFailedError, match="failed: vector"):
            await opened.macroexpand("(when-let)", None)


async def test_cider_test_results_are_parsed():
    async with adapter({"test": CIDER["retest"]}, ops=CIDER_OPS) as (opened, _, server):
        run = await opened.run_tests("tt.core", None)
        assert (run.failed, run.errors, run.tests) == (1, 1, 2)
        assert [(result.test, result.outcome) for result in run.results] == [("t-err", "error"), ("t-bad", "fail")]
        assert run.results[0].actual == "java.lang.ArithmeticException: Divide by zero"
        assert (run.results[1].message, run.results[1].expected) == ("ctx: msg", "(= {:a 1} {:a 2})")
        assert {(time.namespace, time.test): time.seconds for time in run.times} == {
            ("tt.core", "t-bad"): 0.005, ("tt.core", "t-err"): 0.004,
        }  # fmt: skip
        assert server.seen("test")[0]["ns"] == "tt.core"


async def test_a_cider_stack_trace_is_parsed():
    async with adapter({"analyze-last-stacktrace": CIDER["stacktrace"]}, ops=CIDER_OPS) as (opened, _, _):
        trace = await opened.query(LastError())
        assert (trace.type, trace.message, trace.data) == ("clojure.lang.ExceptionInfo", "boom", "{:k 1}")
        assert trace.frames[0].function == "tt.core/a"
        # `invokeStatic` and `invoke` of one function are one call.
        assert [frame.function for frame in trace.frames[:2]] == ["tt.core/a", "tt.core/eval9076"]
        assert [frame.tooling for frame in trace.frames] == [False, False, True, True]


def cider_link(kind, message, *frames, **fields):
    displayed = [{"class": "a$f", "method": "invokeStatic", "var": "a/f", "file": "a.clj", "line": n} for n in frames]
    return {"class": kind, "message": message, "stacktrace": displayed, **fields}


async def test_a_cider_exception_chain_is_parsed():
    around = cider_link("clojure.lang.ExceptionInfo", "wrapped", 9, 3, 2, data="{:k 1}")
    wrapper = cider_link("clojure.lang.Compiler$CompilerException", "at a.clj", 10, 2)
    reported = [wrapper, around, cider_link("java.lang.Exception", "inner", 7, 3, 2), DONE]
    async with adapter({"analyze-last-stacktrace": reported}, ops=CIDER_OPS) as (opened, _, _):
        trace = await opened.query(LastError())
        assert (trace.type, trace.message, [frame.line for frame in trace.frames]) == (
            "java.lang.Exception", "inner", [7, 3, 2]
        )  # fmt: skip
        (link,) = trace.chain
        assert (link.relation, link.type, link.message, link.data) == (
            "wrapped by", "clojure.lang.ExceptionInfo", "wrapped", "{:k 1}"
        )  # fmt: skip
        assert [frame.line for frame in link.frames] == [9], "and none of those that it shares with the other"


async def test_there_is_no_stack_trace_without_an_error():
    answers = {"analyze-last-stacktrace": [{"status": ["no-error"]}, DONE]}
    async with adapter(answers, ops=CIDER_OPS) as (opened, _, _):
        assert await opened.query(LastError()) is None
