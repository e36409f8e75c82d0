"""Each note on what was left out names a call, and that call gives it."""

import re
import sys

import pytest
from live_server import serving, until

LINES = "".join(f"line {number}\n" for number in range(1500))


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    with (
        serving(tmp_path_factory.mktemp("cuts"), "--repl", "python", "--python", sys.executable) as live,
        live.client() as connected,
    ):
        until(lambda: "send_input" in connected.tools(), "the REPL")
        yield connected


def evaluate(client, code, **more):
    answer = client.call("evaluate_code", code=code, **more)
    assert answer["ok"], answer
    return answer


def note_of(answer, words):
    [note] = [note for note in answer["notes"] if words in note]
    return note


def call_in(note):
    """The arguments that a note names for `get_evaluation`."""
    found = re.search(r"get_evaluation with part (\w+), from (\d+), length (\d+)", note)
    return {"part": found[1], "from": int(found[2]), "length": int(found[3])}


@pytest.mark.parametrize("code", [f"print({LINES!r}, end='')", f"import sys; sys.stderr.write({LINES!r}); None"])
def test_the_middle_of_output(client, code):
    answer = evaluate(client, code)
    asked = call_in(note_of(answer, "characters are left out"))
    text = client.call("get_evaluation", evaluationId=answer["evaluationId"], **asked)["text"]
    stream = answer[asked["part"]]
    head, tail = re.split(r"\n… \d+ characters left out …\n", stream)
    assert head + text + tail == LINES


def test_the_rest_of_a_text(client):
    answer = evaluate(client, "'x' * 9000 + 'end'")
    told = client.call(
        "get_evaluation", evaluationId=answer["evaluationId"], **call_in(note_of(answer, "characters are left out"))
    )
    assert answer["result"] + told["text"] == repr("x" * 9000 + "end")


def test_all_of_many_values(client):
    answer = evaluate(client, "\n".join(f"'{number}' * 900" for number in range(20)))
    uri = re.search(r"read the resource (\S+) for the rest", note_of(answer, "values shows"))[1]
    [content, *_] = client.request("resources/read", {"uri": uri})["result"]["contents"]
    assert content["text"].splitlines() == [repr(str(number) * 900) for number in range(20)]


def test_a_part_of_a_value_that_is_too_much_for_an_answer(client):
    answer = evaluate(client, "{'k': ['x' * 900] * 100}")
    asked = {"evaluationId": answer["evaluationId"], "path": ["k"]}
    whole = client.call("get_evaluation", **asked)
    assert "ask with a smaller length" in note_of(whole, "the first ")
    some = client.call("get_evaluation", **asked, length=3)
    assert some["result"].count("x" * 900) == 3
    assert not any("the first " in note for note in some["notes"])


def test_more_lines_of_a_search_and_of_a_difference(client):
    one = evaluate(client, f"print({LINES!r})")["evaluationId"]
    other = evaluate(client, f"print({LINES.replace('line', 'row')!r})")["evaluationId"]
    found = client.call("get_evaluation", evaluationId=one, grep="line")
    assert "ask with length" in note_of(found, "more lines are left out")
    assert len(client.call("get_evaluation", evaluationId=one, grep="line", length=10**6)["matches"]) > len(
        found["matches"]
    )
    differing = client.call("get_evaluation", evaluationId=one, diffWith=other)
    assert "ask with length" in note_of(differing, "of diff are left out")
    more = client.call("get_evaluation", evaluationId=one, diffWith=other, length=10**6)
    assert more["diff"].startswith(differing["diff"])
    assert len(more["diff"]) > len(differing["diff"])


def test_the_rows_of_the_log_and_their_texts(client):
    for number in range(60):
        evaluate(client, f"print('row {number} ' + 'x' * 100)")
    least = client.call("repl_output_log")
    assert "name a limit for more of them" in note_of(least, "rows before these are left out")
    assert client.call("repl_output_log", limit=100)["count"] > least["count"]
    evaluate(client, f"print({LINES!r})")
    short = client.call("repl_output_log", limit=2)
    assert "with a larger maxTextBytes" in note_of(short, "shortened to")
    whole = client.call("repl_output_log", limit=2, maxTextBytes=100_000)
    assert any(LINES in row["text"] for row in whole["result"])


def test_an_image_of_the_log(client):
    evaluate(client, "from PIL import Image\nImage.new('RGB', (20, 10), 'red')")
    words = client.call("repl_output_log", limit=1)["result"][0]["text"]
    assert "ask with maxImages" in words
    asked = {"name": "repl_output_log", "arguments": {"limit": 1, "maxImages": 1}}
    told = client.request("tools/call", asked)["result"]["content"]
    assert [block["mimeType"] for block in told if block["type"] == "image"] == ["image/png"]
