"""Recorded runs: bounded, parsed on request, and queried by Datalog as `$run`."""

import json

import pytest
from made_runs import TWO_PRICES, run_text

from codriver.errors import RefusedError
from codriver.features.traces import recorded_runs
from codriver.features.traces.recorded_runs import (
    QUERY_RULES,
    RUN_SCHEMA,
    RUNS_SOURCE,
    MalformedRunError,
    RecordedRuns,
    parse_run,
    parse_value,
    run_records,
)
from codriver.log.output_log import OutputLog
from codriver.log.query_sources import QuerySource


@pytest.fixture
def runs():
    runs = RecordedRuns()
    runs.store("e1", TWO_PRICES)
    return runs


def query_result(runs, query, *inputs):
    log = OutputLog()
    log.sources = log.sources.with_sources([(QuerySource(RUNS_SOURCE, RUN_SCHEMA, QUERY_RULES), runs)])
    return log.query(query, inputs=inputs).result


def test_each_call_is_an_entity_with_its_caller(runs):
    query = """[:find ?call ?name ?caller ?depth
      :where [$run ?e :run/call ?call] [$run ?e :run/name ?name] [$run ?e :run/depth ?depth]
             [(get-else $run ?e :run/caller "nobody") ?caller]]"""
    assert query_result(runs, query) == [
        [1, "shop.total", "nobody", 0], [2, "shop.price", "shop.total", 1], [3, "shop.stored", "shop.price", 2],
        [4, "shop.price", "shop.total", 1], [5, "shop.stored", "nobody", 0],
    ]  # fmt: skip


def test_the_builtin_rules_are_always_available(runs):
    under = '[:find [?c ...] :where [$run ?a :run/name "shop.total"] (calls-under ?a ?b) [$run ?b :run/call ?c]]'
    assert sorted(query_result(runs, under)) == [2, 3, 4]
    before = "[:find [?c ...] :where [$run ?b :run/call 4] (before ?a ?b) [$run ?a :run/call ?c]]"
    assert sorted(query_result(runs, before)) == [1, 2, 3]
    own = "[:find [?c ...] :in % :where (cheap ?e) [$run ?e :run/call ?c]]"
    rules = '[[(cheap ?e) [$run ?t :run/name "shop.total"] (calls-under ?t ?e) [$run ?e :run/name "shop.price"]]]'
    assert sorted(query_result(runs, own, rules)) == [2, 4]


def test_an_undefined_rule_is_refused(runs):
    with pytest.raises(RefusedError):
        query_result(runs, "[:find ?a :where [$run ?a :run/call 1] (beneath ?a ?a)]")


def test_an_unknown_attribute_error_lists_run_attributes_if_runs_are_queried(runs):
    with pytest.raises(RefusedError, match=":run/name"):
        query_result(runs, "[:find ?a :where [$run ?a :run/nme ?b]]")
    with pytest.raises(RefusedError) as refused:
        query_result(runs, "[:find ?a :where [?a :output/nme ?b]]")
    assert ":run/name" not in str(refused.value)


def test_the_newest_runs_are_kept(runs, monkeypatch):
    monkeypatch.setattr(recorded_runs, "MAX_STORED_RUNS", 2)
    assert len(query_result(runs, "[:find ?e :where [$run ?e :run/arg ?a]]")) == 7
    runs.store("e2", run_text((0, "total", ["1"], "2")))
    runs.store("e3", run_text((0, "total", ["1"], "2")))
    assert runs.evaluation_ids() == ("e2", "e3")
    assert runs.get("e1") is None
    assert query_result(runs, "[:find [?id ...] :where [$run ?e :run/id ?id]]") == ["e2", "e3"]


def test_a_run_has_a_bounded_number_of_entities(monkeypatch):
    monkeypatch.setattr(recorded_runs, "MAX_ENTITIES", 7)
    records = list(run_records(parse_run("e1", TWO_PRICES), 1))
    assert [record[0] for record in records] == list(range(1, 8))


def test_every_text_of_a_recorded_run_is_redacted():
    runs = RecordedRuns(redact=lambda text: text.replace("'tax'", "<redacted>"))
    runs.store("e1", TWO_PRICES)
    assert runs.get("e1").calls[2].arguments == ("<redacted>",)
    assert (
        query_result(
            runs, '[:find ?v . :where [$run ?a :run/arg "name"] [$run ?a :run/call 3] [$run ?a :run/value ?v]]'
        )
        == "<redacted>"
    )


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"functions": [], "calls": [[0]]}', json.dumps({"functions": 3})])
def test_a_malformed_run_is_refused_with_an_explanation(text):
    with pytest.raises(MalformedRunError, match="e1"):
        parse_run("e1", text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("20", 20),
        ("-1.5", -1.5),
        ("1e-05", 1e-05),
        ("'a'", "a"),
        ("'a' + 'b'", "'a' + 'b'"),
        ("[1]", "[1]"),
        ("'a", "'a"),
    ],
)
def test_plain_values_are_stored_as_numbers_or_text(text, value):
    assert parse_value(text) == value
    assert type(parse_value(text)) is type(value)


def test_every_attribute_of_a_recorded_run_is_in_the_schema():
    assert {"of", "arg", "value"} <= set(RUN_SCHEMA.attributes)
