"""An application in a REPL that is not ours, which is asked for its seam by evaluation: found, inspected, changed."""

import contextlib
import json

import pytest
from live_server import serving, until
from real_repls import fresh

import codriver_seam

APP_TOOLS = {"inspect_app", "change_app"}
CHANGED = "notifications/tools/list_changed"
TOKEN = "t0ken-of-ada-1234"
APPS = {
    "basilisp": """
(import codriver_seam)
(codriver_seam/install true)
(def db (atom {"count" 0 "user" {"name" "Ada" "token" (.format "t0ken-{}-1234" "of-ada")}}))
(defn handle [event]
  (if (= (first event) "add")
    (swap! db update "count" + (second event))
    (do (swap! db assoc "count" -1) (throw (python/ValueError (str "no " (get-in @db ["user" "token"])))))))
(codriver_seam/frame "shop" ** :get (fn [] @db) :set (fn [value] (reset! db value)) :dispatch handle
  :snapshot "none" :sensitive #py [#py ("user" "token")])
""",
    "hy": """
(import codriver_seam)
(codriver_seam.install True)
(setv db {"count" 0 "user" {"name" "Ada" "token" (.format "t0ken-{}-1234" "of-ada")}})
(defn put [value] (global db) (setv db value))
(defn handle [event]
  (if (= (get event 0) "add")
    (put (| db {"count" (+ (get db "count") (get event 1))}))
    (do (put (| db {"count" -1})) (raise (ValueError (+ "no " (get db "user" "token")))))))
(codriver_seam.frame "shop" :get (fn [] db) :set put :dispatch handle :snapshot "none"
  :sensitive [#("user" "token")])
""",
}
SUFFIXES = {"basilisp": ".lpy", "hy": ".hy"}


@pytest.fixture(scope="module", params=APPS)
def attached(request, tmp_path_factory):
    """A server with a REPL that somebody else started, and the path of the application's file."""
    folder = tmp_path_factory.mktemp(request.param)
    with contextlib.ExitStack() as stack:
        found = stack.enter_context(fresh(request.param))
        live = stack.enter_context(serving(folder, "--nrepl", found.address, "--repl", "none"))
        client = stack.enter_context(live.client())
        until(lambda: "evaluate_code" in client.tools(), "the REPL's tools")
        file = live.workspace / f"shop{SUFFIXES[request.param]}"
        file.write_text(APPS[request.param])
        listed = client.request("tools/list")["result"]["tools"]
        yield client, file, found, live, listed


@pytest.fixture(scope="module")
def shop(attached):
    """A client of the server, where the application is there."""
    client, file, *_ = attached
    assert client.call("load_file", filePath=codriver_seam.__file__)["ok"]
    assert client.call("load_file", filePath=str(file))["ok"]
    return client


def test_without_an_application_it_is_told_how_one_shows_itself(attached):
    client, *_, listed = attached
    assert not APP_TOOLS & {tool["name"] for tool in listed}
    refused = client.call("inspect_app", what="health")
    assert refused["reason"] == "capability-missing"
    assert codriver_seam.__file__ in refused["hint"]


def test_an_application_that_a_file_brings_is_there_when_the_load_is_over(attached):
    client, file, *_ = attached
    assert client.call("load_file", filePath=codriver_seam.__file__)["ok"]
    assert not APP_TOOLS & set(client.tools()), "it is there, and switched off"
    client.notifications.clear()
    assert client.call("load_file", filePath=str(file))["ok"]
    assert set(client.tools()) >= APP_TOOLS
    client.await_notification(CHANGED)
    [row] = client.call("list_sessions")["sessions"]
    assert row["capabilities"]["seam"] == {"support": "adapted", "op": "codriver"}


def test_health_changes_nothing(shop):
    health = shop.call("inspect_app")
    assert health["frames"] == ["shop"]
    assert health == shop.call("inspect_app")


def test_an_event_is_handled_with_its_changes_and_who_sent_it(shop):
    answer = shop.call("change_app", what="dispatch", event="['add', 3]", sync=True, who="ann")
    assert answer["ok"], answer
    assert answer["changes"] == ["changed ['count']: 0 -> 3"]
    assert shop.call("inspect_app", what="diff", epochId=answer["epochId"])["lines"] == answer["changes"]
    assert shop.call("inspect_app", what="epochs")["lines"][-1].endswith(" by=ann")
    assert shop.call("inspect_app", what="state", path="count")["value"] == "3"
    assert shop.call("change_app", what="restore", epochId=answer["epochId"])["ok"]


def test_a_handler_that_fails_leaves_the_state_as_it_was(shop):
    before = shop.call("inspect_app", what="state", path="count")["value"]
    refused = shop.call("change_app", what="dispatch", event="['pay']", sync=True)
    assert (refused["ok"], refused["reason"]) == (False, "handler-failed")
    assert shop.call("inspect_app", what="state", path="count")["value"] == before


def test_what_is_sensitive_is_in_no_byte_that_is_sent(shop):
    shop.call("change_app", what="dispatch", event="['pay']", sync=True)
    shop.call("change_app", what="reset", value="{'user': {}")
    told = [shop.call("inspect_app", what=what) for what in ("state", "diff", "epochs", "trace", "issues", "health")]
    told.append(shop.call("inspect_app", what="state", path="user.token"))
    told.append(shop.call("repl_output_log"))
    assert TOKEN not in json.dumps(told)
    assert told[-2]["value"] == "<redacted>"


def test_an_application_that_was_there_before_is_found_at_connect_and_goes_with_its_repl(attached, shop, tmp_path):
    _, _, found, live, _ = attached
    del shop
    live.stop()
    with serving(tmp_path, "--nrepl", found.address, "--repl", "none") as later, later.client() as new:
        until(lambda: "inspect_app" in new.tools(), "the application's tools")
        assert new.call("inspect_app")["frames"] == ["shop"]
        found.kill()
        until(lambda: not APP_TOOLS & set(new.tools()), "their going")
