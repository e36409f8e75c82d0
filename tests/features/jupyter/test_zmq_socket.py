"""Codriver's ZeroMQ sockets: published messages are received immediately and wait until somebody has time for them."""

import asyncio
from contextlib import asynccontextmanager
from itertools import pairwise

import anyio
import pytest

from codriver.features.jupyter.kernels.inbox import DroppedMessages
from codriver.features.jupyter.kernels.lost_messages import LostMessageCounter
from codriver.features.jupyter.kernels.signed_messages import Signer
from codriver.features.jupyter.kernels.zmq_socket import MAX_PUBLISHED_BACKLOG_BYTES, open_socket
from codriver.features.jupyter.kernels.zmtp import GREETING, encode, ready_command

pytestmark = pytest.mark.anyio

SIGNER = Signer(b"key", "hmac-sha256")
HANDSHAKE_BYTES = len(GREETING) + len(ready_command("XPUB"))


def print_of(number, size):
    header = {"msg_id": f"s_{number}", "msg_type": "stream"}
    return encode(SIGNER.sign_parts(header, {"msg_id": "p"}, {}, {"name": "stdout", "text": "x" * size}))


@asynccontextmanager
async def subscribed(published, *, is_read=True):
    """Return a socket of Codriver that is connected to one that publishes all of this at once."""

    async def serve(reader, writer):
        writer.write(GREETING + ready_command("XPUB"))
        await reader.readexactly(HANDSHAKE_BYTES)
        writer.write(published)
        await reader.read()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        connection_info = {"ip": "127.0.0.1", "iopub_port": port}
        opened = await open_socket(connection_info, "iopub", "SUB", "ours", SIGNER, LostMessageCounter())
        async with anyio.create_task_group() as tasks:
            if is_read:
                tasks.start_soon(opened.read)
            yield opened
            tasks.cancel_scope.cancel()
        await opened.close()


async def has_received(socket, size):
    with anyio.fail_after(60):
        while socket.received_bytes < HANDSHAKE_BYTES + size:
            await anyio.sleep(0.01)


async def test_a_flood_of_small_messages_is_received_before_anyone_reads_it():
    count = 10_000
    published = b"".join(print_of(number, 10) for number in range(count))
    async with subscribed(published) as socket:
        await has_received(socket, len(published))
        messages = [await socket.receive_next() for _ in range(count)]
        assert [message.header["msg_id"] for message in messages] == [f"s_{number}" for number in range(count)]
        assert socket.is_drained


async def test_the_middle_of_an_excessive_backlog_is_dropped_and_counted():
    size, count = 2**20, 64
    published = b"".join(print_of(number, size) for number in range(count))
    async with subscribed(published) as socket:
        await has_received(socket, len(published) - MAX_PUBLISHED_BACKLOG_BYTES // 2)
        messages = []
        while (
            not messages
            or isinstance(messages[-1], DroppedMessages)
            or messages[-1].header["msg_id"] != f"s_{count - 1}"
        ):
            messages.append(await socket.receive_next())
        assert messages[0].header["msg_id"] == "s_0"
        (gap,) = (message for message in messages if isinstance(message, DroppedMessages))
        assert gap.size // size == count - (len(messages) - 1)


async def test_other_tasks_get_their_turns_while_a_backlog_is_parsed():
    """Much of it waits in chunks of 64 KiB, each of which takes less than one turn."""
    published = print_of(0, MAX_PUBLISHED_BACKLOG_BYTES)
    async with subscribed(published, is_read=False) as socket:
        await has_received(socket, MAX_PUBLISHED_BACKLOG_BYTES)
        waiting = [socket._backlog_bytes]
        reading = asyncio.create_task(socket.read())
        first_message = asyncio.create_task(socket.receive_next())
        while not first_message.done():
            waiting.append(socket._backlog_bytes)
            await anyio.lowlevel.checkpoint()
        reading.cancel()
        assert max(previous - current for previous, current in pairwise(waiting)) < MAX_PUBLISHED_BACKLOG_BYTES // 4
