"""One WebSocket to a Jupyter Server, and when it is closed."""

import json
import struct
from itertools import accumulate

import anyio
import pytest
from websockets.asyncio.server import serve

from codriver.features.jupyter.kernels import server_frames, server_socket
from codriver.features.jupyter.kernels.named_kernels import TokenSource
from codriver.features.jupyter.kernels.server_api import ServerApi
from codriver.features.jupyter.kernels.server_socket import (
    MAX_PINGS_PER_SECOND,
    PingFloodError,
    SocketLostError,
    open_socket,
)

pytestmark = pytest.mark.anyio
PINGS = 200_000


async def test_a_server_that_pings_endlessly_is_dropped():
    answered = []

    async def flood(connection):
        connection.process_event = answered.append
        connection.transport.write(b"\x89\x00" * PINGS)
        await connection.wait_closed()

    async with serve(flood, "127.0.0.1", 0, ping_interval=None) as server:
        port = server.sockets[0].getsockname()[1]
        api = ServerApi(f"http://127.0.0.1:{port}", TokenSource(), {})
        opened = await open_socket(api, "k", "s")
        with (
            anyio.fail_after(60),
            pytest.raises(PingFloodError, match=f"more than {MAX_PINGS_PER_SECOND} pings were received"),
        ):
            await opened.receive()
        await opened.close()
    assert len(answered) < PINGS // 20


async def test_a_redirect_is_not_followed_with_the_token(tmp_path):
    authorizations, token = [], tmp_path / "token"
    token.write_text("a-token-of-the-user")
    token.chmod(0o600)

    async def listen(connection):
        authorizations.append(connection.request.headers["Authorization"])

    async with serve(listen, "127.0.0.1", 0) as target:

        def move(connection, request):
            authorizations.append(request.headers["Authorization"])
            answer = connection.respond(302, "")
            answer.headers["Location"] = f"ws://127.0.0.1:{target.sockets[0].getsockname()[1]}/"
            return answer

        async with serve(listen, "127.0.0.1", 0, process_request=move) as server:
            api = ServerApi(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", TokenSource(str(token)), {})
            with anyio.fail_after(60), pytest.raises(Exception, match="302"):
                await open_socket(api, "k", "s")
    assert authorizations == ["token a-token-of-the-user"]


async def test_an_oversized_message_is_reported_as_the_cause(monkeypatch):
    monkeypatch.setattr(server_socket, "MAX_FRAME_BYTES", 1000)

    async def send(connection):
        await connection.send("x" * 1001)
        await connection.wait_closed()

    async with serve(send, "127.0.0.1", 0, ping_interval=None) as server:
        port = server.sockets[0].getsockname()[1]
        opened = await open_socket(ServerApi(f"http://127.0.0.1:{port}", TokenSource(), {}), "k", "s")
        with anyio.fail_after(60), pytest.raises(SocketLostError, match="a message of more than") as lost:
            await opened.receive()
        assert lost.value.is_stalled
        await opened.close()


async def test_oversized_content_is_refused_and_the_next_message_is_read():
    heavy = b'{"a": ' + b"[" * 50_000 + b"]" * 50_000 + b"}"
    long = {"text": "x" * 100_000}

    async def send(connection):
        for content in (heavy, json.dumps(long).encode()):
            parts = [b"iopub", b"{}", b"{}", b"{}", content]
            offsets = list(accumulate(map(len, parts), initial=8 * 7))
            await connection.send(struct.pack("<7Q", 6, *offsets) + b"".join(parts))
        await connection.wait_closed()

    async with serve(send, "127.0.0.1", 0, ping_interval=None, subprotocols=[server_frames.SUBPROTOCOL]) as server:
        port = server.sockets[0].getsockname()[1]
        opened = await open_socket(ServerApi(f"http://127.0.0.1:{port}", TokenSource(), {}), "k", "s")
        with anyio.fail_after(60):
            assert "more than 100 levels deep" in (await opened.receive()).read_error
            assert (await opened.receive()).content == long
        await opened.close()


async def test_occasional_pings_are_answered():
    async def ping(connection):
        for _ in range(MAX_PINGS_PER_SECOND // 2):
            await (await connection.ping())
        await connection.send("{}")
        await connection.wait_closed()

    async with serve(ping, "127.0.0.1", 0, ping_interval=None) as server:
        port = server.sockets[0].getsockname()[1]
        opened = await open_socket(ServerApi(f"http://127.0.0.1:{port}", TokenSource(), {}), "k", "s")
        with anyio.fail_after(60), pytest.raises(Exception, match="has no channel"):
            await opened.receive()
        await opened.close()
