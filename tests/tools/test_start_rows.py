"""How runs of Python tests start: a row for each interpreter, and the command that repeats a run."""

import subprocess
import sys
from dataclasses import replace

import pytest

from codriver.testing.runs import ChosenTests, ReportBuilder, RunFinished, RunSpec, StartState, TestFinished
from codriver.testing.test_jobs import JobReport, TestJob
from codriver.tools.execution.start_rows import repeat_command, start_row

NAMES = ("test_b.py::test_two", "test_a.py::test_one")


def report(spec, seed=None, names=NAMES, **variables):
    builder = ReportBuilder()
    for name in names:
        builder.add(TestFinished(name, "failed"))
    builder.add(RunFinished(exit_status=1, hash_seed=seed))
    return JobReport(TestJob(spec=spec, variables=variables), builder.report())


@pytest.fixture
def spec(tmp_path):
    return RunSpec(python="/bin/python", directory=tmp_path, arguments=("-x", "test_a.py"), environment={})


def test_a_plain_run_is_repeated_by_its_own_command(spec, tmp_path):
    command = repeat_command(report(spec, SHOP="open now"), tmp_path)
    assert command == "'SHOP=open now' /bin/python -m pytest -x test_a.py"
    elsewhere = replace(spec, directory=tmp_path / "back end")
    assert repeat_command(report(elsewhere), tmp_path).startswith(f"cd '{tmp_path}/back end' && /bin/python -m")
    django = replace(spec, runner="django", arguments=("shop",))
    assert repeat_command(report(django), tmp_path) == "/bin/python manage.py test shop"


def test_a_run_of_chosen_tests_is_repeated_in_the_same_order(spec, tmp_path):
    chosen = replace(spec, arguments=("-x", "test_a.py", "test_b.py"), chosen=ChosenTests(NAMES[:1], ("test_a.py",)))
    assert repeat_command(report(chosen), tmp_path) == f"/bin/python -m pytest -x {' '.join(NAMES)}"


def test_the_command_for_a_copied_process_sets_its_hash_seed(tmp_path):
    (tmp_path / "test_hash.py").write_text("def test_hash():\n    assert hash('text') == 0\n")
    spec = RunSpec(python=sys.executable, directory=tmp_path, arguments=("test_hash.py",), environment={})
    command = repeat_command(report(spec, seed=7), tmp_path)
    seen = {
        next(line for line in run.stdout.splitlines() if line.startswith("E "))
        for _ in range(2)
        for run in [subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True, check=False)]
    }
    expected = subprocess.check_output(
        [sys.executable, "-c", "print(hash('text'))"], env={"PYTHONHASHSEED": "7"}, text=True
    )
    assert len(seen) == 1
    assert expected.strip() in seen.pop()


def test_the_status_of_a_preloaded_test_process_includes_its_memory_and_hash_seed():
    state = StartState(
        is_warm=True,
        python="/py",
        directory="/w",
        memory_mb=48,
        hash_seed=5,
        modules=9,
        runs=2,
        pid=1,
    )
    assert start_row(state, "/w") == {
        "start": "warm",
        "python": "/py",
        "processId": 1,
        "memoryMb": 48,
        "hashSeed": 5,
        "modules": 9,
        "runs": 2,
    }
    plain = StartState(is_warm=False, python="/py", directory="/w/back", reason="why", differences=("t",))
    row = {"start": "plain", "python": "/py", "directory": "/w/back", "why": "why", "differences": ["t"]}
    assert start_row(plain, "/w") == row
