"""The retained process of a failed run, which answers queries about the failure."""

import sys
from functools import partial

import anyio
import process_runs
import pytest
from process_runs import follow, spec_of, write_project

from codriver.errors import RefusedError
from codriver.testing.plain_process import start_plain
from codriver.testing.programs.retained_process import NO_FRAMES_MESSAGE, FailureKeeper

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")

TESTS = """
import atexit, pathlib, pytest

atexit.register(lambda: pathlib.Path("exited").touch())

@pytest.fixture
def torn():
    yield
    pathlib.Path("torn").touch()

def half(number, base=10):
    wrong = number // 3
    assert wrong * 2 == number
    return wrong

def test_passes(): pass
def test_half(torn):
    items = [4]
    half(items[0])
def test_later(): assert 0
"""


async def use_retained(folder, use, **fields):
    """Run a directory's tests, and let `use` use the retained process."""
    with anyio.fail_after(process_runs.LIMIT_S):
        async with start_plain(spec_of(folder, "--pdb", **fields)) as process:
            ran = await follow(process)
            retained = process.detach()
        assert retained is not None, (ran.report.finished, ran.output)
        try:
            await use(retained, ran)
        finally:
            await retained.aclose()
        process_runs.assert_ended(retained.pid)


@pytest.fixture
def project(tmp_path):
    return write_project(tmp_path, {"test_it.py": TESTS, "pytest.ini": "[pytest]\n"})


def test_code_is_evaluated_in_the_frames_of_the_first_failure(project):
    async def use(retained, ran):
        assert (project / "torn").exists()
        assert not (project / "exited").exists()
        assert (ran.report.exit_status, ran.report.counts.failed, ran.report.finished.is_retained) == (1, 2, True)
        assert (retained.nodeid, [frame.function for frame in retained.frames]) == (
            "test_it.py::test_half",
            ["half", "test_half"],
        )
        assert await retained.evaluate("wrong, number", 0, timeout_s=30) == {"value": "(1, 4)", "output": ""}
        assert await retained.evaluate("items.append(5); print(items)", 1, timeout_s=30) == {
            "value": "",
            "output": "[4, 5]\n",
        }
        assert (await retained.evaluate("items", 1, timeout_s=30))["value"] == "[4, 5]"
        failed = {"type": "ZeroDivisionError", "error": "division by zero", "output": ""}
        assert await retained.evaluate("1 / 0", 0, timeout_s=30) == failed
        assert "there is no frame 9" in (await retained.evaluate("1", 9, timeout_s=30))["error"]

    anyio.run(use_retained, project, use)
    assert (project / "exited").exists()


@pytest.mark.slow
def test_code_in_a_frame_does_not_query_the_database_that_replaced_the_test_database(tmp_path, environment):
    settings = (
        "SECRET_KEY = 'k'\nINSTALLED_APPS = ['django.contrib.auth', 'django.contrib.contenttypes']\n"
        "DATABASES = {'default': {'ENGINE': 'django.db.backends.sqlite3', 'NAME': 'development.sqlite3',\n"
        "                         'TEST': {'NAME': 'test.sqlite3'}}}\n"
    )
    tests = (
        "import pytest\nfrom django.contrib.auth.models import User\n\n"
        "@pytest.mark.django_db\ndef test_users():\n    count = User.objects.count()\n    assert count == 1\n"
    )
    configuration = "[pytest]\nDJANGO_SETTINGS_MODULE = settings\npythonpath = .\n"
    write_project(tmp_path, {"settings.py": settings, "test_users.py": tests, "pytest.ini": configuration})

    async def use(retained, _ran):
        assert (await retained.evaluate("count", 0, timeout_s=30))["value"] == "0"
        failed = await retained.evaluate("User.objects.count()", 0, timeout_s=30)
        assert "Django no longer uses the test database" in failed["error"]

    anyio.run(partial(use_retained, tmp_path, use, python=environment("3.12", "django", "pytest-django")))


def test_the_process_is_stopped_between_queries(project):
    async def use(retained, ran):
        await process_runs.has_state(retained.pid, "T")
        await retained.evaluate("number", 0, timeout_s=30)
        await process_runs.has_state(retained.pid, "T")

    anyio.run(use_retained, project, use)


def test_endless_code_can_be_interrupted(project):
    async def use(retained, ran):
        answer = await retained.evaluate("import time; time.sleep(600)", 0, timeout_s=0.5)
        assert answer["type"] == "KeyboardInterrupt"
        assert (await retained.evaluate("number", 0, timeout_s=30))["value"] == "4"

    anyio.run(use_retained, project, use)


def test_evaluating_in_a_process_that_exited_is_refused(project):
    async def use(retained, ran):
        with pytest.raises(RefusedError, match="has ended"):
            await retained.evaluate("import os; os._exit(1)", 0, timeout_s=30)

    anyio.run(use_retained, project, use)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("import socket\nheld = socket.create_server(('127.0.0.1', 0))", "the process is still listening on a port"),
        ("import threading, time\nthreading.Thread(target=time.sleep, args=(600,), daemon=True).start()", "threads"),
        ("import fcntl\nheld = open('lock', 'w')\nfcntl.flock(held, fcntl.LOCK_EX)", "the process holds a file lock"),
    ],
    ids=["port", "thread", "lock"],
)
def test_a_process_with_open_external_resources_is_not_retained(tmp_path, line, reason):
    write_project(tmp_path, {"test_it.py": f"{line}\n\ndef test_it(): assert 0\n", "pytest.ini": "[pytest]\n"})
    report = process_runs.run(tmp_path, "--pdb").report
    assert (report.exit_status, report.finished.is_retained) == (1, False)
    assert reason in report.finished.why_not_retained


def test_no_frames_of_xdist_workers_are_retained(project):
    report = process_runs.run(project, "--pdb", "-n", "1").report
    assert "pytest-xdist worker" in report.finished.why_not_retained
    assert report.counts.failed == 2


def test_an_unclaimed_retained_process_ends_with_its_context(project):
    report = process_runs.run(project, retains_failed_process=True).report
    assert report.finished.is_retained


class Written:
    def __init__(self):
        self.events = []

    def write(self, event, **fields):
        self.events.append((event, fields))


def trace_of(function):
    try:
        function()
    except ZeroDivisionError as error:
        return error.__traceback__


def test_a_failure_of_a_rerun_test_is_not_retained(tmp_path):
    events = Written()
    keeper = FailureKeeper(events, str(tmp_path))
    keeper.store_first("first", trace_of(lambda: 1 / 0))
    keeper.discard("other")
    keeper.store_first("second", trace_of(lambda: 2 / 0))
    assert keeper._nodeid == "first"
    keeper.discard("first")
    keeper.serve_requests()
    assert events.events == [("not-kept", {"reason": NO_FRAMES_MESSAGE})]
    keeper.store_first("second", trace_of(lambda: 2 / 0))
    assert keeper._nodeid == "second"
