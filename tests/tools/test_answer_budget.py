"""The byte budget for strings in an answer: short strings stay whole, and omissions are counted."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import to_json
from tools_in_memory import serving

from codriver.tools.answers.answer_budget import (
    ALWAYS_WHOLE_BYTES,
    cut_to_head,
    cut_to_tail,
    fit_rows,
    json_bytes,
    shorten,
)
from codriver.tools.answers.answer_images import Images

STRINGS = st.integers(0, 3000).flatmap(lambda size: st.sampled_from(["a" * size, "é" * size, "漢" * (size // 2)]))
JSON = st.recursive(
    STRINGS | st.integers() | st.none() | st.booleans(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.sampled_from("abc"), inner),
    max_leaves=12,
)


def texts(value):
    if isinstance(value, str):
        return [value]
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return [text for item in items for text in texts(item)]


def without_marker(text):
    return text.rpartition("… (")[0] if text.endswith(" more characters)") else text


@given(JSON, st.integers(0, 9000))
def test_strings_fit_the_total_budget_and_omissions_are_counted(value, max_bytes):
    displayed, note = shorten(value, max_bytes)
    before, after = texts(value), texts(displayed)
    assert len(before) == len(after)
    assert (note is None) == (before == after)
    for whole, text in zip(before, after, strict=True):
        assert whole.startswith(without_marker(text))
        if text != whole:
            lost = len(whole) - len(without_marker(text))
            assert text == f"{without_marker(text)}… ({lost} more characters)"
            assert json_bytes(whole) > ALWAYS_WHOLE_BYTES
    room = max(max_bytes, ALWAYS_WHOLE_BYTES * len(before))
    assert sum(json_bytes(without_marker(text)) for text in after) <= room


ODD = st.lists(st.sampled_from(["a", "u00", "\n", '"', "\\", "é", "漢", "😀", "\x00", "\x1f", "\ud800"])).map("".join)


@given(ODD, st.integers(0, 60))
def test_a_string_truncated_at_either_end_is_the_longest_that_fits_as_json(text, max_bytes):
    beginning, end = cut_to_head(text, max_bytes), cut_to_tail(text, max_bytes)
    assert text.startswith(beginning.text)
    assert text.endswith(end.text)
    longer = text[: len(beginning.text) + 1], text[len(text) - len(end.text) - 1 :]
    for cut, more in zip((beginning, end), longer, strict=True):
        assert len(cut.text) + cut.omitted == len(text)
        assert json_bytes(cut.text) <= max_bytes
        assert not cut.omitted or json_bytes(more) > max_bytes


@given(st.text())
def test_json_bytes_matches_the_size_in_an_answer(text):
    assert json_bytes(text) == len(to_json(text)) - 2


@given(st.lists(STRINGS, max_size=8), st.integers(0, 9000))
def test_a_string_is_truncated_only_if_it_is_longer_than_all_strings_left_whole(values, max_bytes):
    displayed: Any = shorten(values, max_bytes)[0]
    cut = [json_bytes(without_marker(text)) for whole, text in zip(values, displayed, strict=True) if text != whole]
    whole = [json_bytes(text) for before, text in zip(values, displayed, strict=True) if text == before]
    # On character boundaries: a cut text may end up to three bytes earlier.
    assert not cut or max(whole, default=0) <= min(cut) + 3


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    with (
        serving(tmp_path_factory.mktemp("shortening")) as live,
        live.client(name="claude-code") as connected,
    ):
        yield connected


def test_an_unusually_long_string_among_rows_is_truncated_to_a_third_of_its_share():
    rows = [{"text": "a" * 300}, {"text": "b" * 3000}]
    (short, flood), note, omitted = fit_rows(rows, 500)
    assert (without_marker(short["text"]), without_marker(flood["text"])) == ("a" * 200, "b" * 66)
    assert (note[:31], omitted) == ("2 texts are shortened to 200 by", 0)


def test_the_log_tool_limits_its_answer_and_returns_more_on_request(client):
    line = client.call("repl_output_log", limit=1)["lastLine"] or 0
    client.call("evaluate_code", code='(println (repeat "o" 200000)) (repeat "r" 300)')
    answer = client.call("repl_output_log", since=line)
    assert sum(len(without_marker(text)) for text in texts(answer["result"])) <= 6000
    assert f'"{"r" * 300}"' in [row["text"] for row in answer["result"]]
    [note] = answer["notes"]
    assert note.startswith("1 text is shortened to ")
    whole = client.call("repl_output_log", since=line, maxTextBytes=2**20)
    assert "o" * 200_000 in "".join(row["text"] for row in whole["result"])
    assert "notes" not in whole


def test_the_answer_of_wait_for_is_also_limited(client):
    line = client.call("repl_output_log", limit=1)["lastLine"] or 0
    client.call("evaluate_code", code='(println (repeat "o" 200000))')
    query = "[:find ?l ?t :where [?e :output/line ?l] [?e :output/text ?t]]"
    answer = client.call("wait_for", query=query, since=line, timeoutMs=0)
    assert sum(len(without_marker(text)) for text in texts(answer["result"])) <= 6000
    assert any("shortened" in note for note in answer["notes"])


def test_an_image_displayed_twice_is_sent_once():
    images = Images(5, "")
    displayed = images.remove_from_json(
        {
            "result": "data:image/png;base64,AAAA",
            "values": ["data:image/png;base64,BBBB", "a data:image/png;base64,AAAA b"],
        }
    )
    assert displayed == {"result": "<<image-1>>", "values": ["<<image-2>>", "a <<image-1>> b"]}
    assert [image.data for image in images.images] == ["AAAA", "BBBB"]
