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


class SeamChecks:
    """A poller whose first look is news, and then each on which `is_news` is set; the threads that looked."""

    def __init__(self, interval_s=0.01, **options):
        self.threads, self.is_news, self.wait_s = [], True, 0.0
        self.poller = Poller(self.look, interval_s=interval_s, **options)

    def look(self):
        self.threads.append(threading.current_thread())
        if self.wait_s:
            threading.Event().wait(self.wait_s)
        return self.is_news

    async def settle(self):
        """Have its looks known as short, and news no more."""
        assert await self.poller.next(bool)
        self.is_news = False
        self.threads.clear()

    async def until_looked(self, times=3):
        with anyio.fail_after(60):
            while len(self.threads) < times:
                await anyio.sleep(0.005)


async def settled(*looks):
    for one in looks:
        await one.settle()


async def test_short_looks_are_made_by_one_thread_for_all():
    looks = [SeamChecks(), SeamChecks(), SeamChecks()]
    await settled(*looks)
    async with anyio.create_task_group() as tasks:
        for one in looks:
            tasks.start_soon(one.poller.next, bool)
        for one in looks:
            await one.until_looked()
            one.threads.clear()  # whoever waited first may have looked alone until now
        for one in looks:
            await one.until_looked()
        tasks.cancel_scope.cancel()
    assert len({thread for one in looks for thread in one.threads}) == 1


async def test_news_that_another_thread_found_reach_who_waits_for_them():
    first, second = SeamChecks(), SeamChecks()
    await settled(first, second)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(first.poller.next, bool)
        await first.until_looked(1)
        tasks.start_soon(first.until_looked, 3)
        second.is_news = True
        with anyio.fail_after(60):
            assert await second.poller.next(bool)
        tasks.cancel_scope.cancel()


async def test_a_look_that_fails_fails_who_waits_for_it_and_nobody_else():
    first, second = SeamChecks(), SeamChecks()
    await settled(first, second)

    def fail(_found):
        raise RuntimeError("no disk")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(first.poller.next, bool)
        await first.until_looked(1)
        with anyio.fail_after(60), pytest.raises(RuntimeError, match="no disk"):
            await second.poller.next(fail)
        first.threads.clear()
        await first.until_looked()
        tasks.cancel_scope.cancel()


async def test_the_looks_go_on_when_whoever_made_them_leaves():
    first, second = SeamChecks(), SeamChecks()
    await settled(first, second)
    of_first = anyio.CancelScope()

    async def look_for_all():
        with of_first:
            await first.poller.next(bool)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(look_for_all)
        await first.until_looked(1)
        tasks.start_soon(second.poller.next, bool)
        await second.until_looked()
        of_first.cancel()
        second.threads.clear()
        await second.until_looked()
        tasks.cancel_scope.cancel()


async def test_whoever_comes_later_and_is_due_sooner_waits_for_nobody():
    slow, quick = SeamChecks(interval_s=FOREVER_S), SeamChecks()
    await settled(slow, quick)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(slow.poller.next, bool)
        await anyio.sleep(0.01)
        tasks.start_soon(quick.poller.next, bool)
        await quick.until_looked()
        tasks.cancel_scope.cancel()
    assert slow.threads == []


@pytest.mark.parametrize("why", ["it takes long", "it may wait"])
async def test_a_look_that_could_hold_up_others_is_made_in_a_thread_of_its_own(why):
    apart = SeamChecks(may_wait=(lambda: True) if why == "it may wait" else None)
    apart.wait_s = 0.01 if why == "it takes long" else 0.0
    shared = SeamChecks()
    await settled(shared, apart)
    async with anyio.create_task_group() as tasks:
        for one in (shared, apart):
            tasks.start_soon(one.poller.next, bool)
        for one in (shared, apart):
            await one.until_looked()
        tasks.cancel_scope.cancel()
    assert not {*shared.threads} & {*apart.threads}
