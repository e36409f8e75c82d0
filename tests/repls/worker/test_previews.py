"""Tables and arrays are printed as their library does, within bounds of ours; each cut leads to what it left out."""

import re
import sys

import needs
import pytest

from codriver.repls.worker.basics.printing import Printer

needs.modules("numpy", "pandas")
import numpy as np  # noqa: E402 - there, as was asked
import pandas as pd  # type: ignore[import-untyped]  # noqa: E402 - its types are another package

TABLE = pd.DataFrame({"n": range(1000), "half": [n / 2 for n in range(1000)]})
SMALL = (
    TABLE["n"].describe(), TABLE.describe(), TABLE.head(10), TABLE.groupby(TABLE["n"] % 40)["half"].sum(),
    np.arange(60).reshape(12, 5), np.arange(30), np.array(7), pd.Index(["a", "b"]),
)  # fmt: skip


def printed(value, asked=None, start=0):
    printer = Printer(25, 7, asked)
    return printer.whole(value, start), printer.cuts.words()


@pytest.mark.parametrize("value", SMALL, ids=lambda value: type(value).__name__)
def test_what_a_library_prints_whole_is_not_cut(value):
    assert printed(value) == (repr(value), "")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (TABLE, "990 of 1000 rows"),
        (TABLE["n"], "990 of 1000 elements"),
        (pd.Index(range(0, 5000, 7)).astype(str), "695 of 715 elements"),
        (pd.DataFrame({f"c{n}": [1] for n in range(30)}), "10 of 30 columns"),
        (np.arange(5000), "4994 of 5000 elements"),
        (np.arange(5000).reshape(1000, 5), "994 of 1000 rows"),
        (np.arange(5000).reshape(5, 1000), "some of 5000 elements"),
    ],
)
def test_what_a_library_leaves_out_is_said(value, words):
    with pd.option_context("display.max_columns", 20):
        assert printed(value) == (repr(value), words)


def test_a_library_that_is_told_to_leave_nothing_out_is_bounded():
    with pd.option_context("display.max_rows", None), np.printoptions(threshold=sys.maxsize):
        text, words = printed(pd.DataFrame({"n": range(5000)}))
        assert (len(text.splitlines()) < 1100, words) == (True, "4990 of 5000 rows")
        assert printed(np.arange(100_000))[1] == "99994 of 100000 elements"


def test_the_program_keeps_its_own_limits():
    before = pd.get_option("display.max_rows"), np.get_printoptions()["threshold"]
    printed(TABLE, asked=500)
    assert (pd.get_option("display.max_rows"), np.get_printoptions()["threshold"]) == before


def test_so_many_rows_as_are_asked_for_are_told():
    text, words = printed(TABLE, asked=100)
    assert [int(line.split()[0]) for line in text.splitlines() if re.match(r"\d", line)] == list(range(100))
    assert words == "900 of 1000 rows"
    text, words = printed(np.arange(5000), asked=2000)
    assert [int(number) for number in re.findall(r"\d+", text)] == list(range(2000))
    assert words == "3000 of 5000 elements"


def test_the_rows_from_a_place_on_keep_their_labels():
    text, words = printed(TABLE, asked=2, start=998)
    assert [line.split()[0] for line in text.splitlines()] == ["n", "998", "999"]
    assert words == "998 of 1000 rows"


class Told:
    def __str__(self):
        return "told by str"


class Shown(Told):
    def __repr__(self):
        return "shown by repr"


def test_a_value_without_repr_of_its_own_is_told_by_str():
    assert printed(Told()) == ("told by str", "")
    assert printed([Told()]) == ("[told by str]", "")
    assert printed(Shown()) == ("shown by repr", "")
    assert printed(object)[0] == "<class 'object'>"
