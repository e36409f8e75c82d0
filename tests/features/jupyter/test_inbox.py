"""Waiting messages: the start and end of a flood are kept, and no message that somebody awaits is dropped."""

from codriver.features.jupyter.kernels.inbox import MESSAGE_OVERHEAD_BYTES, DroppedMessages, Inbox
from codriver.features.jupyter.kernels.signed_messages import ReceivedMessage

EACH = 1000 + MESSAGE_OVERHEAD_BYTES


def message(number, kind="stream", parent="p", stream="stdout", size=1000):
    head = f'{{"name": "{stream}", "text": "'.encode().ljust(size, b"x")
    return ReceivedMessage({"msg_id": str(number), "msg_type": kind}, {"msg_id": parent}, b"", (head,))


def inbox(*messages, first=3, last=2):
    queue = Inbox(first * EACH, last * EACH)
    for message in messages:
        queue.put(message)
    return queue


def drain(from_inbox):
    """Return the numbers of all messages, and in place of dropped ones their parent, stream and bytes."""
    items = []
    while len(from_inbox):
        item = from_inbox.pop()
        is_gap = isinstance(item, DroppedMessages)
        items.append((item.parent["msg_id"], item.stream, item.size) if is_gap else int(item.header["msg_id"]))
    return items


def test_messages_within_the_limit_stay_in_order():
    assert drain(inbox(*map(message, range(5)))) == [0, 1, 2, 3, 4]


def test_the_start_and_end_of_a_flood_are_kept_and_the_other_messages_are_counted():
    assert drain(inbox(*map(message, range(100)))) == [0, 1, 2, ("p", "stdout", 95_000), 98, 99]


def test_awaited_messages_are_never_dropped():
    flood = [message(number, "status" if number % 10 == 5 else "display_data") for number in range(60)]
    items = drain(inbox(*flood))
    assert [number for number in items if isinstance(number, int)] == [0, 1, 2, 5, 15, 25, 35, 45, 55, 58, 59]
    assert sum(item[2] for item in items if isinstance(item, tuple)) == 49_000


def test_dropped_messages_are_counted_by_parent_and_stream():
    flood = [message(number, parent="ab"[number // 10], stream="stderr") for number in range(20)]
    assert drain(inbox(*flood, message(20))) == [0, 1, 2, ("a", "stderr", 7000), ("b", "stderr", 9000), 19, 20]


def test_the_inbox_reports_that_it_is_full_if_no_message_may_be_dropped():
    full = inbox(*(message(number, "status") for number in range(5)))
    assert full.has_space
    full.put(message(5, "status"))
    assert not full.has_space
    full.pop()
    assert full.has_space


def test_receiving_messages_makes_room_for_new_ones():
    live = inbox(*map(message, range(5)))
    assert [live.pop().header["msg_id"] for _ in range(4)] == list("0123")
    for number in range(5, 8):
        live.put(message(number))
    assert drain(live) == [4, 5, 6, 7]


def test_a_single_oversized_message_is_kept():
    assert drain(inbox(message(0, size=100_000))) == [0]


def test_the_last_message_of_a_flood_is_kept_regardless_of_what_follows():
    """A kernel under load merges its prints: the last of them may be one message just before the idle status."""
    flood = [message(number, size=10_000) for number in range(5)]
    finished_flood = inbox(*flood, message(5, "status"), message(6, "status"))
    assert drain(finished_flood) == [("p", "stdout", 40_000), 4, 5, 6]
    assert drain(inbox(*flood, message(5, "status"), message(6, size=10_000))) == [("p", "stdout", 50_000), 5, 6]
