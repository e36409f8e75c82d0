"""Runs by unittest and by Django's manage.py, and with common plugins."""

import pytest
from process_runs import run, write_project

from codriver.testing import runs

UNITTEST = """
import unittest

class Shop(unittest.TestCase):
    def test_passes(self): pass
    def test_fails(self):
        price = 1
        self.assertEqual(price, 2)
    def test_raises(self): 1 / 0
    @unittest.skip("later")
    def test_skipped(self): pass
    @unittest.expectedFailure
    def test_fails_as_expected(self): self.fail()
    @unittest.expectedFailure
    def test_passes_unexpectedly(self): pass
    def test_parts(self):
        for number in range(3):
            with self.subTest(number=number):
                self.assertEqual(number, 1)
    def test_debugger(self): breakpoint()

class Broken(unittest.TestCase):
    @classmethod
    def setUpClass(cls): raise ValueError("closed")
    def test_it(self): pass
"""


def test_unittest_produces_the_same_events_as_pytest(tmp_path):
    write_project(tmp_path, {"test_shop.py": UNITTEST})
    ran = run(tmp_path, "test_shop.Shop", "test_shop.Broken", runner="unittest")
    assert {
        result.nodeid.rpartition(".")[2]: result.outcome for result in ran.report.results if not result.is_collector
    } == {
        "test_passes": "passed",
        "test_fails": "failed",
        "test_raises": "error",
        "test_skipped": "skipped",
        "test_fails_as_expected": "xfailed",
        "test_passes_unexpectedly": "xpassed",
        "test_parts": "failed",
        "test_debugger": "error",
    }
    assert [result.failure.message for result in ran.report.results if result.is_collector] == ["ValueError: closed"]
    failure = ran.failure("test_fails")
    assert (failure.message, failure.frames[0].locals["price"]) == ("AssertionError: 1 != 2", "1")
    assert [item.part for item in ran.result("test_parts").failures] == ["(number=0)", "(number=2)"]
    assert "Remove breakpoint()" in ran.failure("test_debugger").message
    assert (ran.report.exit_status, ran.report.counts.collected, ran.report.error) == (1, 9, None)


def test_a_unittest_run_without_tests_has_the_exit_status_of_pytest(tmp_path):
    write_project(tmp_path, {"test_shop.py": "import unittest\n"})
    report = run(tmp_path, "test_shop", runner="unittest").report
    assert (report.exit_status, report.counts.collected, report.error) == (runs.NO_TESTS_STATUS, 0, None)


def test_unittest_ids_can_be_passed_to_another_run(tmp_path):
    write_project(tmp_path, {"test_shop.py": UNITTEST})
    failed = run(tmp_path, "test_shop.Shop", runner="unittest").result("test_fails").nodeid
    assert run(tmp_path, failed, runner="unittest").outcomes == {failed: "failed"}


def test_results_of_a_nested_unittest_run_are_not_reported(tmp_path):
    text = (
        "import io, unittest\n\nclass Inner(unittest.TestCase):\n    def test_inner(self): self.fail()\n\n"
        "def load_tests(loader, tests, pattern): return unittest.TestSuite([Outer('test_outer')])\n\n"
        "class Outer(unittest.TestCase):\n    def test_outer(self):\n"
        "        suite = unittest.TestSuite([Inner('test_inner')])\n"
        "        unittest.TextTestRunner(stream=io.StringIO()).run(suite)\n"
    )
    write_project(tmp_path, {"test_it.py": text})
    ran = run(tmp_path, "test_it", runner="unittest")
    assert ran.outcomes == {"test_it.Outer.test_outer": "passed"}


def test_a_missing_django_is_reported(tmp_path):
    write_project(tmp_path, {"manage.py": ""})
    report = run(tmp_path, runner="django").report
    assert report.error.kind == "no-django"


@pytest.mark.slow
def test_django_tests_run_through_manage_py(tmp_path, environment):
    settings = (
        "SECRET_KEY = 'k'\nINSTALLED_APPS = ['django.contrib.auth', 'django.contrib.contenttypes']\n"
        "DATABASES = {'default': {'ENGINE': 'django.db.backends.sqlite3', 'NAME': ':memory:'}}\n"
    )
    tests = (
        "from django.contrib.auth.models import User\nfrom django.test import TestCase\n\n"
        "class Shop(TestCase):\n    def test_passes(self):\n        User.objects.create(username='a')\n"
        "    def test_fails(self): self.assertEqual(User.objects.count(), 1)\n"
    )
    manage = (
        "import os, sys\nfrom django.core.management import execute_from_command_line\n"
        "if __name__ == '__main__':\n    os.environ['DJANGO_SETTINGS_MODULE'] = 'settings'\n"
        "    execute_from_command_line(sys.argv)\n"
    )
    write_project(
        tmp_path, {"settings.py": settings, "shop/tests.py": tests, "shop/__init__.py": "", "manage.py": manage}
    )
    ran = run(tmp_path, "shop", runner="django", python=environment("3.12", "django"))
    assert ran.outcomes == {"shop.tests.Shop.test_passes": "passed", "shop.tests.Shop.test_fails": "failed"}
    assert ran.failure("test_fails").message == "AssertionError: 0 != 1"


PLUGINS = """
import os, pytest, unittest
from hypothesis import given, strategies

def test_files(fs):
    fs.create_file("/a/b")
    assert not os.path.exists("/a/b")
async def test_awaits():
    wrong = 2
    assert wrong == 3
def test_mocks(mocker):
    for name in ("os.open", "os.getpid", "builtins.open"):
        mocker.patch(name, side_effect=OSError)
@given(strategies.integers())
def test_draws(number): assert number < 100
def test_parts(subtests):
    for number in range(3):
        with subtests.test("part", number=number):
            assert number == 1
counted = []
@pytest.mark.flaky(reruns=2)
def test_flaky():
    counted.append(1)
    assert len(counted) == 2
@pytest.mark.flaky(reruns=2)
def test_never(): assert 0
@pytest.mark.timeout(2)
def test_slow():
    import time
    time.sleep(600)
"""
OUTCOMES = {
    "test_files": "failed", "test_awaits": "failed", "test_mocks": "passed", "test_draws": "failed",
    "test_parts": "failed", "test_flaky": "passed", "test_never": "failed", "test_slow": "failed",
}  # fmt: skip
PACKAGES = (
    "pytest-xdist", "pytest-cov", "pytest-randomly", "pytest-asyncio", "pytest-mock", "hypothesis", "pytest-timeout",
    "pytest-subtests", "pytest-rerunfailures", "pyfakefs",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("addopts", ["", "-n 2 --cov=."], ids=["alone", "xdist"])
def test_plugins_work_as_in_a_shell(tmp_path, environment, addopts):
    ini = f"[pytest]\naddopts = {addopts}\nasyncio_mode = auto\nfilterwarnings = error\n"
    write_project(tmp_path, {"test_it.py": PLUGINS, "pytest.ini": ini})
    ran = run(tmp_path, python=environment("3.12", "pytest<9", *PACKAGES))
    assert {result.nodeid.rpartition("::")[2]: result.outcome for result in ran.report.results} == OUTCOMES, ran.output
    assert ran.failure("test_awaits").frames[0].locals == {"wrong": "2"}
    assert [failure.part for failure in ran.result("test_parts").failures] == ["[part] (number=0)", "[part] (number=2)"]
    assert {result.nodeid: result.reruns for result in ran.report.results if result.reruns} == {
        "test_it.py::test_flaky": 1,
        "test_it.py::test_never": 2,
    }
    assert (ran.report.counts.reruns, ran.report.error) == (3, None)
    assert bool(addopts) == ("codriver" not in ran.output and "test_it.py" in ran.output.partition("Cover")[2])


MATRIX = """
import pytest

@pytest.fixture
def torn():
    yield
    raise ValueError("torn")

def test_passes(): pass
@pytest.mark.parametrize("text", ["a::b"])
def test_fails(text):
    assert text == "b"
def test_torn(torn): pass
def test_debugger(): breakpoint()
@pytest.mark.xfail(reason="known")
def test_expected(): assert 0
"""
VERSIONS = [
    ("3.8", "pytest==7.*"), ("3.8", "pytest==8.*"), ("3.9", "pytest==8.*"), ("3.11", "pytest==7.0.*"),
    ("3.12", "pytest==8.*"), ("3.12", "pytest==9.*"), ("3.13", "pytest==9.*"), ("3.14", "pytest==8.*"),
    ("3.14", "pytest==9.*"), ("3.15", "pytest==9.*"),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("version", "package"), VERSIONS)
def test_every_python_and_pytest_produces_the_same_events(tmp_path, environment, version, package):
    write_project(
        tmp_path, {"test_it.py": MATRIX, "test_broken.py": "import nothing_here\n", "pytest.ini": "[pytest]\n"}
    )
    python = environment(version, package)
    ran = run(tmp_path, "--continue-on-collection-errors", python=python)
    assert ran.outcomes == {
        "test_broken.py": "error",
        "test_it.py::test_passes": "passed",
        "test_it.py::test_fails[a::b]": "failed",
        "test_it.py::test_torn": "error",
        "test_it.py::test_debugger": "failed",
        "test_it.py::test_expected": "xfailed",
    }
    assert ran.report.counts == runs.OutcomeCounts(passed=2, failed=2, errors=2, xfailed=1, collected=5)
    assert ran.failure("test_fails[a::b]").frames[0].locals == {"text": "'a::b'"}
    assert (ran.report.exit_status, ran.report.error) == (1, None)
    write_project(tmp_path, {"test_shop.py": UNITTEST})
    assert run(tmp_path, "test_shop", runner="unittest", python=python).report.counts.failed == 2
