"""A connection is read in order to its end, and data that nobody reads waits with the client."""

import socket
import struct

import anyio
import pytest
from anyio.abc import SocketListener

from codriver.net.client_reader import MAX_BUFFERED_BYTES, MAX_READ_BYTES, SocketReader, bytes_receiver
from codriver.net.client_sessions import ClientSession
from codriver.net.outbox import Outbox

pytestmark = pytest.mark.anyio
LIMIT_S = 20


@pytest.fixture
async def pair():
    """Return a stream as the listener accepts it, and the client's plain socket."""
    raw = socket.create_server(("127.0.0.1", 0))
    raw.setblocking(False)  # noqa: FBT003  # the standard library's own signature
    async with await SocketListener.from_socket(raw) as listener:
        client = await anyio.to_thread.run_sync(socket.create_connection, raw.getsockname())
        stream = await listener.accept()
    with anyio.fail_after(LIMIT_S):
        async with stream:
            yield stream, client
    client.close()


async def test_bytes_received_before_the_reader_started_are_read_before_later_bytes(pair):
    stream, client = pair
    receive = bytes_receiver(stream, b"first")
    client.sendall(b"second")
    assert await receive() == b"first"
    assert await receive() == b"second"
    client.sendall(b"third")
    assert await receive() == b"third"


async def test_bytes_already_read_by_the_library_are_not_lost(pair):
    stream, client = pair
    client.sendall(b"ab")
    assert await stream.receive(1) == b"a"
    assert await bytes_receiver(stream, b"")() == b"b"


async def test_a_half_closed_client_still_receives_answers(pair):
    stream, client = pair
    receive = bytes_receiver(stream, b"")
    client.sendall(b"last")
    client.shutdown(socket.SHUT_WR)
    assert await receive() == b"last"
    assert await receive() == b""
    assert await receive() == b""
    await stream.send(b"answer")
    assert client.recv(100) == b"answer"


async def test_a_reset_connection_differs_from_a_closed_one(pair):
    stream, client = pair
    receive = bytes_receiver(stream, b"")
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    assert await receive() is None


async def test_a_large_message_arrives_in_chunks_and_in_order(pair):
    stream, client = pair
    sent = bytes(range(256)) * 4096
    receive, came = bytes_receiver(stream, b""), b""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(anyio.to_thread.run_sync, client.sendall, sent)
        while len(came) < len(sent):
            piece = await receive()
            assert 0 < len(piece) <= MAX_READ_BYTES
            came += piece
    assert came == sent


async def test_unread_data_beyond_the_buffer_limit_stays_with_the_client(pair):
    stream, client = pair
    receive = bytes_receiver(stream, b"")
    reader = getattr(receive, "__self__", None)
    assert isinstance(reader, SocketReader)
    client.sendall(b"x")
    assert await receive() == b"x"
    client.setblocking(False)  # noqa: FBT003  # the standard library's own signature
    sent = await _send_until_full(client)
    retained = reader._waiting_bytes
    assert retained < sent
    assert retained < MAX_BUFFERED_BYTES + 2**20  # and at most one more chunk read by the event loop
    came = 0
    while came < sent:
        came += len(await receive())
    assert came == sent


async def test_bytes_handled_by_a_callback_are_not_queued_and_stay_in_order(pair):
    stream, client = pair
    session = ClientSession("c1", Outbox(max_notifications=1, max_notification_bytes=1, congested_bytes=1))
    accepted, is_accepted = [], anyio.Event()

    def accept(data):
        if data.startswith(b"take"):
            accepted.append(data)
            is_accepted.set()
        return data.startswith(b"take")

    session.read_immediately = accept
    receive, given = bytes_receiver(stream, b"", session), []

    async def read():
        given.append(await receive())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        await anyio.wait_all_tasks_blocked()
        client.sendall(b"take this")
        await is_accepted.wait()
        assert given == []
        client.sendall(b"give this")
    client.sendall(b"take nothing while nobody waits")
    reader = getattr(receive, "__self__", None)
    assert isinstance(reader, SocketReader)
    while not reader._waiting:
        await anyio.lowlevel.checkpoint()
    assert given == [b"give this"]
    assert await receive() == b"take nothing while nobody waits"
    assert accepted == [b"take this"]


async def _send_until_full(client):
    """Send until the kernel's buffer is full and the reader has stopped."""
    sent = refused = 0
    while refused < 50:
        try:
            sent += client.send(b"y" * 65536)
            refused = 0
        except BlockingIOError:
            refused += 1
        await anyio.lowlevel.checkpoint()
    return sent
