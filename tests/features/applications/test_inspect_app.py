"""Inspecting and changing an application in a REPL, through the tools alone. The application has a few lines."""

import json
import re

import pytest
from all_tools import BY_NAME, MANIFEST
from jsonschema import validate
from live_server import serving, until, user_settings_file

import codriver_seam
from codriver.core.state import State
from codriver.features.applications.seam_answers import REFUSAL_REASONS
from codriver.settings.model import Settings
from codriver.tools.calls.gate import tools_to_list

CHANGED = "notifications/tools/list_changed"
TOKEN = "t0ken-of-ada-1234"
APP = f'''
import codriver_seam as seam
seam.install(True)
state = {{"count": 0, "user": {{"name": "Ada", "token": "{TOKEN}"}}, "orders": []}}


def put(value):
    global state
    state = value


def check(value):
    return None if "count" in value else f"no count in {{value}}"


@seam.handler("event", "order/add")
def add(count):
    """Add orders."""
    put({{**state, "count": state["count"] + count, "orders": [*state["orders"], count]}})


def handle(event):
    if event[0] != "order/add":
        put({{**state, "count": -1}})
        raise ValueError("cannot charge " + state["user"]["token"])
    add(*event[1:])


queue = []
seam.frame(
    "shop", lambda: state, put, validate=check, dispatch=handle, sensitive=[("user", "token")], snapshot="none",
    enqueue=lambda event: queue.append(seam.bind(run, event)),
)


def run(event):
    with seam.epoch("shop", event[0]):
        handle(event)
'''
APP_TOOLS = {"inspect_app", "change_app", "watch_app"}


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("app"), "--repl", "python") as running:
        (running.workspace / "shop.py").write_text(APP)
        (running.workspace / "shop_load.py").write_text("import shop\nshop.seam.emit('info', 'loading')\n")
        with running.client() as first:
            assert first.call("evaluate_code", code="import shop; started = shop.state")["ok"]
        yield running


@pytest.fixture(autouse=True)
def _initial_state(client):
    client.call("evaluate_code", code="shop.state = started", who="setup")


def inspect(client, what, **arguments):
    answer = client.call("inspect_app", what=what, **arguments)
    validate(answer, BY_NAME["inspect_app"].output)
    assert answer["ok"], answer
    return answer


def change(client, what, *, detail=False, **arguments):
    answer = client.call("change_app", what=what, detail=detail, **arguments)
    validate(answer, BY_NAME["change_app"].output)
    return answer


def test_without_an_application_no_tool_is_listed_and_a_call_explains_how_to_register_an_application(tmp_path):
    assert not {tool.name for tool in tools_to_list(MANIFEST, State(), Settings(), lists_again=False)} & APP_TOOLS
    with serving(tmp_path, "--repl", "python") as fresh, fresh.client() as client:
        client.call("evaluate_code", code="1")
        before = client.tools()
        assert not APP_TOOLS & set(before)
        refused = client.call("inspect_app", what="health")
        assert refused["reason"] == "capability-missing"
        assert "seam.install(True)" in refused["hint"]
        assert refused["hint"].split()[-2].endswith("codriver_seam/__init__.py")
        client.notifications.clear()
        file = codriver_seam.__file__
        assert client.call("load_file", filePath=file)["ok"]
        assert not APP_TOOLS & set(client.tools()), "it is there, and switched off"
        client.call("evaluate_code", code="import codriver_seam as seam; seam.install(True); box = {'n': 1}")
        client.await_notification(CHANGED)
        assert set(client.tools()) - set(before) == APP_TOOLS
        client.call("evaluate_code", code="seam.frame('box', lambda: box)")
        assert inspect(client, "state", path="n")["value"] == "1"
        [note] = inspect(client, "issues")["notes"]
        assert "there are no events yet. To record some, call watch_logging()" in note
        client.call("evaluate_code", code="seam.emit('info', 'begun')")
        assert "notes" not in inspect(client, "issues")
        health = inspect(client, "health")
        client.notifications.clear()
        client.call("restart_repl", replSessionKey="py")
        client.await_notification(CHANGED)
        client.call("evaluate_code", code="1")
        assert not APP_TOOLS & set(client.tools()), "what was there went with its process"
        client.call("evaluate_code", code="import codriver_seam as seam; seam.install(True)")
        anew = inspect(client, "health")
        assert anew["sessionId"] != health["sessionId"]
        assert [anew["sessionId"] in note for note in anew["notes"]] == [True], "who asked before is told once"
        assert "notes" not in inspect(client, "health")


def test_an_application_that_registers_itself_appears_in_list_sessions(tmp_path):
    with serving(tmp_path, "--repl", "python") as fresh, fresh.client() as client:
        code = "import threading, codriver_seam as seam; go, done = threading.Event(), threading.Event()\n"
        code += "def show(): go.wait(); seam.install(True); done.set()\nthreading.Thread(target=show).start()"
        client.call("evaluate_code", code=code)
        assert not APP_TOOLS & set(client.tools())
        client.call("evaluate_code", code="threading.Timer(0, lambda: (go.set(), done.wait())).start()")
        while "seam" not in client.call("list_sessions")["sessions"][0]:
            pass
        assert set(client.tools()) >= APP_TOOLS


def test_list_sessions_summarizes_what_an_application_supports(client):
    watched = client.call("watch_app", topic="error")["subId"]
    [row] = client.call("list_sessions")["sessions"]
    assert row["seam"] == {
        "provider": "codriver",
        "sessionId": inspect(client, "health")["sessionId"],
        "frames": ["shop"],
        "bands": ["inspect", "mutate", "stream", "epochs"],
        "subscriptions": 1,
    }
    client.call("watch_app", stop=watched)


def test_reading_the_health_of_an_application_lists_its_features_without_changing_it(client):
    assert inspect(client, "health") == inspect(client, "health")
    health = inspect(client, "health")
    assert health["frames"] == ["shop"]
    assert health["handlers"] == 1
    assert set(health["bands"]) == {"inspect", "mutate", "stream", "epochs", "machines"}
    assert len(json.dumps(health)) < 330


def test_the_changes_made_by_a_dispatched_event_are_recorded_in_an_epoch(client):
    answer = change(client, "dispatch", event="['order/add', 3]", sync=True, who="ann")
    assert answer["changes"] == ["changed ['count']: 0 -> 3", "added ['orders', 0]: 3"]
    diff = inspect(client, "diff", epochId=answer["epochId"])
    assert (diff["eventId"], diff["lines"]) == ("order/add", answer["changes"])
    [line] = inspect(client, "epochs")["lines"][-1:]
    assert line.startswith(f"{answer['epochId']} order/add ok d{answer['dispatchId']} ")
    assert line.endswith(" by=ann")
    assert inspect(client, "state", path="count")["value"] == "3"


def test_an_epoch_that_changed_a_path_is_described_in_one_line(client):
    answer = change(client, "dispatch", event="['order/add', 4]", sync=True)
    change(client, "reset", value="{'count': 4, 'user': {}}")
    [line] = inspect(client, "epochs", path="orders", filter={"epochId": answer["epochId"]})["lines"]
    assert line.endswith(" by=setup added ['orders', 0]: 4")
    [line] = inspect(client, "epochs", path="user", limit=1)["lines"]
    assert line.endswith(" and 1 more")
    assert TOKEN not in line


OLDER = """
from codriver_seam import accessors
whole = accessors.ACCESSORS["epochs"]
accessors.ACCESSORS["epochs"] = lambda asked: whole({name: asked[name] for name in asked if name != "path"})
"""


def test_filtering_epochs_by_path_requires_recorded_differences(client):
    change(client, "dispatch", event="['order/add', 4]", sync=True)
    client.call("evaluate_code", code=OLDER, who="setup")
    refused = client.call("inspect_app", what="epochs", path="orders")
    client.call("evaluate_code", code="accessors.ACCESSORS['epochs'] = whole", who="setup")
    assert refused["reason"] == "band-missing"
    assert "diff" in refused["hint"]
    assert inspect(client, "epochs", path="orders")["count"]


def test_a_queued_event_is_found_by_dispatch_id_with_caller_and_evaluation(client):
    answer = change(client, "dispatch", event="['order/add', 1]", who="bob", detail=True)
    assert answer["mode"] == "queued"
    client.call("evaluate_code", code="shop.queue.pop()()", who="setup")
    lines = inspect(client, "trace", filter={"dispatchId": answer["dispatchId"]})["lines"]
    assert len(lines) == 2
    assert all(f" by=bob/{answer['evaluationId']}" in line for line in lines)
    client.call("evaluate_code", code="import threading", who="setup")
    code = "t = threading.Thread(target=shop.run, args=(['order/add', 1],)); t.start(); t.join()"
    client.call("evaluate_code", code=code, who="setup")
    assert "by=" not in inspect(client, "trace", limit=1)["lines"][0], "the application's own"


@pytest.mark.parametrize(
    "code",
    [
        "shop.run(['order/add', 1])",
        "async def later(): shop.run(['order/add', 1])\nimport asyncio\nawait asyncio.create_task(later())",
        "import threading; threading.Thread(target=shop.seam.bind(shop.run, ['order/add', 1])).start()",
    ],
)
def test_events_caused_by_evaluated_code_carry_caller_and_evaluation(client, code):
    last = inspect(client, "trace", limit=1).get("lastId", 0)
    answer = client.call("evaluate_code", code=code, who="ann")
    requested = {"since": last, "origin": answer["evaluationId"]}
    lines = until(lambda: inspect(client, "trace", filter=requested).get("lines"), "an event of it")
    assert all(f" by=ann/{answer['evaluationId']}" in line for line in lines)
    client.call("load_file", filePath="shop_load.py", who="bob")
    [line] = inspect(client, "trace", filter={"operation": "loading"}, limit=1)["lines"]
    assert " by=bob/" in line


def test_sensitive_state_needs_the_users_permission_and_an_explicit_request(tmp_path):
    with serving(tmp_path, "--repl", "python") as live, live.client() as client:
        (live.workspace / "shop.py").write_text(APP)
        client.call("evaluate_code", code="import shop")
        refused = client.call("inspect_app", what="state", path="user.token", includeSensitive=True)
        assert refused["reason"] == "switched-off"
        assert "allowSensitiveReads = true" in refused["hint"]
        user_settings_file(tmp_path).write_text("allowSensitiveReads = true\n")

        def allowed():
            answer = client.call("inspect_app", what="state", path="user.token", includeSensitive=True)
            return answer if answer["ok"] else None

        assert until(allowed, "the setting")["value"] == repr(TOKEN)
        assert inspect(client, "state", path="user.token")["value"] == "<redacted>"
        assert TOKEN not in json.dumps(client.call("evaluate_code", code="shop.state"))


def test_a_change_is_logged_with_its_caller(client):
    change(client, "dispatch", event="['order/add', 1]", sync=True, who="eve")
    log = client.call("repl_output_log", by="eve")["result"]
    assert [row["text"] for row in log if row["category"] == "otherOutput"] == ["dispatch ['order/add', 1]"]
    assert "evaluatedCode" in {row["category"] for row in log}


def test_reading_adds_nothing_to_the_log_or_the_trace(client):
    before = client.call("server_health")["log"]["lastLine"]
    last = inspect(client, "trace")["lastId"]
    for what in ("state", "diff", "epochs", "issues", "handlers", "health"):
        client.call("inspect_app", what=what)
    assert client.call("server_health")["log"]["lastLine"] == before
    assert inspect(client, "trace")["lastId"] == last


def test_a_failing_handler_is_reported_with_its_location_and_state_is_restored(client):
    refused = change(client, "dispatch", event="['charge']", sync=True)
    assert (refused["ok"], refused["reason"]) == (False, "handler-failed")
    assert "restored" in refused["hint"]
    number = APP.splitlines().index('        raise ValueError("cannot charge " + state["user"]["token"])') + 1
    assert refused["at"] == f"shop.py:{number}"
    assert inspect(client, "state", path="count")["value"] == "0"
    [line] = inspect(client, "issues")["lines"]
    assert "ValueError" in line
    assert refused["at"] in line


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"what": "reset", "value": "{}"}, "schema-mismatch"),
        ({"what": "reset", "value": "{'count': open('x')}"}, "schema-mismatch"),
        ({"what": "restore", "epochId": 10**6}, "unknown-epoch"),
        ({"what": "restore"}, "unknown-epoch"),
        ({"what": "dispatch", "event": "order/add", "sync": True}, "not-an-event-vector"),
        ({"what": "dispatch", "event": "['x']", "frame": "cart"}, "no-such-frame"),
    ],
)
def test_a_refused_change_has_a_known_reason_and_changes_nothing(client, arguments, reason):
    before = inspect(client, "state")["value"]
    refused = change(client, **arguments)
    assert (refused["ok"], refused["reason"]) == (False, reason)
    assert reason in REFUSAL_REASONS
    assert inspect(client, "state")["value"] == before
    assert f" error {reason} " in inspect(client, "trace", limit=1)["lines"][0]


def test_a_state_reset_can_be_undone_with_the_epoch_id_that_it_returns(client):
    before = inspect(client, "state")["value"]
    answer = change(client, "reset", value="{'count': 9}")
    assert inspect(client, "state")["value"] == "{'count': 9}"
    assert change(client, "restore", epochId=answer["undoneBy"])["ok"]
    assert inspect(client, "state")["value"] == before


def test_sensitive_values_are_never_sent(client):
    change(client, "dispatch", event="['charge']", sync=True)
    change(client, "reset", value="{'user': {}}")
    answers = [
        client.call("inspect_app", what=what) for what in ("state", "diff", "epochs", "trace", "issues", "health")
    ]
    answers.append(client.call("inspect_app", what="state", path="user.token"))
    answers.append(client.call("repl_output_log"))
    assert TOKEN not in json.dumps(answers)
    assert answers[-2]["value"] == "<redacted>"
    assert answers[0]["redacted"] == 1


def test_a_large_value_is_marked_and_can_be_read_in_parts(client):
    client.call("evaluate_code", code="shop.state = {**shop.state, 'blob': 'x' * 10_000_000}; None", who="setup")
    answer = inspect(client, "state")
    assert "<elided str 10000000 ['blob']>" in answer["value"]
    assert len(json.dumps(answer)) < 3000
    first = inspect(client, "state", path="['blob']", includeLarge=True)
    [note] = first["notes"]
    start = int(note.split("from: ")[1].split()[0])
    last = inspect(client, "state", path="['blob']", includeLarge=True, **{"from": 10_000_000 + 2 - 5})
    assert start == len(first["value"]) < 10_000
    assert last["value"] == "xxxx'"


def test_state_can_be_read_while_code_runs(client, other):
    running = other.begin_call("evaluate_code", code="import time\nwhile not shop.state.get('go'): time.sleep(0.01)")
    while client.call("server_health")["evaluations"]["running"] != 1:
        pass
    assert inspect(client, "state", path="count")["value"] == "0"
    client.call("interrupt_evaluation", replSessionKey="py")
    other.answer(running)


def test_fifty_events_fit_in_seven_kilobytes(client):
    code = "for n in range(60): shop.seam.emit('fx', 'db/write', frame='shop', event_id='order/add', ms=0.003, rows=n)"
    client.call("evaluate_code", code=code, who="setup")
    result = client.request("tools/call", {"name": "inspect_app", "arguments": {"what": "trace"}})
    assert len(json.dumps(result)) < 7000
    lines = json.loads(result["result"]["content"][0]["text"])["lines"]
    assert len(lines) == 50
    assert re.search(r" fx db/write shop order/add 0\.003ms by=setup/\w+-\d+ rows=59$", lines[-1])


def test_a_library_location_is_relative_to_site_packages(client):
    code = "shop.seam.emit('warning', 'werkzeug', at='/opt/v/lib/python3.11/site-packages/werkzeug/_internal.py:97')"
    client.call("evaluate_code", code=code, who="setup")
    assert inspect(client, "trace", limit=1)["lines"][0].endswith(" at=werkzeug/_internal.py:97")


def test_handlers_are_listed_with_their_locations(client):
    number = APP.splitlines().index('@seam.handler("event", "order/add")') + 1
    assert inspect(client, "handlers")["lines"] == [f"event order/add shop.py:{number}: Add orders."]


def test_an_unknown_filter_is_refused_with_a_list_of_valid_filters(client):
    refused = client.call("inspect_app", what="trace", filter={"since_ms": 1})
    assert refused["reason"] == "accessor-failed"
    assert "sinceMs" in refused["hint"]
