"""Events of an application in Clojure or nbb: their sources, how they are pushed, and many threads.

The 13 filters of a trace, each alone and in pairs, find what a plain search finds, in every language.
"""

import itertools
import json
import random

import pytest
from seam_lisp import edn

import codriver_seam as seam
from codriver_seam.event_filters import FILTER_NAMES

TOKEN = "s3cr3t-token-of-ada"


@pytest.fixture
def jvm(lisp):
    if lisp.dialect != "jvm":
        pytest.skip("JavaScript has one thread")
    return lisp


def until(condition):
    """Poll until it is true; each query is answered by the process, which continues meanwhile."""
    while not condition():
        pass


def pushed(lisp, stream, number):
    """Return so many events of a stream, in order."""
    found = []
    while len(found) < number:
        found += lisp.frame(stream)["events"]
    return found


def test_events_are_pushed_immediately_with_their_fields_and_line(lisp):
    answer = lisp.query("subscribe", {"who": "ann", "evaluation": "e1"}, topic="trace")
    assert answer["lastId"] == 0
    lisp.query("dispatch", {"who": "bob", "evaluation": "e2"}, event="[:add 1]", sync=True)
    first, second = pushed(lisp, answer["subId"], 2)
    assert {name: first[name] for name in first if name != "time"} == {
        "id": 1, "opType": "event", "operation": "dispatched", "frame": ":shop", "eventId": ":add", "dispatchId": 1,
        "origin": {"who": "bob", "evaluation": "e2"}, "line": "1 event dispatched :shop :add d1 by=bob/e2",
    }  # fmt: skip
    assert (second["opType"], second["operation"]) == ("epoch", "snapshotted")
    assert second["ms"] >= 0
    until(lambda: lisp.query("subscriptions")["subs"][0]["queueDepth"] == 0)
    [row] = lisp.query("subscriptions")["subs"]
    assert (row["id"], row["topic"], row["filter"], row["origin"]) == (answer["subId"], "trace", {}, "ann")
    assert (row["sent"], row["dropped"], row["queueDepth"]) == (2, 0, 0)
    assert lisp.query("unsubscribe", subId=answer["subId"]) == {"ok": True, "subId": answer["subId"], "existed": True}
    assert not lisp.query("unsubscribe", subId=answer["subId"])["existed"]


def test_only_the_newest_events_of_a_flood_are_kept_and_the_others_are_counted(lisp):
    stream = lisp.query("subscribe", topic="fx")["subId"]
    lisp.run("(dotimes [n 3000] (seam/emit! :fx n))")
    until(lambda: lisp.query("subscriptions")["subs"][0]["queueDepth"] == 0)
    [row] = lisp.query("subscriptions")["subs"]
    assert row["sent"] + row["dropped"] == 3000
    assert row["dropped"] > 0
    frames, newest = [], None
    while newest != "2999":
        frames.append(lisp.frame(stream))
        newest = frames[-1]["events"][-1]["operation"]
    assert all(len(frame["events"]) <= 100 for frame in frames)
    assert sum(frame["dropped"] for frame in frames) == row["dropped"]
    assert sum(len(frame["events"]) for frame in frames) == row["sent"]


def test_large_events_use_up_the_queue_limit_earlier_than_small_events(lisp):
    stream = lisp.query("subscribe", topic="fx", maxBytes=5000)["subId"]
    lisp.run('(dotimes [n 40] (seam/emit! :fx n {:text (apply str (repeat 300 "x"))}))')
    until(lambda: lisp.query("subscriptions")["subs"][0]["queueDepth"] == 0)
    [row] = lisp.query("subscriptions")["subs"]
    assert row["sent"] + row["dropped"] == 40
    assert row["dropped"] > 0
    found = []
    while not found or found[-1]["operation"] != "39":
        found += lisp.frame(stream)["events"]
    assert len(found) == row["sent"]


def test_a_subscription_that_is_not_renewed_ends(lisp):
    short = lisp.query("subscribe", topic="error", leaseS=0.2)["subId"]
    long = lisp.query("subscribe", topic="error", leaseS=60)["subId"]
    until(lambda: [row["id"] for row in lisp.query("subscriptions")["subs"]] == [long])
    kept = lisp.query("subscribe", topic="error", leaseS=5)["subId"]
    assert {row["id"] for row in lisp.query("subscriptions", renew=[kept, short])["subs"]} == {kept, long}
    assert lisp.query("reset-for-test")["ok"]
    assert lisp.query("subscriptions")["count"] == 0


def test_at_most_ten_subscriptions_to_known_topics_are_allowed(lisp):
    lisp.refused("subscribe", "accessor-failed", topic="fx", filter={"colour": "red"})
    for _ in range(10):
        lisp.query("subscribe", topic="error")
    assert "already 10 subscriptions" in lisp.refused("subscribe", "too-many-subscriptions", topic="error")["hint"]
    assert "epoch" in lisp.refused("subscribe", "unknown-topic", topic="logs")["hint"]
    lisp.run("(shop/open!)")
    assert lisp.query("subscriptions")["count"] == 0


def test_no_sensitive_value_is_pushed(lisp):
    stream = lisp.query("subscribe", topic="trace")["subId"]
    lisp.run(f'(seam/emit! :log "auth {TOKEN}" {{:message "Bearer {TOKEN}" :source "{TOKEN}"}})')
    [event] = pushed(lisp, stream, 1)
    assert TOKEN[:6] not in json.dumps(event)
    assert event["operation"] == "auth <redacted>"


def test_a_failing_filter_predicate_excludes_all_events_without_ending_the_stream(lisp):
    lisp.run('(seam/predicate! :bad (fn [event] (throw (ex-info "bad" {}))))')
    lisp.query("subscribe", topic="trace", filter={"pred": "bad"})
    assert lisp.run("(seam/emit! :log 1)") == "1"
    assert lisp.query("subscriptions")["subs"][0]["queueDepth"] == 0


def test_the_writer_thread_exists_as_long_as_there_are_subscriptions(jvm):
    alive = '(count (filter #(= "codriver seam" (.getName %)) (keys (Thread/getAllStackTraces))))'
    until(lambda: jvm.run(alive) == "0")
    for _ in range(3):
        jvm.query("subscribe", topic="error")
    assert jvm.run(alive) == "1"
    jvm.query("reset-for-test")
    until(lambda: jvm.run(alive) == "0")
    stream = jvm.query("subscribe", topic="error")["subId"]
    jvm.run("(seam/emit! :error :late)")
    assert [event["operation"] for event in pushed(jvm, stream, 1)] == [":late"]


def test_a_value_sent_to_tap_is_recorded_as_an_event(lisp):
    lisp.run("(do (seam/tap!) (seam/tap!))")
    lisp.run(f'(tap> {{:order 7 :of "{TOKEN}" :lines (range 60)}})')
    until(lambda: lisp.query("trace")["total"])
    [line] = lisp.query("trace")["lines"]
    assert line.startswith('1 tap tap> value={:order 7, :of "<redacted>"')


def test_an_uncaught_exception_is_an_issue_with_its_location(lisp):
    lisp.run("(do (seam/watch-uncaught!) (seam/watch-uncaught!))")
    if lisp.dialect == "jvm":
        lisp.run("(doto (Thread. (fn [] (shop/handle [:lost]))) .start .join)")
    else:
        lisp.run('(js/process.emit "uncaughtExceptionMonitor" (ex-info "no handler of :lost" {}))')
    [line] = lisp.query("issues")["lines"]
    assert "error ExceptionInfo " in line
    assert "no handler of :lost" in line
    assert lisp.dialect != "jvm" or "shop.cljc:" in line


def test_concurrent_changes_by_threads_are_separate_epochs_without_loss(jvm):
    jvm.run("""
        (let [threads (doall (for [_ (range 4)] (Thread. (fn [] (dotimes [_ 500] (swap! shop/db update :count inc))))))]
          (run! (fn [t] (.start t)) threads)
          (run! (fn [t] (.join t)) threads))
        """)
    assert jvm.run("(:count @shop/db)") == "2000"
    assert jvm.query("health")["lastId"] == 4000
    rows = jvm.query("epochs", path="[:count]", limit=50)["epochs"]
    steps = [(int(row["changes"][0]["before"]), int(row["changes"][0]["after"])) for row in rows]
    assert len(set(steps)) == 50
    assert all(after == before + 1 for before, after in steps)
    assert len({row["epochId"] for row in rows}) == 50


def test_a_future_inherits_the_origin_of_its_epoch_and_its_later_epoch_is_separate(jvm):
    jvm.run("(def gate (promise))")
    jvm.run("""
        (binding [seam/*origin* {:who "ann"}]
          (def later (seam/epoch :shop :outer
                       (future @gate (seam/epoch :shop :inner (swap! shop/db update :count inc))))))
        """)
    jvm.run("(do (deliver gate 1) @later)")
    rows = jvm.query("epochs")["epochs"]
    assert [(row["eventId"], row["origin"]) for row in rows] == [(":outer", "ann"), (":inner", "ann")]
    assert rows[0]["dispatchId"] == rows[1]["dispatchId"]


def test_a_queued_event_that_is_never_handled_is_reported_as_overdue(lisp):
    lisp.query("dispatch", {"who": "ann"}, event="[:add 1]")
    assert lisp.query("issues")["count"] == 0
    lisp.run("""
        (with-redefs [seam/clock-ms (let [now (#'seam/clock-ms)] (fn [] (+ now 6000)))] (seam/call "trace"))
        """)
    [line] = lisp.query("issues")["lines"]
    assert "error not-begun :shop :add d1 by=ann" in line
    assert lisp.query("issues")["count"] == 1


def watched(lisp, **arguments):
    return lisp.query("subscribe", topic="calls", filter={"of": "shop:add", **arguments})


def test_calls_of_a_function_are_reported_until_the_stream_ends(lisp):
    before = lisp.run("(identical? shop/add shop/add)")
    lisp.run("(def added shop/add)")
    answer = watched(lisp)
    assert answer["capture"]["of"] == "shop/add"
    assert answer["capture"]["at"].endswith("shop.cljc:10")
    lisp.run("(shop/handle [:add 5])")
    [event] = pushed(lisp, answer["subId"], 1)
    assert (event["opType"], event["operation"], event["source"]) == ("call", "shop/add", answer["subId"])
    assert "args=(arg0={:count 0, :user {:name " in event["line"]
    assert "amount=5) result={:count 5, " in event["line"]
    assert ":token <not shown>" in event["line"]
    assert TOKEN[:6] not in event["line"]
    [row] = lisp.query("subscriptions")["subs"]
    assert row["capture"] == {"of": "shop/add", "hits": 1, "left": 49}
    assert lisp.query("unsubscribe", subId=answer["subId"])["existed"]
    assert lisp.run("(identical? added shop/add)") == before == "true"
    lisp.run("(shop/handle [:add 5])")
    assert lisp.query("trace", filter={"opType": "call"})["total"] == 1


def test_a_throwing_call_is_reported_and_still_throws(lisp):
    answer = lisp.query("subscribe", topic="calls", filter={"of": "shop/handle", "when": '(= raised "ExceptionInfo")'})
    lisp.run("(shop/handle [:add 1])")
    thrown = lisp.run(
        "(try (shop/handle [:lost]) (catch #?(:clj Throwable :cljs :default) error (ex-message error)))"
        if lisp.dialect == "nbb"
        else "(try (shop/handle [:lost]) (catch Throwable error (ex-message error)))"
    )
    assert thrown == '"no handler of :lost"'
    [event] = pushed(lisp, answer["subId"], 1)
    assert "args=(arg0=[:lost]) raised=ExceptionInfo: no handler of :lost" in event["line"]


@pytest.mark.parametrize("when", ["amount > 3", "(and (> amount 3) (< amount 6))", "(= (:count result) 5)"])
def test_a_condition_selects_calls_and_a_hit_limit_ends_the_stream(lisp, when):
    answer = watched(lisp, when=when, hits=1)
    lisp.run("(run! (fn [n] (shop/add {:count 0} n)) [1 2 5 3 5 5])")
    [event] = pushed(lisp, answer["subId"], 1)
    assert "amount=5" in event["line"]
    assert "ended=1 hits" in event["line"]
    until(lambda: lisp.query("subscriptions")["count"] == 0)


def test_capturing_calls_with_an_invalid_function_or_condition_is_refused(lisp):
    for of in ("shop:none", "none:add", "shop", "shop.cljc:12", "clojure.core/when", "shop/token"):
        lisp.refused("subscribe", "path-not-found", topic="calls", filter={"of": of})
    for when in ("(slurp 1)", "amount >", "(> amount other)", "1 > 2", "#=(+ 1 2)"):
        lisp.refused("subscribe", "accessor-failed", topic="calls", filter={"of": "shop/add", "when": when})
    lisp.refused("subscribe", "no-such-predicate", topic="calls", filter={"of": "shop/add", "pred": "x"})
    assert lisp.query("subscriptions")["count"] == 0


def test_two_captures_of_one_function_can_end_in_any_order_and_keep_results_lazy(lisp):
    lisp.run("(def added shop/add)")
    lisp.run("(def asked (atom 0))")
    first, second = watched(lisp)["subId"], watched(lisp)["subId"]
    lisp.run("(do (shop/add {:count 1 :lazy (map (fn [n] (swap! asked inc) n) (list 1 2 3))} 1) nil)")
    for stream in (first, second):
        [event] = pushed(lisp, stream, 1)
        assert "<not realised>" in event["line"]
    assert lisp.run("@asked") == "0"
    for stream in (first, second):
        lisp.query("unsubscribe", subId=stream)
    assert lisp.run("(identical? added shop/add)") == "true"


def test_a_function_with_primitive_arguments_is_refused(jvm):
    jvm.run("(defn area ^long [^long a ^long b] (* a b))")
    name = json.loads(jvm.run("(str (symbol #'area))"))
    hint = jvm.refused("subscribe", "path-not-found", topic="calls", filter={"of": name})["hint"]
    assert "primitive" in hint


LOST = '(seam/epoch :shop :order/ship (throw (ex-info "lost" {})))'


def catching(lisp, code):
    """Return a form that returns the error of another one."""
    return f"(try {code} (catch {':default' if lisp.dialect == 'nbb' else 'Throwable'} error error))"


def errors(lisp):
    return [event for event in lisp.query("trace", raw=True)["events"] if event["opType"] == "error"]


def test_a_failure_reported_by_several_sources_is_one_error_with_all_details(lisp):
    lisp.run(f'(let [error {catching(lisp, LOST)}] (seam/note-error! error {{:source "http", :status 500}}))')
    lisp.run("(seam/frame! :cart {:get (constantly 0)})")
    lisp.run(catching(lisp, f"(seam/epoch :cart :cart/buy {LOST})") + " nil")
    [line] = [line for line in lisp.query("issues")["lines"] if "status=500" in line]
    assert "error ExceptionInfo :shop :order/ship d1 message=lost" in line
    first, second = errors(lisp)
    epochs = lisp.query("epochs", frame=":shop")["epochs"]
    assert [event["tags"]["epoch"] for event in (first, second)] == [epoch["epochId"] for epoch in epochs]
    assert (first["source"], first["dispatchId"]) == ("http", 1)
    assert (second["frame"], second["tags"]["within"]) == (":shop", ":cart/buy")


def test_an_error_raised_from_another_counts_as_the_same_failure(lisp):
    lisp.run(
        '(let [error (ex-info "tea" {})] (seam/note-error! error) (seam/note-error! (ex-info "no order" {} error)))'
    )
    [event] = errors(lisp)
    assert event["tags"]["message"] == "tea"
    assert event["tags"]["raised"] == "ExceptionInfo: no order"


def test_issues_count_each_failure_once_regardless_of_how_often_it_is_reported(lisp):
    for _ in range(3):
        lisp.run(f"(let [error {catching(lisp, LOST)}] (seam/note-error! error) nil)")
    [line] = lisp.query("issues")["lines"]
    assert line.endswith(" \N{MULTIPLICATION SIGN}3")


def test_one_error_thrown_in_two_dispatches_counts_as_two_failures(lisp):
    thrown = catching(lisp, "(seam/epoch :shop :order/ship (throw kept))")
    lisp.run(f'(let [kept (ex-info "the only one" {{}})] {thrown} {thrown} nil)')
    assert len(errors(lisp)) == 2


def test_a_failure_that_ends_its_thread_counts_as_one_error_per_thread(jvm):
    jvm.run("(seam/watch-uncaught!)")
    jvm.run("""
        (let [kept (ex-info "the only one" {})]
          (dotimes [n 2] (doto (Thread. (fn [] (throw kept)) (str "t" n)) .start .join)))
    """)
    jvm.run(f'(doto (Thread. (fn [] {LOST}) "orders") .start .join)')
    first, second, third = errors(jvm)
    assert [event["tags"]["thread"] for event in (first, second, third)] == ["t0", "t1", "orders"]
    assert third["tags"]["epoch"]


def test_a_stream_sends_each_failure_once_with_the_details_known_at_that_time(lisp):
    stream = lisp.query("subscribe", topic="error")["subId"]
    later = lisp.query("subscribe", topic="error", filter={"source": "http"})["subId"]
    lisp.run(f'(let [error {catching(lisp, LOST)}] (seam/note-error! error {{:source "http"}}))')
    lisp.run('(seam/note-error! (ex-info "last" {}) {:source "http"})')
    message = {stream: [], later: []}
    while min(map(len, message.values())) < 2:
        frame = lisp.frames.get(timeout=30)
        message.get(frame["sub"], []).extend("lost" in event["line"] for event in frame["events"])
    assert [*message.values()] == [[True, False]] * 2


CHOICES = {
    "opType": ["event", "fx", "error", "warning", "info", "log"], "operation": ["a", "b", "c"],
    "frame": [None, "shop", "cart"], "eventId": [None, "add"], "handlerId": [None, "h"], "source": [None, "logging"],
    "origin": [None, {"who": "ann", "evaluation": "e1"}, {"who": "bob", "evaluation": "e2"}],
    "dispatchId": [None, 1, 2],
}  # fmt: skip
COUNT = 150
DRAW = random.Random(7)
EVENTS = [{name: DRAW.choice(choices) for name, choices in CHOICES.items()} for _ in range(COUNT)]


def in_python(name, arguments):
    return json.loads(seam.call(name, json.dumps(arguments)))


def emit_in_python():
    for event in EVENTS:
        origin = seam.origin.set(event["origin"])
        now = (event["dispatchId"], frozenset()) if event["dispatchId"] else None
        cause = seam.recording.cause.set(now)
        seam.emit(
            event["opType"], event["operation"], frame=event["frame"], event_id=event["eventId"],
            handler_id=event["handlerId"], source=event["source"],
        )  # fmt: skip
        seam.recording.cause.reset(cause)
        seam.origin.reset(origin)
    seam.predicate("not-a", lambda event: event["operation"] != "a")


def emit_in_lisp(lisp):
    lisp.run("(do (seam/forget!) (seam/install! true))")
    # No text in the code of the JVM is longer than 64 KiB.
    for start in range(0, COUNT, 75):
        lisp.run(f"""
            (doseq [{{:keys [opType operation frame eventId handlerId source origin dispatchId]}}
                    (clojure.edn/read-string {json.dumps(edn(EVENTS[start : start + 75]))})]
              (binding [seam/*origin* origin, seam/*cause* (when dispatchId {{:dispatch-id dispatchId}})]
                (seam/emit! (keyword opType) operation
                            {{:frame frame :event-id eventId :handler-id handlerId :source source}})))
            """)
    lisp.run('(seam/predicate! "not-a" (fn [event] (not= "a" (:operation event))))')


def values_of(message):
    """Return the filters to try, by the times of the events."""
    middle = message[75]["time"] * 1000
    values = {
        "operation": "b", "opType": "fx", "frame": "shop", "severity": "error", "eventId": "add", "handlerId": "h",
        "source": "logging", "origin": "ann", "dispatchId": 2, "since": 75, "sinceMs": middle,
        "between": [message[30]["time"] * 1000, middle], "pred": "not-a",
    }  # fmt: skip
    assert values.keys() == set(FILTER_NAMES)
    assert len(FILTER_NAMES) == 13
    names = [*itertools.combinations(values, 1), *itertools.combinations(values, 2)]
    return [{name: values[name] for name in chosen} for chosen in names]


def matches(event, name, value):
    who = event["origin"] or {}
    same = {"severity": "opType"}
    tests = {
        "origin": lambda: value in (who.get("who", "app"), who.get("evaluation")),
        "since": lambda: event["id"] > value,
        "sinceMs": lambda: event["time"] * 1000 > value,
        "between": lambda: value[0] <= event["time"] * 1000 <= value[1],
        "pred": lambda: event["operation"] != "a",
    }
    return tests[name]() if name in tests else event[same.get(name, name)] == value


def expected(message, requested):
    times = {event["id"]: event["time"] for event in message}
    events = [{**event, "id": number, "time": times[number]} for number, event in enumerate(EVENTS, 1)]
    return [event["id"] for event in events if all(matches(event, name, value) for name, value in requested.items())]


def ids_in(lines):
    return [int(line.split(" ", 1)[0]) for line in lines]


def test_filters_and_pairs_of_filters_in_python_match_a_plain_search():
    emit_in_python()
    reported = in_python("trace", {"raw": True, "limit": COUNT})["events"]
    for requested in values_of(reported):
        answer = in_python("trace", {"filter": requested, "limit": COUNT})
        assert ids_in(answer["lines"]) == expected(reported, requested), requested


def test_filters_and_pairs_of_filters_in_clojure_match_a_plain_search(lisp):
    emit_in_lisp(lisp)
    answer = lisp.query("trace", raw=True, limit=COUNT)["events"]
    for requested in values_of(answer):
        assert ids_in(lisp.query("trace", filter=requested, limit=COUNT)["lines"]) == expected(answer, requested), (
            requested
        )


def test_events_have_the_same_fields_in_every_language(lisp):
    emit_in_python()
    emit_in_lisp(lisp)
    rows = [in_python("trace", {"raw": True, "limit": COUNT}), lisp.query("trace", raw=True, limit=COUNT)]
    for row in rows:
        for event in row["events"]:
            del event["time"]
    assert rows[0] == rows[1]
    assert in_python("trace", {"limit": COUNT})["lines"] == lisp.query("trace", limit=COUNT)["lines"]


@pytest.mark.parametrize("topic", ["trace", "fx", "error"])
def test_a_stream_supports_the_same_filters_as_a_trace(lisp, topic):
    lisp.run("(do (seam/forget!) (seam/install! true))")
    requested = {"operation": "b", "frame": "shop"}
    answer = lisp.query("subscribe", topic=topic, filter=requested)
    lisp.run("""
        (doseq [op [:fx :error :log], name ["a" "b"], frame ["shop" "cart"]] (seam/emit! op name {:frame frame}))
        """)
    ops = ["fx", "error", "log"] if topic == "trace" else [topic]
    found = []
    while len(found) < len(ops):
        frame = lisp.frame(answer["subId"])
        assert frame["dropped"] == 0
        found += frame["events"]
    assert [(event["opType"], event["operation"], event["frame"]) for event in found] == [
        (op, "b", "shop") for op in ops
    ]
    assert lisp.query("unsubscribe", subId=answer["subId"])["existed"]
