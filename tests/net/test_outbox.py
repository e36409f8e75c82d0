import anyio
import pytest

from codriver.net.outbox import Outbox

pytestmark = pytest.mark.anyio


def outbox(**limits):
    return Outbox(**{"max_notifications": 3, "max_notification_bytes": 100, "congested_bytes": 50} | limits)


async def test_lines_are_sent_in_order():
    box = outbox()
    box.offer(b"n1\n")
    box.put(b"r1\n")
    box.offer(b"n2\n")
    assert box.pop_batch() == b"n1\nr1\nn2\n"


async def test_the_oldest_notifications_are_dropped_first_and_responses_never():
    box = outbox()
    box.put(b"r1\n")
    for number in range(5):
        box.offer(b"n%d\n" % number)
    box.put(b"r2\n")
    assert box.pop_batch() == b"r1\nn2\nn3\nn4\nr2\n"
    assert box.dropped == 2


async def test_the_total_size_of_queued_notifications_is_limited():
    box = outbox(max_notification_bytes=10)
    box.offer(b"123456\n")
    box.offer(b"abcdef\n")
    assert box.pop_batch() == b"abcdef\n"
    assert box.dropped == 1


async def test_only_the_first_loss_is_reported():
    box, notification = outbox(max_notifications=1), []
    box.on_first_loss = lambda: notification.append(box.dropped)
    for number in range(5):
        box.offer(b"n%d\n" % number)
    assert (notification, box.dropped) == ([1], 4)


async def test_sent_lines_make_room_for_new_notifications():
    box = outbox(max_notifications=1)
    box.offer(b"a\n")
    box.pop_batch()
    box.offer(b"b\n")
    assert (box.pop_batch(), box.dropped) == (b"b\n", 0)


async def test_a_closed_outbox_drains_and_then_ends():
    box = outbox()
    box.put(b"r\n")
    box.close()
    assert box.pop_batch() == b"r\n"
    assert box.pop_batch() is None


async def test_a_congested_outbox_pauses_its_reader_until_the_writer_catches_up():
    box = outbox()
    box.put(b"x" * 60)
    batch = box.pop_batch()
    assert box.is_congested
    seen = []

    async def reader():
        await box.wait_for_space()
        seen.append("read on")

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(reader)
            await anyio.wait_all_tasks_blocked()
            assert seen == []
            box.record_written(len(batch))
    assert seen == ["read on"]


async def test_closing_wakes_a_waiting_reader():
    box = outbox()
    box.put(b"x" * 60)
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(box.wait_for_space)
            await anyio.wait_all_tasks_blocked()
            box.close()


class Wire:
    """Accepts lines immediately, unless it is full."""

    def __init__(self):
        self.sent = []
        self.is_full = False

    def write(self, line):
        if not self.is_full:
            self.sent.append(line)
        return not self.is_full


async def test_a_line_is_sent_immediately_unless_earlier_lines_are_waiting():
    wire, writers = Wire(), []
    box: Outbox = outbox(write_now=wire.write, start_writer=lambda: writers.append(box.waiting))
    box.put(b"r1\n")
    box.offer(b"n1\n")
    assert (wire.sent, writers) == ([b"r1\n", b"n1\n"], [])
    wire.is_full = True
    box.offer(b"n2\n")
    wire.is_full = False
    box.put(b"r2\n")
    assert writers == [1], "one writer, begun by the first line that had to wait"
    assert box.pop_batch() == b"n2\nr2\n"
    box.put(b"r3\n")
    assert wire.sent == [b"r1\n", b"n1\n"], "while a batch is on its way nothing overtakes it"
    assert (box.pop_batch(), box.pop_batch()) == (b"r3\n", None)
    box.put(b"r4\n")
    assert wire.sent[2:] == [b"r4\n"]
    wire.is_full = True
    box.put(b"r5\n")
    assert writers == [1, 1]
