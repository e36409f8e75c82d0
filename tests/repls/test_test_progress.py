"""Progress records of a running test run, in its output."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codriver.repls.contract.test_progress import TestProgress
from codriver.repls.programs.python.run_values import SoFar

RED = {"test": "test_b", "ns": "t.py", "outcome": "fail", "message": None, "actual": "1 != 2"}
RED |= {"file": "/w/t.py", "line": 3}
GREEN = {"test": "test_a", "ns": "t.py", "outcome": "pass"}
BROKEN = {"test": "(collection)", "ns": "u.py", "outcome": "error", "skipped": False, "file": "/w/u.py"}


class Printed:
    """Generate the output of a run: the output of its tests, with progress records in between."""

    def __init__(self):
        self.text = ""

    def write(self, text):
        self.text += text


def printed():
    stream = Printed()
    so_far, rows = SoFar(stream), [BROKEN]
    stream.write("before ")
    for number, row in enumerate([GREEN, RED, GREEN], 1):
        rows.append(row)
        so_far.report(number, rows)
        stream.write(f"noise {number}\n")
    return stream.text


@given(st.lists(st.integers(0, len(printed())), max_size=6))
def test_progress_records_are_extracted_however_the_output_is_split(places):
    text, progress = printed(), TestProgress()
    ends = [0, *sorted(places), len(text)]
    kept = "".join(progress.feed(text[begin:end]) for begin, end in pairwise(ends)) + progress.flush()
    assert kept == "before noise 1\nnoise 2\nnoise 3\n"
    run = progress.run
    assert (run.tests, run.passed, run.failed, run.errors) == (3, 2, 1, 1)
    assert [(row.test, row.outcome, row.line, row.actual) for row in run.results] == [
        ("(collection)", "error", None, None),
        ("test_b", "fail", 3, "1 != 2"),
    ]


@pytest.mark.parametrize("text", [
    "\x1e", "a\x1eb\n", '\x1e{"codriver": "tests", nonsense}\n', '\x1e{"codriver": "tests"}\n', "\x1e\x1e{}\n",
    '\x1e{"codriver": "tests", "tests": 1, "passed": 1, "rows": [{}]}\n',
])  # fmt: skip
def test_output_that_only_resembles_a_progress_record_is_left_unchanged(text):
    progress = TestProgress()
    assert progress.feed(text) + progress.flush() == text
    assert progress.run is None


@given(st.text(alphabet='\x1e{"codriver: tests}\n'))
def test_output_other_than_progress_records_is_passed_on_unchanged(text):
    progress = TestProgress()
    assert "".join(progress.feed(item) for item in text) + progress.flush() == text


def test_a_progress_record_contains_no_line_feed_except_at_its_end():
    stream = Printed()
    SoFar(stream).report(1, [{**RED, "actual": "a\nb"}])
    assert stream.text.count("\n") == 1
    assert json.loads(stream.text[1:])["rows"][0]["actual"] == "a\nb"
