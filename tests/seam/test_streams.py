"""Streams of events: what is pushed to a subscriber, what is not, and how a subscription ends."""

import contextlib
import io
import json
import os
import queue
import threading
import time

import posix_only
import pytest
from seam_shop import TOKEN, query, refused

import codriver_seam as seam
from codriver_seam import recording

WAIT_S = 60
THREAD = "codriver seam"


class Reader:
    """A subscriber and the frames that it receives."""

    def __init__(self, **arguments):
        self.frames = queue.SimpleQueue()
        self.gate = threading.Event()
        self.gate.set()
        answer = json.loads(seam.call("subscribe", json.dumps(arguments), write=self.write))
        assert answer["ok"], answer
        self.id = answer["subId"]

    def write(self, text):
        if not self.gate.is_set():
            return False
        self.frames.put(json.loads(text))
        return True

    def frame(self):
        return self.frames.get(timeout=WAIT_S)

    def events(self, count):
        """Return so many events, in however many frames they come."""
        found = []
        while len(found) < count:
            found += self.frame()["events"]
        assert len(found) == count
        return found

    def row(self):
        [row] = [row for row in query("subscriptions")["subs"] if row["id"] == self.id]
        return row

    def settled(self):
        """Return its row once the writer knows that everything was received."""
        while (row := self.row())["queueDepth"]:
            pass
        return row


class Clock:
    """The module `time` with a clock set by hand."""

    time = staticmethod(time.time)

    def __init__(self, now):
        self.monotonic = lambda: now[0]


def writers():
    return [thread for thread in threading.enumerate() if thread.name == THREAD]


def await_no_writer():
    for thread in writers():
        thread.join(WAIT_S)
    assert not writers()


@pytest.fixture(autouse=True)
def _await_writers():
    yield
    recording.reset()
    await_no_writer()


def test_an_event_is_pushed_with_its_fields_and_its_trace_line(shop):
    reader = Reader(topic="trace")
    query("dispatch", {"who": "ann", "evaluation": "e7"}, event="['add', 1]", sync=True)
    frame = reader.frame()
    assert (frame["sub"], frame["dropped"], frame["depth"]) == (reader.id, 0, frame["depth"])
    [first] = frame["events"][:1]
    assert first["line"] == query("trace", filter={"eventId": "add"})["lines"][0]
    expected = {"opType": "event", "operation": "dispatched", "frame": "shop", "eventId": "add", "dispatchId": 1}
    assert first.items() >= expected.items()
    assert first["origin"] == {"who": "ann", "evaluation": "e7"}


@pytest.mark.parametrize(
    ("topic", "names"), [("trace", ["a", "b", "c", "d"]), ("fx", ["b"]), ("error", ["c"]), ("epoch", ["d"])]
)
def test_each_topic_contains_only_the_events_of_its_kind(topic, names):
    reader = Reader(topic=topic)
    for kind, name in (("log", "a"), ("fx", "b"), ("error", "c"), ("epoch", "d")):
        seam.emit(kind, name)
    assert [event["operation"] for event in reader.events(len(names))] == names


def test_a_filter_is_evaluated_in_the_application_and_its_errors_stay_in_the_seam():
    def fails(event):
        raise ValueError(event)

    seam.predicate("fails", fails)
    quiet, reader = Reader(filter={"pred": "fails"}), Reader(filter={"operation": "b"})
    for name in "abab":
        assert seam.emit("fx", name)
    assert [event["operation"] for event in reader.events(2)] == ["b", "b"]
    assert (quiet.row()["sent"], quiet.row()["queueDepth"]) == (0, 0)
    assert quiet.row()["failed"] == 4
    assert quiet.row()["why"].startswith("ValueError: ")
    assert "failed" not in reader.row()


def test_an_invalid_subscription_is_refused_and_leaves_nothing_behind():
    assert "trace, epoch, fx, error" in refused("subscribe", "unknown-topic", topic="calls-of-all")["hint"]
    assert "watch_calls" in refused("subscribe", "capability-missing", topic="calls", filter={"of": "m:f"})["hint"]
    refused("subscribe", "accessor-failed", filter={"nonsense": 1})
    refused("subscribe", "no-such-predicate", filter={"pred": "none"})
    readers = [Reader() for _ in range(10)]
    assert readers[0].id in refused("subscribe", "too-many-subscriptions")["hint"]
    assert query("subscriptions")["count"] == 10
    assert len(writers()) == 1, "one thread writes for all"


def test_sent_dropped_and_queued_events_add_up_at_any_rate():
    reader = Reader(topic="fx", maxEvents=150)
    reader.gate.clear()
    threads = [threading.Thread(target=lambda: [seam.emit("fx", "busy") for _ in range(5000)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert reader.row()["queueDepth"] <= 150 + 100, "what waits is bounded, a frame that found no room included"
    reader.gate.set()
    seam.emit("fx", "last")
    frames = []
    while not frames or not frames[-1]["events"] or frames[-1]["events"][-1]["operation"] != "last":
        frames.append(reader.frame())
    row = reader.settled()
    assert row["sent"] == sum(len(frame["events"]) for frame in frames)
    assert row["dropped"] == sum(frame["dropped"] for frame in frames)
    assert row["sent"] + row["dropped"] + row["queueDepth"] == 20_001
    assert max(len(frame["events"]) for frame in frames) <= 100


def test_the_newest_events_of_a_flood_are_delivered_without_delaying_other_streams():
    flooded, quiet = Reader(topic="fx"), Reader(topic="error")
    stop = threading.Event()

    def flood():
        while not stop.is_set():
            seam.emit("fx", "busy")

    thread = threading.Thread(target=flood)
    thread.start()
    while flooded.frame()["dropped"] == 0:
        pass
    seam.emit("error", "now")
    assert quiet.events(1)
    stop.set()
    thread.join()
    seam.emit("fx", "last")
    while flooded.frame()["events"][-1]["operation"] != "last":
        pass


def test_queued_events_are_also_limited_by_their_total_size():
    reader = Reader(maxBytes=50_000)
    reader.gate.clear()
    seam.emit("fx", "first")
    for _ in range(400):
        seam.emit("fx", "big", text="x" * 10_000)
    reader.gate.set()
    total = 0
    while total < 401:
        frame = reader.frame()
        total += len(frame["events"]) + frame["dropped"]
    row = reader.settled()
    assert row["dropped"] >= 200
    assert row["sent"] + row["dropped"] == 401


def test_a_secret_is_never_pushed(shop):
    reader = Reader()
    seam.emit("log", f"a {TOKEN}", event_id=TOKEN, source=TOKEN, words=[TOKEN], cut="x" * 290 + TOKEN)
    query("dispatch", event="['half']", sync=True)
    text = json.dumps([reader.events(4), query("subscriptions")])
    assert TOKEN not in text
    assert "<redacted>" in text
    assert TOKEN[:8] not in text


def test_a_subscription_that_is_not_renewed_ends_and_others_continue():
    short, renewed = Reader(leaseS=0.1), Reader(leaseS=60)
    while any(row["id"] == short.id for row in query("subscriptions", renew=[renewed.id])["subs"]):
        pass
    assert [row["id"] for row in query("subscriptions")["subs"]] == [renewed.id]
    seam.emit("fx", "on")
    assert renewed.events(1)


def test_the_writer_and_all_listeners_end_with_the_last_subscription():
    Reader(leaseS=0.1)
    await_no_writer()
    assert not recording.seam.offers
    assert query("subscriptions")["subs"] == []


def test_a_subscription_whose_lease_is_not_renewed_ends_while_others_continue(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("codriver_seam.streams.time", Clock(now))
    first, second = Reader(leaseS=60), Reader(leaseS=60)
    now[0] = 50.0
    query("subscriptions", renew=[first.id, "s9-of-another-process"])
    now[0] = 70.0
    while len(rows := query("subscriptions")["subs"]) == 2:
        pass
    assert [row["id"] for row in rows] == [first.id]
    assert second.id != first.id


def test_a_subscription_without_a_reader_ends():
    def fail(_text):
        raise OSError("gone")

    json.loads(seam.call("subscribe", "{}", write=fail))
    seam.emit("fx", "to nobody")
    await_no_writer()
    assert query("subscriptions")["count"] == 0
    assert not recording.seam.offers


def test_unsubscribing_reports_whether_the_subscription_existed():
    reader = Reader()
    assert query("unsubscribe", subId=reader.id)["existed"] is True
    assert query("unsubscribe", subId=reader.id)["existed"] is False
    await_no_writer()


def test_reset_for_test_ends_subscriptions_and_keeps_the_session_id():
    before, probes = query("health")["sessionId"], query("probe")["probe"]
    assert probes == 1
    for _ in range(3):
        Reader()
        assert query("reset-for-test")["sessionId"] == before
        assert query("subscriptions")["subs"] == []
        assert recording.seam.offers == ()
        await_no_writer()
    assert query("probe")["probe"] == 1


def test_reading_health_neither_renews_nor_changes_subscriptions():
    reader = Reader()
    before = reader.row()
    assert query("health")["bands"]["stream"] is True
    assert query("health") == query("health")
    assert reader.row() == before


def test_without_a_reader_each_frame_is_printed_as_a_line_of_standard_output():
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        answer = query("subscribe", topic="fx")
    with contextlib.redirect_stdout(io.StringIO()) as later:
        seam.emit("fx", "ein Wort - 日本\nzwei")
        while not out.getvalue().endswith("\n"):
            pass
    assert out.getvalue().startswith("\x1e")
    frame = json.loads(out.getvalue()[1:])
    assert frame["sub"] == answer["subId"]
    assert frame["events"][0]["operation"] == "ein Wort - 日本\\nzwei"
    assert out.getvalue().count("\n") == 1
    assert later.getvalue() == ""


def test_a_queued_event_that_is_never_handled_is_reported_once_with_its_origin(shop, monkeypatch):
    monkeypatch.setattr("codriver_seam.event_accessors.OVERDUE_S", 0.0)
    reader = Reader(topic="error")
    answer = query("dispatch", {"who": "ann", "evaluation": "e1"}, event="['add', 1]")
    [event] = reader.events(1)
    assert (event["operation"], event["dispatchId"]) == ("not-begun", answer["dispatchId"])
    assert event["origin"]["who"] == "ann"
    assert len(query("issues")["lines"]) == len(query("issues")["lines"]) == 1


def test_a_queued_event_that_was_handled_is_not_reported_as_overdue(shop, monkeypatch):
    recording.seam.frames["shop"].enqueue = lambda event: shop.queue.append(seam.bind(run, event))

    def run(event):
        with seam.epoch("shop", event[0]):
            shop.handle(event)

    query("dispatch", event="['add', 1]")
    shop.queue.pop()()
    monkeypatch.setattr("codriver_seam.event_accessors.OVERDUE_S", 0.0)
    assert query("issues")["lines"] == []


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_pushes_and_queues_nothing():
    reader = Reader()
    pid = posix_only.fork()
    if pid == 0:
        seam.emit("fx", "child")
        os._exit(0 if not recording.seam.offers else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    seam.emit("fx", "parent")
    assert [event["operation"] for event in reader.events(1)] == ["parent"]
