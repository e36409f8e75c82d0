"""What an agent can read of an application: state, changes, events, failures, handlers."""

import json
import sys
import types
from dataclasses import dataclass
from importlib import import_module

import pytest
from needs import modules
from seam_shop import START, TOKEN, query, refused

import codriver_seam as seam
from codriver_seam import values


def test_health_lists_frames_and_bands_and_changes_nothing(shop):
    seam.emit("error", "orders", message="none left")
    first, second = query("health"), query("health")
    assert first["issues"] == 1
    assert first == second
    assert first["frames"] == ["shop"]
    assert first["sessionId"] == seam.session_id
    assert first["bands"]["inspect"] is True
    assert first["bands"]["mutate"] is True
    assert first["bands"]["machines"] == "no machine is registered"


def test_an_unknown_snapshot_kind_is_refused_with_a_list_of_valid_kinds(shop):
    with pytest.raises(ValueError, match="one of 'pickle', 'deepcopy', 'none', or a function, not 'deep'"):
        seam.frame("other", lambda: 1, snapshot="deep")
    assert query("health")["frames"] == ["shop"]


def test_watching_a_loaded_web_framework_is_suggested_if_no_handlers_are_known(shop, monkeypatch):
    for name in seam.web_requests.FRAMEWORK_WATCH_CALLS:
        monkeypatch.delitem(sys.modules, name, raising=False)
    seam.recording.seam.handlers.clear()
    assert "hint" not in query("handlers")
    monkeypatch.setitem(sys.modules, "flask", types.ModuleType("flask"))
    assert query("handlers")["hint"] == "seam.watch_flask(app) lists the routes"
    assert "hint" not in query("health"), "a frame shows itself"
    seam.recording.seam.frames.clear()
    assert query("health")["hint"] == "seam.watch_flask(app) records requests and lists the routes"
    assert query("trace")["hint"] == "seam.watch_flask(app) notes requests"


def test_the_answer_for_a_frame_without_epochs_explains_how_to_record_them(shop):
    assert "seam.epoch(frame, name)" in query("epochs")["hint"]
    with seam.epoch("shop", "add"):
        pass
    assert "hint" not in query("epochs")


def test_a_disabled_seam_does_nothing_and_reports_that_it_is_disabled():
    seam.recording.reset()
    assert seam.emit("log", "x") == 0
    assert seam.session_id is None
    seam.frame("shop", lambda: 1)
    with seam.epoch("shop", "add") as item:
        assert item.recorded is None
    assert not seam.recording.seam.events
    assert not seam.recording.seam.frames
    refused("health", "not-enabled")


def test_only_the_environment_variable_enables_the_seam_implicitly(monkeypatch):
    seam.recording.reset()
    monkeypatch.delenv("CODRIVER_SEAM", raising=False)
    assert not seam.install()
    assert not seam.install(False)
    monkeypatch.setenv("CODRIVER_SEAM", "1")
    assert not seam.install(False)
    assert seam.install()
    known = seam.session_id
    assert seam.install(False)
    assert seam.session_id == known


def test_a_frame_must_be_named_unless_it_is_the_only_one(shop):
    refused("state", "no-such-frame", frame="shops")
    seam.frame("other", lambda: 1)
    answer = refused("state", "ambiguous-frame")
    assert answer["frames"] == ["shop", "other"]
    before = shop.state
    refused("reset", "ambiguous-frame", value="{'count': 1}")
    assert shop.state is before


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ('["user", "name"]', "'Ada'"),
        ("user.name", "'Ada'"),
        ("orders.1.sku", "7"),
        (["orders", 0], "'x'"),
        ("'count'", "0"),
    ],
)
def test_a_part_of_the_state_is_found_by_its_path(shop, path, value):
    shop.state = {**shop.state, "orders": ["x", {"sku": 7}]}
    assert query("state", path=path)["value"] == value


def test_a_path_that_does_not_exist_is_refused_with_the_longest_existing_prefix(shop):
    answer = refused("state", "path-not-found", path="user.age.days")
    assert "['user']" in answer["hint"]
    assert "'name'" in answer["hint"]
    refused("state", "path-not-found", path="__class__")
    refused("state", "path-not-found", path="[__import__('os')]")


def test_a_record_is_read_by_its_fields():
    @dataclass(frozen=True)
    class Cart:
        items: tuple = (1, 2)

        @property
        def total(self):
            raise AssertionError("a property was run")

    seam.frame("cart", Cart)
    assert query("state")["value"] == "Cart(items=(1, 2))"
    assert query("state", path="items.1")["value"] == "2"
    refused("state", "path-not-found", path="total")


def test_a_large_value_is_replaced_by_a_marker_and_fetched_by_the_path_in_the_marker(shop):
    shop.state = {**shop.state, "blob": "x" * 10_000_000, "rows": [[n] for n in range(500)]}
    answer = query("state")
    assert "<elided str 10000000 ['blob']>" in answer["value"]
    assert "<elided list 500 ['rows']>" in answer["value"]
    assert len(answer["value"]) < 300
    assert answer["elided"] == 2
    parts, start = [], 0
    while start < 10_000_002:
        part = query("state", path="['blob']", includeLarge=True, maxChars=4_000_000, **{"from": start})
        assert part["total"] == 10_000_002
        parts.append(part["value"])
        start += len(part["value"])
    assert "".join(parts) == repr(shop.state["blob"])
    deep = 1
    for _ in range(30):
        deep = [deep]
    shop.state = deep
    assert "<elided list 1" in query("state")["value"]


def test_the_text_of_a_large_state_has_a_maximum_length(shop):
    shop.state = [[["word " * 5] * 50] * 50] * 50
    assert len(query("state")["value"]) < 60_000


def test_no_accessor_returns_a_sensitive_value(shop):
    before = shop.state
    with seam.epoch("shop", "rename", said=f"for {TOKEN}"):
        shop.state = {**before, "user": {**before["user"], "token": TOKEN + "-new"}}
    seam.emit("log", "auth", message=f"Bearer {TOKEN} {TOKEN}-new and {TOKEN!r}")
    seam.emit("error", "auth", message="x" * 292 + TOKEN)  # cut in the middle of it
    with pytest.raises(ValueError, match="token"), seam.epoch("shop", "half"):
        shop.handle(["half"])
    requests = [("health", {}), ("state", {}), ("state", {"path": "user.token"}), ("state", {"path": "user"}),
             ("diff", {}), ("diff", {"epochId": 2}), ("epochs", {}), ("trace", {}), ("trace", {"raw": True}),
             ("issues", {}), ("reset", {"value": repr({"user": {"token": TOKEN + "-bad"}})}),
             ("trace", {})]  # fmt: skip
    for name, arguments in requests:
        assert TOKEN[:6] not in seam.call(name, json.dumps(arguments)), name
    assert query("state", path="user.token")["value"] == seam.values.REDACTED
    assert query("state")["redacted"] == 1
    assert seam.show({"of": TOKEN}) == "{'of': '<redacted>'}"
    assert TOKEN in query("state", includeSensitive=True)["value"]


def test_a_star_in_a_sensitive_path_hides_the_field_in_every_element():
    users = {n: {"name": n, "token": f"token-of-{n}-1"} for n in ("ada", "bob")}
    seam.frame(
        "users",
        lambda: {"users": users, "list": [*users.values()]},
        sensitive=[("users", "*", "token"), ("list", "*", "token")],
    )
    answer = query("state")
    assert answer["redacted"] == 4
    assert "token-of" not in answer["value"]


def test_an_epoch_lists_its_changes(shop):
    with seam.epoch("shop", "add"):
        shop.handle(["add", 2])
    with seam.epoch("shop", "rename"):
        shop.state = {**shop.state, "orders": [1], "new": 3}
    [first, second] = query("epochs")["epochs"]
    assert (first["eventId"], first["outcome"], first["origin"]) == ("add", "ok", "app")
    assert query("diff", epochId=first["epochId"])["changes"] == [
        {"op": "changed", "path": "['count']", "before": "0", "after": "2"}
    ]
    assert [row["path"] for row in query("diff")["changes"]] == ["['orders', 0]", "['new']"]
    both = query("diff", **{"from": first["epochId"], "to": second["epochId"]})
    assert both["count"] == 3
    refused("diff", "no-such-epoch", epochId=999)


def test_epochs_that_changed_a_path_are_listed_with_their_changes(shop):
    for event in (["add", 1], ["order", "tea"], ["add", 2], ["order", "mug"], ["forget"]):
        change(shop, event)
    answer = query("epochs", path="count")["epochs"]
    assert [(row["eventId"], row["changes"]) for row in answer] == [
        ("add", [{"op": "changed", "path": "['count']", "before": "0", "after": "1"}]),
        ("add", [{"op": "changed", "path": "['count']", "before": "1", "after": "3"}]),
    ]
    assert query("epochs", path="count", limit=1)["total"] == 2
    first = query("epochs", path="orders.0.what")["epochs"]
    assert [(row["eventId"], row["changes"][0]["op"]) for row in first] == [("order", "added"), ("forget", "removed")]
    assert query("epochs", path="user")["epochs"] == []
    refused("epochs", "path-not-found", path="no.such")


def change(shop, event):
    with seam.epoch("shop", event[0]):
        if event[0] == "add":
            shop.state = {**shop.state, "count": shop.state["count"] + event[1]}
        elif event[0] == "order":
            shop.state = {**shop.state, "orders": [*shop.state["orders"], {"what": event[1]}]}
        else:
            shop.state = {**shop.state, "orders": []}


@pytest.mark.parametrize("snapshot", ["pickle", "deepcopy"])
def test_epochs_that_changed_a_path_are_found_even_for_state_changed_in_place(snapshot):
    state = {"orders": [{"cents": 1, "token": "0123456789"}]}
    seam.frame("placed", lambda: state, snapshot=snapshot, sensitive=[("orders", "*", "token")])
    for cents in (2, 3):
        with seam.epoch("placed", "raise"):
            state["orders"][0].update(cents=cents, token=f"012345678{cents}")
    rows = query("epochs", frame="placed", path="orders.0.cents")["epochs"]
    assert [(row["changes"][0]["before"], row["changes"][0]["after"]) for row in rows] == [("1", "2"), ("2", "3")]
    assert query("epochs", frame="placed", path="orders.0.token")["epochs"][1]["changes"][0]["after"] == "<redacted>"


def test_epochs_by_path_are_refused_if_changes_are_unknown():
    state = {"n": 1}
    seam.frame("bare", lambda: state)
    with seam.epoch("bare", "add"):
        state["n"] = 2
    refused("epochs", "band-missing", frame="bare", path="n")


def test_a_large_changed_value_is_shortened_to_its_ends(shop):
    shop.state = {"orders": {n: {"n": n} for n in range(500)}, "text": "x" * 2000 + TOKEN * 10, "user": START["user"]}
    assert "<elided dict 500 ['orders']>" in query("state")["value"]
    orders = query("state", path="orders")
    assert orders["value"].startswith("0: {'n': 0}, 1: {'n': 1}, ")
    assert "24: {'n': 24}, <450 more of dict 500>, 475: {'n': 475}" in orders["value"]
    assert orders["value"].endswith(", 499: {'n': 499}")
    assert orders["elided"] == 1
    text = query("state", path="text")["value"]
    assert text.startswith("'" + "x" * 2000)
    assert text.endswith(f"…' <elided str {2000 + 10 * len(TOKEN)} ['text']>")
    assert TOKEN[:6] not in text
    assert query("state", path="orders", includeLarge=True)["value"].count("{'n': ") == 500


def test_a_path_can_be_arbitrarily_deep(shop):
    deep = leaf = {}
    for _ in range(30):
        leaf["in"] = leaf = {}
    leaf["end"] = 1
    shop.state = deep
    path = ["in"] * 30
    assert query("state", path=path)["value"] == "{'end': 1}"
    assert "<elided dict 1 ['in', 'in', 'in', 'in', 'in', 'in', 'in', 'in']>" in query("state")["value"]


def test_a_diff_compares_types_and_treats_incomparable_values_as_changed(shop):
    class Odd:
        def __eq__(self, other):
            raise TypeError("no")

        __hash__ = object.__hash__

    with seam.epoch("shop", "odd"):
        shop.state = {"count": False, "user": shop.state["user"], "orders": Odd()}
    with seam.epoch("shop", "odd"):
        shop.state = {**shop.state, "orders": Odd()}
    assert [row["path"] for row in query("diff")["changes"]] == ["['orders']"]
    assert "['count']" in [
        row["path"] for row in query("diff", epochId=query("epochs")["epochs"][0]["epochId"])["changes"]
    ]


def test_state_changed_in_place_is_never_reported_as_unchanged():
    retained = {"count": 0}
    seam.frame("bare", lambda: retained)
    with seam.epoch("bare", "add"):
        retained["count"] = 1
    refused("diff", "band-missing")
    assert "bare" in query("health")["bands"]["epochs"]


def test_an_application_can_declare_that_state_is_never_changed_in_place():
    retained = {"count": 0}
    seam.frame("sure", lambda: retained, snapshot="none")
    with seam.epoch("sure", "nothing"):
        pass
    assert query("diff")["changes"] == []


@pytest.mark.parametrize("how", ["pickle", "deepcopy", dict])
def test_a_snapshot_preserves_state_that_is_changed_in_place(how):
    retained = {"count": 0}
    seam.frame("kept", lambda: retained, retained.update, snapshot=how)
    with seam.epoch("kept", "add"):
        retained["count"] = 1
    [change] = query("diff")["changes"]
    assert (change["before"], change["after"]) == ("0", "1")


def test_without_an_epoch_a_diff_is_refused_rather_than_empty(shop):
    refused("diff", "band-missing")
    refused("machines", "band-missing")


def test_a_failing_state_getter_does_not_abort_the_request(shop):
    seam.frame("broken", lambda: 1 / 0)
    with seam.epoch("broken", "x"):
        pass
    assert "division" in refused("state", "accessor-failed", frame="broken")["hint"]
    assert "division" in refused("diff", "accessor-failed", frame="broken")["hint"]
    assert query("epochs", frame="broken")["count"] == 1


def test_a_nested_epoch_belongs_to_the_same_cascade(shop):
    with seam.epoch("shop", "outer"), seam.epoch("shop", "inner"):
        shop.handle(["add", 1])
    assert [row["eventId"] for row in query("epochs")["epochs"]] == ["outer"]


def test_an_event_is_printed_on_one_line_whatever_it_contains(shop):
    seam.emit("log", "app", message="a\nforged 9 error\x1b[2J", other={"x": 1}, list=[1, "y", object()])
    [line] = query("trace")["lines"]
    assert line.startswith("1 log app message=a\\nforged 9 error\\x1b[2J other=<dict> list=(1, 'y', '<object>')")


def test_equal_failures_are_reported_as_one_issue_with_a_location(shop):
    for _ in range(3):
        with pytest.raises(LookupError), seam.epoch("shop", "bad"):
            shop.handle(["bad"])
    seam.emit("warning", "disk", message="full")
    seam.emit("log", "disk", message="fine")
    first, second = query("issues")["lines"]
    assert "error LookupError shop bad" in first
    assert first.endswith("\N{MULTIPLICATION SIGN}3")
    assert "seam_shop.py:" in first
    assert "warning disk message=full" in second


def test_reading_produces_no_events(shop):
    seam.frame("noisy", lambda: seam.emit("log", "read"))
    for name in ("health", "state", "epochs", "trace", "issues", "handlers"):
        query(name, frame="noisy")
    assert query("trace")["total"] == 0


def test_handlers_are_listed_with_their_locations():
    @seam.handler("event", "order/add")
    def add():
        """Add an order."""

    [row] = query("handlers", kind="event")["handlers"]
    assert row["file"] == __file__
    assert row["line"] == add.__code__.co_firstlineno
    assert row["doc"] == "Add an order."
    assert query("handlers", id="none")["count"] == 0


def test_machines_are_listed_with_their_states():
    seam.machine("door", lambda: "open")
    assert query("machines")["machines"] == {"door": {"state": "'open'"}}


def test_an_unknown_accessor_or_filter_is_refused_with_a_list_of_valid_ones():
    assert "trace" in refused("nonsense", "no-such-accessor")["hint"]
    assert "sinceMs" in refused("trace", "accessor-failed", filter={"sinceMS": 1})["hint"]
    refused("trace", "no-such-predicate", filter={"pred": "1 == 1"})


def test_the_trace_keeps_the_newest_events_and_reports_the_last_id(shop):
    for number in range(2500):
        seam.emit("log", str(number))
    answer = query("trace", limit=1)
    assert answer["total"] == 2000
    assert answer["lastId"] == 2500
    assert answer["lines"] == ["2500 log 2499"]
    assert query("trace", filter={"since": 2499})["count"] == 1


def test_events_can_be_filtered_by_the_evaluation_that_caused_them():
    token = seam.origin.set({"who": "ann", "evaluation": "e7"})
    seam.emit("log", "x")
    seam.origin.reset(token)
    assert query("trace", filter={"origin": "e7"})["lines"] == ["1 log x by=ann/e7"]


def test_sensitive_values_in_basilisp_collections_are_hidden():
    modules("basilisp")
    names = ("keyword", "vector", "list", "map", "set")
    keyword, vector, lists, maps, sets = (import_module(f"basilisp.lang.{name}") for name in names)
    users, token = keyword.keyword("users"), keyword.keyword("token")
    user = maps.map({token: "s3cr3t-token"})
    for collection, displayed in (
        (vector.vector([user, 1]), "[{:token: <redacted>} 1]"),
        (lists.list([user, 1]), "({:token: <redacted>} 1)"),
        (sets.set([user]), "#{{:token: <redacted>}}"),
    ):
        state, path = maps.map({users: collection}), (users, "*", token)
        egress = values.ValueFormatter([path])
        assert egress.show(state) == f"{{:users: {displayed}}}"
        assert egress.redacted == 1
        assert [*values.sensitive_strings(state, path)] == ["s3cr3t-token"]
    long = vector.vector(range(1000))
    assert values.ValueFormatter().show(long) == "<elided PersistentVector 1000 []>"


def test_a_path_of_keywords_works_in_basilisp_maps_with_hidden_values(shop):
    modules("basilisp")
    keyword, vector, maps = (import_module(f"basilisp.lang.{name}") for name in ("keyword", "vector", "map"))
    users, token, qualified = keyword.keyword("users"), keyword.keyword("token"), keyword.keyword("b", "a")
    state = maps.map({users: vector.vector([maps.map({token: "s3cr3t-token", qualified: 7, "plain": 8})])})
    seam.frame("lisp", lambda: state, snapshot="none", sensitive=[(users, "*", token)])

    def at(path):
        return query("state", frame="lisp", path=path)

    assert at("[:users 0 :a/b]")["value"] == at(":users 0 :a/b")["value"] == "7"
    assert at('[:users 0 "plain"]')["value"] == "8"
    assert at("[:users 0 :token]")["value"] == "<redacted>"
    assert at(at("[:users 0 :a/b]")["path"])["value"] == "7"
    assert at("[:users 0 :other]")["reason"] == "path-not-found"
