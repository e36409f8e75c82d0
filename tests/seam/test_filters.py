"""The 13 filters of a trace: each alone and in pairs finds what a plain search finds, alike in every language."""

import itertools
import json
import random

import pytest
from seam_lisp import edn

import codriver_seam as seam
from codriver_seam.accessors import FILTERS

CHOICES = {
    "opType": ["event", "fx", "error", "warning", "info", "log"], "operation": ["a", "b", "c"],
    "frame": [None, "shop", "cart"], "eventId": [None, "add"], "handlerId": [None, "h"], "source": [None, "logging"],
    "origin": [None, {"who": "ann", "evaluation": "e1"}, {"who": "bob", "evaluation": "e2"}],
    "dispatchId": [None, 1, 2],
}  # fmt: skip
DRAW = random.Random(7)
EVENTS = [{name: DRAW.choice(choices) for name, choices in CHOICES.items()} for _ in range(500)]


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
    for start in range(0, 500, 100):
        lisp.run(f"""
            (doseq [{{:keys [opType operation frame eventId handlerId source origin dispatchId]}}
                    (clojure.edn/read-string {json.dumps(edn(EVENTS[start : start + 100]))})]
              (binding [seam/*origin* origin, seam/*cause* (when dispatchId {{:dispatch-id dispatchId}})]
                (seam/emit! (keyword opType) operation
                            {{:frame frame :event-id eventId :handler-id handlerId :source source}})))
            """)
    lisp.run('(seam/predicate! "not-a" (fn [event] (not= "a" (:operation event))))')


def values_of(told):
    """The filters that are tried, by the times that the events got."""
    middle = told[250]["time"] * 1000
    values = {
        "operation": "b", "opType": "fx", "frame": "shop", "severity": "error", "eventId": "add", "handlerId": "h",
        "source": "logging", "origin": "ann", "dispatchId": 2, "since": 250, "sinceMs": middle,
        "between": [told[100]["time"] * 1000, middle], "pred": "not-a",
    }  # fmt: skip
    assert values.keys() == set(FILTERS)
    assert len(FILTERS) == 13
    names = [*itertools.combinations(values, 1), *itertools.combinations(values, 2)]
    return [{name: values[name] for name in chosen} for chosen in names]


def holds(event, name, value):
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


def expected(told, asked):
    times = {event["id"]: event["time"] for event in told}
    events = [{**event, "id": number, "time": times[number]} for number, event in enumerate(EVENTS, 1)]
    return [event["id"] for event in events if all(holds(event, name, value) for name, value in asked.items())]


def ids_in(lines):
    return [int(line.split(" ", 1)[0]) for line in lines]


def test_each_filter_alone_and_in_pairs_finds_in_python_what_a_plain_search_finds():
    emit_in_python()
    told = in_python("trace", {"raw": True, "limit": 500})["events"]
    for asked in values_of(told):
        answer = in_python("trace", {"filter": asked, "limit": 500})
        assert ids_in(answer["lines"]) == expected(told, asked), asked


def test_each_filter_alone_and_in_pairs_finds_in_clojure_what_a_plain_search_finds(lisp):
    emit_in_lisp(lisp)
    told = lisp.ask("trace", raw=True, limit=500)["events"]
    for asked in values_of(told):
        assert ids_in(lisp.ask("trace", filter=asked, limit=500)["lines"]) == expected(told, asked), asked


def test_what_an_event_has_is_the_same_in_every_language(lisp):
    emit_in_python()
    emit_in_lisp(lisp)
    rows = [in_python("trace", {"raw": True, "limit": 500}), lisp.ask("trace", raw=True, limit=500)]
    for row in rows:
        for event in row["events"]:
            del event["time"]
    assert rows[0] == rows[1]
    assert in_python("trace", {"limit": 500})["lines"] == lisp.ask("trace", limit=500)["lines"]


@pytest.mark.parametrize("topic", ["trace", "fx", "error"])
def test_a_stream_has_the_filters_of_a_trace(lisp, topic):
    lisp.run("(do (seam/forget!) (seam/install! true))")
    asked = {"operation": "b", "frame": "shop"}
    answer = lisp.ask("subscribe", topic=topic, filter=asked)
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
    assert lisp.ask("unsubscribe", subId=answer["subId"])["existed"]
