"""re-frame and Causa: answers of the contract from recorded results of their real functions.

They were recorded on the JVM with applications written for these tests: the core of re-frame 2 as of 2026-05-21 and re-
frame 1 of 2026-05-04, both unchanged, and Causa's runtime with its uses of the browser replaced, as it runs nowhere
else.
"""

import json
from pathlib import Path

import pytest

from codriver.features.applications import re_frame, seam_providers
from codriver.features.applications.framework_forms import (
    BROWSER_DIALECT,
    letfn_clauses,
    names_with_dependencies,
    to_javascript_name,
)
from codriver.features.applications.re_frame_answers import convert_answer
from codriver.features.applications.seam_answers import REFUSAL_REASONS

RECORDED = json.loads((Path(__file__).parents[2] / "seam" / "recorded" / "re_frame.json").read_text("utf-8"))
SECRET = "badge-of-ada"


def answer_of(application, accessor, **arguments):
    """Return the answer to a query of an application."""
    found = [row for row in RECORDED[application] if row["accessor"] == accessor and row["asked"] == arguments]
    assert len(found) == 1
    return convert_answer(accessor, found[0]["told"])


@pytest.mark.parametrize("application", RECORDED)
def test_every_answer_is_complete_or_refused_with_a_known_reason(application):
    for row in RECORDED[application]:
        answer = convert_answer(row["accessor"], row["told"])
        assert answer["ok"] is True or (answer["reason"] in REFUSAL_REASONS and answer["hint"].isprintable()), row


@pytest.mark.parametrize("application", ["re-frame2", "causa", "two frames"])
def test_values_declared_sensitive_are_in_no_answer(application):
    assert SECRET not in json.dumps(RECORDED[application])
    assert "badge-of-bob" not in json.dumps([row["told"] for row in RECORDED[application]])


@pytest.mark.parametrize("application", ["re-frame2", "causa", "re-frame2 without epochs"])
def test_a_failure_swallowed_by_a_synchronous_dispatch_is_reported(application):
    answer = answer_of(application, "dispatch", event="[:depot/lose]", sync=True)
    assert (answer["ok"], answer["reason"]) == (False, "handler-failed")
    assert "ExceptionInfo: no keeper" in answer["hint"]
    assert answer["hint"].endswith("in depot/lose at depot.clj:10.")


def test_changes_by_other_handlers_of_a_failed_event_are_rolled_back():
    answer = answer_of("re-frame2", "dispatch", event="[:depot/spill]", sync=True)
    assert answer["hint"].endswith("The state was restored: changes by other handlers of this event were reverted.")


def test_dispatching_an_event_without_a_handler_fails():
    assert answer_of("re-frame2", "dispatch", event="[:nobody]", sync=True)["reason"] == "handler-failed"
    assert answer_of("re-frame", "dispatch", event="[:nosuch]", sync=True)["reason"] == "missing-handler"
    assert answer_of("re-frame", "dispatch", event="[:boom]", sync=True)["reason"] == "handler-failed"


@pytest.mark.parametrize(("application", "most"), [("re-frame2", 20), ("causa", 50)])
def test_every_event_caused_by_a_dispatch_names_who_dispatched_it(application, most):
    [row] = [row for row in RECORDED[application] if row["asked"].get("filter") == {"origin": "claude-1"}]
    answer = convert_answer("trace", row["told"])
    assert 3 < answer["count"] <= most
    assert all(" by=claude-1/e12" in line for line in answer["lines"])
    assert {line.split()[1] for line in answer["lines"]} >= {"event", "error"}


def test_an_epoch_names_its_cause_and_is_marked_failed_if_its_handler_failed():
    rows = {row["eventId"]: row for row in answer_of("re-frame2", "epochs")["epochs"]}
    outcomes = {name: row["outcome"] for name, row in rows.items()}
    assert outcomes == {
        "depot/open": "ok",
        "depot/note": "ok",
        "depot/take": "ok",
        "depot/lose": "failed",
        "depot/spill": "failed",
        "rf.epoch/db-replaced": "ok",
        "nobody": "failed",
        "depot/count": "ok",
    }
    assert [rows[name]["origin"] for name in ("depot/open", "depot/take", "rf.epoch/db-replaced")] == [
        "app",
        "claude-1/e12",
        "?",
    ]


@pytest.mark.parametrize("application", ["re-frame2", "causa"])
def test_the_location_of_a_handler_is_found_even_if_its_accessor_finds_none(application):
    [row] = [row for row in RECORDED[application] if row["accessor"] == "handlers" and row["asked"].get("id")]
    places = {
        (item["kind"], item["file"], item["line"]) for item in convert_answer("handlers", row["told"])["handlers"]
    }
    assert places == {("event", "depot.clj", 4), ("sub", "depot.clj", 16)}


@pytest.mark.parametrize("accessor", ["epochs", "diff", "machines"])
def test_a_request_for_a_missing_namespace_fails_instead_of_returning_an_empty_list(accessor):
    answer = answer_of("re-frame2 without epochs", accessor)
    assert (answer["ok"], answer["reason"]) == (False, "band-missing")
    assert "the application does not load re-frame." in answer["hint"]


def test_the_health_report_names_each_missing_feature_and_what_provides_it():
    bands = answer_of("re-frame2 without epochs", "health")["bands"]
    assert {name for name, words in bands.items() if words is True} == {"inspect", "trace", "mutate", "handlers"}
    assert "day8/re-frame2-epoch" in bands["epochs"]
    assert bands["sensitive"] == "no path is marked as sensitive, so nothing is hidden"
    assert answer_of("re-frame2", "health")["bands"]["machines"] == "no machine is registered"
    old = answer_of("re-frame", "health")["bands"]
    assert {name for name, words in old.items() if words is True} == {"inspect", "mutate", "reset", "handlers"}


@pytest.mark.parametrize(
    ("has", "band"), [("trace", "trace"), ("restore", "restore"), ("db", "inspect"), ("dispatch", "mutate")]
)
def test_a_missing_feature_names_the_function_that_the_framework_version_lacks(has, band):
    [row] = [row for row in RECORDED["re-frame2"] if row["accessor"] == "health"]
    renamed = {**row["told"], "has": {**row["told"]["has"], has: False}, "missing": {"stream": "no"}}
    bands = convert_answer("health", renamed)["bands"]
    assert bands[band] == f"this version of the framework has no function for {has}"


def test_a_framework_without_debug_mode_has_no_optional_features():
    [row] = [row for row in RECORDED["re-frame2"] if row["accessor"] == "health"]
    bands = convert_answer("health", {**row["told"], "enabled": False})["bands"]
    assert all("debug mode" in str(words) for words in bands.values())


def test_a_request_that_names_no_frame_is_refused_if_there_are_two_frames():
    for accessor, requested in [
        ("state", {}),
        ("dispatch", {"event": "[:depot/take 1]", "sync": True}),
        ("restore", {"epochId": 1}),
    ]:
        answer = answer_of("two frames", accessor, **requested)
        assert answer == {
            "ok": False, "reason": "ambiguous-frame",
            "hint": "there are several frames: pass one of them as the argument frame: :depot/second, :rf/default",
        }  # fmt: skip
    assert answer_of("two frames", "health")["ambiguousFrame"] is True


def _all(accessor, **arguments):
    rows = [row for row in RECORDED["re-frame2"] if row["accessor"] == accessor and row["asked"] == arguments]
    return [convert_answer(accessor, row["told"]) for row in rows]


@pytest.mark.parametrize("application", ["re-frame2", "causa"])
def test_the_cause_of_a_refused_restore_is_found_in_the_trace(application):
    answer = answer_of(application, "restore", epochId=99)
    assert (answer["ok"], answer["reason"]) == (False, "unknown-epoch")
    assert answer["hint"].startswith("rf.epoch/restore-unknown-epoch epoch-id=99")


def test_a_restore_during_an_event_is_refused_and_works_afterwards():
    during, after = _all("restore", epochId=1)
    assert (during["ok"], during["reason"]) == (False, "during-drain")
    assert after["ok"]
    assert after["undoneBy"]
    assert answer_of("re-frame2", "reset", value="{:open 1}")["reason"] == "during-drain"


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        ("rf.epoch/restore-non-ok-record", "non-ok-record"),
        ("rf.epoch/restore-schema-mismatch", "schema-mismatch"),
        ("rf.epoch/reset-frame-db-schema-mismatch", "schema-mismatch"),
        ("rf.epoch/restore-missing-handler", "missing-handler"),
        ("rf.epoch/restore-version-mismatch", "version-mismatch"),
        ("rf.error/no-such-handler", "no-such-frame"),
        ("rf.error/named-later", "accessor-failed"),
    ],
)
def test_each_cause_of_a_refusal_maps_to_a_reason_of_the_contract(error, reason):
    answer = convert_answer(
        "restore", {"ok": False, "reason": "accessor-failed", "cause": error, "details": {"b": "1"}}
    )
    assert answer == {"ok": False, "reason": reason, "hint": f"{error} b=1"}
    assert reason in REFUSAL_REASONS


@pytest.mark.parametrize("application", ["re-frame2", "causa"])
def test_repeated_documentation_warnings_do_not_flood_the_issues(application):
    answer = answer_of(application, "issues")
    kinds = [line.split()[1] for line in answer["lines"]]
    assert kinds == ["error"] * (len(kinds) - 1) + ["warning"]
    assert answer["lines"][-1].endswith("\N{MULTIPLICATION SIGN}3")
    assert answer["total"] == len(kinds) + 2


def test_the_health_of_causa_includes_its_session_id_and_coordinate_annotation():
    health = answer_of("causa", "health")
    assert (health["coordAnnotation"], len(health["sessionId"])) == (False, 36)
    assert "coordAnnotation" not in answer_of("re-frame2", "health")


@pytest.mark.parametrize("data", [None, [], "text", 3])
def test_a_malformed_answer_is_reported_as_a_refusal(data):
    assert convert_answer("state", data)["reason"] == "accessor-failed"


# The forms


@pytest.mark.parametrize(("name", "dialect"), re_frame.SENTINEL_EXPRESSIONS)
def test_a_form_contains_its_dependencies_and_only_literal_placeholders(name, dialect):
    forms = re_frame.load_forms(name, dialect)
    assert tuple(forms) == re_frame.ACCESSOR_NAMES
    for code in forms.values():
        assert code.count("$") == code.count("$args") + code.count("$origin") == 2
        assert len(code) < 16_000
        assert "(defn" not in code
    with pytest.raises(KeyError):
        forms["subscribe"]


def test_each_form_is_cached_in_the_process_under_a_name_derived_from_its_content():
    names = [
        code.split("'codriver.forms/")[1].split(")")[0] for code in re_frame.load_forms("re-frame2", "clojure").values()
    ]
    assert len(set(names)) == len(re_frame.ACCESSOR_NAMES)
    assert "codriver.forms" not in re_frame.load_forms("causa", BROWSER_DIALECT)["state"]


def test_definitions_omit_docstrings_and_keep_dependencies_in_order():
    text = '(ns x "words")\n\n(defn a\n  "A \\"word\\"."\n  [x] (inc x))\n;; why\n(defn b [x] (a x))\n(defn c [] 1)\n'
    defined = letfn_clauses(text)
    assert defined == {"a": "(a [x] (inc x))", "b": "(b [x] (a x))", "c": "(c [] 1)"}
    assert names_with_dependencies(defined, ["b"]) == ["a", "b"]


def test_names_are_munged_as_the_clojurescript_compiler_munges_them():
    assert to_javascript_name("re-frame.core/dispatch-sync*") == "re_frame.core.dispatch_sync_STAR_"
    assert to_javascript_name("re-frame.registrar/kind->id->handler") == "re_frame.registrar.kind__GT_id__GT_handler"
    assert to_javascript_name("a/b!?") == "a.b_BANG__QMARK_"


def test_the_seam_of_codriver_takes_precedence_over_that_of_the_framework():
    names = [row.name for row in seam_providers.PROVIDERS if "clojure" in row.dialects]
    assert names == ["codriver", "re-frame2", "re-frame"]
    browser = [row.name for row in seam_providers.PROVIDERS if BROWSER_DIALECT in row.dialects]
    assert browser.index("causa") < browser.index("re-frame2") < browser.index("re-frame")
