import logging
from contextlib import asynccontextmanager

import anyio
import pytest
from cutting_proxy import cutting_proxy
from jupyter_servers import TOKEN, jupyter_server, kernel_gateway

from codriver.errors import ReplDisconnectedError
from codriver.features.jupyter.kernels import server_channel, server_socket
from codriver.features.jupyter.kernels.kernel import open_kernel
from codriver.features.jupyter.kernels.messages import RATE_LIMIT
from codriver.features.jupyter.kernels.named_kernels import TokenSource
from codriver.features.jupyter.kernels.server_api import (
    KernelNotFoundError,
    ServerAnswerError,
    ServerApi,
    TokenRefusedError,
)
from codriver.features.jupyter.kernels.server_channel import open_server_channel

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


def counted(runs):
    """Return slow code and its value: how often it ran, counted in a variable of its own."""
    return f"""
import time
{runs} = globals().get({runs!r}, 0) + 1
for i in range(5):
    print(i, flush=True)
    time.sleep(0.2)
{runs}
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with jupyter_server(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture(scope="module")
def shared(server):
    return server.start_kernel()


@pytest.fixture
def kernel(server):
    identity = server.start_kernel()
    yield identity
    server.call("DELETE", f"/api/kernels/{identity}")


@pytest.fixture
def proxied(server):
    with cutting_proxy(server.base) as found:
        yield found


def api(base, token=TOKEN):
    return ServerApi(base, TokenSource(variable="T"), {"T": token})


class Heard:
    """The messages received on a channel."""

    def __init__(self):
        self.messages = []
        self.came = anyio.Event()

    def take(self, message):
        self.messages.append(message)
        self.came.set()

    async def until(self, holds):
        """Wait until the received messages satisfy a condition, and return its value."""
        with anyio.fail_after(60):
            while not (value := holds()):
                self.came = anyio.Event()
                await self.came.wait()
        return value

    def of(self, request, kind):
        """Return the contents of messages of a kind that a request caused."""
        return [message.content for message in self.messages if (message.parent_id, message.type) == (request, kind)]

    async def reply(self, request):
        """Return the reply to code once the kernel is idle again."""
        idle = {"execution_state": "idle"}
        await self.until(lambda: idle in self.of(request, "status") and self.of(request, "execute_reply"))
        (reply,) = self.of(request, "execute_reply")
        return reply

    def printed(self, request, name="stdout"):
        return "".join(content["text"] for content in self.of(request, "stream") if content["name"] == name)

    def value(self, request):
        """Return the only value as text."""
        (result,) = self.of(request, "execute_result")
        return result["data"]["text/plain"]


def run(channel, code):
    content = {"code": code, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": True}
    return channel.post("shell", "execute_request", content)


@asynccontextmanager
async def opened(calls, kernel):
    heard = Heard()
    async with open_server_channel(calls, kernel, heard.take) as channel:
        yield channel, heard


async def begun(heard, request):
    await heard.until(lambda: "1\n" in heard.printed(request))


async def tried(proxy, before):
    """Wait until the channel tries to reconnect."""
    with anyio.fail_after(60):
        while proxy.seen == before:
            await anyio.sleep(0.01)


async def test_code_runs_in_a_remote_kernel_and_each_output_arrives_once(server, shared):
    async with opened(api(server.base), shared) as (channel, heard):
        request = run(channel, "print('out'); 1+2")
        assert (await heard.reply(request))["status"] == "ok"
        assert (heard.printed(request), heard.value(request)) == ("out\n", "3")
        assert channel.address == f"{server.base}/api/kernels/{shared}"


async def test_a_subshell_request_is_answered_while_the_kernel_is_busy(server, shared):
    async with opened(api(server.base), shared) as (channel, heard):
        made = channel.post("control", "create_subshell_request", {})
        await heard.until(lambda: heard.of(made, "create_subshell_reply"))
        subshell = heard.of(made, "create_subshell_reply")[0]["subshell_id"]
        busy = run(channel, "input()")
        await heard.until(lambda: heard.of(busy, "input_request"))
        about = {"code": "print", "cursor_pos": 3, "detail_level": 0}
        asked = channel.post("shell", "inspect_request", about, subshell=subshell)
        await heard.until(lambda: heard.of(asked, "inspect_reply"))
        channel.post("stdin", "input_reply", {"value": "x"})
        await heard.reply(busy)
        assert heard.value(busy) == "'x'"


async def test_output_during_a_dropped_connection_arrives_later_and_code_runs_once(server, proxied, shared):
    proxy, base = proxied
    async with opened(api(base), shared) as (channel, heard):
        request = run(channel, counted("told"))
        await begun(heard, request)
        before = proxy.seen
        proxy.refuse()
        proxy.cut()
        await tried(proxy, before)
        later = run(channel, "told + 40")
        with anyio.fail_after(60):
            while server.call("GET", f"/api/kernels/{shared}")[1]["execution_state"] != "idle":
                await anyio.sleep(0.05)
        assert not heard.of(request, "execute_reply")
        proxy.refuse(is_refusing=False)
        await heard.reply(request)
        assert (heard.printed(request), heard.value(request)) == ("0\n1\n2\n3\n4\n", "1")
        await heard.reply(later)
        assert heard.value(later) == "41"
        assert not heard.printed(request, "stderr")


async def test_losing_messages_to_another_client_ends_the_channel_with_an_explanation(server, proxied, shared):
    proxy, base = proxied
    async with opened(api(server.base), shared) as (other, other_heard):
        async with opened(api(base), shared) as (channel, heard):
            request = run(channel, counted("lost"))
            await begun(heard, request)
            proxy.refuse()
            proxy.cut()
            await other_heard.until(lambda: other_heard.of(request, "execute_result"))
            proxy.refuse(is_refusing=False)
            with anyio.fail_after(60):
                cause = await channel.wait_closed()
            assert "was lost for" in cause
            assert "the code has finished, but its outcome is not known" in cause
            assert "The kernel is idle, and its definitions still exist" in cause
            with pytest.raises(ReplDisconnectedError):
                run(channel, "1")
        again = run(other, "lost")
        await other_heard.reply(again)
        assert other_heard.value(again) == "1"


async def test_code_still_running_after_a_reconnect_is_followed_to_its_end(server, proxied, shared):
    proxy, base = proxied
    async with opened(api(server.base), shared), opened(api(base), shared) as (channel, heard):
        request = run(channel, "print(1, flush=True); input(); 42")
        await heard.until(lambda: heard.of(request, "input_request"))
        proxy.cut()
        await heard.until(
            lambda: "output that the code printed in the meantime may be missing" in heard.printed(request, "stderr")
        )
        channel.post("stdin", "input_reply", {"value": ""})
        await heard.reply(request)
        assert heard.value(request) == "42"


async def test_a_half_open_connection_is_replaced_by_the_next(proxied, shared):
    proxy, base = proxied
    async with opened(api(base), shared) as (channel, heard):
        request = run(channel, counted("held"))
        await begun(heard, request)
        proxy.cut_near_side()
        await heard.reply(request)
        assert heard.value(request) == "1"


async def test_a_stalled_connection_is_detected_and_replaced(proxied, shared, monkeypatch):
    monkeypatch.setattr(server_socket, "PING_S", 0.1)
    monkeypatch.setattr(server_socket, "PONG_S", 5.0)
    proxy, base = proxied
    async with opened(api(base), shared) as (channel, heard):
        request = run(channel, "input(); 7")
        await heard.until(lambda: heard.of(request, "input_request"))
        before = proxy.seen
        proxy.stall()
        await tried(proxy, before)
        proxy.flow()
        await heard.until(lambda: "stalled" in heard.printed(request, "stderr"))
        channel.post("stdin", "input_reply", {"value": ""})
        await heard.reply(request)
        assert heard.value(request) == "7"


async def test_reconnecting_is_abandoned_after_a_while(proxied, shared, monkeypatch):
    monkeypatch.setattr(server_channel, "RECONNECT_S", 0.3)
    proxy, base = proxied
    async with opened(api(base), shared) as (channel, _):
        proxy.refuse()
        proxy.cut()
        with anyio.fail_after(60):
            assert "could not be reopened" in await channel.wait_closed()


async def test_output_omitted_by_the_server_is_marked_as_cut(server, shared):
    async with opened(api(server.base), shared) as (channel, heard):
        request = run(channel, "print('x' * 5_000_000)")
        await heard.reply(request)
        said = heard.printed(request, "stderr")
        assert said.startswith(RATE_LIMIT)
        assert "the Jupyter Server omitted output here (iopub_data_rate_limit=1000000.0 (bytes/sec))\n" in said


async def test_code_is_interrupted_through_the_server(server, shared):
    async with opened(api(server.base), shared) as (channel, heard):
        request = run(channel, "print(1, flush=True)\nwhile True: pass")
        await heard.until(lambda: heard.printed(request))
        assert await channel.interrupt()
        assert (await heard.reply(request))["ename"] == "KeyboardInterrupt"


@pytest.mark.parametrize("is_by_us", [True, False])
async def test_a_restart_or_death_of_the_kernel_ends_the_connection(server, shared, is_by_us):
    def carrier(on_message):
        return open_server_channel(api(server.base), shared, on_message)

    with anyio.fail_after(60):
        async with open_kernel(carrier, on_foreign=lambda _: None) as found:
            if is_by_us:
                await found.channel.restart()
            else:
                run(found.channel, "import os; os._exit(3)")
            assert "restarted" in await found.wait_closed()
        async with open_kernel(carrier, on_foreign=lambda _: None) as found:
            assert found.info.implementation == "ipython"


async def test_deleting_a_kernel_ends_the_channel(server, kernel):
    async with opened(api(server.base), kernel) as (channel, _):
        server.call("DELETE", f"/api/kernels/{kernel}")
        with anyio.fail_after(60):
            assert await channel.wait_closed() == "the kernel was deleted on its server"
    with pytest.raises(KernelNotFoundError):
        async with opened(api(server.base), kernel):
            pass


async def test_closing_the_channel_keeps_the_kernel_and_its_definitions(server, shared):
    for code in ("kept = 11", "kept"):
        async with opened(api(server.base), shared) as (channel, heard):
            request = run(channel, code)
            await heard.reply(request)
    assert heard.value(request) == "11"


async def test_a_wrong_token_is_reported_with_its_source_and_none_is_logged(server, shared, caplog):
    with caplog.at_level(logging.DEBUG):
        with pytest.raises(TokenRefusedError) as raised:
            async with opened(api(server.base, "wrong-4711-wrong"), shared):
                pass
        async with opened(api(server.base), shared) as (channel, heard):
            await heard.reply(run(channel, "1"))
    assert "the token is read from the variable T" in raised.value.hint
    assert "4711" not in f"{raised.value} {caplog.text}"
    assert TOKEN not in caplog.text


async def test_a_gateway_and_a_server_without_the_subprotocol_work_alike(tmp_path):
    with kernel_gateway(tmp_path, "--ZMQChannelsWebsocketConnection.kernel_ws_protocol=") as gateway:
        calls = api(gateway.base)
        started = await calls.start("python3", {"KERNEL_COLOUR": "green", "OTHER": "red"})
        with cutting_proxy(gateway.base) as (proxy, base):
            async with opened(api(base), started.id) as (channel, heard):
                request = run(
                    channel,
                    f"import os; print(os.environ.get('OTHER'))\n{counted('runs')}\nos.environ['KERNEL_COLOUR']",
                )
                await begun(heard, request)
                proxy.cut()
                await heard.reply(request)
                assert heard.printed(request) == "None\n0\n1\n2\n3\n4\n"
                assert heard.value(request) == "'green'"
        await calls.delete(started.id)


async def test_a_listener_that_is_not_jupyter_is_refused_with_an_explanation():
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)

    async def answer(stream):
        async with stream:
            await stream.receive()
            await stream.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, answer)
        with pytest.raises(ServerAnswerError, match="refused the request: HTTP 200"):
            async with opened(api(f"http://127.0.0.1:{port}"), "a-1"):
                pass
        tasks.cancel_scope.cancel()
    await listener.aclose()
