"""Recordings: assembling evaluations from log entries, selecting them, and storing them in a file."""

import pytest

from codriver.features.export.documents.recordings import (
    EvaluationsNotFoundError,
    RecordedEvaluation,
    Recording,
    RecordingError,
    count_with_definitions,
    encode_recording,
    evaluations_since_checkpoint,
    evaluations_with_ids,
    parse_recording,
    read_recorded_evaluations,
    unknown_names,
)


def entry(category, text, evaluation="e-1", **more):
    return {"category": category, "text": text, "evaluation": evaluation, "timestamp": 5, **more}


def test_an_evaluation_is_assembled_from_its_log_entries():
    (item,) = read_recorded_evaluations([
        entry("otherOutput", "checkpoint: start"),
        entry("evaluatedCode", "print(1)\n2", who="me", ns="user"),
        entry("evaluationOutput", "1"),
        entry("evaluationOutput", "\n"),
        entry("evaluationResults", "None"),
        entry("evaluationResults", "2"),
        entry("otherOutput", "it took long"),
    ])  # fmt: skip
    text = RecordedEvaluation(
        "e-1", "print(1)\n2", "me", "user", "checkpoint: start", values=("None", "2"), out="1\n", time=5
    )
    assert item == text


def test_a_loaded_file_is_recognized_by_the_preceding_log_entry():
    (item,) = read_recorded_evaluations([entry("otherOutput", "load /shop/a.py"), entry("evaluatedCode", "x = 1")])
    assert item.file == "/shop/a.py"
    assert not item.description


def test_log_entries_of_evaluations_whose_code_is_missing_are_ignored():
    assert (
        read_recorded_evaluations([entry("evaluationResults", "2"), {"category": "otherOutput", "text": "hello"}]) == ()
    )


def sessions(*descriptions):
    return [RecordedEvaluation(f"e-{number}", "1", description=text) for number, text in enumerate(descriptions, 1)]


def test_the_newest_checkpoint_with_a_given_name_is_used():
    found = evaluations_since_checkpoint(sessions("checkpoint: a", "", "checkpoint: a", "checkpoint: b", ""), "a")
    assert [item.id for item in found] == ["e-3", "e-4", "e-5"]
    with pytest.raises(EvaluationsNotFoundError, match="checkpoint: c"):
        evaluations_since_checkpoint(sessions("checkpoint: a"), "c")


def test_a_checkpoint_is_found_by_its_name():
    found = evaluations_since_checkpoint(sessions("", "Checkpoint:  the parser\n works ", ""), "the parser  works")
    assert [item.id for item in found] == ["e-2", "e-3"]


def test_evaluations_selected_by_id_stay_in_order():
    assert [evaluation.id for evaluation in evaluations_with_ids(sessions("", "", ""), ["e-3", "e-1"])] == [
        "e-1",
        "e-3",
    ]
    with pytest.raises(EvaluationsNotFoundError, match="e-9"):
        evaluations_with_ids(sessions(""), ["e-1", "e-9"])


def test_a_recording_round_trips_through_its_lines():
    evaluation = RecordedEvaluation(
        "e-1", "f('ü')\n", "me", "shop", "why", "", ("1", "2"), "out\n", "err", "it was interrupted", 7
    )
    recording = Recording("python", "python", (evaluation, RecordedEvaluation("e-2", "x")))
    assert parse_recording(encode_recording(recording)) == recording


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"format": "x", "version": 1}', "no json", '{"format": "codriver-recording", "version": 99, "dialect": "python", "repl": ""}'])  # fmt: skip  # noqa: E501
def test_text_that_is_not_a_recording_is_refused(text):
    with pytest.raises(RecordingError, match="this is not a recording"):
        parse_recording(text)


@pytest.mark.parametrize("text", ["", "a\u2028b", "a\x85b\x0b\x0cc\x1cd\u2029e", "\ud800", "a\r\nb\rc", "9" * 9999])
def test_any_text_survives_a_recording(text):
    reported = Recording(
        "python", "python", (RecordedEvaluation("e-1", text, values=(text, "1"), out=text, err=text, description=text),)
    )
    assert parse_recording(encode_recording(reported).encode().decode()) == reported


@pytest.mark.parametrize(
    "row",
    ["[1,2]", '"id"', "7", "null", '{"id":"e"}', '{"id":"e","code":"1","time":1e999}',
     '{"id":"e","code":"1","values":7}', '{"id":"e","code":"1","values":"abc"}',
     '{"id":"e","code":"1","time":[]}', "[" * 100_000, "9" * 9999, "{"],
)  # fmt: skip
def test_a_hostile_row_is_refused_with_its_line_number(row):
    head = encode_recording(Recording("python", "python", ()))
    with pytest.raises(RecordingError, match="line 3 "):
        parse_recording(f"{head}\n{row}\n")


def test_a_hostile_header_is_refused():
    for head in ("[]", "7", "{}", '{"format": 1}', '{"format": []}', ""):
        with pytest.raises(RecordingError):
            parse_recording(head + "\n")


@pytest.mark.parametrize(
    ("codes", "name", "most"),
    [
        (["import math", "def area(r):\n    return math.pi * r", "1", "area(2)"], "area", 4),
        (["import math", "def area(r):\n    return r", "1", "area(2)"], "area", 3),
        (["x = 1", "x == 1", "x"], "x", 3),
        (["area = 1", "width: int = 2", "a, b = 1, 2", "b + width"], "b", 2),
        (["from shop import price as cost", "cost(1)"], "cost", 2),
        (["areas = 1", "area"], "area", 1),
        (["(def rate 2)", "(defn ^:private price! [x] (* x rate))", "(price! 1)"], "price!", 3),
        (["(require '[clojure.string :as str])", "(str/join 1)"], "str", 2),
        (["(price 1)", "(price 2)"], "price", 1),
    ],
)
def test_the_earlier_evaluations_that_define_a_name_and_its_dependencies_are_counted(codes, name, most):
    evaluations = [RecordedEvaluation(f"e-{number}", code) for number, code in enumerate(codes)]
    assert count_with_definitions(evaluations, 1, [name]) == most


@pytest.mark.parametrize(
    ("note", "names"),
    [
        ("recorded: 28; in a fresh REPL: NameError: name 'area' is not defined", {"area"}),
        ("Unable to resolve symbol: price! in this context", {"price!"}),
        ("unable to resolve symbol 'shop/price' in this context", {"price"}),
        ("recorded: 1; in a fresh REPL: 2", set()),
    ],
)
def test_unknown_names_are_extracted_from_the_error_message(note, names):
    assert unknown_names([note]) == names
