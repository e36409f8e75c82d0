"""Polling: when a look begins, and how long the rest after it is."""

import threading

import anyio
import pytest

from codriver.files.polling import Poller

pytestmark = pytest.mark.anyio
FOREVER_S = 3600


async def test_the_first_look_begins_at_once_and_in_a_thread():
    threads = []
    poller = Poller(lambda: threads.append(threading.current_thread()) or "seen", interval_s=FOREVER_S)
    with anyio.fail_after(60):
        assert await poller.next() == "seen"
    assert threads != [threading.main_thread()]


async def test_the_next_look_waits_for_the_rest_that_is_due():
    looks = []
    poller = Poller(lambda: looks.append(1), interval_s=FOREVER_S)
    await poller.next()
    with anyio.move_on_after(0.05):
        await poller.next()
    assert len(looks) == 1


async def test_one_that_rests_first_does_not_look_at_once():
    looks = []
    poller = Poller(lambda: looks.append(1), interval_s=FOREVER_S, rests_first=True)
    with anyio.move_on_after(0.05):
        await poller.next()
    assert looks == []


async def test_a_look_that_takes_long_is_followed_by_a_longer_rest():
    waiting = threading.Event()
    poller = Poller(lambda: waiting.wait(0.01), interval_s=0, rest_times=FOREVER_S * 100)
    await poller.next()
    with anyio.move_on_after(0.05) as scope:
        await poller.next()
    assert scope.cancelled_caught


async def test_looks_that_find_nothing_new_pass_within_one_thread_that_no_call_waits_for():
    threads, borrowed = [], []
    shared = anyio.to_thread.current_default_thread_limiter()

    def look():
        threads.append(threading.current_thread())
        borrowed.append(shared.statistics().borrowed_tokens)
        return len(threads)

    with anyio.fail_after(60):
        assert await Poller(look, interval_s=0).next(lambda found: found == 5) == 5
    assert len(set(threads)) == 1
    assert borrowed == [0] * 5


async def test_a_look_that_fails_is_followed_by_a_rest():
    looks = []

    def look():
        looks.append(1)
        raise RuntimeError("no disk")

    poller = Poller(look, interval_s=FOREVER_S)
    with pytest.raises(RuntimeError, match="no disk"):
        await poller.next()
    with anyio.move_on_after(0.05):
        await poller.next()
    assert len(looks) == 1


async def test_each_look_is_made_when_there_is_no_rest():
    numbers = iter(range(10))
    poller = Poller(lambda: next(numbers), interval_s=0)
    with anyio.fail_after(60):
        assert [await poller.next() for _ in range(10)] == list(range(10))
