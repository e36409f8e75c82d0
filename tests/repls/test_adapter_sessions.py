"""The adapter contract: sessions, interrupts, input and turns, on each REPL. See `repls.adapter_contract`."""

import anyio
import anyio.lowlevel
import pytest
from evaluations import evaluate

from codriver.repls.contract.adapter import CapabilityMissingError, SessionNotOpenError
from codriver.repls.contract.events import InputNeeded, Output, Value
from codriver.repls.contract.queries import Lookup
from repls.adapter_contract import (
    ELEMENT,
    MEMORY,
    ON_THE_JVM,
    WORDS,
    adapter,
    evaluation,
    needs,
    operation_calls,
    printed,
    until,
    values,
)

pytestmark = pytest.mark.anyio


async def test_sessions_have_separate_state_or_are_refused(name):
    async with adapter(name) as (opened, events):
        if opened.profile.isolation == "none":
            with pytest.raises(CapabilityMissingError):
                await opened.open_session("mine")
            return
        await opened.open_session("mine")
        if name in {"hy", "python", MEMORY}:
            await evaluate(opened, evaluation(WORDS[name].define.format("apart", 1), session="mine"))
            assert (await evaluate(opened, evaluation("apart"))).status == "failed"
            await evaluate(opened, evaluation(WORDS[name].define.format("common", 1)))
            is_read = (await evaluate(opened, evaluation("common", session="mine"))).status == "done"
            assert is_read is ("you can read the shared names" in opened.profile.shares)
        else:
            await evaluate(opened, evaluation("(ns apart.place)", session="mine"))
            events.clear()
            await evaluate(opened, evaluation("(str *ns*)"))
            await evaluate(opened, evaluation("(str *ns*)", session="mine"))
            assert values(events) == ['"user"', '"apart.place"']
        await opened.close_session("mine")
        await opened.close_session("mine")


async def test_a_session_that_is_not_open_is_refused(name):
    async with adapter(name) as (opened, _):
        with pytest.raises(SessionNotOpenError, match="no session 'other'"):
            await evaluate(opened, evaluation(WORDS[name].add, session="other"))


@pytest.mark.parametrize("kind", ["wait", "forever"])
async def test_an_interrupt_ends_the_evaluation_and_the_session_still_works(name, kind):
    words = WORDS[name]
    code = words.wait.format(60) if kind == "wait" and words.wait else words.forever
    async with adapter(name) as (opened, events):
        if "interrupt" not in opened.profile.capabilities:
            with pytest.raises(CapabilityMissingError):
                await opened.interrupt()
            return
        if code is None or (name, kind) == ("hy", "wait"):
            pytest.skip("this server cannot be interrupted there")
        endings = []

        async def run():
            endings.append(await evaluate(opened, evaluation(words.text, code, words.add)))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await until(lambda: values(events))
            await anyio.sleep(0.3)
            interruption = await opened.interrupt()
        assert interruption.outcome in {"interrupted", "requested"}
        assert [ending.status for ending in endings] == ["interrupted"]
        assert words.three not in values(events)
        with anyio.fail_after(60):
            assert (await evaluate(opened, evaluation(words.add))).status == "done"


@pytest.mark.slow
async def test_a_session_whose_thread_ended_continues_after_an_interrupt(name):
    if name != "jvm":
        pytest.skip("code of other servers cannot end a session's thread")
    async with adapter(name) as (opened, events):
        await evaluate(opened, evaluation("(in-ns 'deaf)", "(clojure.core/refer-clojure)", "(def q 42)"))
        await evaluate(opened, evaluation("(.interrupt (Thread/currentThread))"))
        endings = []
        opened.start_evaluation(evaluation("(def q 43)"), endings.append)
        with anyio.fail_after(60):
            while (await opened.interrupt()).outcome == "idle":
                await anyio.sleep(0.1)
        await until(lambda: endings)
        assert endings[0].status == "interrupted"
        await evaluate(opened, evaluation("[(str *ns*) q]"))
        assert values(events)[-1] == '["deaf" 42]'


async def test_an_interrupt_without_an_evaluation_reports_an_idle_session(name):
    async with adapter(name) as (opened, _):
        needs(opened, "interrupt")
        assert (await opened.interrupt()).outcome == "idle"


async def test_input_that_code_waits_for_is_requested_and_sent(name):
    async with adapter(name) as (opened, events):
        if "stdin" not in opened.profile.capabilities:
            with pytest.raises(CapabilityMissingError):
                await opened.send_input("x\n")
            return
        read = (
            "(read-line)" if name in {*ON_THE_JVM, "lisp", MEMORY} else "(input)" if name == "hy" else WORDS[name].read
        )
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(evaluate, opened, evaluation(read))
            await until(lambda: any(isinstance(event, InputNeeded) for _, event in events))
            await opened.send_input("ж in\n")
        assert values(events)[-1].removeprefix(ELEMENT).strip("\"'") in {"ж in", "\\u0436 in"}
        assert {identity for identity, _ in events} == {"e"}


async def test_late_output_is_attributed_to_the_evaluation_that_caused_it(name):
    if WORDS[name].late is None:
        pytest.skip("this server loses the output of threads")
    async with adapter(name) as (opened, events):
        await evaluate(opened, evaluation(WORDS[name].late, identity="cause"))
        await evaluate(opened, evaluation(WORDS[name].add, identity="other"))
        await until(lambda: "late" in printed(events))
        assert [identity for identity, event in events if isinstance(event, Output) and "late" in event.text] == [
            "cause"
        ]


async def test_an_evaluation_continues_when_its_caller_stops_waiting(name):
    words = WORDS[name]
    if words.wait is None:
        pytest.skip("this language cannot wait")
    async with adapter(name) as (opened, events):
        with anyio.move_on_after(0.1):
            await evaluate(opened, evaluation(words.wait.format(2), words.add, identity="left"))
        assert values(events) == []
        await evaluate(opened, evaluation(words.add, identity="next"))
        order = [identity for identity, event in events if isinstance(event, Value) and event.text == words.three]
        assert order == ["left", "next"]


@pytest.mark.parametrize("name", ["jvm", "basilisp", MEMORY])
async def test_queries_are_answered_while_code_runs(name):
    async with adapter(name) as (opened, events), anyio.create_task_group() as tasks:
        tasks.start_soon(evaluate, opened, evaluation(WORDS[name].text, WORDS[name].wait.format(20)))
        await until(lambda: values(events))
        with anyio.fail_after(15):
            assert await opened.macroexpand("(when 1 2)", None)
            if name == "jvm":
                assert await opened.query(Lookup("map"))
                while "Thread.sleep" not in (dump := await opened.dump_threads()).whole:
                    await anyio.sleep(0.02)  # the form that waits is sent after the value of the first one
                assert "user$eval" in dump.user
                assert "clojure.lang" not in dump.user
        tasks.cancel_scope.cancel()


async def test_operations_that_need_a_session_refuse_an_unknown_one(name):
    async with adapter(name) as (opened, _):
        for capability, operation in operation_calls(opened, "other").items():
            if capability in opened.profile.capabilities:
                with pytest.raises(SessionNotOpenError):
                    await operation()
        assert await opened.dump_threads("other") is None
        await opened.close_session("other")


async def test_the_main_session_cannot_be_closed(name):
    async with adapter(name) as (opened, events):
        await opened.close_session("main")
        await evaluate(opened, evaluation(WORDS[name].add))
        assert values(events) == [WORDS[name].three]


async def test_a_second_evaluation_of_a_session_waits_for_the_first(name):
    words, endings = WORDS[name], []
    async with adapter(name) as (opened, events):
        opened.start_evaluation(evaluation(words.add, words.text, identity="first"), endings.append)
        await evaluate(opened, evaluation(words.add, identity="second"))
        assert len(endings) == 1
        assert [identity for identity, event in events if isinstance(event, Value)] == ["first", "first", "second"]


async def test_closed_sessions_are_also_closed_on_the_server():
    async with adapter("jvm") as (watcher, events):
        count = evaluation("(count @@(resolve 'nrepl.middleware.session/sessions))")
        await evaluate(watcher, count)
        async with adapter("jvm") as (opened, _):
            await opened.open_session("mine")
            await opened.macroexpand("(when 1 2)", None)
            await evaluate(watcher, count)
        await evaluate(watcher, count)
        before, during, after = (int(value) for value in values(events))
        assert (during, after) == (before + 3, before)
