"""What recorders collect about the tests of a run."""

import sys
from pathlib import Path

import pytest
from process_runs import run, write_project

from codriver.testing.recordings import executed_functions, lines_not_run
from codriver.testing.runs import ChosenTests

LIB = """
def half(number):
    return number // 2

def double(number):
    if number < 0:
        return 0
    return number * 2

def made():
    return [1]

def numbers():
    yield half(2)

class Shop:
    def price(self):
        return double(3)

TABLE = made()
"""
TESTS = """
import lib, pytest

@pytest.fixture(scope="module")
def shop():
    return lib.Shop()

def test_half(): assert lib.half(4) == 2
def test_numbers(): assert list(lib.numbers()) == [1]
def test_price(shop): assert shop.price() == 6
def test_often():
    for number in range(100): lib.half(number)
def test_again(): assert lib.half(2) == 1
"""


@pytest.fixture
def project(tmp_path):
    return write_project(tmp_path, {"lib.py": LIB, "test_it.py": TESTS, "pytest.ini": "[pytest]\n"})


def names(ran, folder):
    found = executed_functions(ran.report.recorded)
    return {
        test.rpartition("::")[2]: {item.name for item in executed if item.file == str(folder / "lib.py")}
        for test, executed in found.by_test.items()
    }


@pytest.mark.parametrize("arguments", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_executed_functions_are_recorded_by_test(project, monitored_python, arguments):
    ran = run(project, *arguments, recorders={"functions": {}}, python=monitored_python)
    assert ran.report.passed, ran.output
    assert names(ran, project) == {
        "test_half": {"half", "made"},
        "test_numbers": {"numbers", "half", "made"},
        "test_price": {"Shop.price", "double", "made"},
        "test_often": {"half", "made"},
        "test_again": {"half", "made"},
    }
    found = executed_functions(ran.report.recorded)
    assert "made" in {function.name for function in found.by_test["test_it.py::test_price"]}
    after_import = {function.name for function in found.after_import["test_it.py::test_price"]}
    assert {"Shop.price", "double"} <= after_import
    assert "made" not in after_import
    affected = found.tests_executing([(str(project / "lib.py"), "Shop")])
    assert affected == ["test_it.py::test_price"]
    assert str(project / "lib.py") in found.files


@pytest.mark.parametrize("arguments", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_lines_of_failed_tests_are_recorded_and_those_of_others_counted(project, monitored_python, arguments):
    (project / "test_it.py").write_text(
        "import lib, pytest\n\n"
        "@pytest.fixture(scope='module')\ndef shared(): return lib.double(-1)\n\n"
        "def test_negative(shared):\n    lib.double(1)\n    assert [lib.double(1) for _ in range(40)] == 1\n\n"
        "def test_positive(): assert lib.double(1) == 2\n\n"
        "def test_both(): assert [lib.double(number) for number in (-1, 1, -1)] == [0, 2, 0]\n"
    )
    ran = run(project, *arguments, recorders={"functions": {}}, python=monitored_python)
    found = executed_functions(ran.report.recorded)
    (lines,) = found.failed_lines.values()
    assert list(found.failed_lines) == ["test_it.py::test_negative"]
    of_functions = {function.name: (of_test, found.line_counts[function]) for function, of_test in lines.items()}
    assert of_functions["double"][0] == {6, 8}
    assert of_functions["double"][1] == {6: 3, 7: 1, 8: 3}


def test_code_that_runs_in_another_thread_does_not_disturb_the_recording(project, monitored_python):
    (project / "many.py").write_text("\n".join(f"def f{number}():\n    return {number}" for number in range(3000)))
    (project / "test_it.py").write_text(
        "import itertools, many, pytest, sys, threading\n\n"
        "functions = [value for name, value in vars(many).items() if name.startswith('f')]\n\n"
        "def call_all():\n    for function in itertools.cycle(functions): function()\n\n"
        "sys.setswitchinterval(1e-6)\n"
        "threading.Thread(target=call_all, daemon=True).start()\n\n"
        "@pytest.mark.parametrize('number', range(300))\n"
        "def test_one(number): assert functions[number]() == number\n"
    )
    ran = run(project, "-p", "no:threadexception", recorders={"functions": {}}, python=monitored_python)
    assert ran.report.error is None, ran.report.error
    assert ran.report.counts.passed == 300
    found = executed_functions(ran.report.recorded)
    for number in range(300):
        names_of_test = {function.name for function in found.by_test[f"test_it.py::test_one[{number}]"]}
        assert f"f{number}" in names_of_test, number


def whole_files(folder, python, *arguments, **fields):
    ran = run(folder, *arguments, recorders={"functions": {}}, python=python, **fields)
    return {Path(whole_file).name for whole_file in executed_functions(ran.report.recorded).whole_files()}


def test_test_files_are_listed_if_all_their_tests_were_recorded(project, monitored_python):
    (project / "test_processes.py").write_text(
        "import subprocess, sys\n\ndef test_it(): subprocess.run([sys.executable, '-c', ''])\n"
    )
    (project / "test_more.py").write_text("import lib\n\ndef test_a(): lib.half(1)\n\ndef test_b(): pass\n")
    everything = {"test_it.py", "test_more.py"}
    assert whole_files(project, monitored_python) == everything
    assert whole_files(project, monitored_python, "-n", "2") == everything
    assert whole_files(project, monitored_python, "test_it.py", "test_more.py::test_a") == {"test_it.py"}
    assert whole_files(project, monitored_python, "-k", "not test_b") == {"test_it.py"}
    chosen = ChosenTests(("test_it.py::test_half",), ("test_more.py",))
    assert whole_files(project, monitored_python, chosen=chosen) == {"test_more.py"}


def test_functions_that_ran_during_an_import_are_recorded(project, monitored_python):
    (project / "conftest.py").write_text("import lib\n\nlib.double(1)\n")
    ran = run(project, recorders={"functions": {}}, python=monitored_python)
    found = executed_functions(ran.report.recorded)
    assert {item.name for item in found.at_import} == {"made", "double"}


def test_lines_that_did_not_run_are_reported(project, monitored_python):
    lib = str(project / "lib.py")
    ran = run(project, "-k", "price", recorders={"lines": {"lines": {lib: None}}}, python=monitored_python)
    assert lines_not_run(ran.report.recorded) == {lib: (3, 7, 14)}
    ran = run(project, "-k", "price", recorders={"lines": {"lines": {lib: (7, 8)}}}, python=monitored_python)
    assert lines_not_run(ran.report.recorded) == {lib: (7,)}


def test_calls_are_recorded_with_arguments_and_results(project, monitored_python):
    ran = run(project, "-k", "test_half", recorders={"calls": {"names": ["lib.half"]}}, python=monitored_python)
    (recorded,) = ran.report.recorded
    ((function, *_),) = [(row[1], row[0]) for row in recorded.data["functions"]]
    assert (recorded.recorder, function) == ("calls", "half")
    ((*_, arguments, result, _error, _yields),) = recorded.data["calls"]
    assert (arguments, result) == (["4"], "2")


def test_the_reason_is_reported_if_the_python_is_too_old_to_record(project):
    if sys.version_info >= (3, 12):
        pytest.skip("this Python can record")
    ran = run(project, recorders={"functions": {}})
    assert "3.12" in executed_functions(ran.report.recorded).error
    assert ran.report.passed
