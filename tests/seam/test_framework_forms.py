"""The forms that query a framework, run on the JVM and as ClojureScript (by nbb) with a framework written for these
tests.
"""

import itertools
import json
import re
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

import needs
import pytest
from real_repls import clojure, compiled, node

from codriver.features.applications import re_frame
from codriver.features.applications.framework_forms import BROWSER_DIALECT, Forms, Implementation, to_javascript_name
from codriver.features.applications.re_frame_answers import convert_answer
from codriver.features.applications.seam_providers import Provider, accessor_code

HERE = Path(__file__).parent
NBB = HERE.parent / "node" / "node_modules" / "nbb" / "cli.js"
NAMES = {
    "frames": "toy/frame-ids",
    "db": "toy/db-of",
    "enabled": "toy/enabled?",
    "handlers": "toy/handlers",
    "dispatch": "toy/dispatch-sync*",
    "dispatch-sync": "toy/dispatch-sync*",
    "trace": "toy/trace-buffer",
    "listen": "toy/listen!",
    "unlisten": "toy/unlisten!",
    "epochs": "toy/history",
    "restore": "toy/restore-epoch",
    "reset": "toy/replace-app-db!",
    "machines": "toy/machines",
    "snapshots": "toy/snapshots",
    "sensitive": "toy/sensitive",
}
ROLES = {
    "read": re_frame.RE_FRAME2_ROLES["read"],
    **{role: (Implementation(("toy/renamed-away",)), Implementation((name,))) for role, name in NAMES.items()},
}
ME = {"who": "claude-1", "evaluation": "e12"}
SINGLE: dict[str, list[object]] = {
    "opType": ["fx", ":error"],
    "operation": ["db/write"],
    "frame": [":toy/other"],
    "eventId": ["add"],
    "handlerId": ["fail"],
    "source": ["ui"],
    "dispatchId": [7],
    "severity": ["warning"],
    "origin": ["app"],
    "since": [100],
    "sinceMs": [900],
    "between": [[200, 600]],
}


SINGLES = [{name: value} for name, values in SINGLE.items() for value in values]
PAIRS = [{**item, **two} for item, two in itertools.combinations(SINGLES, 2) if item.keys() != two.keys()]
FILTERS = [{}, *SINGLES, *PAIRS]
ASKED = {
    "health": ("health", {}),
    "all": ("state", {}),
    "hidden": ("state", {"path": "[:user :token]"}),
    "below": ("state", {"path": "user.name"}),
    "text": ("state", {"path": '["text"]'}),
    "nowhere": ("state", {"path": "[:user :nobody]"}),
    "no-path": ("state", {"path": "[:user"}),
    "large": ("state", {"path": "long"}),
    "whole": ("state", {"path": "long", "includeLarge": True}),
    "part": ("state", {"path": "long", "includeLarge": True, "maxChars": 10, "from": 2995}),
    "deep": ("state", {"path": "deep"}),
    "strange": ("state", {"frame": "toy/nobody"}),
    "no-filter": ("trace", {"filter": {"nothing": 1}}),
    "predicate": ("trace", {"filter": {"pred": "mine"}}),
    "added": ("dispatch", {"event": "[:add 3]", "sync": True}),
    "diff": ("diff", {}),
    "failed": ("dispatch", {"event": "[:fail 1]", "sync": True}),
    "after failed": ("state", {"path": "n"}),
    "spilled": ("dispatch", {"event": "[:spill 1]", "sync": True}),
    "after spilled": ("state", {"path": "n"}),
    "secret": ("dispatch", {"event": "[:secret]", "sync": True}),
    "code": ("dispatch", {"event": "(toy/frame-ids)", "sync": True}),
    "two": ("dispatch", {"event": "[:add 1] [:add 1]", "sync": True}),
    "mine": ("trace", {"filter": {"origin": "claude-1", "dispatchId": 1000}}),
    "evaluation": ("trace", {"filter": {"origin": "e12", "dispatchId": 1000}}),
    "the app's": ("trace", {"filter": {"origin": "app", "dispatchId": 1000}}),
    "last": ("trace", {"limit": 8}),
    "issues": ("issues", {"since": 120}),
    "epochs": ("epochs", {}),
    "changed n": ("epochs", {"path": "n"}),
    "changed name": ("epochs", {"path": "user.name"}),
    "changed nobody": ("epochs", {"path": "user.nobody"}),
    "handlers": ("handlers", {}),
    "one handler": ("handlers", {"id": ":fail"}),
    "machines": ("machines", {}),
    "restored": ("restore", {"epochId": 1}),
    "not restored": ("restore", {"epochId": 77}),
    "reset": ("reset", {"value": '{:n 9, :user {:token "token-of-bob"}}'}),
    "not reset": ("reset", {"value": "{:m 9}"}),
    "after reset": ("state", {}),
}  # fmt: skip


def _program(dialect):
    """Return the program that loads the framework and prints the answer to each query."""
    forms = Forms(re_frame.FORM_FILES, ROLES, re_frame.RE_FRAME2_MISSING_HINTS, re_frame.ACCESSOR_NAMES, dialect)
    provider = Provider("toy", frozenset({dialect}), "", forms, read=convert_answer, returns_json=True)
    words = {name: sorted(set(re.findall(r"\$(\w+)", forms[name]))) for name, _ in ASKED.values()}

    def function(name):
        """Return a form as a function of its arguments, so that it is read only once."""
        return f"(defn ask-{name} [{' '.join(words[name])}] {re.sub(r'[$](?=[a-zA-Z])', '', forms[name])})"

    def printed(name, requested, origin=ME):
        literals = replace(provider, forms={name: " ".join(f"${word}" for word in words[name])})
        return f'(println (str "answer:" (ask-{name} {accessor_code(literals, dialect, name, requested, origin)})))'

    names = " ".join(f"{json.dumps(to_javascript_name(name))} {name}" for name in sorted(set(NAMES.values())))
    google = (
        '(require \'[clojure.edn]) (set! (.-goog js/globalThis) (js-obj "getObjectByName" '
        f'(fn [name] (get {{"cljs.reader.read_string" clojure.edn/read-string {names}}} name))))'
    )
    return "\n".join(
        [
            "(require 'toy)",
            *([google] if dialect == BROWSER_DIALECT else []),
            "(toy/noise)",
            *map(function, words),
            *(printed("trace", {"filter": item, "limit": 1000}, origin=None) for item in FILTERS),
            *(printed(*request) for request in ASKED.values()),
        ]
    )


def _command(dialect, folder):
    if dialect == BROWSER_DIALECT:
        needs.node("nbb", "cli.js")
        return [*node, str(NBB), "-cp", str(HERE / "frameworks"), str(folder / "program.cljs")]
    command = clojure(str(folder / "program.cljs"), paths=[HERE / "frameworks"])
    if isinstance(command, str):
        needs.do_without(command)
    return compiled(command)


@pytest.fixture(scope="module", params=["clojure", BROWSER_DIALECT])
def contract_answers(request, tmp_path_factory):
    """Return the contract's answers by their names."""
    folder = tmp_path_factory.mktemp("forms")
    (folder / "program.cljs").write_text(_program(request.param))
    run = subprocess.run(_command(request.param, folder), capture_output=True, text=True, timeout=240, check=False)
    lines = [line[7:] for line in run.stdout.splitlines() if line.startswith("answer:")]
    assert len(lines) == len(FILTERS) + len(ASKED), run.stderr
    data = [json.loads(line, strict=False) for line in lines]
    requested = zip(ASKED.items(), data[len(FILTERS) :], strict=True)
    return Answers(
        {name: convert_answer(accessor, element) for (name, (accessor, _)), element in requested}, data[: len(FILTERS)]
    )


@dataclass
class Answers:
    answers: dict
    """The contract's answers by the names of what was asked."""
    filtered: list
    """What the form of the trace gave for each filter."""

    def __getitem__(self, name):
        return self.answers[name]


def _passes(row, expected):
    fields = {"severity": "opType"}
    tests = {
        "since": lambda value: row["id"] > value,
        "sinceMs": lambda value: row["time"] * 1000 > value,
        "between": lambda value: value[0] <= row["time"] * 1000 <= value[1],
        "origin": lambda value: (row["origin"] or "app") == value,
    }
    plain = lambda value: str(value).removeprefix(":")  # noqa: E731
    return all(
        tests[name](value) if name in tests else plain(row[fields.get(name, name)]) == plain(value)
        for name, value in expected.items()
    )


def test_each_filter_and_pair_of_filters_matches_a_plain_search(contract_answers):
    everything, *rest = [item["events"] for item in contract_answers.filtered]
    assert len(everything) == 120
    for expected, rows in zip([*SINGLES, *PAIRS], rest, strict=True):
        assert [row["id"] for row in rows] == [row["id"] for row in everything if _passes(row, expected)], expected
    assert all(rest[: len(SINGLES)])
    assert (contract_answers["no-filter"]["reason"], contract_answers["predicate"]["reason"]) == (
        "accessor-failed",
        "no-such-predicate",
    )


def test_values_declared_sensitive_are_hidden_everywhere(contract_answers):
    assert "token-of" not in json.dumps([contract_answers.answers, contract_answers.filtered])
    assert contract_answers["hidden"] == {
        "ok": True, "frame": ":toy/main", "path": "[:user :token]", "value": ":codriver/redacted", "redacted": 1,
        "elided": 0,
    }  # fmt: skip
    assert '"it said <redacted>"' in contract_answers["all"]["value"]
    assert "no <redacted>" in contract_answers["failed"]["hint"]
    assert contract_answers["after reset"]["value"] == "{:n 9, :user {:token :codriver/redacted}}"


def test_a_path_is_accepted_in_any_notation_and_refused_with_its_longest_existing_prefix(contract_answers):
    assert (contract_answers["below"]["value"], contract_answers["text"]["value"]) == ('"Ada"', "#{:a}")
    assert contract_answers["nowhere"]["hint"] == "the path exists up to [:user], where the keys are :name, :token"
    assert {contract_answers[name]["reason"] for name in ("nowhere", "no-path")} == {"path-not-found"}
    assert contract_answers["strange"] == {
        "ok": False,
        "reason": "no-such-frame",
        "hint": 'there is no frame "toy/nobody"; the frames are: :toy/main, :rf/causa',
    }


def test_a_large_value_is_marked_with_the_path_that_fetches_it(contract_answers):
    mark = "#codriver/elided {:type string :count 3000 :path [:long]}"
    assert (contract_answers["large"]["value"], contract_answers["large"]["elided"]) == (mark, 1)
    assert mark in contract_answers["all"]["value"]
    assert "#codriver/elided {:type vector :count 60 :path [:many]}" in contract_answers["all"]["value"]
    assert contract_answers["deep"]["value"].startswith("[[[[[[[#codriver/elided")
    assert contract_answers["whole"]["value"] == json.dumps("x" * 3000)
    assert (contract_answers["part"]["value"], contract_answers["part"]["from"], contract_answers["part"]["total"]) == (
        'xxxxxx"',
        2995,
        3002,
    )


def test_a_synchronous_event_reports_the_changes_of_its_epoch(contract_answers):
    changes = [{"op": "changed", "path": "[:n]", "before": "0", "after": "3"}]
    assert (contract_answers["added"]["changes"], contract_answers["added"]["epochId"]) == (changes, 1)
    assert (contract_answers["diff"]["changes"], contract_answers["diff"]["epochId"]) == (changes, 1)


def test_a_failure_swallowed_by_the_framework_is_reported_and_undone(contract_answers):
    assert contract_answers["failed"]["reason"] == contract_answers["spilled"]["reason"] == "handler-failed"
    assert contract_answers["failed"]["hint"] == "ExceptionInfo: no <redacted>\\nhere {:n 1} in fail at other.cljc:9."
    assert contract_answers["spilled"]["hint"].endswith(" were reverted.")
    assert contract_answers["after failed"]["value"] == contract_answers["after spilled"]["value"] == "3"
    outcomes = {row["eventId"]: row["outcome"] for row in contract_answers["epochs"]["epochs"]}
    assert outcomes == {"add": "ok", "fail": "failed", "spill": "failed", "rf.epoch/db-replaced": "ok", "secret": "ok"}


def test_all_events_caused_by_a_change_have_the_origin_of_the_change(contract_answers):
    assert [line.split()[2:] for line in contract_answers["mine"]["lines"]] == [
        ["event/dispatched", "toy/main", "add", "d1000", "by=claude-1/e12"],
        ["event", "toy/main", "add", "d1000", "by=claude-1/e12"],
    ]
    assert contract_answers["mine"]["lines"] == contract_answers["evaluation"]["lines"]
    assert contract_answers["the app's"]["lines"] == []
    assert contract_answers["epochs"]["epochs"][0]["origin"] == "claude-1/e12"


def test_epochs_that_changed_a_path_are_listed_with_their_changes(contract_answers):
    rows = [
        (row["eventId"], [(item["before"], item["after"]) for item in row["changes"]])
        for row in contract_answers["changed n"]["epochs"]
    ]
    assert rows == [("add", [("0", "3")]), ("spill", [("3", "-1")]), ("rf.epoch/db-replaced", [("-1", "3")])]
    assert contract_answers["changed name"]["epochs"] == []
    assert contract_answers["changed nobody"]["reason"] == "path-not-found"


def test_a_sensitive_event_is_counted_and_not_listed(contract_answers):
    assert not [line for line in contract_answers["last"]["lines"] if " event secret" in line]
    assert contract_answers["last"]["redacted"] == 1


def test_an_event_is_parsed_as_data_and_never_evaluated(contract_answers):
    assert {contract_answers[name]["reason"] for name in ("code", "two")} == {"not-an-event-vector"}


def test_each_failure_is_listed_in_one_line(contract_answers):
    assert [line.split(" ", 1)[1] for line in contract_answers["issues"]["lines"]] == [
        f"error rf.error/handler-exception toy/main {event} by=claude-1/e12 "
        "ExceptionInfo: no <redacted>\\nhere {:n 1} at other.cljc:9"
        for event in ("fail d1001", "spill d1002")
    ]


def test_the_location_of_a_handler_is_found_however_the_framework_stores_it(contract_answers):
    places = {
        (row["kind"], row["id"]): (row.get("file"), row.get("line")) for row in contract_answers["handlers"]["handlers"]
    }
    assert places == {
        ("event", "add"): ("toy.cljc", 7),
        ("event", "fail"): ("other.cljc", 9),
        ("event", "spill"): (None, None),
        ("sub", "n"): ("toy.cljc", 8),
    }
    assert [row["id"] for row in contract_answers["one handler"]["handlers"]] == ["fail"]


def test_machines_are_listed_with_their_state_or_without_one(contract_answers):
    assert contract_answers["machines"]["machines"] == {
        "door": {"state": "{:state :open}"},
        "gate": {"state": "not started"},
    }


def test_a_state_change_names_the_epoch_that_undoes_it(contract_answers):
    assert (contract_answers["restored"]["undoneBy"], contract_answers["reset"]["undoneBy"]) == (5, 5)
    assert contract_answers["reset"]["epochId"] == 6


def test_the_cause_of_a_refusal_is_found_in_the_trace(contract_answers):
    assert contract_answers["not restored"] == {
        "ok": False, "reason": "unknown-epoch", "hint": "rf.epoch/restore-unknown-epoch epoch-id=77",
    }  # fmt: skip
    assert contract_answers["not reset"]["reason"] == "schema-mismatch"
