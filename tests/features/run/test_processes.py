"""Why processes of a program cannot have a REPL."""

import os
import sys

import pytest

from codriver.features.run.processes import RunProcess, find_process, select_run_processes

RUN = {b"CODRIVER_RUN": b"/run"}


@pytest.mark.parametrize(
    ("words", "state", "reason"),
    [
        ("node server.js", {}, "not written in Python"),
        ("python -I shop.py", {}, "started with -I"),
        ("python -sE shop.py", {}, "started with -sE"),
        ("python -X dev -S shop.py", {}, "started with -S"),
        ("python -Wignore::Error -bE shop.py", {}, "started with -bE"),
        ("python -Xdev shop.py -S", {}, "the process is still starting"),
        ("python -W Error -m shop -I", {}, "the process is still starting"),
        ("python -Bc IES", {}, "the process is still starting"),
        ("python --version -E", {}, "the process is still starting"),
        ("python shop.py", {"environ": {}}, "a different environment"),
        ("python shop.py", {"is_ignoring": True}, "ignores SIGURG"),
        ("python shop.py", {"isolation": "runs as a different user"}, "a different user than `codriver run`"),
        ("python shop.py", {"interpreter": "python3.7"}, "Python 3.7, but Codriver needs Python 3.8"),
        ("python shop.py", {"interpreter": "python2"}, "Python 2, but"),
        ("python shop.py", {"interpreter": "python3.10"}, "the process is still starting"),
    ],
)
def test_a_process_that_cannot_have_a_repl_is_reported_with_the_reason(words, state, reason):
    process = RunProcess(1, 0, 1, tuple(words.split()), is_ready=False, **{"environ": RUN, **state})
    assert reason in process.no_repl_reason


def test_a_ready_process_can_have_a_repl_whatever_its_options():
    assert not RunProcess(1, 0, 1, ("python", "shop.py", "-S"), is_ready=True, environ=RUN).no_repl_reason


@pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
def test_a_process_is_described_with_its_interpreter():
    process = find_process(os.getpid())
    assert (process.pid, process.parent) == (os.getpid(), os.getppid())
    assert process.interpreter == os.path.basename(os.path.realpath(sys.executable))  # noqa: PTH119  # as in the code
    assert not process.isolation
    assert not process.is_ignoring


def test_a_process_that_another_run_started_belongs_only_to_that_run():
    """A command of `codriver run` may be another `codriver run`, which becomes the program."""
    inner = RunProcess(7, 1, 3, ("python", "shop.py"), is_ready=True, environ={b"CODRIVER_RUN": b"/inner"})
    everyone = {7: inner, 8: RunProcess(8, 7, 4, ("python", "shop.py"), is_ready=True, environ={})}
    assert select_run_processes(everyone, "/outer", (7, 3)) == []
    assert [process.pid for process in select_run_processes(everyone, "/inner", (7, 3))] == [7, 8]
