"""Lines that an edit changed, and the previous numbers of the others."""

import random
from pathlib import Path

from codriver.editing.batch import FileResult
from codriver.editing.file_changes import Change, Snapshot
from codriver.tools.execution.edited_lines import MAX_COMPARED_LINES, edited_files

FILE = Path("/project/shop.py")


def edited(before, after):
    change = Change(FILE, Snapshot("\n".join(before).encode()), "\n".join(after).encode())
    return edited_files([FileResult(change, FILE.name, {}, "")])[str(FILE)]


def test_unchanged_lines_are_mapped_to_their_previous_numbers_after_any_edit():
    chance = random.Random(47)
    for _ in range(200):
        before = [f"line {number}" for number in range(chance.randrange(1, 40))]
        after = list(before)
        for number in range(chance.randrange(1, 5)):
            at = chance.randrange(len(after) + 1)
            after[at : at + chance.randrange(3)] = [f"new {number}.{item}" for item in range(chance.randrange(3))]
        found = edited(before, after)
        for number, text in enumerate(after, 1):
            if text.startswith("line "):
                assert before[found.previous_line(number) - 1] == text


def test_only_lines_of_the_changed_function_count_as_close_to_the_edit():
    before = [
        "def one():",
        "    x = 1",
        "    return x",
        "",
        "def two():",
        "    return 2",
        "",
        "def three():",
        "    return 3",
    ]
    after = [*before[:1], *before[2:6], "", "y = 1", *before[7:]]
    found = edited(before, after)
    assert [number for number in range(1, len(after) + 1) if after[number - 1] and found.has_edit_around(number)] == [
        after.index("def one():") + 1,
        after.index("    return x") + 1,
        after.index("y = 1") + 1,
    ]


def test_a_long_rewritten_part_counts_as_one_change():
    before = ["x = 1", *(f"a{number} = 1" for number in range(MAX_COMPARED_LINES + 1)), "z = 1"]
    after = ["x = 1", "b = 2", *(f"a{number} = 2" for number in range(MAX_COMPARED_LINES + 1)), "z = 1"]
    assert edited(before, after).previous_line(len(after)) == len(before)
