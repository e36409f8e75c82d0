"""Connections of the page: idle ones make room for new ones, unused ones first, and busy ones never."""

from contextlib import ExitStack

import anyio
import pytest

from codriver.features.page.connections import Connections, TooManyConnectionsError

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


async def idle(connections, closed, name, is_used):
    with connections.admit() as connection:
        connection.has_been_used = is_used
        assert await connection.wait_for(anyio.sleep_forever) is None
    closed.append(name)


async def test_idle_connections_are_closed_for_new_ones_unused_and_oldest_first():
    connections, closed = Connections(3), []
    async with anyio.create_task_group() as tasks:
        for name, is_used in (("used", True), ("first", False), ("second", False)):
            tasks.start_soon(idle, connections, closed, name, is_used)
            await anyio.wait_all_tasks_blocked()
        with ExitStack() as stack:
            for expected in ("first", "second", "used"):
                stack.enter_context(connections.admit())
                await anyio.wait_all_tasks_blocked()
                assert closed[-1] == expected
            with pytest.raises(TooManyConnectionsError), connections.admit():
                pass
        assert closed == ["first", "second", "used"]


async def test_a_connection_is_released_after_its_request_was_received():
    connections = Connections(1)

    async def request():
        await anyio.lowlevel.checkpoint()
        return "request"

    for _ in range(3):
        with connections.admit() as connection:
            assert await connection.wait_for(request) == "request"
