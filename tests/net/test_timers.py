"""Timeouts that share one timer of the event loop."""

import asyncio
from functools import partial
from time import monotonic

import anyio
import pytest

from codriver.net.timers import Timeout, Timeouts

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


async def test_timeouts_expire_in_the_order_of_their_moments_and_not_before_them():
    timeouts, expired, all_expired = Timeouts(), [], asyncio.Event()
    began = monotonic()

    def expire(name, at):
        assert monotonic() >= at
        expired.append(name)
        if len(expired) == 3:
            all_expired.set()

    for name, after in (("second", 0.02), ("third", 0.04), ("first", 0.0)):
        timeouts.set(Timeout(began + after, partial(expire, name, began + after)))
    with anyio.fail_after(60):
        await all_expired.wait()
    assert expired == ["first", "second", "third"]


async def test_a_timeout_that_is_dropped_does_not_expire_and_the_others_do():
    timeouts, expired, is_over = Timeouts(), [], asyncio.Event()
    dropped = Timeout(monotonic(), partial(expired.append, "dropped"))
    timeouts.set(dropped)
    timeouts.set(Timeout(monotonic() + 0.01, is_over.set))
    timeouts.drop(dropped)
    with anyio.fail_after(60):
        await is_over.wait()
    timeouts.drop(dropped)
    assert expired == []


async def test_one_that_fails_as_it_expires_holds_up_no_other():
    timeouts, is_over, failures = Timeouts(), asyncio.Event(), []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, what: failures.append(str(what["exception"])))

    def fail():
        raise ValueError("not today")

    timeouts.set(Timeout(monotonic(), fail))
    timeouts.set(Timeout(monotonic() + 0.01, is_over.set))
    with anyio.fail_after(60):
        await is_over.wait()
    assert failures == ["not today"]
