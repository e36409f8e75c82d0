"""The table of seams: queries, forms and answers as text."""

import json
import re

import pytest

from codriver.features.applications import seam_providers, sensitive_values
from codriver.features.applications.seam_notation import encode_data, read_string, string_literal, to_edn
from codriver.features.applications.seam_providers import PROVIDERS, Provider, read_answer, search_code, select_provider

FOREIGN = Provider(
    "foreign",
    frozenset({"clojure"}),
    "(foreign/id)",
    {"state": "(foreign/state $frame $path)", "dispatch": "(foreign/send $event)"},
    conditions={"dispatch": "(some? (resolve 'foreign/send))"},
    read=lambda accessor, data: {"ok": True, "value": f"{accessor} {data}"},
    mentioned_by=re.compile("foreign"),
)


@pytest.fixture
def two(monkeypatch):
    monkeypatch.setattr(seam_providers, "PROVIDERS", (PROVIDERS[0], FOREIGN, PROVIDERS[-1]))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({}, "{}"),
        ({"epochId": 3, "filter": {"opType": "fx"}}, '{:epochId 3 :filter {:opType "fx"}}'),
        ({"between": [1, 2.5], "sync": True, "frame": None}, "{:between [1 2.5] :sync true :frame nil}"),
        ({"a b} 1": 'say "\\"\n'}, '{"a b} 1" "say \\"\\\\\\"\\n"}'),
        ("\N{SNOWMAN}", '"\\u2603"'),
    ],
)
def test_arguments_are_written_as_clojure_data(value, text):
    assert to_edn(value) == text


@pytest.mark.parametrize("dialect", ["clojure", "nbb", "basilisp", "hy", "python"])
def test_arguments_appear_in_the_code_only_as_a_literal(dialect):
    requested = {"path": '")) (exit) ((" \' \\ \N{SNOWMAN}'}
    code = seam_providers.accessor_code(seam_providers.find_provider("codriver", dialect), dialect, "state", requested)
    literal = string_literal(dialect, encode_data(dialect, requested))
    assert literal in code
    assert read_string(dialect, literal) == encode_data(dialect, requested)
    assert "exit" not in code.replace(literal, "")


def test_one_query_finds_the_first_seam_provider_and_its_missing_functions(two):
    sentinels = f"[[{PROVIDERS[0].sentinel}] [(foreign/id) (some? (resolve 'foreign/send))]]"
    assert sentinels in search_code("clojure")
    assert select_provider("clojure", [[None], [None, False]]) is None
    ours = select_provider("clojure", [["s1"], ["s2", True]])
    assert (ours.provider.name, ours.session_id) == ("codriver", "s1")
    theirs = select_provider("clojure", [[None], ["s2", False]])
    assert (theirs.provider, theirs.lacking) == (FOREIGN, {"dispatch"})


@pytest.mark.parametrize("message", [None, [], "s1", [None], [[]], [[""]], {"a": 1}])
def test_a_malformed_answer_means_that_there_is_no_provider(message):
    assert select_provider("clojure", message) is None


def test_a_provider_without_a_form_refuses_with_the_reason_of_the_contract():
    refused = seam_providers.accessor_refusal(FOREIGN, "machines")
    assert (refused["ok"], refused["reason"]) == (False, "no-such-accessor")
    assert refused["hint"].endswith("dispatch, state")
    assert seam_providers.accessor_refusal(FOREIGN, "dispatch", {"dispatch"})["hint"].endswith(" state")
    assert seam_providers.accessor_refusal(FOREIGN, "subscribe")["reason"] == "band-missing"
    assert seam_providers.accessor_refusal(FOREIGN, "state") is None
    assert seam_providers.accessor_refusal(PROVIDERS[0], "whatever") is None


def test_a_form_gets_its_arguments_by_name_and_its_data_is_parsed():
    code = seam_providers.accessor_code(FOREIGN, "clojure", "state", {"path": "[:a]"})
    assert '(foreign/state nil "[:a]")' in code
    assert json.loads(read_answer(FOREIGN, "state", "[1, 2]")) == {"ok": True, "value": "state [1, 2]"}


@pytest.mark.parametrize(
    ("code", "may"),
    [
        ("(+ 1 1)", False),
        ("(swap! db assoc :important 1)", False),
        ("(require 'my.app)", True),
        ("(codriver.seam/install! true)", True),
        ("(foreign/start)", True),
    ],
)
def test_code_that_may_load_an_application_is_recognized(two, code, may):
    assert seam_providers.may_load_application("clojure", code) == may


def test_a_dialect_without_a_provider_is_not_queried():
    assert search_code("unknown") is None
    assert not seam_providers.may_load_application("unknown", "(require '[codriver.seam])")


def test_a_long_sensitive_text_is_searched_for_in_equal_chunks():
    text = "".join(map(str, range(2000)))
    pieces = sensitive_values.sensitive_values({"texts": [["shop key", text], ["shop pin", "short-one"]]})
    assert [name for name, _ in pieces] == ["shop key", "shop key", "shop pin"]
    assert {len(piece) for name, piece in pieces if name == "shop key"} == {sensitive_values.CHUNK_CHARACTERS}
    assert (text.startswith(pieces[0][1]), text.endswith(pieces[1][1]), pieces[2][1]) == (True, True, "short-one")
