"""The commands of test runs, from the arguments of `run_tests`."""

import pytest

from codriver.tools.execution.test_arguments import TestArguments, pytest_arguments, pytest_path, unittest_arguments


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("tests/test_a.py", "tests/test_a.py"),
        ("tests/test_a.py::TestB::test_c[x::y]", "tests/test_a.py::TestB::test_c[x::y]"),
        ("tests.test_a", "tests/test_a.py"),
        ("tests.test_a.TestB.test_c", "tests/test_a.py::TestB::test_c"),
        ("tests", "tests"),
        ("pkg.deep", "src/pkg/deep.py"),
        ("no.such.module", "no.such.module"),
        ("tests/no_such.py", "tests/no_such.py"),
    ],
)
def test_paths_and_modules_are_translated_for_pytest(tmp_path, given, expected):
    for file in ("tests/test_a.py", "src/pkg/deep.py"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    assert pytest_path(given, tmp_path, tmp_path) == expected


def test_a_workspace_path_is_found_from_another_directory(tmp_path):
    (tmp_path / "backend").mkdir()
    (tmp_path / "test_a.py").touch()
    assert pytest_path("test_a.py::test_b", tmp_path, tmp_path / "backend") == "../test_a.py::test_b"


@pytest.mark.parametrize(
    ("given", "command"),
    [
        ({}, []),
        ({"args": ["-x"], "paths": ["a", "b"]}, ["-x", "a", "b"]),
        ({"namespace": "test_a.py", "test": "TestB.test_c"}, ["test_a.py::TestB::test_c"]),
        ({"test": "TestB.test_c"}, ["-k", "test_c"]),
        ({"match": "a and not b"}, ["-k", "a and not b"]),
        ({"junit": "/tmp/r.xml"}, ["--junitxml=/tmp/r.xml"]),
    ],
)
def test_options_precede_paths_in_the_pytest_command(tmp_path, given, command):
    assert pytest_arguments(TestArguments.model_validate(given), tmp_path, tmp_path) == command


@pytest.mark.parametrize(
    ("runner", "given", "expected"),
    [
        ("unittest", [], []),
        ("unittest", ["-x", "tests/test_a.py"], ["-f", "tests.test_a"]),
        ("unittest", ["tests"], ["discover", "-s", "tests"]),
        ("unittest", ["tests/test_a.py::TestB::test_c", "-k", "c"], ["tests.test_a.TestB.test_c", "-k", "c"]),
        ("unittest", ["a.B.test_c", "setUpClass (a.D)", "unittest.loader._FailedTest.e"], ["a.B.test_c", "a.D", "e"]),
        ("django", ["-x", "shop/tests.py::TestB::test_c"], ["--failfast", "shop.tests.TestB.test_c"]),
    ],
)
def test_pytest_arguments_are_translated_for_other_runners(runner, given, expected):
    assert unittest_arguments(given, runner) == expected
