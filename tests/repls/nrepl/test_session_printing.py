"""How nREPL sessions on the JVM print with Codriver's printer, and what they leave behind."""

from contextlib import asynccontextmanager

import anyio
import pytest
import real_repls
from evaluations import evaluate

from codriver.core.print_limits import PrintLimits
from codriver.core.requests import Form, Request
from codriver.repls.contract.events import Value
from codriver.repls.nrepl.connection_routes import TOOL_SESSION
from codriver.repls.nrepl.nrepl_adapter import NreplAdapter, connect

pytestmark = pytest.mark.anyio

FIVE = PrintLimits(max_length=5, max_value_bytes=1000)
PRINT = "nrepl.middleware.print/print"
DEPTH = """(let [call (fn [o name] (clojure.lang.Reflector/invokeNoArgInstanceMember o name))
 bottom (clojure.lang.Reflector/invokeStaticMethod "clojure.lang.RT" (str "baseLo" "ader") (object-array 0))]
 (count (take-while some? (iterate (fn [l] (call l "getParent")) bottom))))"""
"""The number of class loaders in a row, by code that does not speak of one."""


@asynccontextmanager
async def jvm():
    """Return an adapter, the events of its sessions, and the fields of each evaluation request of the main one."""
    reported, sent = [], []
    async with connect(real_repls.repl("jvm").endpoint, listener=lambda _, event: reported.append(event)) as opened:
        assert isinstance(opened, NreplAdapter)
        connection = opened._sessions.main.connection
        write = connection.try_send

        def try_send(exchange, op, fields):
            sent.append(fields)
            return write(exchange, op, fields)

        connection.try_send = try_send
        yield opened, reported, sent


async def printed_value(opened, message, code, limits):
    """Return the value of one form."""
    message.clear()
    ending = await evaluate(opened, Request("e", code, forms=(Form(code, 1, 1),)), limits)
    assert ending.status in {"done", "interrupted", "failed"}
    return next((event.text for event in message if isinstance(event, Value)), None)


async def test_print_limits_are_sent_to_a_session_once():
    async with jvm() as (opened, reported, sent):
        for _ in range(3):
            assert await printed_value(opened, reported, "(range 9)", FIVE) == "(0 1 2 3 4 ...)"
        assert [PRINT in fields for fields in sent] == [True, False, False]
        assert len(await printed_value(opened, reported, '(apply str (repeat 5000 "x"))', FIVE)) == 1000


async def test_print_limits_are_sent_to_a_session_only_when_they_change():
    async with jvm() as (opened, reported, sent):
        requested = PrintLimits(max_length=2, max_value_bytes=1000, is_length_explicit=True)
        three = PrintLimits(max_length=3, max_value_bytes=1000)
        steps = [
            (FIVE, "(0 1 2 3 4 ...)", True), (requested, "(0 1 ...)", True), (FIVE, "(0 1 2 3 4 ...)", False),
            (three, "(0 1 2 ...)", True), (three, "(0 1 2 ...)", False), (FIVE, "(0 1 2 3 4 ...)", True),
            (PrintLimits(), "(0 1 2 3 4 5 6 7 8)", True), (PrintLimits(), "(0 1 2 3 4 5 6 7 8)", False),
        ]  # fmt: skip
        for limits, text, is_included in steps:
            assert await printed_value(opened, reported, "(range 9)", limits) == text
            assert (PRINT in sent[-1]) == is_included


async def test_print_limits_are_sent_again_if_no_value_was_received():
    async with jvm() as (opened, reported, sent):
        assert await printed_value(opened, reported, "(/ 1 0)", FIVE) is None
        for _ in range(2):
            assert await printed_value(opened, reported, "(range 9)", FIVE) == "(0 1 2 3 4 ...)"
        assert [PRINT in fields for fields in sent] == [True, True, False]


async def test_print_limits_are_sent_again_after_an_interrupt():
    async with jvm() as (opened, reported, sent):
        for _ in range(2):
            await printed_value(opened, reported, "(range 9)", FIVE)
        over = []
        opened.start_evaluation(Request("e", "(Thread/sleep 60000)"), over.append, FIVE)
        await anyio.sleep(0.1)
        await opened.interrupt()
        with anyio.fail_after(60):
            while not over:
                await anyio.sleep(0.01)
        assert over[0].status == "interrupted"
        assert await printed_value(opened, reported, "(range 9)", FIVE) == "(0 1 2 3 4 ...)"
        assert [PRINT in fields for fields in sent] == [True, False, False, True]


async def test_a_print_function_set_by_the_user_is_used_and_kept():
    async with jvm() as (opened, reported, _):
        mine = "(set! nrepl.middleware.print/*print-fn* (fn [v ^java.io.Writer w] (.write w (str :mine v))))"
        await printed_value(opened, reported, "1", FIVE)
        assert (await printed_value(opened, reported, mine, FIVE)).startswith((":mine", "#object"))
        assert await printed_value(opened, reported, "[1]", FIVE) == ":mine[1]"
        assert len(await printed_value(opened, reported, "(vec (range 9999))", FIVE)) == 1000, (
            "within the quota all the same"
        )
        await printed_value(opened, reported, "[1]", PrintLimits(max_length=3))
        assert await printed_value(opened, reported, "[1]", PrintLimits(max_length=3)) == ":mine[1]"


async def test_evaluations_and_queries_leave_no_class_loader_behind():
    async with jvm() as (opened, reported, _):
        depths = [int(await printed_value(opened, reported, DEPTH, FIVE)) for _ in range(30)]
        assert max(depths) <= depths[0] + 1
        answers = [await opened._sessions.evaluate(TOOL_SESSION, DEPTH) for _ in range(30)]
        depths = [int(message.text("value")) for answer in answers for message in answer if message.text("value")]
        assert len(depths) == 30
        assert max(depths) <= depths[0] + 1


async def test_urls_added_to_a_class_loader_stay_available_to_later_evaluations(tmp_path):
    (tmp_path / "added.txt").write_text("here")
    url = f'(java.net.URL. "{tmp_path.as_uri()}/")'
    loader = "(.getContextClassLoader (Thread/currentThread))"
    async with jvm() as (opened, reported, _):
        await printed_value(opened, reported, f"(.addURL ^clojure.lang.DynamicClassLoader {loader} {url})", FIVE)
        for _ in range(10):
            await printed_value(opened, reported, "(+ 1 2)", FIVE)
        assert await printed_value(opened, reported, '(slurp (clojure.java.io/resource "added.txt"))', FIVE) == '"here"'


async def test_a_class_loader_captured_by_code_can_be_extended_later(tmp_path):
    (tmp_path / "later.txt").write_text("here")
    async with jvm() as (opened, reported, _):
        await printed_value(opened, reported, "1", FIVE)
        await printed_value(opened, reported, "(def held (.getContextClassLoader (Thread/currentThread)))", FIVE)
        for _ in range(5):
            assert await printed_value(opened, reported, "(+ 1 2)", FIVE) == "3"
        url = f'(java.net.URL. "{tmp_path.as_uri()}/")'
        await printed_value(opened, reported, f"(.addURL ^clojure.lang.DynamicClassLoader held {url})", FIVE)
        assert await printed_value(opened, reported, '(slurp (clojure.java.io/resource "later.txt"))', FIVE) == '"here"'


async def test_leftovers_of_failed_evaluations_are_cleaned_up_periodically(monkeypatch):
    monkeypatch.setattr("codriver.repls.nrepl.evaluation.EVALUATIONS_PER_CLEANUP", 20)
    async with jvm() as (opened, reported, _):
        before = int(await printed_value(opened, reported, DEPTH, FIVE))
        for _ in range(99):
            assert await printed_value(opened, reported, "(/ 1 0)", FIVE) is None
        assert int(await printed_value(opened, reported, DEPTH, FIVE)) < before + 60
