"""Tasks that end with their owner."""

import asyncio
import logging

import anyio
import pytest

from codriver.net.tasks import TaskSet, Workers

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


async def test_what_is_begun_runs_and_is_waited_for():
    tasks, done = TaskSet(), []

    async def work(name):
        await asyncio.sleep(0)
        done.append(name)

    tasks.start(work("first"))
    tasks.start(work("second"))
    await tasks.join()
    assert done == ["first", "second"]
    await tasks.join()


async def test_the_end_gives_each_its_chance_to_clean_up_also_one_that_just_began():
    tasks, cleaned = TaskSet(), []

    async def work(name):
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.append(name)

    tasks.start(work("old"))
    await asyncio.sleep(0)
    tasks.start(work("new"))
    await tasks.end()
    assert sorted(cleaned) == ["new", "old"]


async def test_what_begins_while_others_end_is_waited_for_too():
    tasks, done = TaskSet(), []

    async def last():
        await asyncio.sleep(0)
        done.append("last")

    async def first():
        await asyncio.sleep(0)
        tasks.start(last())

    tasks.start(first())
    await tasks.join()
    assert done == ["last"]


async def test_a_fault_is_logged_and_ends_nothing_else(caplog):
    tasks, done = TaskSet(), []

    async def fail():
        raise ZeroDivisionError

    async def work():
        done.append(True)

    with caplog.at_level(logging.ERROR):
        tasks.start(fail())
        tasks.start(work())
        await tasks.join()
    assert done == [True]
    assert "ZeroDivisionError" in caplog.text
    assert [record.getMessage() for record in caplog.records] == [f"{fail.__qualname__} failed"]


async def test_work_that_comes_one_after_the_other_is_done_by_one_task():
    workers, done = Workers(), []
    is_done = asyncio.Semaphore(0)

    async def work():
        done.append(asyncio.current_task())
        is_done.release()

    for _ in range(3):
        workers.start(work())
        await is_done.acquire()
        await asyncio.sleep(0)
    assert len(done) == 3
    assert len(set(done)) == 1
    await workers.end()
    assert done[0].done()


async def test_work_that_comes_at_once_is_done_side_by_side():
    workers, met = Workers(), asyncio.Barrier(3)
    with anyio.fail_after(5):
        for _ in range(3):
            workers.start(met.wait())
        await workers.end()
    assert met.n_waiting == 0


async def test_work_that_is_cancelled_ends_alone_and_what_comes_next_is_done():
    workers, done, began = Workers(), [], asyncio.Event()

    async def endless(name):
        try:
            began.set()
            await asyncio.Event().wait()
        finally:
            done.append(name)

    async def work(name):
        done.append(name)

    scope = workers.start(endless("cancelled"))
    await began.wait()
    scope.cancel()
    workers.start(work("beside"))
    with anyio.fail_after(5):
        while len(done) < 2:
            await asyncio.sleep(0)
        workers.start(work("next"))
        await workers.end()
    assert sorted(done) == ["beside", "cancelled", "next"]


async def test_work_that_is_cancelled_before_it_begins_still_begins_and_is_told():
    workers, told = Workers(), []

    async def first():
        pass

    async def work(scopes):
        told.append(scopes[0].cancel_called)

    with anyio.fail_after(5):
        for is_new in (True, False):
            if not is_new:
                workers.start(first())
                await asyncio.sleep(0)
            scopes = []
            scopes.append(workers.start(work(scopes)))
            scopes[0].cancel()
            await asyncio.sleep(0)
        await workers.end()
    assert told == [True, True]


async def test_a_fault_ends_its_work_alone(caplog):
    workers, done = Workers(), []

    async def failing():
        raise ZeroDivisionError("of the work")

    async def work():
        done.append("work")

    workers.start(failing())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    workers.start(work())
    await workers.end()
    assert done == ["work"]
    assert "of the work" in caplog.text
    assert [record.getMessage() for record in caplog.records] == [f"{failing.__qualname__} failed"]
