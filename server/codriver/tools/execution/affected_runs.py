"""Run the tests that changes can break, for `run_tests`.

The changes are those in the files that a call names, or in all files that changed since they were last tested: files
that differ from the last commit, and files written since the last run of all tests or of all affected tests. The tests
are chosen, ordered and limited in time as in `edit_files`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from codriver.core.records import dataclass
from codriver.editing import FileResult
from codriver.editing.file_changes import MISSING, Change, Snapshot
from codriver.errors import RefusedError, join_first, refused
from codriver.repls.kinds import dialects_by_suffix
from codriver.testing.changed_files import changed_files
from codriver.testing.changed_lines import uncommitted_files
from codriver.tools.calls.session_choice import find_serving_repl
from codriver.tools.execution.affected_tests import (
    AFFECTED_SELECTOR,
    AFFECTED_TIME_LIMIT_S,
    choose_tests,
    chosen_tests,
    run_paths,
)
from codriver.tools.execution.python_tests import make_job, run_job
from codriver.tools.execution.test_environments import TestEnvironment
from codriver.tools.execution.test_runs import choose_test_location, merge_answers, run_tests, with_comparison

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from codriver.core.state import Repl
    from codriver.tools.calls.answer import Answer
    from codriver.tools.calls.call import Call
    from codriver.tools.execution.affected_tests import Choice, TestsRun
    from codriver.tools.execution.test_arguments import TestArguments

MAX_NAMED_FILES: Final = 3
"""Maximum number of changed files named in a message."""
MAX_CHANGED_FILES: Final = 500
"""Maximum number of changed files for which tests are chosen."""
PYTHON_DIALECT: Final = "python"


@dataclass(frozen=True, slots=True)
class _ChangedFiles:
    """Changed files, for running the tests that they affect.

    `is_all` is true if these are all files that changed since they were last tested, and false if the caller named
    them.
    """

    files: tuple[FileResult, ...]
    is_all: bool

    @property
    def names(self) -> str:
        """Return the display paths of the first files, joined for a message."""
        return join_first([file.display_path for file in self.files], MAX_NAMED_FILES)


async def run_chosen_tests(call: Call, arguments: TestArguments) -> Answer:
    """Run the tests that the caller named, or the tests affected by changed files."""
    is_all = AFFECTED_SELECTOR in arguments.all_paths and not (call.services.workspace / AFFECTED_SELECTOR).exists()
    if not (arguments.affected_by or is_all):
        return await run_tests(call, arguments)
    others = [path for path in arguments.all_paths if not (is_all and path == AFFECTED_SELECTOR)]
    if others:
        raise refused(
            "bad-arguments",
            f'"affected" chooses from all tests, so {join_first(others, MAX_NAMED_FILES)} cannot be named as well',
            hint='Pass only paths: ["affected"], only affectedBy, or the names of tests.',
        )
    changed = await _read_changes(call, arguments)
    choice = await choose_tests(call, changed.files, lambda path: _serving_repl(call, path), with_failed=changed.is_all)
    if not choice.runs:
        raise _no_tests_error(changed)
    plain = arguments.model_copy(update={"paths": [], "namespace": None, "affected_by": [], "failed": False})
    answers = []
    of_python = [run for run in choice.runs if _is_python_run(call, run)]
    if of_python:
        answers.append(await _run_python(call, plain, of_python, is_all=changed.is_all))
    for key in dict.fromkeys(run.repl for run in choice.runs if run not in of_python):
        update: dict[str, object] = {"paths": run_paths([run for run in choice.runs if run.repl == key])}
        if arguments.repl_session_key is None:
            update["repl_session_key"] = key
        answers.append(await run_tests(call, plain.model_copy(update=update)))
    return _add_choice(merge_answers(answers) if len(answers) > 1 else answers[0], choice, changed)


async def _run_python(call: Call, arguments: TestArguments, runs: Sequence[TestsRun], *, is_all: bool) -> Answer:
    """Run the chosen Python tests in one process and stop the run at its time limit."""
    who = call.who(arguments.who)
    paths = run_paths(runs)
    keys = [run.repl for run in runs if run.repl]
    update: dict[str, object] = {"paths": paths}
    if arguments.repl_session_key is None and keys:
        update["repl_session_key"] = keys[0]
    chosen = arguments.model_copy(update=update)
    location = await choose_test_location(call, chosen, who)
    if not isinstance(location, TestEnvironment):
        return await run_tests(call, chosen)
    job = await make_job(call, chosen, location)
    selection = chosen_tests(runs, call.services.workspace, job.spec.directory)
    limit_s = job.limit_s if job.limit_s is not None else AFFECTED_TIME_LIMIT_S
    job = replace(job, spec=replace(job.spec, chosen=selection), limit_s=limit_s, is_complete=is_all)
    return with_comparison(call, await run_job(call, chosen, who, job, caution=location.caution))


def _add_choice(answer: Answer, choice: Choice, changed: _ChangedFiles) -> Answer:
    """Add the changed files, and the reasons for choosing the tests, to an answer."""
    words = f"{choice.words} ({changed.names})" if choice.words else changed.names
    notes = [*answer.fields.get("notes", ()), *choice.notes]
    fields = {**answer.fields, "chosen": words}
    return replace(answer, fields={**fields, "notes": notes} if notes else fields)


def _no_tests_error(changed: _ChangedFiles) -> RefusedError:
    """Return the error for a call that selects affected tests if there are none."""
    if changed.is_all and not changed.files:
        message = "no file differs from the last commit or has changed since the tests last ran, and no test failed"
        return refused("no-tests", message, hint="Run all tests, or name changed files in affectedBy.")
    return refused(
        "no-tests", f"no test runs, imports or is named after {changed.names}", hint="Name the tests in paths."
    )


async def _read_changes(call: Call, arguments: TestArguments) -> _ChangedFiles:
    """Read the files named in the call, or all files that changed since they were last tested."""
    if arguments.affected_by:
        return _ChangedFiles(
            tuple([await _read_named_file(call, file) for file in arguments.affected_by]), is_all=False
        )
    services = call.services
    since_ms = services.tests.tested_until_ms()
    before = await services.work.files.run(call.client, partial(_previous_contents, services.workspace, since_ms))
    found = [await _read_change(call, path, old) for path, old in list(before.items())[:MAX_CHANGED_FILES]]
    return _ChangedFiles(tuple(change for change in found if change is not None), is_all=True)


def _previous_contents(workspace: Path, since_ms: int) -> dict[Path, bytes | None]:
    """Return the previous contents of all changed files.

    The content is None for a new file, and for a file whose previous content is unknown. Reads files, so it blocks.
    """
    suffixes = tuple(dialects_by_suffix())
    written = {workspace / name: None for name in changed_files(workspace, since_ms, suffixes)}
    try:
        return {**written, **uncommitted_files(workspace, suffixes)}
    except RefusedError:  # no repository
        return {**written}


async def _read_change(call: Call, path: Path, before: bytes | None) -> FileResult | None:
    """Read a changed file and return its change, or None if the file cannot be read.

    For example, a link leading out of the workspace is not read.
    """
    display_path = str(path.relative_to(call.services.workspace))
    try:
        path, now = await call.services.editor.read(display_path, allow_outside=False)
    except RefusedError:
        return None
    return FileResult(Change(path, Snapshot(before), now.data), display_path, {}, "")


async def _read_named_file(call: Call, file: str) -> FileResult:
    """Read a file named by the caller, and treat all its content as new.

    It is unknown which part of the file the caller changed.
    """
    path, now = await call.services.editor.read(file, allow_outside=False)
    return FileResult(Change(path, MISSING, now.data), file, {}, "")


def _serving_repl(call: Call, path: Path) -> Repl | str:
    """Return the REPL that serves a file, or a message explaining why no REPL does."""
    return find_serving_repl(path, call.state.repls.values(), call.services.workspace) or "no REPL serves the file"


def _is_python_run(call: Call, run: TestsRun) -> bool:
    """Return whether a run consists of Python tests."""
    repl = next((candidate for candidate in call.state.repls.values() if candidate.key == run.repl), None)
    return repl is None or repl.dialect == PYTHON_DIALECT
