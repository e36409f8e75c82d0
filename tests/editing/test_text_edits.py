"""Editing any text by old and new text: one place changes, and every other byte is preserved."""

import random
from pathlib import Path

import pytest
from refusals import refused_as

from codriver.editing import Editor, EditRequest, ReplaceText, SearchLimits
from codriver.editing.file_languages import apply_string_edits
from codriver_lisp.edit import EditedText

SHOP = "import os\n\n\ndef price(x):\n    rate = 2\n    return x * rate\n\n\ndef cost(x):\n    rate = 2\n    return x\n"


def edited(text, *edits, **how):
    found = apply_string_edits(text, dict(enumerate(edits)), **how)
    assert isinstance(found, EditedText), found
    return found.text


def refused(text, *edits, **how):
    found = apply_string_edits(text, dict(enumerate(edits)), **how)
    assert not isinstance(found, EditedText), found.text
    return [(problem.message, problem.context) for _, problem in found.errors]


def test_a_unique_text_is_replaced_and_nothing_else():
    assert edited(SHOP, ReplaceText("x * rate", "x + rate")) == SHOP.replace("x * rate", "x + rate")


def test_edits_apply_in_order_to_the_result_of_the_previous_one():
    assert edited("a b", ReplaceText("a", "b c"), ReplaceText("c b", "d")) == "b d"


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_a_line_feed_matches_the_line_endings_of_the_file(ending):
    text = SHOP.replace("\n", ending)
    new = edited(text, ReplaceText("    rate = 2\n    return x * rate", "    rate = 3\n    # more\n    return x"))
    old, want = "    rate = 2\n    return x * rate", "    rate = 3\n    # more\n    return x"
    assert new == SHOP.replace(old, want).replace("\n", ending)


def test_an_ambiguous_text_is_refused_with_its_positions():
    [(message, context)] = refused(SHOP, ReplaceText("rate = 2", "rate = 3"))
    assert message == "oldText occurs 2 times. Include more of the surrounding text, or pass name or line"
    assert "→ 5      rate = 2" in context
    assert "→ 10      rate = 2" in context
    assert "  4  def price(x):" in context


def test_a_line_or_a_definition_selects_one_of_several_matches():
    second = SHOP[: SHOP.rindex("2")] + "3" + SHOP[SHOP.rindex("2") + 1 :]
    assert edited(SHOP, ReplaceText("rate = 2", "rate = 3", line=11)) == second
    assert edited(SHOP, ReplaceText("rate = 2", "rate = 3", name="cost"), is_python=True) == second
    [(message, _)] = refused("x\n\nx\n", ReplaceText("x", "y", line=2))
    assert message.startswith("oldText occurs 2 times")


def test_a_missing_text_is_refused_with_the_most_similar_lines():
    [(message, context)] = refused(SHOP, ReplaceText("    return x * rates", "    return 1"))
    assert message == "oldText does not occur in the current file. The most similar lines are"
    assert "→ 6      return x * rate" in context
    [(message, context)] = refused(SHOP, ReplaceText("nothing of the kind", "1"))
    assert "Read the file again" in message
    assert context is None


@pytest.mark.parametrize(("old", "new", "words"), [("", "x", "oldText is empty"), ("os", "os", "are equal")])
def test_an_edit_without_effect_is_refused(old, new, words):
    [(message, _)] = refused(SHOP, ReplaceText(old, new))
    assert words in message


def test_random_edits_of_real_files_change_only_the_edited_text():
    drawn = random.Random(1)
    texts = [path.read_bytes().decode() for path in sorted(Path(random.__file__).parent.glob("*.py"))[:60]]
    for _ in range(400):
        text = drawn.choice([text for text in texts if len(text) > 200])
        start = drawn.randrange(len(text) - 60)
        old = text[start : start + drawn.randrange(5, 60)]
        found = apply_string_edits(text, {0: ReplaceText(old, "<new>\n")})
        is_once = text.count(old) == 1
        assert isinstance(found, EditedText) == is_once
        if is_once:
            assert found.text == text.replace(old, "<new>\n")


async def edit(workspace, file, *edits, **how):
    expected = [EditRequest(file, item) for item in edits]
    return await Editor(workspace).edit("me", expected, limits=SearchLimits(), allow_outside=False, **how)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("file", "text", "old", "new"),
    [
        ("notes.md", "one\ntwo\n", "two", "three"),
        ("data.json", '{"a": 1}', "1", "2"),
        ("shop.py", SHOP, "x * rate", "x + rate"),
        ("shop.clj", "(def rate 2)\n", "2", "3"),
    ],
)
async def test_any_text_file_can_be_edited(tmp_path, file, text, old, new):
    (tmp_path / file).write_text(text)
    await edit(tmp_path, file, ReplaceText(old, new))
    assert (tmp_path / file).read_text() == text.replace(old, new)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("file", "text", "old", "new"),
    [
        ("shop.py", SHOP, "x * rate", "x * ("),
        ("shop.clj", "(def rate 2)\n", "2)", "3"),
        ("x.bin", "a\0b", "a", "\ud800"),
    ],
)
async def test_an_edit_that_breaks_the_syntax_changes_no_file(tmp_path, file, text, old, new):
    (tmp_path / file).write_text(text)
    with refused_as("edits-refused"):
        await edit(tmp_path, file, ReplaceText(old, new))
    assert (tmp_path / file).read_text() == text


@pytest.mark.anyio
async def test_a_broken_file_can_be_fixed_step_by_step(tmp_path):
    (tmp_path / "shop.py").write_text("def price(:\n    return (\n")
    await edit(tmp_path, "shop.py", ReplaceText("price(:", "price():"))
    await edit(tmp_path, "shop.py", ReplaceText("return (", "return 1"))
    assert (tmp_path / "shop.py").read_text() == "def price():\n    return 1\n"


@pytest.mark.anyio
async def test_a_guard_can_refuse_a_batch_of_edits(tmp_path):
    (tmp_path / "notes.md").write_text("one")
    with refused_as("edits-refused", match=r"notes\.md: not that one"):
        await edit(tmp_path, "notes.md", ReplaceText("one", "two"), guard=lambda _change: "not that one")
    assert (tmp_path / "notes.md").read_text() == "one"


@pytest.mark.anyio
@pytest.mark.parametrize("file", ["notes.md", "pictures.ipynb"])
async def test_an_oversized_text_is_not_read(tmp_path, file):
    """This applies to notebooks too, although their cells are listed up to another size: an edit needs many times
    its memory.
    """
    text = f'{{"cells":[],"picture":"{"x" * 8 * 2**20}"}}'
    (tmp_path / file).write_text(text)
    with refused_as("edits-refused", match="at most 8,388,608 bytes are read"):
        await edit(tmp_path, file, ReplaceText("picture", "photo"))
    assert (tmp_path / file).read_text() == text


HEAVY = {
    "many places": ("ab\n" * 1_000_000, "a"),
    "ends of line": ("\r\n" * 1_000_000, "\n" * 500_000 + "x"),
    "near misses": ("a\n" * 1_000_000, "a\n" * 500_000 + "b"),
    "one long line": ("a" * 2_000_000 + "b", "a" * 1_000_000 + "cb"),
    "lines that are much alike": (("abcdefghij" * 20 + "\n") * 10_000, "bacdefghij" * 20),
}


@pytest.mark.parametrize("words", HEAVY)
def test_a_missing_text_is_refused_quickly_with_a_short_message(words):
    """Each of these took hours or longer, and some blocked all threads."""
    text, old = HEAVY[words]
    [(_, context)] = refused(text, ReplaceText(old, "new"))
    assert len(context or "") < 3000


def test_the_match_nearest_to_a_line_is_found_among_a_million():
    text = "ab\n" * 1_000_000
    assert edited(text, ReplaceText("b", "c", line=1000)) == "ab\n" * 999 + "ac\n" + "ab\n" * 999_000


def test_mixed_line_endings_are_preserved_outside_the_match():
    dice = random.Random(7)
    for _ in range(2000):
        text = "".join(dice.choice(["a", "\r", "\n", "\r\n"]) for _ in range(12))
        before, after = text[:6], text[6:]
        if before.endswith("\r") and after.startswith("\n"):
            continue
        assert edited(f"{before}old\rwords{after}", ReplaceText("old\nwords", "new")) == f"{before}new{after}"
