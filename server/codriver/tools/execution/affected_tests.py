"""Choose the tests that an edit may break, with those most likely to fail first.

The tests that executed a changed function when they last ran come first, beginning with those that failed. Other tests
that failed when they last ran follow, and then tests in files that import the changed files, directly or indirectly,
unless they are known to execute nothing that changed. Tests in files named after the changed files are last. Python
tests are chosen by function, so new parametrizations are included, and only within the project's test paths.

At the end of a turn, the changed files' tests run once, and their failures are returned as text.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio

from codriver.editing import HY_SUFFIX
from codriver.editing.code_names import CONFTEST_STEM, LISP_SUFFIXES
from codriver.editing.import_graph import PYTHON_SUFFIX
from codriver.editing.source_encoding import decode_with_replacement
from codriver.errors import RefusedError, ReplDisconnectedError, format_count, join_first
from codriver.files.tree_walk import walk_files
from codriver.repls.kinds import dialects_by_suffix
from codriver.testing.changed_functions import changed_functions, functions_with_changed_bodies
from codriver.testing.executed_functions import without_parameters
from codriver.testing.runs import FAILING_OUTCOMES, ChosenTests
from codriver.testing.test_paths import is_skipped, skipped_directories, test_paths
from codriver.tools.calls.session_choice import find_serving_repl
from codriver.tools.execution.edited_files import read_edited_lisp
from codriver.tools.execution.test_arguments import TestArguments
from codriver.tools.execution.test_runs import repl_runs, run_tests
from codriver_lisp.requirements import declared_namespace
from codriver_lisp.source_text import Document

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from codriver.core.state import Repl
    from codriver.editing import FileResult
    from codriver.editing.import_graph import ImportGraph
    from codriver.testing.executed_functions import RecordedExecutions
    from codriver.tools.calls.answer import Answer
    from codriver.tools.calls.arguments import Json
    from codriver.tools.calls.call import Call

    Test = tuple[str, str]


AFFECTED_SELECTOR: Final = "affected"
"""The value of `paths` that selects the tests that the changes may break."""
AFFECTED_TIME_LIMIT_S: Final = 10.0
"""Default time limit for affected tests, in seconds."""
LISP_PASSED_OUTCOME: Final = "pass"
"""Outcome of a Lisp test that passed."""
COLLECTION_TEST: Final = "(collection)"
"""Test name that selects all tests in a file."""
MAX_EXECUTING_TESTS: Final = 1000
"""Maximum number of test functions chosen because they executed changed code."""
MAX_IMPORTING_FILES: Final = 200
"""Maximum number of test files chosen because they import changed files. Direct importers come first."""
PACKAGE_FILE_NAME: Final = "__init__.py"
"""Name of the file that makes a directory a package."""
MAX_NAMED_FILES: Final = 1
"""Maximum number of test files named in a label."""
REASON_FILE_NAMES: Final = "the names of the changed files"
"""The reason given for tests that are chosen by the names of files."""
ONLY_NAMES_NOTE: Final = "chosen only by name: the tests in files named after the changed files"
"""Note about tests that are chosen only by the names of files."""


@dataclass(frozen=True, slots=True)
class TestsRun:
    """Affected tests to run in the REPL with the key `repl`.

    Either `namespace` names the namespace or file to run, or `only` lists pairs of a file and a test in it.
    """

    repl: str
    namespace: str | None = None
    only: tuple[Test, ...] = ()

    @property
    def label(self) -> str:
        """Return a short description of the run for answers."""
        files = [name for name, test in self.only if test == COLLECTION_TEST]
        if self.namespace or len(files) < len(self.only):
            return self.namespace or format_count(len(self.only), "affected test")
        return join_first(files, MAX_NAMED_FILES)


@dataclass(frozen=True, slots=True)
class Choice:
    """The result of choosing tests: the runs in order, the reasons for the choice, and notes about its limits."""

    runs: tuple[TestsRun, ...]
    words: str = ""
    notes: tuple[str, ...] = ()

    @property
    def functions(self) -> frozenset[str]:
        """Return the ids of the test functions that were chosen individually rather than as part of a whole file."""
        return frozenset(test for run in self.runs for _, test in run.only if test != COLLECTION_TEST)


async def choose_tests(
    call: Call,
    changed: Sequence[FileResult],
    server: Callable[[Path], Repl | str],
    *,
    with_failed: bool = True,
) -> Choice:
    """Choose the tests that may fail because of edits.

    `server` returns the REPL that serves a file, or a message explaining why no REPL does. With `with_failed`, the
    choice includes the tests that failed in their last run.
    """
    paths = [result.change.path for result in changed]
    services = call.services
    graph, workspace = services.ledger.imports, services.workspace
    changes = [result.change for result in changed]
    created_or_deleted = {change.path for change in changes if None in (change.before.data, change.after)}
    find = partial(_find_related_tests, graph, workspace, paths, created_or_deleted)
    found = await services.work.files.run(call.client, find)
    runs: list[TestsRun] = []
    words: list[str] = []
    of_python = [path for path in paths if path.suffix == PYTHON_SUFFIX]
    if of_python:
        repls = [repl for path in of_python if not isinstance(repl := server(path), str)]
        key = repls[0].key if repls else ""
        chosen = await _choose_python_tests(call, key, changed, found, with_failed=with_failed)
        runs += chosen.runs
        words += [chosen.words] if chosen.words else []
    of_lisp = [path for path in paths if path.suffix in LISP_SUFFIXES]
    repls_of_lisp = {repl.id: repl for path in of_lisp if not isinstance(repl := server(path), str)}
    failed = []
    if with_failed:
        failed = [
            TestsRun(repl.key, name) for repl in repls_of_lisp.values() for name in await _failed_namespaces(call, repl)
        ]
    runs += failed
    for path, name in found.lisp:
        repl = server(path)
        if not isinstance(repl, str):
            runs.append(TestsRun(repl.key, name))
    runs = list(dict.fromkeys(runs))
    if failed:
        words.append(f"{format_count(len(failed), 'namespace')} that failed last")
    if found.lisp:
        words.append("namespaces that require the changed ones" if found.requires else REASON_FILE_NAMES)
    is_by_names = bool(runs) and not found.requires and words in ([], [REASON_FILE_NAMES])
    return Choice(tuple(runs), "; ".join(dict.fromkeys(words)), (ONLY_NAMES_NOTE,) if is_by_names else ())


def run_paths(runs: Sequence[TestsRun]) -> list[str]:
    """Return the paths of all runs without duplicates.

    Files and namespaces that run completely come before files in which only some tests run.
    """
    found = [run.namespace for run in runs if run.namespace]
    found += [name for run in runs for name, test in run.only if test == COLLECTION_TEST]
    return list(dict.fromkeys([*found, *[name for run in runs for name, _ in run.only]]))


def chosen_tests(runs: Sequence[TestsRun], workspace: Path, directory: Path) -> ChosenTests | None:
    """Convert runs to the selection that is passed to pytest in `directory`.

    The result is None if a run has a namespace, because then all tests of the runs' paths are run.
    """

    def in_directory(name: str) -> str:
        file, separator, rest = name.partition("::")
        return os.path.relpath(workspace / file, directory).replace(os.sep, "/") + separator + rest

    if any(run.namespace for run in runs):
        return None
    only = [selected for run in runs for selected in run.only]
    functions = [in_directory(test) for _, test in only if test != COLLECTION_TEST]
    return ChosenTests(tuple(functions), tuple(in_directory(name) for name, test in only if test == COLLECTION_TEST))


@dataclass(frozen=True, slots=True)
class _RelatedTestFiles:
    """Test files that are related to changed files."""

    importing: tuple[Path, ...]
    """The Python files that import a changed file, nearest first. With `hiding`, all test files follow."""
    named: tuple[tuple[Path, str], ...]
    """Pairs of a changed file and a test file named after it."""
    lisp: tuple[tuple[Path, str], ...]
    """Pairs of a changed file and a namespace or file with its tests."""
    requires: bool
    """Whether a Lisp file was found because it requires a changed namespace."""
    hiding: tuple[Path, ...] = ()
    """The created or deleted files that hide a module of the standard library, which any library may import."""


def _find_related_tests(
    graph: ImportGraph, workspace: Path, changed: Sequence[Path], created_or_deleted: Collection[Path] = ()
) -> _RelatedTestFiles:
    """Find the test files that import changed files or are named after them.

    `created_or_deleted` contains those of the files that were not just edited. Reads files, so it blocks.
    """
    importing: list[Path] = []
    requires = False
    python = [path for path in changed if path.suffix == PYTHON_SUFFIX]
    hiding = tuple(path for path in python if path in created_or_deleted and _hides_standard_module(path))
    if python:
        files = list(walk_files(workspace, (PYTHON_SUFFIX,), max_entries=MAX_SCANNED_ENTRIES))
        importing = list(_importing_tests(graph.importers(python, files, workspace), files))
        if hiding:
            importing += sorted({*filter(is_test_file, files)}.difference(importing))
    named = targets_for_files(workspace, changed)
    lisp = {name: path for path, name in named if path.suffix != PYTHON_SUFFIX}
    for path in changed:
        if path.suffix in LISP_SUFFIXES:
            files = list(walk_files(workspace, tuple(LISP_SUFFIXES), max_entries=MAX_SCANNED_ENTRIES))
            reached = graph.importers([path], files, workspace)
            for file in sorted(reached, key=lambda candidate: (reached[candidate], candidate)):
                is_other = file != path and _share_dialect(file, path)
                tests = lisp_test_name(workspace, file) if is_other else None
                if tests is not None:
                    lisp.setdefault(tests, path)
                    requires = True
    of_python = tuple((path, name) for path, name in named if path.suffix == PYTHON_SUFFIX)
    of_lisp = tuple((path, name) for name, path in lisp.items())
    return _RelatedTestFiles(tuple(importing), of_python, of_lisp, requires, hiding)


def _hides_standard_module(path: Path) -> bool:
    """Return whether a file can be imported in place of a module of the standard library.

    Reads a directory, so it blocks.
    """
    module = path.parent if path.name == PACKAGE_FILE_NAME else path
    return module.stem in sys.stdlib_module_names and not (module.parent / PACKAGE_FILE_NAME).exists()


def _share_dialect(first: Path, other: Path) -> bool:
    """Return whether one REPL can load both files, such as a `.clj` and a `.cljc` file."""
    dialects = dialects_by_suffix()
    return not set(dialects.get(first.suffix, ())).isdisjoint(dialects.get(other.suffix, ()))


def _importing_tests(reached: Mapping[Path, int], files: Sequence[Path]) -> Iterator[Path]:
    """Yield the test files among importing files, nearest first.

    `reached` maps each importing file to its distance from the changed file. A `conftest.py` counts as all test files
    in its directory.
    """
    distances = dict(reached)
    for file, distance in reached.items():
        if file.stem == CONFTEST_STEM:
            for candidate in files:
                if candidate.is_relative_to(file.parent):
                    distances.setdefault(candidate, distance + 1)
    yield from sorted(
        (file for file in distances if is_test_file(file)), key=lambda candidate: (distances[candidate], candidate)
    )


async def _choose_python_tests(
    call: Call,
    repl: str,
    changed: Sequence[FileResult],
    found: _RelatedTestFiles,
    *,
    with_failed: bool,
) -> Choice:
    """Choose the tests to run after changes to Python files."""
    services, workspace = call.services, call.services.workspace
    edited = {result.change.path for result in changed}
    inside = await services.work.files.run(call.client, partial(_test_path_predicate, call))
    importing = [file for file in found.importing if file in edited or inside(file)]
    named = [name for _, name in found.named if workspace / name not in importing and inside(workspace / name)]
    find = partial(
        _tests_by_execution, services.tests.executions, changed, [*importing, *[workspace / result for result in named]]
    )
    executing, unaffected = await services.work.files.run(call.client, find)
    executed = [f"{_relative_to_workspace(Path(file), workspace)}::{name}" for file, name in executing]
    left_out = 0
    if executing:  # otherwise, only the files that import it could run
        named = [name for name in named if workspace / name not in unaffected]
        executing_files = {name.partition("::")[0] for name in executed}
        left_out = len(
            [
                file
                for file in importing
                if file in unaffected and _relative_to_workspace(file, workspace) not in executing_files
            ]
        )
        importing = [file for file in importing if file not in unaffected]
    failed: list[str] = []
    if with_failed:
        related = {*importing, *(workspace / name for name in named)}
        failed = list(dict.fromkeys(map(without_parameters, await _last_failed_tests(call, related))))
    both = {*failed}.intersection(executed)
    functions = [name for name in executed if name in both] + [name for name in executed if name not in both]
    functions = [*functions[:MAX_EXECUTING_TESTS], *[name for name in failed if name not in both]]
    whole = [_relative_to_workspace(file, workspace) for file in importing][:MAX_IMPORTING_FILES]
    only = [
        *((name.partition("::")[0], name) for name in functions),
        *((name, COLLECTION_TEST) for name in [*whole, *named]),
    ]
    executed_only = len([name for name in executed if name not in both])
    reasons = [f"{len(failed)} failed last"] if failed else []
    reasons += [f"{executed_only} executed it"] if executed_only else []
    if found.hiding:
        names = join_first([_relative_to_workspace(path, workspace) for path in found.hiding], MAX_NAMED_FILES)
        files = format_count(len(whole), "test file")
        reasons.append(f"{files}, because a module of the standard library has the same name as {names}")
    elif whole:
        reasons.append(format_count(len(whole), "file that imports it", "files that import it"))
    if left_out:
        left_out_files = format_count(left_out, "file left out that imports", "files left out that import")
        reasons.append(f"{left_out_files} it but executed nothing of it")
    words = "; ".join(reasons)
    runs = (TestsRun(repl, only=tuple(only)),) if only else ()
    return Choice(runs, words or (REASON_FILE_NAMES if named else ""))


def _tests_by_execution(
    executions: RecordedExecutions, changed: Sequence[FileResult], test_files: Sequence[Path]
) -> tuple[list[tuple[str, str]], frozenset[Path]]:
    """Return the tests that executed a changed function, and the test files that the change does not affect.

    A test is a pair of its file and its name. Tests in deleted files are left out. A test file is unaffected if a
    complete record shows that none of its tests executed changed code. Reads files, so it blocks.
    """
    functions, bodies = [], []
    before: dict[str, bytes] = {}
    is_of_bodies = True
    for result in changed:
        path = result.change.path
        if path.suffix == PYTHON_SUFFIX:
            old, new = result.change.before.data or b"", result.change.after or b""
            sources = decode_with_replacement(path, old), decode_with_replacement(path, new)
            file = os.path.realpath(path)
            in_bodies = functions_with_changed_bodies(*sources) if old and new else None
            is_of_bodies = is_of_bodies and in_bodies is not None
            bodies += [(file, name) for name in in_bodies or ()]
            # Lines outside bodies, and code that the server's Python cannot parse, are assigned by indentation.
            functions += [(file, name) for name in (changed_functions(*sources) if in_bodies is None else in_bodies)]
            before[file] = old
    found = [test for test in executions.tests_executing(functions) if Path(test[0]).exists()]
    if not is_of_bodies or not bodies:
        return found, frozenset()
    by_real_path = {os.path.realpath(file): file for file in test_files}
    unaffected = executions.unaffected_files(by_real_path, bodies, before)
    return found, frozenset(by_real_path[file] for file in unaffected)


def _test_path_predicate(call: Call) -> Callable[[Path], bool]:
    """Return a function that checks whether a file is in one of the project's test paths.

    If the project does not configure test paths, the directories of earlier test runs are used. Directories that pytest
    skips are excluded. Reads files, so it blocks.
    """
    workspace = call.services.workspace
    paths = test_paths(workspace) or tuple(
        {
            Path(test.file).parent
            for _, job_report in call.services.tests.finished_runs()
            for test in job_report.report.results
            if test.file
        }
    )
    patterns = skipped_directories(workspace)

    def is_inside(file: Path) -> bool:
        in_paths = not paths or any(file.is_relative_to(path) for path in paths)
        return in_paths and not is_skipped(file, workspace, patterns)

    return is_inside


def _relative_to_workspace(file: Path, workspace: Path) -> str:
    """Return a path relative to the workspace, or unchanged if it is outside the workspace."""
    return file.relative_to(workspace).as_posix() if file.is_relative_to(workspace) else str(file)


async def _failed_namespaces(call: Call, repl: Repl) -> list[str]:
    """Return the namespaces that had a failed test when they last ran in a REPL."""
    last: dict[tuple[str, str], str] = {}
    for _, report in await repl_runs(call, repl.id):
        outcomes: dict[tuple[str, str], str] = {}
        for row in report["results"]:
            known = _runnable_name(row, call.services.workspace), str(row["test"])
            if outcomes.get(known, LISP_PASSED_OUTCOME) == LISP_PASSED_OUTCOME:
                outcomes[known] = row["outcome"]
        last = {**outcomes, **last}
    return list(dict.fromkeys(namespace for (namespace, _), outcome in last.items() if outcome != LISP_PASSED_OUTCOME))


def _runnable_name(row: Json, workspace: Path) -> str:
    """Return the name with which the test in a result can be run again.

    This is a file for Basilisp files in the workspace, and otherwise a namespace.
    """
    file = Path(str(row.get("file") or ""))
    is_by_file = file.suffix == BASILISP_SUFFIX and file.is_relative_to(workspace)
    return str(file.relative_to(workspace)) if is_by_file else str(row["ns"])


async def _last_failed_tests(call: Call, related: Collection[Path]) -> list[str]:
    """Return the ids of the tests that failed in their last run, relative to the workspace.

    A project may have many tests that never passed. Such a test is included only if its file is related to the change,
    or if it ran in or after the last run with named tests. Tests in deleted files are left out.
    """
    outcomes: dict[str, str] = {}
    relevant: set[str] = set()
    workspace, last = call.services.workspace, call.services.tests.last_requested()
    is_recent = True
    for name, job_report in call.services.tests.finished_runs():
        for test in job_report.report.results:
            found = _workspace_test_id(test.nodeid, job_report.job.spec.directory, workspace)
            outcomes.setdefault(found, test.outcome)
            if test.outcome == "passed" or (is_recent and job_report.job.purpose == "tests"):
                relevant.add(found)
        is_recent = is_recent and (last is None or name != last[0])
    failed = [
        name
        for name, outcome in outcomes.items()
        if outcome in FAILING_OUTCOMES and (name in relevant or workspace / name.partition("::")[0] in related)
    ]
    return await call.services.work.files.run(call.client, partial(_tests_in_existing_files, workspace, failed))


def _workspace_test_id(nodeid: str, directory: Path, workspace: Path) -> str:
    """Convert the id of a test that ran in `directory` to one relative to the workspace."""
    file, separator, name = nodeid.partition("::")
    return _relative_to_workspace(Path(os.path.normpath(directory / file)), workspace) + separator + name


def _tests_in_existing_files(workspace: Path, tests: Sequence[str]) -> list[str]:
    """Return the tests whose files still exist.

    Checks files, so it blocks.
    """
    return [name for name in tests if (workspace / name.partition("::")[0]).exists()]


MIN_RUN_S: Final = 1.0
"""Minimum remaining time, in seconds, for a run to be started."""
MAX_FAILURES_CHARACTERS: Final = 1500
"""Maximum total number of characters in the descriptions of all failures."""
MAX_MESSAGE_CHARACTERS: Final = 300
"""Maximum number of characters in one test's failure message."""
MAX_SCANNED_ENTRIES: Final = 20_000
"""Maximum number of directory entries that are scanned for tests."""
BASILISP_SUFFIX: Final = ".lpy"
"""Suffix of Basilisp files."""
DEFTEST_MARKER: Final = "(deftest"
"""Text that identifies a file with tests if the REPL has not loaded the file."""
SOURCE_DIRECTORY_NAME: Final = "src"
"""Name of the directory that contains a distribution's packages, if it has one."""
DISTRIBUTION_FILE_NAMES: Final = ("pyproject.toml", "setup.py")
"""Names of files that mark the directory of a Python distribution."""

Target = tuple["Path", str]
"""A changed file, and a namespace, module or file that tests it."""


async def describe_new_failures(call: Call, who: str, *, wait_s: float) -> str:
    """Run the tests of the files that a caller has changed since they were last tested, and describe the failures.

    Returns an empty string if all tests pass or no test can run. All tests together are stopped after `wait_s` seconds.
    The same files are not tested again until one of them changes.
    """
    services = call.services
    changed, settings = services.ledger.edits.pop(who), services.live.settings
    if not (changed and settings.hook_gate and settings.enable_mcp_repl_evaluation):
        return ""
    targets = await services.work.files.run(call.client, partial(targets_for_files, services.workspace, changed))
    ends_at = anyio.current_time() + wait_s
    lines: list[str] = []
    for path, namespace in targets:
        left_s = ends_at - anyio.current_time()
        if left_s < MIN_RUN_S:
            break
        answer = await _run_target(call, path, namespace, left_s)
        if answer is not None and answer.fields.get("reason") == "tests-failed":
            lines += _failure_lines(answer.fields, f"{services.workspace}/")
    text = "\n".join(["tests of the changed files fail:", *dict.fromkeys(lines)])
    return text[:MAX_FAILURES_CHARACTERS] if lines else ""


def _serving_repl(call: Call, path: Path) -> Repl | None:
    """Return the REPL that serves a file, or None if there is none or more than one."""
    repl = find_serving_repl(path, call.state.repls.values(), call.services.workspace)
    return None if isinstance(repl, str) else repl


async def _run_target(call: Call, path: Path, namespace: str, left_s: float) -> Answer | None:
    """Run the tests of one target for at most `left_s` seconds.

    Returns None if no REPL can run them.
    """
    repl = _serving_repl(call, path)
    if repl is None and path.suffix != PYTHON_SUFFIX:
        return None
    given: dict[str, object] = {
        "namespace": namespace,
        "replSessionKey": repl.key if repl is not None else None,
        "timeoutMs": int(left_s * 1000),
        "onTimeout": "interrupt",
        "detail": True,
    }
    if path.suffix == PYTHON_SUFFIX:
        given.pop("replSessionKey")
    try:
        return await run_tests(call, TestArguments.model_validate(given))
    except (RefusedError, ReplDisconnectedError):
        return None


def targets_for_files(workspace: Path, changed: Iterable[Path]) -> tuple[Target, ...]:
    """Find the tests for changed files by the names of files and namespaces.

    Reads files, so it blocks.
    """
    found = {name: path for path in changed for name in _test_targets(workspace, path)}
    return tuple((path, name) for name, path in found.items())


def _test_targets(workspace: Path, path: Path) -> Iterator[str]:
    """Yield the tests for one file.

    These are the test files named after it. For a Lisp file, they include its namespace, and the namespace with the
    suffix `-test`.
    """
    if path.suffix in (PYTHON_SUFFIX, HY_SUFFIX):
        yield from (str(file.relative_to(workspace)) for file in _test_files(workspace, path))
        return
    files = dict(_lisp_tests(workspace, path)) if path.suffix == BASILISP_SUFFIX else {}
    namespace = _namespace(read_edited_lisp(workspace, path))
    if namespace is not None:
        names = [namespace] if is_test_file(path) or namespace.endswith("test") else [namespace, f"{namespace}-test"]
        yield from (files.pop(name, name) for name in names)
    yield from files.values()


def _lisp_tests(workspace: Path, path: Path) -> Iterator[tuple[str, str]]:
    """Yield the namespace of each Lisp test file, and the name with which its tests are run.

    This name is the path of the file, or the namespace if only the REPL can find the file's tests.
    """
    for file in _test_files(workspace, path):
        text = read_edited_lisp(workspace, file)
        namespace = _namespace(text)
        if namespace is not None:
            yield namespace, str(file.relative_to(workspace)) if DEFTEST_MARKER in (text or "") else namespace


def lisp_test_name(workspace: Path, file: Path) -> str | None:
    """Return the name with which the tests of a Lisp file can be run, or None if it has no tests.

    Reads the file, so it blocks.
    """
    text = read_edited_lisp(workspace, file)
    namespace = _namespace(text)
    if namespace is None or not (is_test_file(file) or namespace.endswith("test")):
        return None
    is_by_file = file.suffix == BASILISP_SUFFIX and DEFTEST_MARKER in (text or "")
    return str(file.relative_to(workspace)) if is_by_file else namespace


def _namespace(text: str | None) -> str | None:
    """Return the namespace that Lisp code declares, or None if it declares none."""
    return None if text is None else declared_namespace(Document(text))


def _test_files(workspace: Path, path: Path) -> Iterator[Path]:
    """Yield the file itself if it contains tests, or else the test files named after it.

    Names such as `test_NAME` and `NAME_test` are found. For an `__init__.py`, `NAME` is the name of its directory. For
    the top package of a distribution, the name of the distribution's directory is also tried, in that directory only.
    """
    if is_test_file(path):
        yield path
        return
    is_package = path.stem == "__init__"
    yield from _tests_named_after(path.parent.name if is_package else path.stem, workspace, path.suffix)
    directory = path.parent.parent
    directory, is_distribution = (
        (directory.parent, True)
        if directory.name == SOURCE_DIRECTORY_NAME
        else (directory, _is_distribution(directory))
    )
    if is_package and is_distribution and directory != workspace and directory.is_relative_to(workspace):
        yield from _tests_named_after(directory.name.replace("-", "_"), directory, path.suffix)


def _tests_named_after(name: str, directory: Path, suffix: str) -> Iterator[Path]:
    """Yield the files below a directory that are named `test_NAME` or `NAME_test`."""
    names = (f"test_{name}{suffix}", f"{name}_test{suffix}")
    found = walk_files(directory, names, max_entries=MAX_SCANNED_ENTRIES)
    yield from (file for file in found if file.name in names and file.is_file())


def _is_distribution(directory: Path) -> bool:
    return any((directory / name).is_file() for name in DISTRIBUTION_FILE_NAMES)


def is_test_file(path: Path) -> bool:
    """Return whether the name of a file starts with `test_` or ends with `_test`."""
    return path.name.startswith("test_") or path.stem.endswith("_test")


def _failure_lines(fields: Json, home: str) -> Iterator[str]:
    """Yield one line for each failed test: its name, its location relative to `home`, and its message."""
    for row in fields.get("results", ()):
        if row.get("outcome") in ("pass", "passed"):
            continue
        file = str(row["file"]).removeprefix(home) if "file" in row else str(row.get("test", "")).partition("::")[0]
        location = f" ({file}:{row.get('line', '?')})" if "file" in row or "line" in row else ""
        messages = [str(row[key]) for key in ("message", "actual") if key in row]
        if "expected" in row:
            messages.append(f"expected {row['expected']}")
        name = "/".join(part for part in (row.get("ns"), row.get("test")) if part)
        yield f"{name}{location}: {'; '.join(messages) or row.get('outcome')}"[:MAX_MESSAGE_CHARACTERS]
