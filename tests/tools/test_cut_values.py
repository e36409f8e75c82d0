"""Values that are cut: the note says how to get the rest, which works as long as the REPL retains them."""

import json
import sys

import pytest
from all_tools import BY_NAME
from jsonschema import validate
from live_server import serving, until_connected
from real_repls import repl


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    repls = ("--repl", "python", "--repl", "lisp", "--python", sys.executable)
    with serving(tmp_path_factory.mktemp("cut"), *repls) as running:
        yield running


@pytest.fixture
def client(live):
    with live.client() as connected:
        yield connected


def evaluate(client, code, key="py", **more):
    answer = client.call("evaluate_code", code=code, replSessionKey=key, **more)
    assert answer["ok"], answer
    return answer


def part(client, answer, **more):
    reply = client.call("get_evaluation", evaluationId=answer["evaluationId"], **more)
    validate(reply, BY_NAME["get_evaluation"].output)
    return reply


def cut_of(answer):
    return [note for note in answer.get("notes", ()) if note.startswith("cut")]


def test_a_list_of_a_million_elements_is_truncated_and_its_parts_can_be_requested(client):
    answer = evaluate(client, "list(range(1_000_000))")
    assert len(json.dumps(answer)) <= 700
    assert cut_of(answer) == ["cut: 999975 of 1000000 elements; get_evaluation path []"]
    more = part(client, answer, path=[], **{"from": 999_990, "length": 5})
    assert more["result"] == "[..., 999990, 999991, 999992, 999993, 999994, ...]"
    assert part(client, answer, path=[999_999])["result"] == "999999"


@pytest.mark.parametrize(
    ("code", "cut", "last"),
    [
        ("import pandas; pandas.DataFrame({'n': range(1000)})", "990 of 1000 rows", "999"),
        ("import pandas; pandas.Series(range(1000))", "990 of 1000 elements", "999"),
        ("import numpy; numpy.arange(5000)", "4994 of 5000 elements", "4999"),
        ("import numpy; numpy.arange(5000).reshape(1000, 5)", "994 of 1000 rows", "4999"),
    ],
)
def test_the_note_on_a_truncated_table_or_array_names_a_call_that_returns_the_rest(client, code, cut, last):
    answer = evaluate(client, code)
    assert cut_of(answer) == [f"cut: {cut}; get_evaluation path []"]
    count = int(cut.split()[2])
    reported = part(client, answer, path=[], **{"from": count - 3, "length": 15})
    assert last in reported["result"]
    assert "..." not in reported["result"]
    first = part(client, answer, path=[])
    assert "..." not in first["result"]
    assert first["result"] != answer["result"]


def test_the_note_on_a_truncated_table_names_a_call_that_returns_the_omitted_columns(client):
    evaluate(client, "import pandas\npandas.set_option('display.max_columns', 20)")
    answer = evaluate(client, "pandas.DataFrame({f'c{n}': [n] for n in range(30)})")
    assert cut_of(answer) == ["cut: 10 of 30 columns; get_evaluation path []"]
    assert "c15" not in answer["result"]
    assert "c15" in part(client, answer, path=[])["result"]


def test_a_short_value_is_returned_whole_without_a_note(client):
    assert cut_of(evaluate(client, "list(range(25))")) == []


def test_print_limits_can_be_set_in_the_call(client):
    assert evaluate(client, "list(range(9))", maxLength=2)["result"] == "[0, 1, ...]"
    assert evaluate(client, "list(range(40))", maxLength=40)["result"] == str(list(range(40)))
    answer = evaluate(client, "[[[1]]]", maxDepth=1)
    assert answer["result"] == "[<list of 1>]"
    assert part(client, answer, depth=3)["result"] == "[[[1]]]"


def test_each_truncated_value_of_an_evaluation_has_its_own_note(client):
    answer = evaluate(client, "list(range(30))\nlist(range(40))")
    assert cut_of(answer) == [
        'cut of value 1: 5 of 30 elements; get_evaluation path ["$1"]',
        "cut: 15 of 40 elements; get_evaluation path []",
    ]
    assert part(client, answer, path=["$1", 29])["result"] == "29"


def test_a_part_too_large_for_an_answer_is_truncated_with_a_note(client):
    answer = evaluate(client, "{'k': ['x' * 900] * 100}")
    requested = {"evaluationId": answer["evaluationId"], "path": ["k"]}
    whole = client.call("get_evaluation", **requested)
    assert [note for note in whole["notes"] if "the first " in note and "Pass a smaller length" in note]
    some = client.call("get_evaluation", **requested, length=3)
    assert some["result"].count("x" * 900) == 3
    assert not any("the first " in note for note in some["notes"])


def test_parts_of_truncated_lisp_values_can_be_requested(client):
    answer = evaluate(client, "(vec (range 30))\n{:a (map inc (range))}", key="lpy", timeoutMs=120_000)
    assert [note.split(";")[0] for note in cut_of(answer)] == [
        "cut of value 1: 5 of 30 elements",
        'cut: more than 25 at [":a"]',
    ]
    assert part(client, answer, path=["$1", 29])["result"] == "29"
    assert part(client, answer, path=[":a"], **{"from": 100, "length": 2})["result"] == "[101 102 ...]"


def test_a_missing_part_is_refused_with_a_reason(client):
    answer = evaluate(client, "list(range(30))")
    reported = part(client, answer, path=["no"])
    assert (reported["ok"], reported["reason"]) == (False, "forgotten")
    assert "the next step of the path" in reported["message"]
    whole = part(client, evaluate(client, "1"), path=[])
    assert "the REPL no longer has the value" in whole["message"]


def test_a_repl_that_retains_no_values_prints_them_whole(tmp_path):
    address = repl("nbb").endpoint
    with serving(tmp_path, "--nrepl", f"nbb={address}", "--repl", "none") as live, live.client() as client:
        answer = evaluate(client, "(vec (range 100))", key="nbb")
        assert (answer["result"][-4:], cut_of(answer)) == (" 99]", [])
        assert "stores no values" in part(client, answer, path=[])["message"]


@pytest.fixture(scope="module")
def jvm(tmp_path_factory):
    address = repl("jvm").endpoint
    folder = tmp_path_factory.mktemp("jvm")
    with serving(folder, "--nrepl", f"clj={address}", "--repl", "none") as live, live.client() as client:
        # Code that waits for a REPL of unknown dialect is sent whole, so only its last value can be retained.
        until_connected(client)
        yield client


def test_clojure_returns_parts_of_a_truncated_value_by_path_and_index(jvm):
    answer = evaluate(jvm, "(vec (range 1000))", key="clj")
    assert cut_of(answer) == ["cut: 975 of 1000 elements; get_evaluation path []"]
    more = part(jvm, answer, path=[], **{"from": 990, "length": 5})
    assert more["result"] == "(990 991 992 993 994 ...)"
    assert cut_of(more) == ["cut: 5 of 1000 elements"]
    assert part(jvm, answer, path=[999])["result"] == "999"
    assert evaluate(jvm, "(count *1)", key="clj")["result"] == "1000"
    deep = evaluate(jvm, '{:a {"b" (map inc (range))} 7 [1] (quote c) (range 30)}', key="clj", maxLength=5)
    assert part(jvm, deep, path=[":a", "b"], **{"from": 100, "length": 2})["result"] == "(101 102 ...)"
    assert part(jvm, deep, path=[7, 0])["result"] == "1"
    assert part(jvm, deep, path=["c", 29])["result"] == "29"


def test_clojure_retains_each_value_without_realizing_more_of_a_sequence(jvm):
    code = "(def seen (atom 0))\n(vec (range 30))\n(iterate (fn [n] (swap! seen inc) (inc n)) 0)"
    answer = evaluate(jvm, code, key="clj")
    assert cut_of(answer) == [
        'cut of value 2: 5 of 30 elements; get_evaluation path ["$2"]',
        "cut: more than 25; get_evaluation path []",
    ]
    assert evaluate(jvm, "@seen", key="clj")["result"] == "25"
    assert part(jvm, answer, path=["$2", 29])["result"] == "29"
    assert part(jvm, answer, path=[40])["result"] == "40"


def test_clojure_refuses_a_missing_or_evicted_part_with_a_reason(jvm):
    answer = evaluate(jvm, "(vec (range 30))", key="clj")
    missing = part(jvm, answer, path=[30])
    assert (missing["ok"], missing["reason"]) == (False, "forgotten")
    assert "the PersistentVector has no 30, which is the next step of the path" in missing["message"]
    for n in range(8):
        evaluate(jvm, f"(vec (range {n} 100))", key="clj")
    assert "only stores the 8 newest" in part(jvm, answer, path=[])["message"]


@pytest.mark.parametrize(
    ("code", "rest"), [("list(range(2000))", "[..., 1990, 1991, ...]"), ("{n: n for n in range(2000)}", "1990: 1990")]
)
def test_the_from_argument_counts_elements_of_a_truncated_collection(client, code, rest):
    answer = evaluate(client, code)
    assert rest in part(client, answer, part="result", **{"from": 1990, "length": 2})["result"]


def test_the_from_argument_counts_characters_of_a_string(client):
    answer = evaluate(client, "'ab' * 5000")
    assert part(client, answer, part="result", **{"from": 9998})["text"] == "bab'"
