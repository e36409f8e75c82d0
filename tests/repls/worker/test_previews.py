"""Tables and arrays are printed as their libraries do, within Codriver's limits. Each cut leads to what was omitted."""

import re
import sys
from functools import cache
from importlib import import_module
from types import SimpleNamespace

import needs
import pytest

from codriver.repls.worker.basics.printing import Printer


@cache
def libraries():
    """Import the libraries, only in the process that runs these tests, and return them with a table."""
    needs.modules("numpy", "pandas")
    np, pd = import_module("numpy"), import_module("pandas")
    return SimpleNamespace(np=np, pd=pd, table=pd.DataFrame({"n": range(1000), "half": [n / 2 for n in range(1000)]}))


@pytest.fixture
def np():
    return libraries().np


@pytest.fixture
def pd():
    return libraries().pd


@pytest.fixture
def table():
    return libraries().table


def printed(value, size=None, start=0):
    printer = Printer(25, 7, size)
    return printer.print_from(value, start), printer.cuts.describe()


@pytest.mark.parametrize(
    "make",
    [
        lambda of: of.table["n"].describe(),
        lambda of: of.table.describe(),
        lambda of: of.table.head(10),
        lambda of: of.table.groupby(of.table["n"] % 40)["half"].sum(),
        lambda of: of.np.arange(60).reshape(12, 5),
        lambda of: of.np.arange(30),
        lambda of: of.np.array(7),
        lambda of: of.pd.Index(["a", "b"]),
    ],
)
def test_a_value_that_its_library_prints_completely_is_not_truncated(make):
    value = make(libraries())
    assert printed(value) == (repr(value), "")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda of: of.table, "990 of 1000 rows"),
        (lambda of: of.table["n"], "990 of 1000 elements"),
        (lambda of: of.pd.Index(range(0, 5000, 7)).astype(str), "695 of 715 elements"),
        (lambda of: of.pd.DataFrame({f"c{n}": [1] for n in range(30)}), "10 of 30 columns"),
        (lambda of: of.np.arange(5000), "4994 of 5000 elements"),
        (lambda of: of.np.arange(5000).reshape(1000, 5), "994 of 1000 rows"),
        (lambda of: of.np.arange(5000).reshape(5, 1000), "some of 5000 elements"),
    ],
)
def test_rows_that_a_library_omits_are_reported(pd, make, words):
    value = make(libraries())
    with pd.option_context("display.max_columns", 20):
        assert printed(value) == (repr(value), words)


def test_output_of_a_library_configured_without_limits_is_still_truncated(np, pd):
    with pd.option_context("display.max_rows", None), np.printoptions(threshold=sys.maxsize):
        text, words = printed(pd.DataFrame({"n": range(5000)}))
        assert (len(text.splitlines()) < 1100, words) == (True, "4990 of 5000 rows")
        assert printed(np.arange(100_000))[1] == "99994 of 100000 elements"


def test_the_programs_own_print_limits_are_kept(np, pd, table):
    before = pd.get_option("display.max_rows"), np.get_printoptions()["threshold"]
    printed(table, size=500)
    assert (pd.get_option("display.max_rows"), np.get_printoptions()["threshold"]) == before


def test_as_many_rows_as_requested_are_printed(np, table):
    text, words = printed(table, size=100)
    assert [int(line.split()[0]) for line in text.splitlines() if re.match(r"\d", line)] == list(range(100))
    assert words == "900 of 1000 rows"
    text, words = printed(np.arange(5000), size=2000)
    assert [int(number) for number in re.findall(r"\d+", text)] == list(range(2000))
    assert words == "3000 of 5000 elements"


def test_rows_from_an_offset_keep_their_labels(table):
    text, words = printed(table, size=2, start=998)
    assert [line.split()[0] for line in text.splitlines()] == ["n", "998", "999"]
    assert words == "998 of 1000 rows"


class Told:
    def __str__(self):
        return "told by str"


class Shown(Told):
    def __repr__(self):
        return "shown by repr"


def test_a_value_without_its_own_repr_is_printed_by_str():
    assert printed(Told()) == ("told by str", "")
    assert printed([Told()]) == ("[told by str]", "")
    assert printed(Shown()) == ("shown by repr", "")
    assert printed(object)[0] == "<class 'object'>"
