"""One kernel over a channel: turns, replies, and signs that it was replaced by another."""

from contextlib import asynccontextmanager
from functools import partial

import anyio
import anyio.lowlevel
import pytest
from scripted_channel import ScriptedChannel

from codriver.errors import ReplDisconnectedError
from codriver.features.jupyter.kernels import kernel as kernel_module
from codriver.features.jupyter.kernels.kernel import Exchange, open_kernel
from codriver.features.jupyter.kernels.silent_expressions import evaluate_expression
from codriver.repls.contract.adapter import NotAReplError, OpTimedOutError

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def opened(channel, **options):
    foreign = []
    async with open_kernel(channel.open, on_foreign=foreign.append, **options) as kernel:
        channel.sent.clear()
        yield kernel, foreign


async def sent(channel, count):
    with anyio.fail_after(30):
        while len(channel.sent) < count:
            await anyio.lowlevel.checkpoint()
    return channel.sent[count - 1]


async def test_a_kernel_is_identified_by_its_kernel_info():
    async with opened(ScriptedChannel(implementation="ipython")) as (kernel, _):
        assert (kernel.info.implementation, kernel.info.language) == ("ipython", "script")
        assert kernel.info.quirks.supports_expressions
        assert kernel.session == "kernel-1"


async def test_a_kernel_that_does_not_answer_is_refused():
    with pytest.raises(NotAReplError, match="is not a usable Jupyter kernel server: the kernel did not answer"):
        async with opened(ScriptedChannel(answers=False), connect_timeout_s=0.01):
            pass


async def test_a_kernel_that_answers_only_on_its_control_channel_can_be_used():
    channel = ScriptedChannel(answers=False)
    async with anyio.create_task_group() as tasks:

        async def answer():
            await sent(channel, 2)
            (identity,) = [identity for socket, _, _, identity in channel.sent if socket == "control"]
            channel.answer(identity, "kernel_info_request", channel.info, socket="control")

        tasks.start_soon(answer)
        async with opened(channel, connect_timeout_s=30) as (kernel, _):
            assert kernel.info.implementation == "scripted"


async def test_a_request_waits_for_the_code_of_another_client():
    channel = ScriptedChannel()
    async with opened(channel) as (kernel, foreign), anyio.create_task_group() as tasks:
        channel.state("busy", "theirs", session="them")
        assert (kernel.is_busy, kernel.foreign_request_id) == (True, "theirs")
        replies = []

        async def request():
            replies.append(await kernel.request("complete_request", {"code": "x"}, timeout_s=30))

        tasks.start_soon(request)
        await anyio.wait_all_tasks_blocked()
        assert channel.sent == []
        channel.state("idle", "theirs", session="them")
        *_, identity = await sent(channel, 1)
        channel.answer(identity, "complete_request", {"matches": ["xs"]})
        await anyio.wait_all_tasks_blocked()
        assert [reply.content["matches"] for reply in replies] == [["xs"]]
        assert [message.state for message in foreign] == ["busy", "idle"]
        assert not kernel.is_busy


async def test_losing_the_idle_message_of_another_client_does_not_block_the_kernel_forever(monkeypatch):
    monkeypatch.setattr(kernel_module, "FOREIGN_CODE_TIMEOUT_S", 0.01)
    channel = ScriptedChannel(answers=False)
    async with anyio.create_task_group() as tasks:

        async def request_info():
            *_, identity = await sent(channel, 1)
            channel.answer(identity, "kernel_info_request", channel.info)

        tasks.start_soon(request_info)
        async with opened(channel) as (kernel, _), anyio.create_task_group() as requests:
            channel.state("busy", "theirs", session="them")
            requests.start_soon(partial(kernel.request, "complete_request", {}, timeout_s=30))
            _, kind, _, identity = await sent(channel, 1)
            assert kind == "kernel_info_request"
            channel.deliver("shell", "kernel_info_reply", channel.info, identity, kind)
            _, kind, _, identity = await sent(channel, 2)
            channel.answer(identity, kind, {})


async def test_a_request_that_never_gets_its_turn_is_refused_and_not_sent():
    channel = ScriptedChannel()
    async with opened(channel) as (kernel, _):
        channel.state("busy", "theirs", session="them")
        with pytest.raises(OpTimedOutError, match="complete_request"):
            await kernel.request("complete_request", {}, timeout_s=0.01, while_busy=True)
        assert channel.sent == []


async def test_a_request_during_execution_uses_a_subshell_if_available():
    channel = ScriptedChannel(implementation="ipython")
    async with opened(channel) as (kernel, _), anyio.create_task_group() as tasks:
        channel.state("busy", "theirs", session="them")
        values = []

        async def evaluate():
            values.append(await evaluate_expression(kernel, "1 + 1", timeout_s=30))

        tasks.start_soon(evaluate)
        socket, kind, _, identity = await sent(channel, 1)
        assert (socket, kind) == ("control", "create_subshell_request")
        channel.deliver("control", "create_subshell_reply", {"status": "ok", "subshell_id": "s1"}, identity, kind)
        _, kind, content, identity = await sent(channel, 2)
        assert (channel.subshells[identity], content["silent"]) == ("s1", True)
        channel.deliver("shell", "execute_reply", {"user_expressions": {"it": {"status": "ok"}}}, identity, kind)
        await anyio.wait_all_tasks_blocked()
        assert values == [{"status": "ok"}]


async def test_an_exchange_ends_with_reply_and_idle_in_any_order():
    channel = ScriptedChannel()
    async with opened(channel) as (kernel, _):
        messages = []
        exchange = kernel.post("shell", "execute_request", {}, Exchange(messages.append))
        channel.state("busy", exchange.id)
        channel.state("idle", exchange.id)
        assert (exchange.idle.is_set(), exchange.replied.is_set()) == (True, False)
        channel.deliver("shell", "execute_reply", {"status": "ok"}, exchange.id)
        assert exchange.replied.is_set()
        kernel.finish(exchange)
        channel.deliver("iopub", "stream", {"text": "late"}, exchange.id)
        assert [message.type for message in messages] == ["status", "status", "execute_reply", "stream"]


@pytest.mark.parametrize(
    "replace_kernel",
    [
        lambda channel: (setattr(channel, "kernel_session", "kernel-2"), channel.state("starting", "")),
        lambda channel: channel.deliver("iopub", "status", {"execution_state": "restarting"}),
        lambda channel: channel.deliver("iopub", "shutdown_reply", {"restart": True}, "theirs", session="them"),
        lambda channel: (setattr(channel, "kernel_session", "kernel-2"), channel.state("busy", "x", session="them")),
    ],
    ids=["starting", "restarting", "another client", "another session"],
)
async def test_a_restart_by_anyone_ends_the_connection_and_pending_requests(replace_kernel):
    channel = ScriptedChannel()
    async with opened(channel) as (kernel, _), anyio.create_task_group() as tasks:

        async def request():
            with pytest.raises(ReplDisconnectedError, match="restarted"):
                await kernel.request("complete_request", {}, timeout_s=30)

        tasks.start_soon(request)
        await sent(channel, 1)
        replace_kernel(channel)
        assert "restarted" in await kernel.wait_closed()


async def test_a_starting_status_received_late_does_not_count_as_a_restart():
    channel = ScriptedChannel()
    async with opened(channel) as (kernel, _):
        channel.deliver("iopub", "status", {"execution_state": "starting"})
        await anyio.wait_all_tasks_blocked()
        assert kernel.cause is None


async def test_messages_from_the_jupyter_server_itself_do_not_count_as_a_restart():
    channel = ScriptedChannel()
    async with opened(channel) as (kernel, foreign):
        channel.kernel_session = "the server's"
        channel.deliver("iopub", "stream", {"name": "stderr", "text": "IOPub data rate exceeded."}, "x", session="them")
        assert kernel.cause is None
        assert len(foreign) == 1


async def test_the_end_of_a_channel_ends_its_kernel():
    channel = ScriptedChannel()
    async with opened(channel) as (kernel, _):
        channel.close("the kernel's process ended")
        assert await kernel.wait_closed() == "the kernel's process ended"
        with pytest.raises(ReplDisconnectedError, match="process ended"):
            await kernel.request("complete_request", {}, timeout_s=30)
