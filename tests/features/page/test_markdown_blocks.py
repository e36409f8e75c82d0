"""Markdown as blocks: the elements notebooks use are recognized, and no text is lost or becomes a link."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codriver.features.page.markdown_blocks import parse_markdown_blocks, parse_markdown_spans

ALPHABET = st.sampled_from([*"ab *`|#-+1.[]()\n<>\\", "```", "**", "| a |", "](javascript:x)"])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        ("plain", [{"tag": "p", "spans": [("", "plain")]}]),
        ("# One", [{"tag": "h3", "spans": [("", "One")]}]),
        ("###### Six", [{"tag": "h6", "spans": [("", "Six")]}]),
        ("- a\n- b\nc", [{"tag": "ul", "items": [[("", "a")], [("", "b")]]}, {"tag": "p", "spans": [("", "c")]}]),
        ("1. a", [{"tag": "ul", "items": [[("", "a")]]}]),
        ("```py\nx = 1\n\ny\n```\nz", [{"tag": "pre", "text": "x = 1\n\ny"}, {"tag": "p", "spans": [("", "z")]}]),
        ("```\nnever closed", [{"tag": "pre", "text": "never closed"}]),
        ("| a | b |\n|---|--:|\n| 1 | 2 |", [{"tag": "table", "head": ["a", "b"], "rows": [["1", "2"]]}]),
    ],
)
def test_elements_used_in_notebooks_become_blocks(text, found):
    assert parse_markdown_blocks(text) == found


def test_emphasis_and_code_become_spans_but_links_become_text():
    assert parse_markdown_spans("a **b** `c` *d*") == [
        ("", "a "),
        ("strong", "b"),
        ("", " "),
        ("code", "c"),
        ("", " "),
        ("em", "d"),
    ]
    assert parse_markdown_spans("[go](javascript:alert)") == [("", "go (javascript:alert)")]


@given(st.lists(ALPHABET, max_size=60).map("".join))
def test_any_text_becomes_blocks_that_contain_all_of_it(text):
    def text_in(value):
        if isinstance(value, str):
            return value
        parts = value.values() if isinstance(value, dict) else value
        return "".join(map(text_in, parts))

    output = text_in(
        [{key: part for key, part in block.items() if key != "tag"} for block in parse_markdown_blocks(text)]
    )
    for sign in "ab":
        fenced = [line for line in text.splitlines() if line.startswith("```")]
        assert output.count(sign) >= text.count(sign) - sum(line.count(sign) for line in fenced)
