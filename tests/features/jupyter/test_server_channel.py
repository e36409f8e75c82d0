import logging
from contextlib import asynccontextmanager

import anyio
import pytest
from cutting_proxy import cutting_proxy
from jupyter_servers import TOKEN, jupyter_server, kernel_gateway

from codriver.errors import ReplDisconnectedError
from codriver.features.jupyter.kernels import server_channel, server_socket
from codriver.features.jupyter.kernels.kernel import open_kernel
from codriver.features.jupyter.kernels.messages import RATE_LIMIT_PREFIXES
from codriver.features.jupyter.kernels.named_kernels import TokenSource
from codriver.features.jupyter.kernels.server_api import (
    KernelNotFoundError,
    ServerAnswerError,
    ServerApi,
    TokenRefusedError,
)
from codriver.features.jupyter.kernels.server_channel import open_server_channel

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


def counting_code(runs):
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
def proxy_and_base(server):
    with cutting_proxy(server.base) as proxy:
        yield proxy


def api(base, token=TOKEN):
    return ServerApi(base, TokenSource(variable="T"), {"T": token})


class Recorder:
    """The messages received on a channel."""

    def __init__(self):
        self.messages = []
        self.has_received = anyio.Event()

    def receive(self, message):
        self.messages.append(message)
        self.has_received.set()

    async def until(self, condition):
        """Wait until the received messages satisfy a condition, and return its value."""
        with anyio.fail_after(60):
            while not (value := condition()):
                self.has_received = anyio.Event()
                await self.has_received.wait()
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
async def open_channel(calls, kernel):
    recorder = Recorder()
    async with open_server_channel(calls, kernel, recorder.receive) as channel:
        yield channel, recorder


async def wait_for_start(recorder, request):
    await recorder.until(lambda: "1\n" in recorder.printed(request))


async def wait_for_reconnection(proxy, attempts):
    """Wait until the channel tries to reconnect."""
    with anyio.fail_after(60):
        while proxy.seen == attempts:
            await anyio.sleep(0.01)


async def test_code_runs_in_a_remote_kernel_and_each_output_arrives_once(server, shared):
    async with open_channel(api(server.base), shared) as (channel, recorder):
        request = run(channel, "print('out'); 1+2")
        assert (await recorder.reply(request))["status"] == "ok"
        assert (recorder.printed(request), recorder.value(request)) == ("out\n", "3")
        assert channel.address == f"{server.base}/api/kernels/{shared}"


async def test_a_subshell_request_is_answered_while_the_kernel_is_busy(server, shared):
    async with open_channel(api(server.base), shared) as (channel, recorder):
        creation = channel.post("control", "create_subshell_request", {})
        await recorder.until(lambda: recorder.of(creation, "create_subshell_reply"))
        subshell = recorder.of(creation, "create_subshell_reply")[0]["subshell_id"]
        busy = run(channel, "input()")
        await recorder.until(lambda: recorder.of(busy, "input_request"))
        content = {"code": "print", "cursor_pos": 3, "detail_level": 0}
        inspection = channel.post("shell", "inspect_request", content, subshell=subshell)
        await recorder.until(lambda: recorder.of(inspection, "inspect_reply"))
        channel.post("stdin", "input_reply", {"value": "x"})
        await recorder.reply(busy)
        assert recorder.value(busy) == "'x'"


async def test_output_during_a_dropped_connection_arrives_later_and_code_runs_once(server, proxy_and_base, shared):
    proxy, base = proxy_and_base
    async with open_channel(api(base), shared) as (channel, recorder):
        request = run(channel, counting_code("told"))
        await wait_for_start(recorder, request)
        attempts = proxy.seen
        proxy.refuse()
        proxy.cut()
        await wait_for_reconnection(proxy, attempts)
        later = run(channel, "told + 40")
        with anyio.fail_after(60):
            while server.call("GET", f"/api/kernels/{shared}")[1]["execution_state"] != "idle":
                await anyio.sleep(0.05)
        assert not recorder.of(request, "execute_reply")
        proxy.refuse(is_refusing=False)
        await recorder.reply(request)
        assert (recorder.printed(request), recorder.value(request)) == ("0\n1\n2\n3\n4\n", "1")
        await recorder.reply(later)
        assert recorder.value(later) == "41"
        assert not recorder.printed(request, "stderr")


async def test_losing_messages_to_another_client_ends_the_channel_with_an_explanation(server, proxy_and_base, shared):
    proxy, base = proxy_and_base
    async with open_channel(api(server.base), shared) as (other_channel, other_recorder):
        async with open_channel(api(base), shared) as (channel, recorder):
            request = run(channel, counting_code("lost"))
            await wait_for_start(recorder, request)
            proxy.refuse()
            proxy.cut()
            await other_recorder.until(lambda: other_recorder.of(request, "execute_result"))
            proxy.refuse(is_refusing=False)
            with anyio.fail_after(60):
                cause = await channel.wait_closed()
            assert "was lost for" in cause
            assert "the code has finished, but its outcome is not known" in cause
            assert "The kernel is idle, and its definitions still exist" in cause
            with pytest.raises(ReplDisconnectedError):
                run(channel, "1")
        check = run(other_channel, "lost")
        await other_recorder.reply(check)
        assert other_recorder.value(check) == "1"


async def test_code_still_running_after_a_reconnect_is_followed_to_its_end(server, proxy_and_base, shared):
    proxy, base = proxy_and_base
    async with open_channel(api(server.base), shared), open_channel(api(base), shared) as (channel, recorder):
        request = run(channel, "print(1, flush=True); input(); 42")
        await recorder.until(lambda: recorder.of(request, "input_request"))
        proxy.cut()
        await recorder.until(
            lambda: "output that the code printed in the meantime may be missing" in recorder.printed(request, "stderr")
        )
        channel.post("stdin", "input_reply", {"value": ""})
        await recorder.reply(request)
        assert recorder.value(request) == "42"


async def test_a_half_open_connection_is_replaced_by_the_next(proxy_and_base, shared):
    proxy, base = proxy_and_base
    async with open_channel(api(base), shared) as (channel, recorder):
        request = run(channel, counting_code("held"))
        await wait_for_start(recorder, request)
        proxy.cut_near_side()
        await recorder.reply(request)
        assert recorder.value(request) == "1"


async def test_a_stalled_connection_is_detected_and_replaced(proxy_and_base, shared, monkeypatch):
    monkeypatch.setattr(server_socket, "PING_INTERVAL_S", 0.1)
    monkeypatch.setattr(server_socket, "PONG_TIMEOUT_S", 5.0)
    proxy, base = proxy_and_base
    async with open_channel(api(base), shared) as (channel, recorder):
        request = run(channel, "input(); 7")
        await recorder.until(lambda: recorder.of(request, "input_request"))
        attempts = proxy.seen
        proxy.stall()
        await wait_for_reconnection(proxy, attempts)
        proxy.flow()
        await recorder.until(lambda: "stalled" in recorder.printed(request, "stderr"))
        channel.post("stdin", "input_reply", {"value": ""})
        await recorder.reply(request)
        assert recorder.value(request) == "7"


async def test_attempts_to_reconnect_stop_after_the_time_limit(proxy_and_base, shared, monkeypatch):
    monkeypatch.setattr(server_channel, "RECONNECT_TIMEOUT_S", 0.3)
    proxy, base = proxy_and_base
    async with open_channel(api(base), shared) as (channel, _):
        proxy.refuse()
        proxy.cut()
        with anyio.fail_after(60):
            assert "could not be reopened" in await channel.wait_closed()


async def test_output_omitted_by_the_server_is_marked_as_truncated(server, shared):
    async with open_channel(api(server.base), shared) as (channel, recorder):
        request = run(channel, "print('x' * 5_000_000)")
        await recorder.reply(request)
        printed = recorder.printed(request, "stderr")
        assert printed.startswith(RATE_LIMIT_PREFIXES)
        assert "the Jupyter Server omitted output here (iopub_data_rate_limit=1000000.0 (bytes/sec))\n" in printed


async def test_code_is_interrupted_through_the_server(server, shared):
    async with open_channel(api(server.base), shared) as (channel, recorder):
        request = run(channel, "print(1, flush=True)\nwhile True: pass")
        await recorder.until(lambda: recorder.printed(request))
        assert await channel.interrupt()
        assert (await recorder.reply(request))["ename"] == "KeyboardInterrupt"


@pytest.mark.parametrize("is_by_codriver", [True, False])
async def test_a_restart_or_death_of_the_kernel_ends_the_connection(server, shared, is_by_codriver):
    def carrier(on_message):
        return open_server_channel(api(server.base), shared, on_message)

    with anyio.fail_after(60):
        async with open_kernel(carrier, on_foreign=lambda _: None) as kernel:
            if is_by_codriver:
                await kernel.channel.restart()
            else:
                run(kernel.channel, "import os; os._exit(3)")
            assert "restarted" in await kernel.wait_closed()
        async with open_kernel(carrier, on_foreign=lambda _: None) as kernel:
            assert kernel.info.implementation == "ipython"


async def test_deleting_a_kernel_ends_the_channel(server, kernel):
    async with open_channel(api(server.base), kernel) as (channel, _):
        server.call("DELETE", f"/api/kernels/{kernel}")
        with anyio.fail_after(60):
            assert await channel.wait_closed() == "the kernel was deleted on its server"
    with pytest.raises(KernelNotFoundError):
        async with open_channel(api(server.base), kernel):
            pass


async def test_closing_the_channel_keeps_the_kernel_and_its_definitions(server, shared):
    for code in ("kept = 11", "kept"):
        async with open_channel(api(server.base), shared) as (channel, recorder):
            request = run(channel, code)
            await recorder.reply(request)
    assert recorder.value(request) == "11"


async def test_a_wrong_token_is_reported_with_its_source_and_none_is_logged(server, shared, caplog):
    with caplog.at_level(logging.DEBUG):
        with pytest.raises(TokenRefusedError) as raised:
            async with open_channel(api(server.base, "wrong-4711-wrong"), shared):
                pass
        async with open_channel(api(server.base), shared) as (channel, recorder):
            await recorder.reply(run(channel, "1"))
    assert "the token is read from the variable T" in raised.value.hint
    assert "4711" not in f"{raised.value} {caplog.text}"
    assert TOKEN not in caplog.text


async def test_code_also_runs_through_a_gateway_or_a_server_without_the_subprotocol(tmp_path):
    with kernel_gateway(tmp_path, "--ZMQChannelsWebsocketConnection.kernel_ws_protocol=") as gateway:
        calls = api(gateway.base)
        started = await calls.start("python3", {"KERNEL_COLOUR": "green", "OTHER": "red"})
        with cutting_proxy(gateway.base) as (proxy, base):
            async with open_channel(api(base), started.id) as (channel, recorder):
                request = run(
                    channel,
                    f"import os; print(os.environ.get('OTHER'))\n{counting_code('runs')}\nos.environ['KERNEL_COLOUR']",
                )
                await wait_for_start(recorder, request)
                proxy.cut()
                await recorder.reply(request)
                assert recorder.printed(request) == "None\n0\n1\n2\n3\n4\n"
                assert recorder.value(request) == "'green'"
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
            async with open_channel(api(f"http://127.0.0.1:{port}"), "a-1"):
                pass
        tasks.cancel_scope.cancel()
    await listener.aclose()
