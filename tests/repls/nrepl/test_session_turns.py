"""The turn of a session: one task has it at a time, and no task that gave up waiting gets it."""

import asyncio

import pytest

from codriver.repls.nrepl.session_turns import SessionTurn

pytestmark = pytest.mark.anyio


async def settled():
    """Let every task run until it waits."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_waiting_tasks_use_the_session_in_the_order_of_their_arrival():
    turn, order = SessionTurn(), []
    assert turn.try_acquire()

    async def use(name):
        async with turn:
            order.append(name)
            await settled()

    tasks = [asyncio.create_task(use(name)) for name in "abc"]
    await settled()
    assert (order, turn.try_acquire()) == ([], False)
    turn.release()
    await asyncio.gather(*tasks)
    assert order == ["a", "b", "c"]
    assert not turn.is_acquired


async def test_a_new_task_does_not_overtake_waiting_tasks():
    turn, order = SessionTurn(), []
    assert turn.try_acquire()

    async def use():
        async with turn:
            order.append("waited")

    task = asyncio.create_task(use())
    await settled()
    turn.release()
    assert not turn.try_acquire()
    await task
    assert turn.try_acquire()


@pytest.mark.parametrize("is_handed_over", [False, True])
async def test_a_task_that_gives_up_waiting_lets_the_next_task_use_the_session(is_handed_over):
    turn, order = SessionTurn(), []
    assert turn.try_acquire()

    async def use(name):
        async with turn:
            order.append(name)

    tasks = [asyncio.create_task(use(name)) for name in "ab"]
    await settled()
    if is_handed_over:
        turn.release()
    tasks[0].cancel()
    await settled()
    if not is_handed_over:
        turn.release()
    await tasks[1]
    assert (order, turn.is_acquired) == (["b"], False)
