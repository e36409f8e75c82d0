"""An application in an external REPL, whose seam is queried by evaluation: found, inspected, changed."""

import json
from functools import partial
from pathlib import Path

import pytest
import real_kernels
import real_repls
from all_tools import BY_NAME
from jsonschema import validate
from live_server import serving, until, until_connected

import codriver_seam

APP_TOOLS = {"inspect_app", "change_app", "watch_app"}
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
    "jvm": """
(ns shop (:require [codriver.seam :as seam]))
(seam/install! true)
(def db (atom {:count 0 :user {:name "Ada" :token (str "t0ken-of-ada" "-1234")}}))
(defn handle [[id amount]]
  (if (= id :add)
    (swap! db update :count + amount)
    (do (swap! db assoc :count -1) (throw (ex-info (str "no " (get-in @db [:user :token])) {})))))
(seam/watch-atom! :shop db {:dispatch handle :sensitive [[:user :token]]})
""",
}
APPS["nbb"] = APPS["jvm"]
APPS["ipykernel"] = """
import codriver_seam as seam

seam.install(True)
state = {"count": 0, "user": {"name": "Ada", "token": "t0ken-of-ada" + "-1234"}}


def put(value):
    global state
    state = value


def handle(event):
    if event[0] == "add":
        put({**state, "count": state["count"] + event[1]})
    else:
        put({**state, "count": -1})
        raise ValueError("no " + state["user"]["token"])


seam.frame("shop", lambda: state, put, dispatch=handle, snapshot="none", sensitive=[("user", "token")])
"""
PYTHON = {
    "seam": codriver_seam.__file__, "frame": "shop", "add": "['add', 3]", "pay": "['pay']",
    "changed": "changed ['count']: 0 -> 3", "count": "count", "token": "user.token", "reset": "{'user': open('x')}",
    "redacted": "<redacted>",
}  # fmt: skip
CLOJURE = {
    "seam": str(Path(codriver_seam.__file__).parent / "clojure" / "codriver" / "seam.cljc"), "frame": ":shop",
    "add": "[:add 3]", "pay": "[:pay]", "changed": "changed [:count]: 0 -> 3", "count": "[:count]",
    "token": "[:user :token]", "reset": "{:user #=(pr 1)}", "redacted": ":codriver/redacted",
    "emit": '(codriver.seam/emit! "fx" "plain")', "user": "(:user @shop/db)",
    "renew": "(swap! shop/db assoc-in [:user :token] %s)",
}  # fmt: skip
WORDS = {
    "basilisp": {
        **PYTHON,
        "file": "shop.lpy",
        "emit": '(codriver_seam/emit "fx" "plain")',
        "user": '(get @db "user")',
        "renew": '(swap! db assoc-in ["user" "token"] %s)',
    },
    "hy": {
        **PYTHON,
        "file": "shop.hy",
        "emit": '(codriver_seam.emit "fx" "plain")',
        "user": '(get db "user")',
        "renew": '(setv (get db "user" "token") %s)',
    },
    "jvm": {**CLOJURE, "file": "shop.clj"},
    "nbb": {**CLOJURE, "file": "shop.cljs"},
    "ipykernel": {
        **PYTHON,
        "file": "shop.py",
        "emit": "seam.emit('fx', 'plain')",
        "user": "state['user']",
        "renew": "state['user']['token'] = %s",
    },
}
"""By REPL, what is asked and answered, in the notation of its application."""


class Attached:
    """A server with a REPL that somebody else started, and a client of it."""

    def __init__(self, name, live, found):
        self.words, self.live, self.found = WORDS[name], live, found
        self.file = live.workspace / self.words["file"]
        self.file.write_text(APPS[name])
        self.client = live.client()
        until_connected(self.client)
        self.listed = self.client.tools()

    def inspect(self, what="health", **arguments):
        answer = self.client.call("inspect_app", what=what, **arguments)
        validate(answer, BY_NAME["inspect_app"].output)
        assert answer["ok"], answer
        return answer

    def dispatch(self, event, **arguments):
        return self.client.call("change_app", what="dispatch", event=self.words[event], sync=True, **arguments)

    def count(self):
        return self.inspect("state", path=self.words["count"])["value"]

    def bring(self):
        """Load the application."""
        for file in (self.words["seam"], str(self.file)):
            assert self.client.call("load_file", filePath=file)["ok"]


def option_of(found):
    """Return the option that tells a server of a REPL or a kernel."""
    if found.name in real_kernels.NAMES:
        return ("--kernel", f"own={found.file}")
    return ("--nrepl", found.address)


@pytest.fixture(scope="module", params=APPS)
def attached(request, tmp_path_factory):
    start = real_kernels if request.param in real_kernels.NAMES else real_repls
    with start.fresh(request.param) as found:
        folder = tmp_path_factory.mktemp(request.param)
        with serving(folder, *option_of(found), "--repl", "none") as live:
            own = Attached(request.param, live, found)
            with own.client:
                yield own


@pytest.fixture(scope="module")
def shop(attached):
    """Return the same with the application loaded."""
    attached.bring()
    return attached


def test_without_an_application_the_refusal_explains_how_to_register_an_application(attached):
    assert not APP_TOOLS & set(attached.listed)
    refused = attached.client.call("inspect_app", what="health")
    assert refused["reason"] == "capability-missing"
    assert attached.words["seam"] in refused["hint"]


def test_an_application_loaded_from_a_file_is_available_after_the_load(attached):
    client = attached.client
    assert client.call("load_file", filePath=attached.words["seam"])["ok"]
    assert not APP_TOOLS & set(client.tools()), "it is there, and switched off"
    client.notifications.clear()
    assert client.call("load_file", filePath=str(attached.file))["ok"]
    assert set(client.tools()) >= APP_TOOLS
    client.await_notification(CHANGED)
    [row] = client.call("list_sessions")["sessions"]
    assert "seam" in row


def test_health_changes_nothing(shop):
    health = shop.inspect()
    assert health["frames"] == [shop.words["frame"]]
    assert health == shop.inspect()


def test_an_event_is_handled_with_its_changes_and_caller(shop):
    answer = shop.dispatch("add", who="ann")
    assert answer["ok"], answer
    assert answer["changes"] == [shop.words["changed"]]
    assert shop.inspect("diff", epochId=answer["epochId"])["lines"] == answer["changes"]
    assert shop.inspect("epochs")["lines"][-1].endswith(" by=ann")
    assert shop.count() == "3"
    assert shop.client.call("change_app", what="restore", epochId=answer["epochId"])["ok"]


def test_a_failing_handler_leaves_the_state_unchanged(shop):
    before = shop.count()
    refused = shop.dispatch("pay")
    assert (refused["ok"], refused["reason"]) == (False, "handler-failed")
    assert shop.count() == before


def test_sensitive_values_are_never_sent(shop):
    answers = [shop.dispatch("pay"), shop.client.call("change_app", what="reset", value=shop.words["reset"])]
    answers += [shop.inspect(what) for what in ("state", "diff", "epochs", "trace", "issues", "health")]
    answers.append(shop.inspect("state", path=shop.words["token"]))
    answers.append(shop.client.call("repl_output_log"))
    assert TOKEN not in json.dumps(answers)
    assert answers[-2]["value"] == shop.words["redacted"]


def test_sensitive_values_are_redacted_in_evaluation_results(shop):
    evaluate = partial(shop.client.call, "evaluate_code")
    answer = evaluate(code=shop.words["user"])
    assert answer["ok"], answer
    assert ("Ada" in answer["result"], TOKEN in json.dumps(answer)) == (True, False), answer
    assert "<<redacted:" in answer["result"]
    # One that the application has had since.
    later = "an0ther-of-ada-5678"
    assert evaluate(code=shop.words["renew"] % '"an0ther-of-ada-5678"', detail=False)["ok"]
    answer = evaluate(code=shop.words["user"])
    assert ("Ada" in answer["result"], later in json.dumps(answer)) == (True, False), answer
    assert evaluate(code=shop.words["renew"] % f'"{TOKEN}"', detail=False)["ok"]


def test_application_events_are_logged_and_end_waits_with_their_caller(shop):
    watch = shop.client.call("watch_app", topic="epoch")
    assert watch["ok"], watch
    with shop.live.client() as other:
        waiting = other.begin_call("wait_for", query=watch["query"], since=watch["since"])
        changed = shop.dispatch("add", who="ann", detail=True)
        answer = json.loads(other.answer(waiting)["result"]["content"][0]["text"])
    assert answer["status"] == "found"
    [[_, line]] = answer["result"]
    assert f" by=ann/{changed['evaluationId']}" in line
    log = shop.client.call("repl_output_log")["result"]
    assert not any("\x1e" in row["text"] for row in log)
    assert shop.client.call("watch_app", stop=watch["subId"])["existed"] is True
    assert shop.client.call("watch_app")["count"] == 0


def test_calls_of_a_function_are_events_in_clojure_only(shop):
    watch = partial(shop.client.call, "watch_app", topic="calls")
    if shop.found.name not in ("jvm", "nbb"):
        refused = watch(filter={"of": "shop:handle"})
        assert (refused["reason"], "watch_calls" in refused["hint"]) == ("capability-missing", True)
        return
    call = partial(shop.client.call, "evaluate_code", code="(do (shop/handle [:add 3]) nil)")
    pending = watch(filter={"of": "shop/handle", "when": "(= size 3)"}, who="ann")
    assert pending["lines"][0].startswith("shop/handle at ")
    assert pending["lines"][0].endswith(", wrapped, until 50 hits")
    assert call()["ok"]
    [line] = shop.client.call("watch_app")["lines"]
    assert ", the condition failed: " in line
    assert shop.client.call("watch_app", stop=pending["subId"])["existed"] is True
    pending = watch(filter={"of": "shop/handle", "hits": 1})
    assert call()["ok"]
    answer = shop.client.call("wait_for", query=pending["query"], since=pending["since"])
    assert "call shop/handle " in answer["result"][0][1]
    assert "args=(arg0=[:add 3]) result=" in answer["result"][0][1]
    assert "ended=1 hits" in answer["result"][0][1]


NAMED = ("jvm", "ipykernel", "hy")
"""REPLs that show code the message by which it came: there its events carry who evaluated it."""
THREAD = {
    "jvm": '(.join (doto (Thread. (fn [] (codriver.seam/emit! "fx" "thread"))) .start))',
    "ipykernel": "import threading\nthread = threading.Thread(target=seam.emit, args=('fx', 'thread'))\n"
    "thread.start()\nthread.join()",
    "hy": '(import threading) (setv thread (threading.Thread :target codriver_seam.emit :args #("fx" "thread"))) '
    "(thread.start) (thread.join)",
}  # fmt: skip


def test_events_caused_by_evaluated_code_have_its_origin_if_the_repl_supports_this(shop):
    def named(code, who):
        done = shop.client.call("evaluate_code", code=code, who=who, detail=True)
        assert done["ok"], done
        [*_, line] = shop.inspect("trace", filter={"opType": "fx"})["lines"]
        assert f" by={who}/{done['evaluationId']}" in line or " by=" not in line, line
        return " by=" in line

    name = shop.found.name
    assert [named(shop.words["emit"], who) for who in ("bea", "cleo")] == [name in NAMED] * 2
    # A thread may outlive what began it, and then be the application's.
    assert name not in NAMED or not named(THREAD[name], "bea")


def test_an_existing_application_is_found_on_connect_and_removed_with_its_repl(shop, tmp_path):
    shop.client.close()
    shop.live.stop()
    with serving(tmp_path, *option_of(shop.found), "--repl", "none") as later, later.client() as new:
        until(lambda: "inspect_app" in new.tools(), "the application's tools")
        assert new.call("inspect_app")["frames"] == [shop.words["frame"]]
        shop.found.kill()
        until(lambda: not APP_TOOLS & set(new.tools()), "their going")
