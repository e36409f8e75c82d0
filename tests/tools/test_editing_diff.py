import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codriver.editing.batch import truncate_diff, unified_diff


def patched(before, diff):
    """Return `before` with the diff applied strictly, line by line."""
    lines = re.findall(r"[^\n]*\n|[^\n]+", before)
    body = re.findall(r"[^\n]*\n", diff)[2:]
    result, at = [], 0
    for position, line in enumerate(body):
        whole = line[1:]
        if position + 1 < len(body) and body[position + 1].startswith("\\"):
            whole = whole[:-1]
        if line.startswith("@@"):
            start, length = re.match(r"@@ -(\d+)(?:,(\d+))?", line).groups()
            begin = int(start) - (length != "0")
            result += lines[at:begin]
            at = begin
        elif line.startswith((" ", "-")):
            assert lines[at] == whole
            at += 1
            if line.startswith(" "):
                result.append(whole)
        elif line.startswith("+"):
            result.append(whole)
    return "".join(result + lines[at:])


LINES = st.lists(st.sampled_from(["a\n", "b\n", "\n", "c\r\n", "d\u2028\n", "e"]), max_size=30).map("".join)


@given(LINES, LINES)
def test_applying_a_diff_gives_the_new_text(before, after):
    diff = unified_diff(before, after, "x.clj")
    assert patched(before, diff) == after
    assert (diff == "") == (before == after)


def test_each_change_has_three_lines_of_context():
    before = "".join(f"(def v{n} {n})\n\n" for n in range(50))
    after = before.replace("(def v25 25)\n", "(def x 1)\n\n(def v25 25)\n")
    added = unified_diff(before, after, "n.clj")
    assert added.startswith("--- a/n.clj\n+++ b/n.clj\n@@ -47,6 +47,8 @@\n")
    assert patched(before, added) == after


def test_distant_changes_are_separate_hunks():
    before = "".join(f"{n}\n" for n in range(100))
    after = before.replace("\n10\n", "\nten\n").replace("\n90\n", "\nninety\n")
    diff = unified_diff(before, after, "n.clj")
    assert re.findall(r"^@@.*", diff, re.MULTILINE) == ["@@ -8,7 +8,7 @@", "@@ -88,7 +88,7 @@"]
    assert patched(before, diff) == after


def test_texts_too_long_to_compare_are_diffed_as_one_whole_replacement():
    before = "".join(f"{n}\n" for n in range(15_000))
    after = "start\n" + before[::-1]
    diff = unified_diff(before, after, "n.clj")
    assert patched(before, diff) == after


@pytest.mark.parametrize("size", range(12))
def test_a_long_diff_ends_with_a_whole_line_and_the_number_of_omitted_lines(size):
    diff = "a\nbb\nccc\n"
    text, is_cut = truncate_diff(diff, size)
    assert is_cut == (size < len(diff))
    if is_cut:
        kept, reported = text[: text.index("…")], text[text.index("…") :]
        assert diff.startswith(kept)
        assert len(kept) <= size
        count = diff.count("\n") - kept.count("\n")
        assert reported == f"… {count} more line{'' if count == 1 else 's'}\n"
    else:
        assert text == diff
