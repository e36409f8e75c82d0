"""Text from others, escaped for a terminal and readable for people."""

import json
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codriver.errors import format_count, join_first, truncate
from codriver.log.control_characters import encode_for_terminal, escape_controls, escape_to_one_line

JOINERS = "\u200c\u200d"
EVIL = "\x1b]52;c;aGk=\x07\x9b31m\x00\u202egnp\u2066\x7f\r\ud83d\U000e0041"
STRANGE = st.text() | st.text("a漢\u0301\u202e\x1b[31m\n\t\r\x9b\x00\ud83d🙂\U000e0001\\", max_size=60)


def is_obeyed(char):
    return unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp") and char not in JOINERS


def test_only_non_text_characters_are_escaped():
    for code in range(sys.maxunicode + 1):
        char = chr(code)
        if char in "\n\t" or unicodedata.category(char) == "Cn":
            continue
        displayed = escape_controls(char)
        assert (displayed != char) == is_obeyed(char), hex(code)
        assert displayed.isascii() or displayed == char


@pytest.mark.parametrize(
    ("text", "displayed"),
    [
        ("plain\n\tlines", "plain\n\tlines"),
        ("a\r\nb", "a\nb"),
        ("50 %\r100 %", r"50 %\r100 %".replace(r"\r", r"\x0d")),
        ("\x1b]0;owned\x07", r"\x1b]0;owned\x07"),
        ("\u202egnp.exe", r"\u202egnp.exe"),
        ("\U000e0041", r"\U000e0041"),
        ("\ud83d", r"\ud83d"),
        ("\N{FAMILY}\u200d\N{BOY}", "\N{FAMILY}\u200d\N{BOY}"),
    ],
)
def test_a_control_character_is_escaped_as_in_source_code(text, displayed):
    assert escape_controls(text) == displayed


@given(STRANGE)
def test_escaping_control_characters_is_idempotent_and_gives_encodable_text(text):
    assert escape_controls(escape_controls(text)) == escape_controls(text)
    escape_controls(text).encode()
    assert "\n" not in escape_to_one_line(text)
    assert not any(map(is_obeyed, escape_to_one_line(text)))


@given(STRANGE)
def test_json_for_the_terminal_is_equivalent_and_contains_no_control_characters(text):
    displayed = encode_for_terminal({text: [text]})
    assert json.loads(displayed) == json.loads(json.dumps({text: [text]}))
    assert not any(map(is_obeyed, displayed))
    displayed.encode()


def test_json_preserves_printable_text():
    assert encode_for_terminal(["ä 漢 🙂"]) == '["ä 漢 🙂"]'


@given(st.text(), st.integers(1, 20))
def test_a_truncated_text_respects_the_limit_and_is_marked(text, most):
    assert len(truncate(text, most)) <= most
    assert truncate(text, most) == text or truncate(text, most) == text[: most - 1] + "…"


def test_the_noun_after_a_count_is_singular_only_for_one():
    assert [format_count(count, "file") for count in (0, 1, 2)] == ["0 files", "1 file", "2 files"]
    assert [format_count(count, "test has", "tests have") for count in (1, 2)] == ["1 test has", "2 tests have"]


def test_an_abbreviated_list_of_names_ends_with_the_number_of_omitted_names():
    assert (join_first(["a", "b"], 2), join_first(["a", "b", "c"], 2), join_first([])) == (
        "a, b",
        "a, b and 1 more",
        "",
    )
