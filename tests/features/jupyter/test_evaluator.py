"""The evaluator with a scripted kernel: missing ends, code that is dropped, and late values."""

from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel
import pytest
from scripted_channel import ScriptedChannel

from codriver.core.requests import Form, Request
from codriver.errors import ReplDisconnectedError
from codriver.features.jupyter.kernels import evaluator
from codriver.features.jupyter.kernels.execution import CUT_BY_SERVER_MESSAGE
from codriver.features.jupyter.kernels.jupyter_adapter import connect
from codriver.features.jupyter.kernels.kernel_failures import NOT_RUN_TYPE
from codriver.repls.contract.display_data import Display
from codriver.repls.contract.events import ForeignCodeFinished, ForeignCodeStarted, Output, Value

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def opened(channel):
    events = []
    async with connect(channel.open, listener=lambda identity, event: events.append((identity, event))) as adapter:
        channel.sent.clear()
        yield adapter, events


async def sent(channel, count):
    """Return the id of the request that is sent as number `count`."""
    with anyio.fail_after(30):
        while len(channel.sent) < count:
            await anyio.lowlevel.checkpoint()
    *_, identity = channel.sent[count - 1]
    return identity


async def over(endings, count=1):
    with anyio.fail_after(30):
        while len(endings) < count:
            await anyio.lowlevel.checkpoint()
    return endings[count - 1]


def run(channel, identity, *, status="ok", idle=True, **content):
    """Play all messages of an evaluation."""
    channel.state("busy", identity)
    channel.deliver("shell", "execute_reply", {"status": status, **content}, identity)
    if idle:
        channel.state("idle", identity)


async def test_a_note_is_added_if_the_end_of_an_execution_was_not_received(monkeypatch):
    monkeypatch.setattr(evaluator, "IDLE_TIMEOUT_S", 0.01)
    monkeypatch.setattr(evaluator, "REPLY_TIMEOUT_S", 0.01)
    channel, endings = ScriptedChannel(), []
    async with opened(channel) as (adapter, _):
        adapter.start_evaluation(Request("e", "1"), endings.append)
        run(channel, await sent(channel, 1), idle=False)
        assert (await over(endings)).notes == (evaluator.NO_IDLE_MESSAGE,)
        adapter.start_evaluation(Request("f", "1"), endings.append)
        channel.state("idle", await sent(channel, 2))
        assert (await over(endings, 2)).notes == (evaluator.NO_REPLY_MESSAGE,)


class ParsingChannel(ScriptedChannel):
    """A channel that is still parsing a message whenever it is queried."""

    queries = 0

    @property
    def has_undelivered_messages(self):
        self.queries += 1
        return True


async def test_the_end_of_an_execution_is_awaited_while_a_message_is_being_parsed(monkeypatch):
    monkeypatch.setattr(evaluator, "IDLE_TIMEOUT_S", 0.01)
    channel, endings = ParsingChannel(), []
    async with opened(channel) as (adapter, _):
        adapter.start_evaluation(Request("e", "1"), endings.append)
        identity = await sent(channel, 1)
        run(channel, identity, idle=False)
        while channel.queries < 3:
            await anyio.sleep(0.01)
        assert endings == []
        channel.state("idle", identity)
        assert (await over(endings)).notes == ()


async def test_kernel_messages_lost_while_code_runs_are_reported_in_a_note():
    channel, endings = ScriptedChannel(), []
    channel.lost_messages = 7
    async with opened(channel) as (adapter, _):
        adapter.start_evaluation(Request("e", "1"), endings.append)
        identity = await sent(channel, 1)
        channel.lost_messages += 1200
        run(channel, identity)
        assert (await over(endings)).notes == (evaluator.LOST_MESSAGES_TEMPLATE.format(1200),)
        adapter.start_evaluation(Request("f", "1"), endings.append)
        run(channel, await sent(channel, 2))
        assert (await over(endings, 2)).notes == ()


async def test_code_dropped_by_the_kernel_is_sent_again():
    channel, endings = ScriptedChannel(), []
    async with opened(channel) as (adapter, _):
        adapter.start_evaluation(Request("e", "1"), endings.append)
        run(channel, await sent(channel, 1), status="aborted")
        run(channel, await sent(channel, 2))
        assert (await over(endings)).status == "done"


async def test_code_that_is_dropped_repeatedly_is_reported_as_not_run():
    channel, endings = ScriptedChannel(), []
    async with opened(channel) as (adapter, _):
        adapter.start_evaluation(Request("e", "1"), endings.append)
        for count in range(1, evaluator.MAX_SEND_ATTEMPTS + 1):
            run(channel, await sent(channel, count), status="aborted")
        ending = await over(endings)
        assert (ending.status, ending.failure.type) == ("failed", NOT_RUN_TYPE)
        assert len(channel.sent) == evaluator.MAX_SEND_ATTEMPTS


async def test_forms_are_sent_one_by_one_until_one_fails():
    channel, endings = ScriptedChannel(), []
    forms = (Form("1", 1, 1), Form("2", 2, 1), Form("3", 3, 1))
    async with opened(channel) as (adapter, _):
        adapter.start_evaluation(Request("e", "1\n2\n3", forms=forms), endings.append)
        identity = await sent(channel, 1)
        channel.deliver("shell", "execute_reply", {"status": "ok"}, identity)
        await anyio.wait_all_tasks_blocked()
        assert len(channel.sent) == 1
        channel.state("idle", identity)
        run(channel, await sent(channel, 2), status="error", ename="E", evalue="no", traceback=[])
        ending = await over(endings)
        assert (ending.failure.type, ending.failure.message, ending.failure.form) == ("E", "no", 2)
        assert [content["code"] for _, _, content, _ in channel.sent] == ["1", "2"]


async def test_a_published_error_is_a_failure_even_if_the_reply_is_ok():
    channel, endings = ScriptedChannel(), []
    async with opened(channel) as (adapter, _):
        adapter.start_evaluation(Request("e", "1"), endings.append)
        identity = await sent(channel, 1)
        channel.deliver("iopub", "error", {"ename": "<class 'KeyError'>", "evalue": "\x1b[31m1\x1b[0m"}, identity)
        run(channel, identity)
        failure = (await over(endings)).failure
        assert (failure.type, failure.message) == ("KeyError", "1")


async def test_a_value_received_after_the_end_of_the_execution_is_marked_late():
    channel, endings = ScriptedChannel(), []
    async with opened(channel) as (adapter, events):
        adapter.start_evaluation(Request("e", "1"), endings.append)
        identity = await sent(channel, 1)
        run(channel, identity)
        await over(endings)
        channel.deliver("iopub", "execute_result", {"data": {"text/plain": "1"}}, identity)
        channel.deliver("iopub", "stream", {"name": "stdout", "text": "late"}, identity)
        assert events == [("e", Value("1", is_late=True)), ("e", Output("out", "late"))]


async def test_a_deno_value_received_shortly_after_the_end_is_in_the_result():
    channel, endings = ScriptedChannel(implementation="Deno kernel"), []
    async with opened(channel) as (adapter, events):
        adapter.start_evaluation(Request("e", "1"), endings.append)
        identity = await sent(channel, 1)
        run(channel, identity)
        await anyio.lowlevel.checkpoint()
        channel.deliver("iopub", "execute_result", {"data": {"text/plain": "\x1b[33m1\x1b[39m"}}, identity)
        await over(endings)
        assert events == [("e", Value("1"))]


async def test_text_from_r_is_a_value_and_an_image_is_a_display():
    channel, endings = ScriptedChannel(implementation="IRkernel"), []
    async with opened(channel) as (adapter, events):
        adapter.start_evaluation(Request("e", "1"), endings.append)
        identity = await sent(channel, 1)
        for bundle in ({"text/plain": "[1] 3", "text/html": "3"}, {"text/plain": "plot", "image/png": "iVBO"}):
            channel.deliver("iopub", "display_data", {"data": bundle}, identity)
        run(channel, identity)
        await over(endings)
        assert [type(event) for _, event in events] == [Value, Display]


async def test_output_omitted_by_the_server_adds_a_note():
    channel, endings = ScriptedChannel(), []
    async with opened(channel) as (adapter, _):
        adapter.start_evaluation(Request("e", "1"), endings.append)
        identity = await sent(channel, 1)
        channel.deliver("iopub", "stream", {"name": "stderr", "text": "IOPub data rate exceeded.\nThe…"}, identity)
        run(channel, identity)
        assert CUT_BY_SERVER_MESSAGE in (await over(endings)).notes


async def test_evaluations_fail_as_disconnected_if_the_kernel_dies():
    channel, endings = ScriptedChannel(), []
    async with opened(channel) as (adapter, _):
        adapter.start_evaluation(Request("e", "1"), endings.append)
        adapter.start_evaluation(Request("f", "2"), endings.append)
        channel.state("busy", await sent(channel, 1))
        channel.close("the kernel's process ended")
        for count in (1, 2):
            assert isinstance(await over(endings, count), ReplDisconnectedError)
        assert len(channel.sent) == 1


async def test_comm_messages_and_silent_code_are_ignored():
    channel = ScriptedChannel()
    async with opened(channel) as (_, events):
        channel.state("busy", "theirs", session="them")
        channel.deliver("iopub", "comm_msg", {"data": {}}, "theirs", session="them")
        channel.deliver("iopub", "execute_result", {"data": {"text/plain": "1"}}, "theirs", session="them")
        channel.state("idle", "theirs", session="them")
        assert events == []


async def test_output_at_kernel_start_belongs_to_no_evaluation():
    channel = ScriptedChannel()
    async with opened(channel) as (_, events):
        channel.deliver("iopub", "stream", {"name": "stderr", "text": "warning\n"})
        assert events == [(None, Output("err", "warning\n"))]


async def test_code_of_another_client_is_reported_with_its_outcome():
    channel = ScriptedChannel()
    async with opened(channel) as (_, events):
        channel.state("busy", "theirs", session="them")
        channel.deliver("iopub", "execute_input", {"code": "boom", "execution_count": 3}, "theirs", session="them")
        channel.deliver("iopub", "error", {"ename": "E", "evalue": "no", "traceback": []}, "theirs", session="them")
        channel.state("idle", "theirs", session="them")
        channel.deliver("iopub", "stream", {"name": "stdout", "text": "late"}, "theirs", session="them")
        (_, code), (_, report), (_, ending), (_, late) = events
        assert {identity for identity, _ in events} == {"theirs"}
        assert report == Output("err", "E: no\n")
        assert (code, late) == (ForeignCodeStarted("boom"), Output("out", "late"))
        assert isinstance(ending, ForeignCodeFinished)
        assert (ending.status, ending.failure.type) == ("failed", "E")
