"""The tests that an edit concerns: what changed, which tests executed it, where tests are, and their order in a run."""

import sys

import process_runs
import pytest
from process_runs import lay

from codriver.testing.changed_functions import changed_functions
from codriver.testing.executions import Executions, function_of
from codriver.testing.runs import ChosenTests, Recorded
from codriver.testing.test_paths import test_paths as paths_of

MODULE = """import os

RATE = 2

@cached
def price(n):
    return n * RATE


class Shop:
    name = "shop"

    async def sell(self, item):
        def inner():
            return item

        return inner()
"""


@pytest.mark.parametrize(
    ("old", "new", "names"),
    [
        ("n * RATE", "n + RATE", {"price"}),
        ("@cached", "@cached(1)", {"price"}),
        ('name = "shop"', 'name = "store"', {"Shop"}),
        ("return item", "return [item]", {"Shop.sell.<locals>.inner"}),
        ("return inner()", "return None", {"Shop.sell"}),
        ("RATE = 2", "RATE = 3", set()),
        ("\n\nclass", "\n\ndef more():\n    pass\n\n\nclass", {"more"}),
        ("    return n * RATE\n", "    return n\n\n\ndef more():\n    pass\n", {"price", "more"}),
        ("import os\n", "", set()),
    ],
)
def test_a_changed_line_belongs_to_its_innermost_definition(old, new, names):
    assert old in MODULE
    assert changed_functions(MODULE, MODULE.replace(old, new)) == names
    assert changed_functions(MODULE.replace(old, new), MODULE) == names


def recorded(tests, functions=(("/p/shop.py", 1, "price"), ("/p/shop.py", 9, "Shop.sell"), ("/p/t.py", 1, "test_a"))):
    rows = [[nodeid, "/p/t.py", [], numbers] for nodeid, numbers in tests.items()]
    return [Recorded("functions", {"functions": [list(one) for one in functions], "shared": [], "tests": rows})]


def test_tests_are_found_by_the_functions_they_executed():
    executions = Executions()
    executions.add(recorded({"t.py::test_a[1]": [0], "t.py::test_a[2]": [1], "t.py::test_b": [0, 1, 2]}))
    assert executions.tests_of([("/p/shop.py", "price")]) == [("/p/t.py", "test_a"), ("/p/t.py", "test_b")]
    assert executions.tests_of([("/p/shop.py", "Shop")]) == [("/p/t.py", "test_a"), ("/p/t.py", "test_b")]
    assert executions.tests_of([("/p/shop.py", "pri"), ("/p/other.py", "price")]) == []
    executions.add(recorded({"t.py::test_b": [2]}))
    assert executions.tests_of([("/p/shop.py", "price")]) == [("/p/t.py", "test_a")], "the newest run counts"


def test_the_function_of_a_test_is_its_id_without_parameters():
    assert function_of("t.py::T::test_a[x::y]") == "t.py::T::test_a"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pyproject.toml", '[tool.pytest.ini_options]\ntestpaths = ["unit", "deep/*"]\n'),
        ("pyproject.toml", '[tool.pytest]\ntestpaths = ["unit", "deep/*"]\n'),
        ("pytest.ini", "[pytest]\ntestpaths = unit deep/*\n"),
        ("setup.cfg", "[tool:pytest]\ntestpaths =\n    unit\n    deep/*\n"),
    ],
)
def test_the_test_paths_are_those_of_pytest(tmp_path, name, text):
    for folder in ("unit", "deep/one", "deep/two", "maint"):
        (tmp_path / folder).mkdir(parents=True)
    assert paths_of(tmp_path) == ()
    (tmp_path / name).write_text(text)
    assert paths_of(tmp_path) == tuple(tmp_path / one for one in ("unit", "deep/one", "deep/two"))


def test_chosen_tests_run_once_and_first_in_their_order(tmp_path):
    text = "import pytest\n\ndef test_a(): pass\n\n@pytest.mark.parametrize('n', [1, 2])\ndef test_b(n): pass\n"
    lay(tmp_path, {"test_one.py": text, "test_two.py": text, "pytest.ini": "[pytest]\n"})
    chosen = ChosenTests(("test_two.py::test_b", "test_one.py::test_gone", "test_one.py::test_b"), ("test_one.py",))
    report = process_runs.run(tmp_path, "test_one.py", "test_two.py", python=sys.executable, chosen=chosen).report
    assert [one.nodeid for one in report.results] == [
        "test_two.py::test_b[1]",
        "test_two.py::test_b[2]",
        "test_one.py::test_b[1]",
        "test_one.py::test_b[2]",
        "test_one.py::test_a",
    ]
    assert (report.counts.deselected, report.exit_status) == (1, 0)
