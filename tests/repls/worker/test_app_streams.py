"""Streams of an application's events, pushed by the worker to the subscribers of a connection."""

import json

import pytest
from application import running
from worker_client import Repl, wait_for_input_request, wait_for_output

APP = "import codriver_seam as seam; seam.install(True)"
FIELD = "codriver/app-events"


def begin(repl, **arguments):
    """Subscribe, and return the ids of the message and of the subscription."""
    identity = repl.send("codriver/seam", name="subscribe", args=json.dumps(arguments))
    answer = next(message["answer"] for message in repl.answer(identity) if "answer" in message)
    return identity, json.loads(answer)["subId"]


def pushed(repl, identity, count):
    """Return so many events that were pushed with the id of a message."""
    while True:
        frames = [json.loads(m[FIELD]) for m in repl.received if m.get("id") == identity and FIELD in m]
        if len(events := [event for frame in frames for event in frame["events"]]) >= count:
            repl.received = [message for message in repl.received if message.get("id") != identity]
            return events
        repl.received += repl.decoder.feed(repl.socket.recv(65536))


def listed(repl):
    reported = repl.ask("codriver/seam", name="subscriptions")
    return [row["id"] for row in json.loads(reported[0]["answer"])["subs"]]


@pytest.fixture(scope="module")
def worker(tmp_path_factory):
    repl = Repl(tmp_path_factory.mktemp("streams"))
    repl.connect()
    repl.evaluate(APP)
    repl.socket.close()
    yield repl
    repl.close()


@pytest.fixture
def repl(worker):
    with worker.fresh_session() as fresh:
        fresh.evaluate(APP)
        yield fresh
        fresh.ask("codriver/seam", name="reset-for-test")


def test_an_event_is_pushed_with_the_id_of_its_subscription(repl):
    identity, sub = begin(repl, topic="fx")
    answer = repl.evaluate("seam.emit('log', 'a'); seam.emit('fx', 'db/write', rows=2); print('done')")
    assert not any(FIELD in message for message in answer)
    [event] = pushed(repl, identity, 1)
    assert event["line"].endswith(" fx db/write rows=2")
    assert listed(repl) == [sub]


def test_events_arrive_while_an_endless_evaluation_runs(repl):
    identity, _ = begin(repl)
    endless = repl.send("eval", code="seam.emit('fx', 'now')\nprint('on')\nwhile True: pass")
    assert wait_for_output(repl, endless)
    assert [event["operation"] for event in pushed(repl, identity, 1)] == ["now"]
    repl.ask("interrupt")
    repl.answer(endless)


def test_an_event_frame_printed_by_a_program_is_ordinary_output(repl):
    line = '\\x1e{"sub": "s1", "events": []}'
    answer = repl.evaluate(f"print('{line}')")
    assert not any(FIELD in message for message in answer)
    assert any("\x1e{" in message.get("out", "") for message in answer)


def test_the_subscriptions_of_a_client_end_when_it_disconnects(worker, repl):
    begin(repl)
    repl.connect()
    while listed(repl):
        pass


def test_pushed_and_dropped_events_of_a_flood_add_up_to_the_events_sent(repl):
    identity, sub = begin(repl, topic="fx", maxEvents=150)
    running_on = repl.send("eval", code="for _ in range(100_000): seam.emit('fx', 'busy', text='x' * 200)\ninput()")
    assert wait_for_input_request(repl, running_on)
    repl.send("stdin", stdin="go on\n")
    repl.answer(running_on)
    while True:
        reported = repl.ask("codriver/seam", name="subscriptions")
        [row] = [row for row in json.loads(reported[0]["answer"])["subs"] if row["id"] == sub]
        if not row["queueDepth"]:
            break
    frames = [json.loads(m[FIELD]) for m in repl.received if m.get("id") == identity and FIELD in m]
    assert row["sent"] + row["dropped"] == 100_000
    assert row["sent"] == sum(len(frame["events"]) for frame in frames)
    assert row["dropped"] == sum(frame["dropped"] for frame in frames) > 0


def test_an_application_with_an_embedded_repl_pushes_its_events_without_printing(tmp_path):
    with running(tmp_path) as program:
        program.do("codriver_seam.install(True)")
        identity, _ = begin(program, topic="error")
        assert program.do("codriver_seam.note_error(ValueError('no stock'))") == []
        [event] = pushed(program, identity, 1)
        assert "ValueError message=no stock" in event["line"]
        program.connect()
        while listed(program):
            pass
