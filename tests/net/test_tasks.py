"""Tasks that end with their owner."""

import asyncio
import logging

import pytest

from codriver.net.task_set import TaskSet

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


async def test_started_tasks_run_and_are_joined():
    tasks, done = TaskSet(), []

    async def work(name):
        await asyncio.sleep(0)
        done.append(name)

    tasks.start(work("first"))
    tasks.start(work("second"))
    await tasks.join()
    assert done == ["first", "second"]
    await tasks.join()


async def test_every_task_cleans_up_at_the_end_even_if_it_has_only_just_started():
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


async def test_a_task_started_while_others_end_is_also_joined():
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


async def test_an_error_is_logged_and_ends_no_other_task(caplog):
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
