"""Each note about omitted text names a call, and that call returns it."""

import json
import re

import pytest
from tools_in_memory import serving

IMAGE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
LINES = "".join(f"line {number}\n" for number in range(1500))


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("cuts")) as live, live.client() as connected:
        yield connected


def evaluate(client, code, **more):
    answer = client.call("evaluate_code", code=code, **more)
    assert answer["ok"], answer
    return answer


def note_of(answer, words):
    [note] = [note for note in answer["notes"] if words in note]
    return note


def call_in(note):
    """Return the arguments that a note suggests for `get_evaluation`."""
    found = re.search(r"get_evaluation with part (\w+), from (\d+), length (\d+)", note)
    return {"part": found[1], "from": int(found[2]), "length": int(found[3])}


@pytest.mark.parametrize("stream", ["out", "err"])
def test_the_note_on_truncated_output_names_a_call_that_returns_the_middle(client, stream):
    answer = evaluate(client, f'(write "{stream}" {json.dumps(LINES)})')
    requested = call_in(note_of(answer, "characters are left out"))
    text = client.call("get_evaluation", evaluationId=answer["evaluationId"], **requested)["text"]
    stream = answer[requested["part"]]
    head, tail = re.split(r"\n… \d+ characters left out …\n", stream)
    assert head + text + tail == LINES


def test_output_that_is_slightly_too_long_is_included_in_full(client):
    text = "x" * 6300
    answer = evaluate(client, f'(write "out" "{text}")')
    assert (answer["stdout"], [note for note in answer["notes"] if "left out" in note]) == (text, [])
    assert "characters left out" in evaluate(client, f'(write "out" "{text + "y" * 400}")')["stdout"]


def test_the_note_on_a_truncated_string_names_a_call_that_returns_the_rest(client):
    answer = evaluate(client, '(str (repeat "x" 9000) "end")')
    reply = client.call(
        "get_evaluation", evaluationId=answer["evaluationId"], **call_in(note_of(answer, "characters are left out"))
    )
    assert answer["result"] + reply["text"] == json.dumps("x" * 9000 + "end")


def test_the_note_on_many_values_names_a_call_that_returns_all_of_them(client):
    answer = evaluate(client, "\n".join(f'(repeat "{number}" 900)' for number in range(20)))
    uri = re.search(r"read the resource (\S+) for the rest", note_of(answer, "values has "))[1]
    [content, *_] = client.request("resources/read", {"uri": uri})["result"]["contents"]
    assert content["text"].splitlines() == [json.dumps(str(number) * 900) for number in range(20)]


def test_the_notes_on_a_search_and_a_diff_name_calls_that_return_more_lines(client):
    item = evaluate(client, f"(println {json.dumps(LINES)})")["evaluationId"]
    other = evaluate(client, f"(println {json.dumps(LINES.replace('line', 'row'))})")["evaluationId"]
    found = client.call("get_evaluation", evaluationId=item, grep="line")
    assert "pass length" in note_of(found, "more lines are omitted")
    assert len(client.call("get_evaluation", evaluationId=item, grep="line", length=10**6)["matches"]) > len(
        found["matches"]
    )
    differing = client.call("get_evaluation", evaluationId=item, diffWith=other)
    assert "Pass length" in note_of(differing, "of the diff are omitted")
    more = client.call("get_evaluation", evaluationId=item, diffWith=other, length=10**6)
    assert more["diff"].startswith(differing["diff"])
    assert len(more["diff"]) > len(differing["diff"])


def test_the_notes_on_log_rows_name_calls_that_return_more_rows_and_whole_texts(client):
    for number in range(60):
        evaluate(client, f'(println (str "row {number} " (repeat "x" 100)))')
    least = client.call("repl_output_log")
    assert "pass a limit to get more rows" in note_of(least, "earlier rows are omitted")
    assert client.call("repl_output_log", limit=100)["count"] > least["count"]
    evaluate(client, f"(println {json.dumps(LINES)})")
    short = client.call("repl_output_log", limit=2)
    assert "pass a larger maxTextBytes" in note_of(short, "shortened to")
    whole = client.call("repl_output_log", limit=2, maxTextBytes=100_000)
    assert any(LINES in row["text"] for row in whole["result"])


def test_the_call_suggested_for_an_image_in_the_log_returns_it(client):
    evaluate(client, f'(show "image/png" "{IMAGE}")')
    words = client.call("repl_output_log", limit=2)["result"][0]["text"]
    assert "ask with maxImages" in words
    requested = {"name": "repl_output_log", "arguments": {"limit": 2, "maxImages": 1}}
    answer = client.request("tools/call", requested)["result"]["content"]
    assert [block["mimeType"] for block in answer if block["type"] == "image"] == ["image/png"]
