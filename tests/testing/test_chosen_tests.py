"""The tests that an edit concerns: what changed, which tests executed it, where tests are, and their order in a run."""

import sys
from pathlib import Path

import process_runs
import pytest
from process_runs import write_project

from codriver.testing.changed_functions import changed_functions, functions_with_changed_bodies
from codriver.testing.executed_functions import RecordedExecutions, without_parameters
from codriver.testing.runs import ChosenTests, OutcomeCounts, Recorded, TestFailure, TestFinished, TestReport
from codriver.testing.test_paths import is_skipped, skipped_directories
from codriver.testing.test_paths import test_paths as paths_of
from codriver.tools.execution.edit_verdict import find_failed_tests

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


@pytest.mark.parametrize(
    ("old", "new", "names"),
    [
        ("n * RATE", "n + RATE", {"price"}),
        ("return item", "return [item]", {"Shop.sell.<locals>.inner"}),
        ("return inner()", "return None", {"Shop.sell"}),
        ("    return n * RATE\n", "    # a comment\n    return n\n", {"price"}),
        ("    return n * RATE\n", "    return n\n\n\nMORE = 1\n", None),
        ("@cached", "@cached(1)", None),
        ("def price(n):", "def price(n, m=1):", None),
        ('name = "shop"', 'name = "store"', None),
        ("RATE = 2", "RATE = 3", None),
        ("import os\n", "", None),
        ("import os\n", 'import os\nTEXT = """\ndef price():\n    return 2\n"""\n', None),
        ("return item", "return (item", None),
    ],
)
def test_changes_in_function_bodies_are_distinguished_from_changes_that_affect_the_import(old, new, names):
    assert old in MODULE
    assert functions_with_changed_bodies(MODULE, MODULE.replace(old, new)) == names
    assert functions_with_changed_bodies(MODULE.replace(old, new), MODULE) == names


class Project:
    """Files of a project with what their tests executed: `test_price.py` calls `price`, and `test_sell.py` `sell`."""

    def __init__(self, folder):
        self.folder = folder
        for name in ("shop.py", "tax.py", "test_price.py", "test_sell.py"):
            (folder / name).write_text(f"# {name}\n")
        self.executions = RecordedExecutions()

    def path(self, name):
        return str(self.folder / name)

    def record(self, *, tests=None, collected=None, at_import=(), preloaded=(), is_finished=True):
        tests = tests or {"test_price.py::test_a": [0], "test_price.py::test_b": [0], "test_sell.py::test_a": [1]}
        data = {
            "functions": [
                [self.path("shop.py"), 1, "price"],
                [self.path("shop.py"), 9, "sell"],
                ["<processes>", 1, "p"],
            ],
            "shared": [["module", self.path("test_price.py"), list(at_import)]],
            "tests": [[name, self.path(name.partition("::")[0]), [], numbers] for name, numbers in tests.items()],
            "files": [self.path(name) for name in ("shop.py", "tax.py", "test_price.py", "test_sell.py")],
            "preloaded": [self.path(name) for name in preloaded],
            "collected": collected or {self.path("test_price.py"): 2, self.path("test_sell.py"): 1},
        }
        self.executions.add([Recorded("functions", data)], is_finished=is_finished)

    def change(self, function, text, file="shop.py"):
        """Write another text into a file, as a change of one function's body, and return the unaffected files."""
        before = (self.folder / file).read_bytes()
        (self.folder / file).write_text(text)
        files = [self.path("test_price.py"), self.path("test_sell.py")]
        found = self.executions.unaffected_files(files, [(self.path(file), function)], {self.path(file): before})
        executing = {test[0] for test in self.executions.tests_executing([(self.path(file), function)])}
        return {Path(item).name for item in {*found} - executing}


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path)


def test_test_files_that_never_executed_the_changed_code_are_unaffected(project):
    assert project.change("price", "# 1\n") == set(), "nothing is known yet"
    project.record()
    assert project.change("price", "# 2\n") == {"test_sell.py"}
    assert project.change("sell", "# 3\n") == set(), "the tests of price have not run since price changed"
    assert project.change("price", "# 4\n") == set(), "nor those of sell"
    project.record(tests={"test_price.py::test_a": [0], "test_price.py::test_b": [0]})
    assert project.change("sell", "# 5\n") == {"test_price.py"}


def test_a_recording_is_used_only_while_the_recorded_files_are_unchanged(project):
    project.record()
    (project.folder / "tax.py").write_text("# another\n")
    assert project.change("price", "# 1\n") == set()
    (project.folder / "tax.py").write_text("# tax.py\n")
    (project.folder / "shop.py").write_text("# shop.py\n")
    assert project.change("price", "# 1\n") == {"test_sell.py"}
    assert "test_sell.py" not in project.change("test_a", "# 2\n", file="test_sell.py"), "an edited test file runs"


@pytest.mark.parametrize(
    "record",
    [
        {"is_finished": False},
        {"collected": {"test_price.py": 2}},
        {"tests": {"test_price.py::test_a": [0], "test_sell.py::test_a": [1, 2]}},
        {"at_import": [0]},
    ],
    ids=["unfinished", "in part", "starts a process", "runs at import"],
)
def test_no_test_file_is_left_out_because_of_an_incomplete_recording(project, record):
    if "collected" in record:
        record = {"collected": {project.path(name): count for name, count in record["collected"].items()}}
    project.record(**record)
    assert project.change("price", "# 1\n") == set()


def test_no_test_file_is_left_out_for_a_file_loaded_before_the_recording(project):
    project.record(preloaded=["shop.py"])
    assert project.change("price", "# 1\n") == set()


def test_a_test_file_is_treated_as_recorded_only_if_all_its_tests_ran(project):
    project.record(collected={project.path("test_sell.py"): 2})
    assert project.change("price", "# 1\n") == set()


def recorded(tests, functions=(("/p/shop.py", 1, "price"), ("/p/shop.py", 9, "Shop.sell"), ("/p/t.py", 1, "test_a"))):
    rows = [[nodeid, "/p/t.py", [], numbers] for nodeid, numbers in tests.items()]
    return [
        Recorded("functions", {"functions": [list(function) for function in functions], "shared": [], "tests": rows})
    ]


def test_tests_are_found_by_the_functions_they_executed():
    executions = RecordedExecutions()
    executions.add(recorded({"t.py::test_a[1]": [0], "t.py::test_a[2]": [1], "t.py::test_b": [0, 1, 2]}))
    assert executions.tests_executing([("/p/shop.py", "price")]) == [("/p/t.py", "test_a"), ("/p/t.py", "test_b")]
    assert executions.tests_executing([("/p/shop.py", "Shop")]) == [("/p/t.py", "test_a"), ("/p/t.py", "test_b")]
    assert executions.tests_executing([("/p/shop.py", "pri"), ("/p/other.py", "price")]) == []
    executions.add(recorded({"t.py::test_b": [2]}))
    assert executions.tests_executing([("/p/shop.py", "price")]) == [("/p/t.py", "test_a")], "the newest run counts"


def test_the_function_of_a_test_is_its_id_without_parameters():
    assert without_parameters("t.py::T::test_a[x::y]") == "t.py::T::test_a"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pyproject.toml", '[tool.pytest.ini_options]\ntestpaths = ["unit", "deep/*"]\n'),
        ("pyproject.toml", '[tool.pytest]\ntestpaths = ["unit", "deep/*"]\n'),
        ("pytest.ini", "[pytest]\ntestpaths = unit deep/*\n"),
        ("setup.cfg", "[tool:pytest]\ntestpaths =\n    unit\n    deep/*\n"),
    ],
)
def test_the_default_test_paths_are_read_from_the_pytest_configuration(tmp_path, name, text):
    for folder in ("unit", "deep/one", "deep/two", "maint"):
        (tmp_path / folder).mkdir(parents=True)
    assert paths_of(tmp_path) == ()
    (tmp_path / name).write_text(text)
    assert paths_of(tmp_path) == tuple(tmp_path / item for item in ("unit", "deep/one", "deep/two"))


def test_chosen_tests_run_once_and_first_in_their_order(tmp_path):
    text = "import pytest\n\ndef test_a(): pass\n\n@pytest.mark.parametrize('n', [1, 2])\ndef test_b(n): pass\n"
    write_project(tmp_path, {"test_one.py": text, "test_two.py": text, "pytest.ini": "[pytest]\n"})
    chosen = ChosenTests(("test_two.py::test_b", "test_one.py::test_gone", "test_one.py::test_b"), ("test_one.py",))
    report = process_runs.run(tmp_path, "test_one.py", "test_two.py", python=sys.executable, chosen=chosen).report
    assert [result.nodeid for result in report.results] == [
        "test_two.py::test_b[1]",
        "test_two.py::test_b[2]",
        "test_one.py::test_b[1]",
        "test_one.py::test_b[2]",
        "test_one.py::test_a",
    ]
    assert (report.counts.deselected, report.exit_status) == (1, 0)


PACKAGES = {
    "libs/one/pytest.ini": "[pytest]\n",
    "libs/one/tests/test_it.py": "def test_a(): pass\n",
    "libs/two/pytest.ini": "[pytest]\n",
    "libs/two/tests/test_it.py": "def test_a(): assert 0\n",
}
"""Two packages that have their own configuration and test files of the same name."""


def test_chosen_tests_of_several_packages_may_be_in_files_of_the_same_name(tmp_path):
    files = [name for name in PACKAGES if name.endswith(".py")]
    chosen = ChosenTests((), tuple(files))
    ran = process_runs.run(write_project(tmp_path, PACKAGES), *files, chosen=chosen)
    assert ran.outcomes == {f"{files[0]}::test_a": "passed", f"{files[1]}::test_a": "failed"}


def test_the_ids_of_chosen_tests_in_several_packages_include_their_files(tmp_path):
    files = {name.replace("two/tests/test_it", "two/tests/test_other"): text for name, text in PACKAGES.items()}
    names = [name for name in files if name.endswith(".py")]
    ran = process_runs.run(write_project(tmp_path, files), *names, chosen=ChosenTests((), tuple(names)))
    assert ran.outcomes == {f"{names[0]}::test_a": "passed", f"{names[1]}::test_a": "failed"}


def test_a_failed_collection_without_an_id_is_a_failure():
    failure = TestFailure(phase="collect", type="OSError", message="the directory cannot be read")
    collected = TestFinished(nodeid="", outcome="error", failures=(failure,), is_collector=True)
    assert find_failed_tests(TestReport(counts=OutcomeCounts(errors=1), results=(collected,))) == ("",)


@pytest.mark.parametrize(
    ("ini", "skipped"),
    [
        ("", {"build/test_a.py", "tests/.old/test_a.py"}),
        ("norecursedirs = tests/types vendor*", {"tests/types/test_a.py", "src/vendored/test_a.py"}),
        ("norecursedirs = types", {"tests/types/test_a.py", "types/test_a.py"}),
    ],
)
def test_files_in_directories_that_pytest_skips_are_not_found(tmp_path, ini, skipped):
    (tmp_path / "pytest.ini").write_text(f"[pytest]\n{ini}\n")
    names = (
        *("build/test_a.py", "tests/.old/test_a.py", "tests/types/test_a.py", "types/test_a.py"),
        *("src/vendored/test_a.py", "tests/test_a.py", "test_a.py"),
    )
    patterns = skipped_directories(tmp_path)
    assert {name for name in names if is_skipped(tmp_path / name, tmp_path, patterns)} == skipped
