"""What an agent can change in an application: events and state. A refused change changes nothing."""

import threading

import pytest
from seam_shop import START, query, refused

import codriver_seam as seam

ANN = {"who": "ann", "evaluation": "e1"}


def test_a_synchronous_event_reports_the_changes_of_its_epoch(shop):
    answer = query("dispatch", ANN, event="['add', 5]", sync=True)
    assert answer["mode"] == "sync"
    assert shop.state["count"] == 5
    assert answer["changes"] == query("diff", epochId=answer["epochId"])["changes"]
    assert answer["changes"] == [{"op": "changed", "path": "['count']", "before": "0", "after": "5"}]
    [row] = query("epochs")["epochs"]
    assert (row["origin"], row["dispatchId"]) == ("ann", answer["dispatchId"])


def test_a_queued_event_is_found_by_its_dispatch_id(shop):
    seam.frame(
        "queued", lambda: shop.state, enqueue=lambda event: shop.queue.append(seam.bind(handle, event)),
    )  # fmt: skip

    def handle(event):
        with seam.epoch("queued", event[0]):
            shop.handle(event)

    answer = query("dispatch", ANN, event="['add', 1]", frame="queued")
    assert answer["mode"] == "queued"
    assert shop.state is START
    thread = threading.Thread(target=shop.queue.pop())
    thread.start()
    thread.join()
    [row] = query("epochs", frame="queued")["epochs"]
    assert (row["dispatchId"], row["origin"]) == (answer["dispatchId"], "ann")
    assert query("trace", filter={"dispatchId": answer["dispatchId"], "origin": "e1"})["count"] == 2


def test_events_caused_by_the_application_itself_do_not_name_an_agent_as_origin(shop):
    query("dispatch", ANN, event="['add', 1]", sync=True)
    with seam.epoch("shop", "add"):
        shop.handle(["add", 1])
    assert [row["origin"] for row in query("epochs")["epochs"]] == ["ann", "app"]


def test_a_failing_handler_reports_its_location_and_leaves_the_state_unchanged(shop):
    answer = refused("dispatch", "handler-failed", event="['half']", sync=True)
    assert "ValueError: no stock for <redacted>" in answer["hint"]
    assert "restored" in answer["hint"]
    assert answer["at"].rpartition(":")[0].endswith("seam_shop.py")
    assert shop.state == START
    [line] = [line for line in query("issues")["lines"] if "ValueError" in line]
    assert answer["at"] in line


def test_an_error_swallowed_by_the_handler_is_still_reported(shop):
    answer = refused("dispatch", "handler-failed", event="['swallow']", sync=True)
    assert "swallowed" in answer["hint"]
    assert shop.state == START


@pytest.mark.parametrize("event", ["add", "{'a': 1}", "[]", "[open('x')]", "", "(" * 500])
def test_an_invalid_event_is_refused(shop, event):
    refused("dispatch", "not-an-event-vector", event=event, sync=True)
    assert shop.state is START
    assert not shop.queue


def test_a_frame_without_a_dispatch_function_refuses_events():
    seam.frame("plain", lambda: 1)
    refused("dispatch", "no-dispatch", event="['x']")
    refused("restore", "read-only-frame", epochId=1)
    refused("reset", "read-only-frame", value="1")


def test_an_event_can_be_undone_by_the_epoch_in_its_answer(shop):
    shop.state = {**START, "count": 7}
    answer = query("dispatch", event="['add', 1]", sync=True)
    assert shop.state["count"] == 8
    assert query("restore", epochId=answer["undoneBy"])["ok"]
    assert shop.state["count"] == 7
    refused("restore", "unknown-epoch", epochId=answer["undoneBy"] * 100)


def test_a_failed_event_can_be_undone_to_the_state_before_it(shop):
    with pytest.raises(ValueError, match="stock"), seam.epoch("shop", "half"):
        shop.handle(["half"])
    assert shop.state["count"] == -1
    [row] = query("epochs")["epochs"]
    refusal = refused("restore", "non-ok-record", epochId=row["epochId"])
    assert f"The state before it is epoch {-row['epochId']}" in refusal["hint"]
    assert query("restore", epochId=-row["epochId"])["ok"]
    assert shop.state == START


def test_each_of_the_last_fifty_epochs_can_be_restored(shop):
    for number in range(51):
        with seam.epoch("shop", f"add-{number}"):
            shop.handle(["add", 1])
    rows = query("epochs", limit=100)["epochs"]
    assert len(rows) == 50
    for count, row in enumerate(rows, 2):
        assert query("restore", epochId=row["epochId"])["ok"]
        assert shop.state["count"] == count
    assert query("epochs", limit=100)["epochs"] == rows
    refused("restore", "unknown-epoch", epochId=rows[0]["epochId"] - 3)
    refused("restore", "unknown-epoch")
    assert shop.state["count"] == 51


def test_an_unrecorded_state_is_saved_before_it_is_replaced(shop):
    with seam.epoch("shop", "add"):
        shop.handle(["add", 1])
    [row] = query("epochs")["epochs"]
    shop.state = {**shop.state, "count": 77}
    answer = query("restore", epochId=row["epochId"])
    assert shop.state["count"] == 1
    assert query("restore", epochId=answer["undoneBy"])["ok"]
    assert shop.state["count"] == 77


def test_the_state_after_a_failed_event_cannot_be_restored(shop):
    with pytest.raises(LookupError), seam.epoch("shop", "bad"):
        shop.handle(["bad"])
    refused("restore", "non-ok-record", epochId=query("epochs")["epochs"][0]["epochId"])


def test_nothing_can_be_changed_while_an_event_is_handled(shop):
    with seam.epoch("shop", "add"):
        shop.handle(["add", 1])
    [row] = query("epochs")["epochs"]
    with seam.epoch("shop", "slow"):
        kept = shop.state
        refused("restore", "during-drain", epochId=row["epochId"])
        refused("reset", "during-drain", value="{'count': 3}")
    assert shop.state is kept


def test_an_invalid_value_is_refused_and_a_valid_one_can_be_undone(shop):
    assert "no count" in refused("reset", "schema-mismatch", value="{'x': 1}")["hint"]
    refused("reset", "schema-mismatch", value="{'count': open}")
    assert shop.state is START
    answer = query("reset", ANN, value="{'count': 9}")
    assert shop.state == {"count": 9}
    assert {row["op"] for row in query("diff", epochId=answer["epochId"])["changes"]} == {"changed", "removed"}
    assert query("restore", epochId=answer["undoneBy"])["ok"]
    assert shop.state == START


@pytest.mark.parametrize("message", [False, "bad", ValueError("bad")])
def test_a_validator_can_reject_in_several_ways(message):
    def validate(value):
        if isinstance(message, Exception):
            raise message
        return message

    seam.frame("checked", lambda: 1, lambda value: None, validate=validate)
    refused("reset", "schema-mismatch", value="2")


def test_a_setter_failing_midway_leaves_the_state_unchanged():
    retained = {"value": 1}

    def put(value):
        retained["value"] = value
        if value == 2:
            raise OSError("disk full")

    seam.frame("disk", lambda: retained["value"], put)
    answer = refused("reset", "accessor-failed", value="2")
    assert "disk full" in answer["hint"]
    assert "restored" in answer["hint"]
    assert retained["value"] == 1
    assert "disk full" in query("issues")["lines"][0]


def test_a_refused_change_is_recorded_as_one_error_event_but_not_as_an_issue(shop):
    refused("reset", "schema-mismatch", value="{}")
    assert [line.split()[1:3] for line in query("trace")["lines"]] == [["error", "schema-mismatch"]]
    assert query("issues")["total"] == query("health")["issues"] == 0


def test_state_changed_in_place_is_restored_from_its_snapshot():
    retained = {"count": 0}

    def handle(event):
        retained["count"] = 5
        raise RuntimeError("late")

    def put(value):
        retained.clear()
        retained.update(value)

    seam.frame("kept", lambda: retained, put, dispatch=handle, snapshot="pickle")
    refused("dispatch", "handler-failed", event="['x']", sync=True)
    assert retained == {"count": 0}


def test_a_failure_without_a_snapshot_says_that_state_may_have_changed():
    retained = {"count": 0}

    def handle(event):
        retained["count"] = 5
        raise RuntimeError("late")

    seam.frame("bare", lambda: retained, lambda value: None, dispatch=handle)
    assert "not known" in refused("dispatch", "handler-failed", event="['x']", sync=True)["hint"]


def test_the_load_counter_changes_only_when_code_is_loaded(shop):
    ticks = [query("probe")["buildTick"] for _ in range(10)]
    assert ticks == [0] * 10
    seam.loaded()
    assert query("probe") == {"ok": True, "probe": 11, "buildTick": 1, "sessionId": seam.session_id}
    assert query("reset-for-test")["sessionId"] == seam.session_id
    assert query("probe")["probe"] == 1
