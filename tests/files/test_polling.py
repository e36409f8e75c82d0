"""Polling: when a check starts, and how long the pause after it is."""

import threading

import anyio
import pytest

from codriver.files.polling import Poller

pytestmark = pytest.mark.anyio
FOREVER_S = 3600


async def test_the_first_check_starts_at_once_in_a_thread():
    threads = []
    poller = Poller(lambda: threads.append(threading.current_thread()) or "seen", interval_s=FOREVER_S)
    with anyio.fail_after(60):
        assert await poller.next_result() == "seen"
    assert threads != [threading.main_thread()]


async def test_the_next_check_waits_for_the_interval():
    looks = []
    poller = Poller(lambda: looks.append(1), interval_s=FOREVER_S)
    await poller.next_result()
    with anyio.move_on_after(0.05):
        await poller.next_result()
    assert len(looks) == 1


async def test_a_poller_that_starts_with_a_pause_delays_its_first_check():
    looks = []
    poller = Poller(lambda: looks.append(1), interval_s=FOREVER_S, rests_first=True)
    with anyio.move_on_after(0.05):
        await poller.next_result()
    assert looks == []


async def test_a_slow_check_is_followed_by_a_longer_pause():
    waiting = threading.Event()
    poller = Poller(lambda: waiting.wait(0.01), interval_s=0, rest_times=FOREVER_S * 100)
    await poller.next_result()
    with anyio.move_on_after(0.05) as scope:
        await poller.next_result()
    assert scope.cancelled_caught


async def test_repeated_checks_stay_in_one_thread_that_the_shared_limit_does_not_count():
    threads, borrowed = [], []
    shared = anyio.to_thread.current_default_thread_limiter()

    def check():
        threads.append(threading.current_thread())
        borrowed.append(shared.statistics().borrowed_tokens)
        return len(threads)

    with anyio.fail_after(60):
        assert await Poller(check, interval_s=0).next_result(lambda found: found == 5) == 5
    assert len(set(threads)) == 1
    assert borrowed == [0] * 5


async def test_a_failed_check_is_followed_by_a_pause():
    checks = []

    def check():
        checks.append(1)
        raise RuntimeError("no disk")

    poller = Poller(check, interval_s=FOREVER_S)
    with pytest.raises(RuntimeError, match="no disk"):
        await poller.next_result()
    with anyio.move_on_after(0.05):
        await poller.next_result()
    assert len(checks) == 1


async def test_without_an_interval_every_call_triggers_a_check():
    numbers = iter(range(10))
    poller = Poller(lambda: next(numbers), interval_s=0)
    with anyio.fail_after(60):
        assert [await poller.next_result() for _ in range(10)] == list(range(10))


class CountedChecks:
    """A poller that reports news on its first check and on each one with `has_changed` set; it records its threads."""

    def __init__(self, interval_s=0.01, **options):
        self.threads, self.has_changed, self.wait_s = [], True, 0.0
        self.poller = Poller(self.check, interval_s=interval_s, **options)

    def check(self):
        self.threads.append(threading.current_thread())
        if self.wait_s:
            threading.Event().wait(self.wait_s)
        return self.has_changed

    async def settle(self):
        """Let its checks be known as short, without further news."""
        assert await self.poller.next_result(bool)
        self.has_changed = False
        self.threads.clear()

    async def wait_for_checks(self, times=3):
        with anyio.fail_after(60):
            while len(self.threads) < times:
                await anyio.sleep(0.005)


async def settle_all(*looks):
    for look in looks:
        await look.settle()


async def test_short_checks_of_all_pollers_share_one_thread():
    looks = [CountedChecks(), CountedChecks(), CountedChecks()]
    await settle_all(*looks)
    async with anyio.create_task_group() as tasks:
        for look in looks:
            tasks.start_soon(look.poller.next_result, bool)
        for item in looks:
            await item.wait_for_checks()
            item.threads.clear()  # whoever waited first may have looked alone until now
        for element in looks:
            await element.wait_for_checks()
        tasks.cancel_scope.cancel()
    assert len({thread for item in looks for thread in item.threads}) == 1


async def test_a_poller_is_woken_by_a_check_made_in_another_thread():
    first, second = CountedChecks(), CountedChecks()
    await settle_all(first, second)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(first.poller.next_result, bool)
        await first.wait_for_checks(1)
        tasks.start_soon(first.wait_for_checks, 3)
        second.has_changed = True
        with anyio.fail_after(60):
            assert await second.poller.next_result(bool)
        tasks.cancel_scope.cancel()


async def test_a_failed_check_raises_only_in_its_own_poller():
    first, second = CountedChecks(), CountedChecks()
    await settle_all(first, second)

    def fail(_found):
        raise RuntimeError("no disk")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(first.poller.next_result, bool)
        await first.wait_for_checks(1)
        with anyio.fail_after(60), pytest.raises(RuntimeError, match="no disk"):
            await second.poller.next_result(fail)
        first.threads.clear()
        await first.wait_for_checks()
        tasks.cancel_scope.cancel()


async def test_checks_continue_when_the_poller_running_them_is_cancelled():
    first, second = CountedChecks(), CountedChecks()
    await settle_all(first, second)
    of_first = anyio.CancelScope()

    async def check_for_both():
        with of_first:
            await first.poller.next_result(bool)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(check_for_both)
        await first.wait_for_checks(1)
        tasks.start_soon(second.poller.next_result, bool)
        await second.wait_for_checks()
        of_first.cancel()
        second.threads.clear()
        await second.wait_for_checks()
        tasks.cancel_scope.cancel()


async def test_a_poller_due_sooner_does_not_wait_for_a_slow_one():
    slow, quick = CountedChecks(interval_s=FOREVER_S), CountedChecks()
    await settle_all(slow, quick)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(slow.poller.next_result, bool)
        await anyio.sleep(0.01)
        tasks.start_soon(quick.poller.next_result, bool)
        await quick.wait_for_checks()
        tasks.cancel_scope.cancel()
    assert slow.threads == []


@pytest.mark.parametrize("why", ["it takes long", "it may wait"])
async def test_a_check_that_may_block_runs_in_its_own_thread(why):
    apart = CountedChecks(may_wait=(lambda: True) if why == "it may wait" else None)
    apart.wait_s = 0.01 if why == "it takes long" else 0.0
    shared = CountedChecks()
    await settle_all(shared, apart)
    async with anyio.create_task_group() as tasks:
        for item in (shared, apart):
            tasks.start_soon(item.poller.next_result, bool)
        for element in (shared, apart):
            await element.wait_for_checks()
        tasks.cancel_scope.cancel()
    assert not {*shared.threads} & {*apart.threads}
