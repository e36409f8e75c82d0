"""Runs in plain new processes, with the pytest of this test suite."""

import json
import os
import subprocess
import sys
from pathlib import Path

import anyio
import process_runs
import pytest
from process_runs import run, write_project

from codriver.testing import exit_deadlines, runs
from codriver.testing.plain_process import poll_interval_s
from codriver.testing.program_bundle import script_command

PLAIN = ("-p", "no:cacheprovider")


@pytest.fixture
def project(tmp_path):
    def make(text="", **files):
        named = {name.replace("__", "/") + ".py": content for name, content in files.items()}
        return write_project(tmp_path, {"test_it.py": text, "pytest.ini": "[pytest]\n", **named})

    return make


OUTCOMES = """
import pytest

@pytest.fixture
def torn():
    yield
    raise ValueError("torn")

@pytest.fixture
def broken():
    raise KeyError("broken")

def test_passes(): pass
def test_fails(): assert 1 + 1 == 3
def test_tears_down_badly(torn): pass
def test_sets_up_badly(broken): pass
@pytest.mark.skip(reason="not today")
def test_skipped(): pass
@pytest.mark.xfail(reason="known")
def test_fails_as_expected(): assert 0
@pytest.mark.xfail(reason="fixed")
def test_passes_unexpectedly(): pass
@pytest.mark.xfail(strict=True, reason="fixed")
def test_passes_strictly(): pass
"""


def test_outcomes_and_counts_match_pytest(project):
    folder = project(OUTCOMES)
    ran = run(folder)
    assert ran.outcomes == {
        "test_it.py::test_passes": "passed",
        "test_it.py::test_fails": "failed",
        "test_it.py::test_tears_down_badly": "error",
        "test_it.py::test_sets_up_badly": "error",
        "test_it.py::test_skipped": "skipped",
        "test_it.py::test_fails_as_expected": "xfailed",
        "test_it.py::test_passes_unexpectedly": "xpassed",
        "test_it.py::test_passes_strictly": "failed",
    }
    assert "2 failed, 2 passed, 1 skipped, 1 xfailed, 1 xpassed, 2 errors" in ran.output
    assert ran.report.counts == runs.OutcomeCounts(
        passed=2, failed=2, errors=2, skipped=1, xfailed=1, xpassed=1, collected=8
    )
    assert (ran.report.exit_status, ran.report.passed) == (1, False)
    assert ran.result("test_skipped").reason == "not today"
    assert ran.result("test_fails_as_expected").reason == "known"
    assert isinstance(ran.events[-1], runs.RunFinished)


def test_a_failure_includes_its_assertion_frames_variables_and_output(project):
    folder = project("import lib\n\ndef test_half():\n    print('told')\n    assert lib.half(4) == 2\n",
                     lib="def half(number):\n    assert number < 3, 'too much'\n")  # fmt: skip
    failure = run(folder).failure("test_half")
    assert failure.message == "AssertionError: too much"
    assert [(frame.function, frame.line) for frame in failure.frames] == [("half", 2), ("test_half", 5)]
    assert failure.frames[0].locals == {"number": "4"}
    assert failure.sections == (("Captured stdout call", "told\n"),)
    assert "def half(number):" in failure.text


def test_variables_are_redacted_and_printed_without_running_user_code(project):
    folder = project(
        "class Loud:\n    def __repr__(self):\n        open('ran', 'w')\n        return 'loud'\n\n"
        "def test_it():\n    password, loud, kept = 'p', Loud(), {'token': 't', 'size': 3}\n    assert not kept\n"
    )
    displayed = run(folder, "--tb=line").failure("test_it").frames[0].locals
    assert displayed == {"loud": "<Loud>", "kept": "{'token': <not shown>, 'size': 3}"}
    assert not (folder / "ran").exists()


def test_an_import_error_is_reported_at_the_import(project):
    folder = project("import lib\n", lib="import nothing_of_this_name\n")
    ran = run(folder)
    result = ran.result("test_it.py")
    assert (result.outcome, result.is_collector) == ("error", True)
    assert [frame.file for frame in result.failure.frames] == [str(folder / "lib.py"), str(folder / "test_it.py")]
    assert result.failure.message == "ModuleNotFoundError: No module named 'nothing_of_this_name'"
    assert (ran.report.exit_status, ran.report.counts.errors) == (2, 1)


def test_printed_test_ids_can_be_passed_to_another_run(project):
    folder = project(
        "import os, pytest\n\ndef test_leaves(tmp_path): os.chdir(tmp_path)\n\n"
        "@pytest.mark.parametrize('a', ['x::y', 'p/q', '[z]'])\ndef test_p(a): assert a == 1\n"
    )
    failed = [failure.nodeid for failure in run(folder).report.failures]
    assert failed == ["test_it.py::test_p[x::y]", "test_it.py::test_p[p/q]", "test_it.py::test_p[[z]]"]
    assert [failure.nodeid for failure in run(folder, *failed).report.failures] == failed


def test_ids_are_relative_to_the_directory_of_the_run(tmp_path):
    write_project(tmp_path, {"pytest.ini": "[pytest]\n", "backend/test_it.py": "def test_fails(): assert 0\n"})
    ran = run(tmp_path / "backend")
    assert list(ran.outcomes) == ["test_it.py::test_fails"]
    assert "FAILED test_it.py::test_fails" in ran.output
    assert list(run(tmp_path / "backend", *ran.outcomes).outcomes) == list(ran.outcomes)


def test_test_modules_with_equal_names_in_sibling_directories_fail_as_in_a_shell(tmp_path):
    write_project(tmp_path, {f"s{n}/sol.py": f"def v():\n    return {n}\n" for n in (0, 1)})
    write_project(
        tmp_path, {f"s{n}/test_sol.py": f"from sol import v\n\ndef test_v():\n    assert v() == {n}\n" for n in (0, 1)}
    )
    for n in (0, 1):
        assert run(tmp_path, f"s{n}/test_sol.py", "-p", "no:cacheprovider").report.passed
    both = run(tmp_path, "-p", "no:cacheprovider").report
    assert (both.exit_status, both.counts.errors) == (2, 1)


def test_a_run_leaves_nothing_behind_for_the_next_run(project):
    folder = project(
        "import os\n\ndef test_a():\n    os.environ['LEFT'] = '1'\n\n"
        "def test_b():\n    assert os.environ['LEFT'] == '1'\n"
    )
    assert run(folder).report.passed
    assert run(folder, "test_it.py::test_b").failure("test_b").type == "KeyError"


ABOUT = """
import json, os, signal, sys, threading

def test_it():
    main = sys.modules["__main__"]
    found = {
        "argv": sys.argv, "path": sys.path, "orig_argv": getattr(sys, "orig_argv", None),
        "main": [main.__name__, main.__file__, main.__spec__.name, main.__package__, type(main.__loader__).__name__],
        "names": sorted(vars(main)),
        "signals": {one.name: str(signal.getsignal(one)).split(" at ")[0] for one in signal.valid_signals()
                    if isinstance(one, signal.Signals)},
        "mask": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
        "descriptors": len(os.listdir("/proc/self/fd")),
        "environment": sorted(os.environ), "threads": threading.active_count(), "flags": list(sys.flags),
        "modules": sorted(sys.modules), "meta_path": [str(type(one)) for one in sys.meta_path],
        "cache": sorted(sys.path_importer_cache), "hooks": [sys.excepthook is sys.__excepthook__, len(sys.path_hooks)],
        "cwd": os.getcwd(),
    }
    with open(os.environ["ABOUT"], "w") as file:
        json.dump(found, file)
"""


@pytest.mark.parametrize("runner", ["pytest", "unittest"])
def test_tests_see_the_same_process_as_when_started_from_a_shell(project, tmp_path_factory, runner):
    text = ABOUT
    if runner == "unittest":
        text = "import unittest\n" + ABOUT + "\nclass T(unittest.TestCase):\n    def test_it(self): test_it()\n"
    folder = project(text)
    found = []
    for place in range(2):
        file = tmp_path_factory.mktemp("about") / "about.json"
        spec = process_runs.spec_of(folder, "test_it", env={"ABOUT": str(file)}, runner=runner)
        if runner == "pytest":
            spec = process_runs.spec_of(folder, "-q", "-p", "no:cacheprovider", env={"ABOUT": str(file)})
        if place:
            ran = run(folder, *spec.arguments, env={"ABOUT": str(file)}, runner=runner)
            assert ran.report.passed, ran.output
        else:
            with (tmp_path_factory.mktemp("out") / "out").open("w") as output:
                command = [sys.executable, "-m", runner, *spec.arguments]
                subprocess.run(command, cwd=folder, env=dict(spec.environment), check=True, timeout=60,
                               stdin=subprocess.DEVNULL, stdout=output, stderr=output)  # fmt: skip
        found.append(json.loads(file.read_text()))
    plain, ours = found
    assert {key: value for key, value in ours.items() if value != plain[key]} == {}


def test_a_missing_interpreter_is_reported(project):
    report = run(project(), python="/no/such/python").report
    assert (report.exit_status, report.error.kind) == (None, "no-python")


def test_a_missing_pytest_is_reported_with_what_to_install(project, tmp_path_factory):
    bare = tmp_path_factory.mktemp("bare")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", bare], check=True)
    report = run(project(), python=str(bare / "bin" / "python")).report
    assert report.error.kind == "no-pytest"
    assert f"uv pip install --python {bare}/bin/python pytest" in report.error.hint


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(["--no-such-option"], "unrecognized arguments"), (["test_it.py::test_gone"], "not found")],
)
def test_arguments_that_pytest_refuses_are_a_usage_error(project, arguments, words):
    report = run(project("def test_it(): pass\n"), *arguments).report
    assert (report.exit_status, report.error.kind) == (4, "usage")
    assert words in report.error.message


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("conftest.py", "def pytest_configure(config):\n    raise RuntimeError('at the start')\n"),
        ("numbers.py", "HIDDEN = 1\n"),
        ("gettext.py", "HIDDEN = 1\n"),
        ("conftest.py", "def pytest_addoption(parser):\n    raise RuntimeError('in the options')\n"),
        ("conftest.py", "def pytest_sessionfinish():\n    raise RuntimeError('at the end')\n"),
        ("conftest.py", "1 / 0\n"),
    ],
)
def test_a_run_in_which_pytest_crashes_prints_the_same_as_in_a_shell(tmp_path, name, text):
    folder = write_project(tmp_path, {name: text, "test_a.py": "def test_a(): pass\n"})
    ran = run(folder)
    command = [sys.executable, "-m", "pytest"]
    environment = {key: value for key, value in os.environ.items() if key not in process_runs.REMOVED_VARIABLES}
    shell = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert (ran.report.exit_status, ran.output) == (shell.returncode, shell.stdout + shell.stderr)


def test_a_script_started_as_code_gets_its_own_arguments_and_path(tmp_path):
    script = tmp_path / "scripts" / "shown.py"
    script.parent.mkdir()
    script.write_text("import sys\nprint(sys.argv, __file__, sys.path[0], __name__, sep='\\n')\n")
    (tmp_path / "sys.py").write_text("raise ImportError")
    for command in ([sys.executable, str(script), "a b"], script_command(sys.executable, str(script), "a b")):
        printed = subprocess.check_output(command, cwd=tmp_path, text=True).splitlines()
        assert printed == [str([str(script), "a b"]), str(script), str(script.parent), "__main__"]


def test_a_conftest_that_cannot_be_imported_is_reported_with_its_location(project):
    report = run(project("def test_it(): pass\n", conftest="\n1 / 0\n")).report
    assert (report.exit_status, report.error.kind) == (4, "usage")
    assert "ZeroDivisionError: division by zero" in report.error.message
    assert report.error.failure.frames[0].line == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--collect-only", "-q"], "test_it.py::test_it"),
        (["--fixtures"], "tmp_path"),
        (["--help"], "usage: "),
        (["--version"], "pytest "),
    ],
)
def test_pytest_output_without_a_test_run_is_returned_as_output(project, arguments, words):
    ran = run(project("def test_it(): assert 0\n"), *arguments)
    assert words in ran.output
    assert (ran.report.exit_status, ran.report.results, ran.report.error) == (0, (), None)


def test_a_run_without_tests_is_reported_with_the_exit_status_of_pytest(project):
    report = run(project("def test_it(): pass\n"), "-k", "other").report
    assert (report.exit_status, report.counts.deselected, report.counts.collected) == (5, 1, 1)


def test_a_debugger_fails_the_test_with_an_explanation(project):
    folder = project("def test_one():\n    breakpoint()\n\ndef test_two(): print('seen')\n")
    ran = run(folder)
    assert ran.outcomes == {"test_it.py::test_one": "failed", "test_it.py::test_two": "passed"}
    assert "Remove breakpoint()" in ran.failure("test_one").message
    assert ran.failure("test_one").frames[0].line == 2


def test_a_crashed_process_is_reported_with_the_running_test(project):
    folder = project(
        "import os, signal\n\ndef test_one(): pass\n\ndef test_two(): os.kill(os.getpid(), signal.SIGSEGV)\n"
    )
    report = run(folder).report
    assert (report.error.kind, report.exit_status) == ("died", -11)
    assert report.running == ("test_it.py::test_two",)
    assert "SIGSEGV" in report.error.message


def test_a_background_process_left_by_a_test_does_not_block_the_run(project):
    folder = project(
        "import subprocess, sys\n\ndef test_it():\n"
        "    subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
    )
    assert run(folder).report.passed


def test_an_interrupt_tears_down_fixtures_and_names_the_test(project):
    folder = project(
        "import pathlib, pytest, time\n\n@pytest.fixture\ndef torn():\n    yield\n    pathlib.Path('torn').touch()\n\n"
        "def test_slow(torn):\n    pathlib.Path('began').touch()\n    time.sleep(600)\n"
    )

    async def act(process, event):
        if isinstance(event, runs.TestStarted):
            await process_runs.appears(folder / "began")
            await process.interrupt()

    report = run(folder, act=act).report
    assert (folder / "torn").exists()
    assert (report.exit_status, report.interruption.nodeid) == (2, "test_it.py::test_slow")
    assert report.interruption.frames[0].function == "test_slow"
    assert report.running == ("test_it.py::test_slow",)


def test_a_second_interrupt_does_not_abort_the_teardown(project):
    folder = project(
        "import pathlib, pytest, time\n\n@pytest.fixture\ndef torn():\n    yield\n    pathlib.Path('tearing').touch()\n"
        "    while not pathlib.Path('again').exists():\n        time.sleep(0.01)\n    pathlib.Path('torn').touch()\n\n"
        "def test_slow(torn):\n    pathlib.Path('began').touch()\n    time.sleep(600)\n"
    )

    async def act(process, event):
        if isinstance(event, runs.TestStarted):
            await process_runs.appears(folder / "began")
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(process.interrupt)
                await process_runs.appears(folder / "tearing")
                tasks.start_soon(process.interrupt)
                await anyio.wait_all_tasks_blocked()
                (folder / "again").touch()

    report = run(folder, act=act).report
    assert (folder / "torn").exists()
    assert report.exit_status == 2


def test_a_run_that_ignores_the_interrupt_is_killed_with_its_children(project):
    folder = project(
        "import pathlib, signal, subprocess, sys, time\n\ndef test_slow():\n"
        "    signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "    child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "    pathlib.Path('began').write_text(str(child.pid))\n    time.sleep(600)\n"
    )

    async def act(process, event):
        if isinstance(event, runs.TestStarted):
            await process_runs.appears(folder / "began")
            await process.interrupt()

    report = run(folder, act=act).report
    assert report.exit_status == -9
    process_runs.assert_ended(int((folder / "began").read_text()))


SLOW = """
import os, pathlib, time

def test_slow():
    pathlib.Path("began.new").write_text(str(os.getpid()))
    os.rename("began.new", "began")
    time.sleep(600)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="a job ends with its owner")
def test_a_test_run_ends_when_its_server_is_killed(project):
    folder = project(SLOW)
    code = "import sys, process_runs; process_runs.run(process_runs.Path(sys.argv[1]))"
    path = {"PYTHONPATH": str(Path(process_runs.__file__).parent)}
    (temporary := folder / "temporary").mkdir()
    environment = {**os.environ, **path, "TMPDIR": str(temporary)}
    with subprocess.Popen([sys.executable, "-c", code, folder], env=environment) as server:
        anyio.run(process_runs.appears, folder / "began")
        server.kill()
    process_runs.assert_ended(int((folder / "began").read_text()))
    anyio.run(process_runs.is_empty, temporary)


@pytest.mark.parametrize("name", ["lib.py", "test_it.py"])
@pytest.mark.parametrize("arguments", [(), ("-n", "1")], ids=["alone", "xdist"])
def test_an_edit_within_one_second_that_keeps_the_file_size_is_detected(project, name, arguments):
    folder = project("import lib\n\ndef test_it(): assert lib.VALUE == 1\n", lib="VALUE = 1\n")
    file = folder / name
    status = file.stat()
    assert run(folder).report.passed
    file.write_text(file.read_text().replace("1\n", "2\n"))
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert run(folder, *arguments).report.counts.failed == 1


def test_a_forked_copy_of_the_process_reports_nothing(project):
    folder = project("import os\n\ndef test_it():\n    os.fork()\n\ndef test_later(): pass\n")
    results = [result.nodeid for result in run(folder).report.results]
    assert results == ["test_it.py::test_it", "test_it.py::test_later"]


def test_results_are_reported_even_if_tests_replace_file_functions(project):
    folder = project(
        "import os\n\ndef test_it():\n    os.open = os.write = os.close = os.getpid = None\n\n"
        "def test_later():\n    wrong = 1\n    assert not wrong\n"
    )
    assert run(folder, "-s", "-p", "no:cacheprovider").failure("test_later").frames[0].locals == {"wrong": "1"}


def test_thousands_of_arguments_are_accepted(project):
    folder = project("import pytest\n\n@pytest.mark.parametrize('n', range(3000))\ndef test_it(n): pass\n")
    names = [f"test_it.py::test_it[{n}]" for n in range(3000)] + ["--override-ini=x=" + "y" * 200_000]
    assert run(folder, *names, "-q").report.counts.passed == 3000


def test_tests_run_if_the_cache_cannot_be_written(project, tmp_path, monkeypatch):
    (tmp_path / "occupied").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "occupied"))
    report = run(project("def test_it(): pass")).report
    assert (report.error, report.counts.passed) == (None, 1)


def test_the_junit_report_is_written_by_pytest(project):
    folder = project("def test_it(): pass\n")
    assert run(folder, "--junitxml=report.xml").report.passed
    assert 'tests="1"' in (folder / "report.xml").read_text()


def test_the_last_failures_can_be_rerun(project):
    folder = project("def test_one(): pass\n\ndef test_two(): assert 0\n")
    assert run(folder).report.counts.failed == 1
    assert list(run(folder, "--lf").outcomes) == ["test_it.py::test_two"]


def test_coverage_measures_only_the_project(project):
    ran = run(project("def test_it(): pass\n"), "--cov")
    rows = ran.output.partition("Cover\n")[2].partition("TOTAL")[0]
    assert [row.split()[0] for row in rows.splitlines() if row.strip() and row[0] != "-"] == ["test_it.py"]


def test_pytest_exit_ends_the_run_with_its_reason(project):
    folder = project("import pytest\n\ndef test_one(): pytest.exit('enough', returncode=7)\n\ndef test_two(): pass\n")
    report = run(folder).report
    assert (report.exit_status, report.interruption.reason) == (7, "enough")
    assert report.not_started == ("test_it.py::test_two",)


def test_a_process_that_does_not_exit_is_killed(project, monkeypatch):
    monkeypatch.setattr(exit_deadlines, "EXIT_GRACE_S", 0.5)
    folder = project(
        "import threading, time\n\ndef test_it():\n    threading.Thread(target=time.sleep, args=(600,)).start()\n"
    )
    report = run(folder).report
    assert (report.exit_status, report.counts.passed, report.error.kind) == (0, 1, "lingers")


def test_a_run_is_polled_less_often_the_longer_it_takes():
    assert poll_interval_s(0) == 0.005
    assert poll_interval_s(0.4) == 0.01
    assert poll_interval_s(600) == 0.05
