"""Fair sharing of worker threads: nobody waits behind everything that another client requested."""

import gc
import threading
import time
import weakref
from functools import partial

import anyio
import pytest

from codriver.net.fair_threads import FairThreads, NoTurnError

pytestmark = pytest.mark.anyio
BOUND_S = 30


class Gate:
    """Work that reports its start and continues when allowed to."""

    def __init__(self):
        self.begun = threading.Semaphore(0)
        self.open = threading.Event()

    def __call__(self):
        self.begun.release()
        assert self.open.wait(BOUND_S)

    async def wait_started(self):
        assert await anyio.to_thread.run_sync(partial(self.begun.acquire, timeout=BOUND_S))


async def run_until_idle():
    """Let every task run until it waits."""
    for _ in range(10):
        await anyio.lowlevel.checkpoint()


async def test_a_client_with_many_requests_does_not_delay_one_with_few():
    shares, gate, order = FairThreads(1), Gate(), []

    async def request(client):
        await shares.run(client, lambda: order.append(client))

    with anyio.fail_after(BOUND_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(shares.run, "hungry", gate)
            await gate.wait_started()
            for _ in range(20):
                tasks.start_soon(request, "hungry")
            await run_until_idle()
            tasks.start_soon(request, "victim")
            await run_until_idle()
            assert shares.waiting == 21
            gate.open.set()
    assert order[0] == "victim"
    assert order[1:] == ["hungry"] * 20


async def test_one_client_never_gets_all_slots():
    shares, gate = FairThreads(2), Gate()
    with anyio.fail_after(BOUND_S):
        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(shares.run, "hungry", gate)
            await gate.wait_started()
            assert await shares.run("victim", lambda: 42) == 42
            assert shares.waiting == 4
            gate.open.set()


async def test_calls_of_one_client_run_in_order():
    shares, gate, order = FairThreads(1), Gate(), []
    with anyio.fail_after(BOUND_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(shares.run, "c", gate)
            await gate.wait_started()
            for number in range(10):
                tasks.start_soon(shares.run, "c", lambda number=number: order.append(number))
                await run_until_idle()
            gate.open.set()
    assert order == list(range(10))


async def test_a_client_is_busy_until_it_has_received_its_result():
    shares, received = FairThreads(1), []

    async def request():
        received.append(await shares.run("client", lambda: "the answer"))

    with anyio.fail_after(BOUND_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(request)
            await anyio.lowlevel.checkpoint()
            while not received:
                assert shares.is_busy("client")
                await anyio.lowlevel.checkpoint()
    assert not shares.is_busy("client")


async def test_a_clients_next_call_starts_after_it_has_received_the_previous_result(monkeypatch):
    shares, order, in_thread = FairThreads(2), [], anyio.to_thread.run_sync

    async def in_thread_with_delay(*arguments, **options):
        result = await in_thread(*arguments, **options)
        await anyio.sleep(0.2)
        return result

    monkeypatch.setattr(anyio.to_thread, "run_sync", in_thread_with_delay)

    async def request(name):
        await shares.run("client", lambda: order.append(f"{name} is done"))
        order.append(f"{name} is told")

    with anyio.fail_after(BOUND_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(request, "the first")
            await anyio.lowlevel.checkpoint()
            tasks.start_soon(request, "the second")
    assert order == ["the first is done", "the first is told", "the second is done", "the second is told"]


async def test_an_error_frees_the_slot_and_reaches_the_caller():
    shares = FairThreads(1)
    with anyio.fail_after(BOUND_S):
        for _ in range(3):
            with pytest.raises(ZeroDivisionError):
                await shares.run("c", lambda: 1 // 0)
        assert await shares.run("c", lambda: 1) == 1


async def test_a_cancelled_caller_returns_at_once_but_its_slot_is_busy_until_the_work_ends():
    shares, gate = FairThreads(1), Gate()
    with anyio.fail_after(BOUND_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(shares.run, "gone", gate)
            await gate.wait_started()
            tasks.cancel_scope.cancel()
        assert not gate.open.is_set()
        with pytest.raises(NoTurnError):
            await shares.run("other", lambda: 1, until=anyio.current_time())
        gate.open.set()
        assert await shares.run("other", lambda: 1) == 1


async def test_callers_cancelled_while_waiting_leave_nothing_behind():
    shares, gate = FairThreads(1), Gate()
    with anyio.fail_after(BOUND_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(shares.run, "c", gate)
            await gate.wait_started()
            async with anyio.create_task_group() as leaving:
                for _ in range(10):
                    leaving.start_soon(shares.run, "c", lambda: None)
                    leaving.start_soon(shares.run, "d", lambda: None)
                await run_until_idle()
                assert shares.waiting == 20
                leaving.cancel_scope.cancel()
            assert shares.waiting == 0
            gate.open.set()
        assert await shares.run("d", lambda: 1) == 1


@pytest.mark.parametrize("turns", range(6))
async def test_a_caller_cancelled_at_any_point_releases_its_slot(turns):
    shares = FairThreads(1)
    with anyio.fail_after(BOUND_S):
        for _ in range(20):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(shares.run, "c", lambda: None)
                for _ in range(turns):
                    await anyio.lowlevel.checkpoint()
                tasks.cancel_scope.cancel()
        assert await shares.run("other", lambda: 1) == 1


async def test_a_caller_that_gets_no_slot_in_time_gets_the_number_of_waiting_calls():
    shares, gate = FairThreads(1), Gate()
    with anyio.fail_after(BOUND_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(shares.run, "c", gate)
            await gate.wait_started()
            tasks.start_soon(shares.run, "c", lambda: None)
            await run_until_idle()
            with pytest.raises(NoTurnError) as refusal:
                await shares.run("d", lambda: None, until=anyio.current_time())
            assert refusal.value.ahead == 1
            gate.open.set()


async def test_a_slot_is_reused_only_after_a_pause_if_the_previous_call_was_slow():
    shares, gate = FairThreads(1, rests=True), Gate()
    with anyio.fail_after(BOUND_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(shares.run, "hungry", gate)
            await gate.wait_started()
            ends = time.monotonic() + 0.5
            while time.monotonic() < ends:
                await anyio.lowlevel.checkpoint()
            gate.open.set()
        with pytest.raises(NoTurnError):
            await shares.run("other", lambda: 1, until=anyio.current_time())
        assert await shares.run("other", lambda: 1) == 1


async def test_clients_take_turns():
    shares, gate, order = FairThreads(1), Gate(), []
    with anyio.fail_after(BOUND_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(shares.run, "first", gate)
            await gate.wait_started()
            for client in ("many", "many", "many", "few", "few"):
                tasks.start_soon(shares.run, client, partial(order.append, client))
                await run_until_idle()
            gate.open.set()
    assert order == ["many", "few", "many", "few", "many"]


async def test_clients_take_turns_while_results_are_delayed(monkeypatch):
    """A client whose result is still on its way to the caller keeps its place in the order of turns."""
    shares, gate, order, in_thread = FairThreads(1), Gate(), [], anyio.to_thread.run_sync
    delays_s = iter([0, 0.2, 0, 0, 0])

    async def in_thread_with_delay(*arguments, **options):
        delay_s = next(delays_s)
        result = await in_thread(*arguments, **options)
        await anyio.sleep(delay_s)
        return result

    with anyio.fail_after(BOUND_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(shares.run, "first", gate)
            await gate.wait_started()
            monkeypatch.setattr(anyio.to_thread, "run_sync", in_thread_with_delay)
            for client in ("many", "many", "many", "few", "few"):
                tasks.start_soon(shares.run, client, partial(order.append, client))
                await run_until_idle()
            gate.open.set()
    assert order == ["many", "few", "many", "few", "many"]


async def test_references_to_failed_work_are_released():
    shares, retained = FairThreads(1), []

    class Bytes(bytearray):
        """Bytes that can be weakly referenced."""

    def work():
        data = Bytes(10)
        retained.append(weakref.ref(data))
        raise ValueError(len(data))

    gc.disable()  # it could run at any time
    try:
        with anyio.fail_after(BOUND_S):
            for _ in range(3):
                with pytest.raises(ValueError, match="10"):
                    await shares.run("me", work)
                await run_until_idle()
        assert [known() for known in retained] == [None] * 3
    finally:
        gc.enable()
