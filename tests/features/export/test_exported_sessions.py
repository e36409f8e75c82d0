"""Exported sessions: their tests pass in a new process, and fail if a definition changes."""

import contextlib
import os
import re
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial

import anyio
import pytest
from real_repls import repl, short_lived_recipes
from recorded_sessions import LISP, PYTHON

from codriver.features.export.documents.document_weakening import check_document
from codriver.features.export.documents.layout import DocumentBuilder, Origin
from codriver.features.export.documents.recordings import RecordedEvaluation
from codriver.features.export.fresh_repl import FreshRepl, add_event
from codriver.features.export.fresh_runs import FreshRuns, drive_check, verify_in_repl
from codriver.repls.nrepl.nrepl_adapter import connect_nrepl

RUN_S = 300
FEW = ("function", "raises", "prints", "list_grows", "redefined", "async", "address", "typo")
FEW_LISP = ("raises", "redefined", "macro")
SHARED = {"basilisp": "lisp", "clojure": "jvm"}
WORDS = {"python": "python", "basilisp": "lisp", "clojure": "clojure"}


class Apart:
    """The adapter of a REPL in which each session gets an isolated session, so that few processes serve many."""

    def __init__(self, adapter, name):
        self._adapter = adapter
        self._name = name
        self.profile = adapter.profile
        self.run_tests = adapter.run_tests
        self.companion = adapter.companion

    def start_evaluation(self, request, ended, limits):
        self._adapter.start_evaluation(replace(request, session=self._name), ended, limits)


@contextlib.asynccontextmanager
async def apart(repl, name):
    adapter = repl._adapter
    await adapter.open_session(name)
    try:
        yield FreshRepl(Apart(adapter, name), repl._received, RUN_S)
    finally:
        await adapter.close_session(name)


def evaluations_before(name, codes, dialect):
    """Return the evaluations of a session before they run; those of a Lisp use their own namespace."""
    before = [] if dialect == "python" else [f"(ns recorded.{name.replace('_', '-')})"]
    namespace = "" if dialect == "python" else f"recorded.{name.replace('_', '-')}"
    return [
        RecordedEvaluation(f"{name}-{number}", code, namespace="" if code in before else namespace)
        for number, code in enumerate([*before, *codes], 1)
    ]


async def record(repl, evaluations):
    """Return what a log contains about evaluations that ran."""
    done = []
    for evaluation in evaluations:
        ran = await repl.run(evaluation.code, namespace=evaluation.namespace or None)
        done.append(replace(evaluation, values=ran.values, out=ran.out, err=ran.err, time=time.time_ns() // 1_000_000))
    return done


@contextlib.asynccontextmanager
async def two_repls(dialect, workspace):
    """Return a REPL to record in, for a Lisp the one shared by all tests, and a fresh one to verify in."""
    runs = FreshRuns(workspace, WORDS[dialect], RUN_S)
    with short_lived_recipes():
        async with shared(dialect) if dialect in SHARED else runs.repl() as first, runs.repl() as second:
            yield runs, first, second


@contextlib.asynccontextmanager
async def shared(dialect):
    message = {}
    place = repl(SHARED[dialect]).address
    async with connect_nrepl(place, listener=partial(add_event, message), workspace=None, is_remote=False) as adapter:
        yield FreshRepl(adapter, message, RUN_S)


async def exported(sessions, dialect, workspace, check=None):
    """Return the document and steps of each session, by name. `check` is called with them while the REPLs exist."""
    found = {}
    async with two_repls(dialect, workspace) as (runs, first, second):
        for name, (codes, _) in sessions.items():
            async with apart(first, name) as own:
                evaluations = await record(own, evaluations_before(name, codes, dialect))
            async with apart(second, name) as own:
                checked = await verify_in_repl(own, evaluations, dialect)
            asking = check_document(checked, dialect, "test", origin(name))
            async with apart(second, f"{name}-again") as own:
                run = runs.run_python_tests if dialect == "python" else partial(runs.run, own, origin(name))
                found[name] = await drive_check(asking, next(asking), run)
        if check is not None:
            await check(found, partial(runs.run, first))
    return found


def origin(name):
    return Origin("py", "python", "2026-01-02", f"exported.{name.replace('_', '-')}-test")


def changed(text, change):
    old, new = change
    assert old in text, f"{old!r} is not in\n{text}"
    return text.replace(old, new, 1)


def pytest_outcomes(folder):
    """Return by file whether every test passed, in a separate process."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rA"]
    command += ["--rootdir", str(folder), str(folder)]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_S, check=False, env=environ, cwd=folder)
    passed = re.findall(r"^PASSED \S*?(test_\w+)\.py::(\w+)", done.stdout, re.MULTILINE)
    failed = re.findall(r"^(?:FAILED|ERROR) \S*?(test_\w+)\.py", done.stdout, re.MULTILINE)
    return {name for name, _ in passed} - set(failed), set(failed), len(passed), done.stdout


def write_python(folder, found, change=lambda _name, text: text):
    folder.mkdir()
    for name, document in found.items():
        (folder / f"test_{name}.py").write_text(change(name, document.text))


def check_python(names, tmp_path):
    sessions = {name: PYTHON[name] for name in names}
    found = anyio.run(exported, sessions, "python", tmp_path)
    write_python(tmp_path / "plain", found)
    write_python(tmp_path / "changed", found, lambda name, text: changed(text, sessions[name][1]))
    green, red, tests, output = pytest_outcomes(tmp_path / "plain")
    assert not red, output
    assert green == {f"test_{name}" for name in sessions}
    green, _, _, output = pytest_outcomes(tmp_path / "changed")
    assert not green, f"green that should be red: {green}\n{output}"
    return found, tests


def marked(found):
    return {name: [item.note for item in document.checked if not item.reproduces] for name, document in found.items()}


def test_exported_python_sessions_pass_and_fail_if_a_definition_changes(tmp_path):
    found, tests = check_python(FEW, tmp_path)
    assert tests >= len(FEW)
    assert not any(marked(found).values()), marked(found)
    assert "ff(1)" not in found["typo"].text.partition("# Left out:")[0]


def check_lisp(names, dialect, workspace):
    """Export sessions, and check that every document passes unchanged and fails after a change."""
    sessions, failed, red = {name: LISP[name] for name in names}, set(), set()

    async def check(found, run):
        for name, document in found.items():
            text = changed(document.text, LISP[name][1])
            if await run(origin(name), DocumentBuilder(document.text.splitlines())):
                failed.add(name)
            if await run(origin(name), DocumentBuilder(text.splitlines())):
                red.add(name)

    found = anyio.run(exported, sessions, dialect, workspace, check)
    assert not any(marked(found).values()), marked(found)
    assert not failed
    assert set(names) == red, f"green that should be red: {set(names) - red}"


@pytest.mark.slow
@pytest.mark.parametrize("dialect", SHARED)
def test_exported_lisp_sessions_pass_and_fail_if_a_definition_changes(dialect, tmp_path):
    check_lisp(FEW_LISP, dialect, tmp_path)


def check_all(folder):
    """Check all fifty sessions, and those of both Lisps: for the benchmark, which has the time."""
    found, tests = check_python(PYTHON, folder)
    steps = [item for document in found.values() for item in document.checked]
    share = sum(step.reproduces for step in steps) / len(steps)
    assert share >= 0.95, marked(found)
    for dialect in SHARED:
        check_lisp(LISP, dialect, folder)
    return tests, share
