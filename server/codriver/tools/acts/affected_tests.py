"""Affected tests: those that an edit may turn red, chosen by what ran, by imports, and by names, in this order.

First come the tests that were red last, and those that executed a changed function in a run that the REPL has seen.
Then come tests in files that import the changed files, however indirectly: all of them if more changed than bodies of
functions, else those in files that no such run has seen. Last come tests in files named after the changed files. At the
end of a turn the tests of the changed files are run once, and their failures told in words.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio

from codriver.editing import HY
from codriver.editing.code_names import CONFTEST, LISP, PYTHON
from codriver.editing.python_edits import changed_functions
from codriver.errors import CodriverError, RefusedError, ReplDisconnectedError, few
from codriver.files.working_trees import files_of
from codriver.lisp.binding_forms import namespace_of
from codriver.lisp.source_text import Document
from codriver.repls.contract.questions import Drift, Executed, FindExecuted
from codriver.tools.acts.edited_files import read_edited
from codriver.tools.acts.file_loads import LoadFileArguments, load_file
from codriver.tools.acts.test_runs import TestArguments, run_tests, runs_of_repl
from codriver.tools.answers.drift_notes import EDITED, is_of
from codriver.tools.calls.session_choice import server_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from codriver.core.state import Repl
    from codriver.editing import FileResult
    from codriver.editing.code_names import ImportGraph
    from codriver.tools.calls.base import Answer, Call, Json

    Test = tuple[str, str]


COLLECTION: Final = "(collection)"
"""In place of a test's name: all tests of a file."""
MOST_FILES: Final = 200
"""The files that are run because they import changed files, the nearest first."""
SHOWN_FILES: Final = 1
RED_RUNS: Final = 10
"""The newest runs in which last-red tests are looked for."""
BY_NAMED: Final = "the names of the changed files"
BY_NAMES: Final = "chosen by names alone: the tests of files that are named after what changed"


@dataclass(frozen=True, slots=True)
class TestsRun:
    """One run of affected tests in a REPL, by its key: of a namespace or file, or of the tests in `only` alone."""

    repl: str
    namespace: str | None = None
    only: tuple[Test, ...] = ()

    @property
    def shown(self) -> str:
        """The run in words."""
        files = [name for name, test in self.only if test == COLLECTION]
        if self.namespace or len(files) < len(self.only):
            return self.namespace or f"{len(self.only)} affected tests"
        return few(files, SHOWN_FILES)


@dataclass(frozen=True, slots=True)
class Choice:
    """The runs in their order, and the reasons of the choice, in words; `notes` tell facts that these do not show."""

    runs: tuple[TestsRun, ...]
    words: str = ""
    notes: tuple[str, ...] = ()
    red: frozenset[Test] = frozenset()
    """The tests that were red last."""
    mended: frozenset[Test] = frozenset()
    """The red tests that the edit may mend: they executed functions that it changes, or import the edited file."""


async def choose(call: Call, changed: Sequence[FileResult], server: Callable[[Path], Repl | str]) -> Choice:
    """The tests that edits may turn red. `server` gives the REPL that serves a file, or the reason why none does."""
    paths = [result.change.path for result in changed]
    services = call.services
    graph, workspace = services.ledger.imports, services.workspace
    found = await services.work.files.run(call.client, partial(_by_files, graph, workspace, paths))
    by_repl: defaultdict[str, list[FileResult]] = defaultdict(list)
    repls: dict[str, Repl] = {}
    for result in changed:
        repl = server(result.change.path)
        if not isinstance(repl, str) and result.change.path.suffix == PYTHON:
            by_repl[repl.key].append(result)
            repls[repl.key] = repl
    runs: list[TestsRun] = []
    words: list[str] = []
    notes: list[str] = []
    red: set[Test] = set()
    mended: set[Test] = set()
    for key, results in by_repl.items():
        chosen = await _of_python(call, repls[key], results, found)
        runs += chosen.runs
        words += [chosen.words] if chosen.words else []
        notes += chosen.notes
        red |= chosen.red
        mended |= chosen.mended
    for path, name in found.lisp:
        repl = server(path)
        if not isinstance(repl, str):
            runs.append(TestsRun(repl.key, name))
    runs = list(dict.fromkeys(runs))
    if found.lisp:
        words.append("namespaces that require what changed" if found.requires else BY_NAMED)
    is_by_names = bool(runs) and not found.requires and words in ([], [BY_NAMED])
    notes += [BY_NAMES] if is_by_names else []
    said = "; ".join(dict.fromkeys(words))
    return Choice(tuple(runs), said, tuple(dict.fromkeys(notes)), frozenset(red), frozenset(mended))


@dataclass(frozen=True, slots=True)
class _Found:
    """The test files found by imports, the nearest first, and by names; those of Lisp each with the file changed."""

    importing: tuple[Path, ...]
    named: tuple[tuple[Path, str], ...]
    lisp: tuple[tuple[Path, str], ...]
    requires: bool
    real: Mapping[Path, str]
    """The real path of each file, the form in which a REPL tells files."""


def _by_files(graph: ImportGraph, workspace: Path, changed: Sequence[Path]) -> _Found:
    """The test files that import the changed files or are named after them. Blocks."""
    importing: list[Path] = []
    requires = False
    python = [path for path in changed if path.suffix == PYTHON]
    if python:
        files = list(files_of(workspace, (PYTHON,), max_entries=MAX_ENTRIES))
        importing = list(_tests_among(graph.importers(python, files, workspace), files))
    named = targets_of(workspace, changed)
    lisp = {name: path for path, name in named if path.suffix != PYTHON}
    for path in changed:
        if path.suffix in LISP:
            files = list(files_of(workspace, tuple(LISP), max_entries=MAX_ENTRIES))
            reached = graph.importers([path], files, workspace)
            for file in sorted(reached, key=lambda one: (reached[one], one)):
                tests = name_in_lisp(workspace, file) if file != path and file.suffix == path.suffix else None
                if tests is not None and tests not in lisp:
                    lisp[tests], requires = path, True
    of_python = tuple((path, name) for path, name in named if path.suffix == PYTHON)
    real = {file: str(file.resolve()) for file in (*changed, *importing, *(workspace / name for _, name in of_python))}
    return _Found(tuple(importing), of_python, tuple((path, name) for name, path in lisp.items()), requires, real)


def _tests_among(reached: Mapping[Path, int], files: Sequence[Path]) -> Iterator[Path]:
    """The test files among these importing files, the nearest first; a `conftest` stands for the files around it."""
    distances = dict(reached)
    for file, distance in reached.items():
        if file.stem == CONFTEST:
            for one in files:
                if one.is_relative_to(file.parent):
                    distances.setdefault(one, distance + 1)
    yield from sorted((file for file in distances if is_test(file)), key=lambda one: (distances[one], one))


async def _of_python(call: Call, repl: Repl, results: Sequence[FileResult], found: _Found) -> Choice:
    """The tests of one REPL of Python. A note says why the functions that the last run executed are not known."""
    functions: list[tuple[str, str]] = []
    is_more = False
    for result in results:
        change = changed_functions(result.change.before.data or b"", result.change.after or b"")
        functions += [(found.real[result.change.path], name) for name in change.names]
        is_more |= change.is_more or result.change.after is None
    executed = Executed()
    if functions:
        try:
            executed = await call.services.repls.adapter(repl.id).ask(FindExecuted(tuple(functions)))
        except CodriverError:
            executed = Executed()
    red = await _red_last(call, repl)
    first = list(dict.fromkeys([*red, *executed.tests]))
    workspace = call.services.workspace
    whole = [file for file in found.importing if is_more or found.real[file] not in executed.files]
    shown = [_shown(file, workspace) for file in whole[:MOST_FILES]]
    changed = {result.change.path for result in results}
    named = [
        name
        for path, name in found.named
        if path in changed and name not in shown and (is_more or found.real[workspace / name] not in executed.files)
    ]
    runs = [TestsRun(repl.key, only=tuple(first))] if first else []
    if shown or named:
        runs.append(TestsRun(repl.key, only=tuple((name, COLLECTION) for name in [*shown, *named])))
    counted = (
        (len(red), "red last"), (len(executed.tests), "that executed what changed"),
        (len(shown), "files that import it"), (len(named), "files named after it"),
    )  # fmt: skip
    words = "; ".join(f"{count} {what}" for count, what in counted if count and what != counted[3][1])
    near = {found.real[file] for file in found.importing} | {found.real[workspace / name] for _, name in found.named}
    near |= {found.real[path] for path in changed}
    executing = set(executed.tests)
    mended = {
        test
        for test, place in red.items()
        if test in executing or (place in near and (is_more or place not in executed.files))
    }
    unseen = (f"{executed.unseen}: chosen without what tests executed in the last run",) if executed.unseen else ()
    return Choice(tuple(runs), words or (BY_NAMED if named else ""), unseen, frozenset(red), frozenset(mended))


def _shown(file: Path, workspace: Path) -> str:
    return file.relative_to(workspace).as_posix() if file.is_relative_to(workspace) else str(file)


async def _red_last(call: Call, repl: Repl) -> dict[Test, str]:
    """The tests of a REPL that did not pass in their last run there, each with its file, or namespace."""
    ended: dict[tuple[str, str], tuple[str, Test]] = {}
    undone = call.services.ledger.tests.taken_back
    runs = [one for one in await runs_of_repl(call, repl.id, with_fresh=True) if one[0].id not in undone]
    for _, report in runs[:RED_RUNS]:
        for row in report["results"]:
            known = str(row.get("file") or row["ns"]), str(row["test"])
            ended.setdefault(known, (row["outcome"], (row["ns"], row["test"])))
    red = {test: place for (place, _), (outcome, test) in ended.items() if outcome != "pass"}
    return await call.services.work.files.run(call.client, partial(_of_files_there, red))


def _of_files_there(tests: Mapping[Test, str]) -> dict[Test, str]:
    """The tests whose file still exists. Blocks."""
    return {test: place for test, place in tests.items() if not Path(place).is_absolute() or Path(place).exists()}


def words_of_passes(passed: int, choice: Choice) -> dict[str, object]:
    """The fields of an answer about affected tests that all passed."""
    fields: dict[str, object] = {"passed": passed}
    if choice.words:
        fields["chosen"] = choice.words
    return {**fields, "notes": list(choice.notes)} if choice.notes else fields


def with_no_time(fields: dict[str, object], left: Iterable[TestsRun]) -> dict[str, object]:
    """The fields of an answer with the runs for which no time was left."""
    told = fields.get("notes")
    notes = [*(told if isinstance(told, list) else ()), f"no time was left for {', '.join(one.shown for one in left)}"]
    return {**fields, "notes": notes}


LEAST_S: Final = 1.0
MOST_CHARACTERS: Final = 1500
SHOWN_CHARACTERS: Final = 300
"""The characters shown of one test's words."""
MAX_ENTRIES: Final = 20_000
BASILISP: Final = ".lpy"
DEFTEST: Final = "(deftest"
"""The form by which a REPL finds the tests of a file that it has not loaded."""
SOURCES: Final = "src"
"""The folder with a distribution's packages, if there is one."""
DISTRIBUTIONS: Final = ("pyproject.toml", "setup.py")

Target = tuple["Path", str]
"""A changed file, and a namespace, module or file with tests of it."""


async def failures(call: Call, who: str, *, wait_s: float) -> str:
    """The failures of tests of the files that `who` changed since these last ran; empty if none failed or none can run.

    Tests that take longer than `wait_s` in all are ended and hold up nobody, and none runs a second time before another
    file changes.
    """
    services = call.services
    changed, settings = services.ledger.edits.take(who), services.live.settings
    if not (changed and settings.hook_gate and settings.enable_mcp_repl_evaluation):
        return ""
    targets = await services.work.files.run(call.client, partial(targets_of, services.workspace, changed))
    ends_at = anyio.current_time() + wait_s
    said = await _load_edited(call, changed, ends_at)
    for path, namespace in targets:
        left_s = ends_at - anyio.current_time()
        if left_s < LEAST_S:
            break
        answer = await _run(call, path, namespace, left_s)
        if answer is not None and answer.fields.get("reason") == "tests-failed":
            said += _words(answer.fields, f"{services.workspace}/")
    told = "\n".join(["tests of what was changed fail:", *dict.fromkeys(said)])
    return told[:MOST_CHARACTERS] if said else ""


async def _load_edited(call: Call, changed: Iterable[Path], ends_at: float) -> list[str]:
    """Load the edited Python files whose modules are loaded in a former state: tests would run code that is no more.

    Each failed load is said in a line.
    """
    said = []
    for path in changed:
        repl = None if path.suffix != PYTHON or is_test(path) else _server(call, path)
        left_s = ends_at - anyio.current_time()
        if repl is None or left_s < LEAST_S:
            continue
        given = {"filePath": str(path), "replSessionKey": repl.key, "timeoutMs": int(left_s * 1000)}
        with suppress(RefusedError, ReplDisconnectedError):
            found = await call.services.repls.adapter(repl.id).ask(Drift(call.services.workspace, "edited"))
            if any(one.kind in EDITED and is_of(path, one.module) for one in found):
                answer = await load_file(call, LoadFileArguments.model_validate(given))
                error = answer.fields.get("error")
                if isinstance(error, dict):
                    shown = path.relative_to(call.services.workspace)
                    said.append(f"{shown} does not load: {error['class']}: {error['message']}"[:SHOWN_CHARACTERS])
    return said


def _server(call: Call, path: Path) -> Repl | None:
    repl = server_of(path, call.state.repls.values(), call.services.workspace)
    return None if isinstance(repl, str) else repl


async def _run(call: Call, path: Path, namespace: str, left_s: float) -> Answer | None:
    """The answer of one run; None if no REPL can run it, which is no reason to hold anybody up."""
    repl = _server(call, path)
    if repl is None:
        return None
    given = {
        "namespace": namespace,
        "replSessionKey": repl.key,
        "timeoutMs": int(left_s * 1000),
        "onTimeout": "interrupt",
        "detail": True,
    }
    try:
        return await run_tests(call, TestArguments.model_validate(given))
    except (RefusedError, ReplDisconnectedError):
        return None


def targets_of(workspace: Path, changed: Iterable[Path]) -> tuple[Target, ...]:
    """The tests of the files that changed, by the names of files and namespaces. Blocks."""
    found = {name: path for path in changed for name in _targets(workspace, path)}
    return tuple((path, name) for name, path in found.items())


def _targets(workspace: Path, path: Path) -> Iterator[str]:
    """The tests of one file: those in files named after it; for Lisp its namespace and that with `-test`."""
    if path.suffix in (PYTHON, HY):
        yield from (str(file.relative_to(workspace)) for file in _test_files(workspace, path))
        return
    files = dict(_lisp_tests(workspace, path)) if path.suffix == BASILISP else {}
    namespace = _namespace(read_edited(workspace, path))
    if namespace is not None:
        names = [namespace] if is_test(path) or namespace.endswith("test") else [namespace, f"{namespace}-test"]
        yield from (files.pop(name, name) for name in names)
    yield from files.values()


def _lisp_tests(workspace: Path, path: Path) -> Iterator[tuple[str, str]]:
    """The namespace of each test file, and its path, or the namespace again if no reader finds tests in the file."""
    for file in _test_files(workspace, path):
        text = read_edited(workspace, file)
        namespace = _namespace(text)
        if namespace is not None:
            yield namespace, str(file.relative_to(workspace)) if DEFTEST in (text or "") else namespace


def name_in_lisp(workspace: Path, file: Path) -> str | None:
    """The name by which the tests of a file of Lisp are run; None for a file without tests. Blocks."""
    text = read_edited(workspace, file)
    namespace = _namespace(text)
    if namespace is None or not (is_test(file) or namespace.endswith("test")):
        return None
    is_by_file = file.suffix == BASILISP and DEFTEST in (text or "")
    return str(file.relative_to(workspace)) if is_by_file else namespace


def _namespace(text: str | None) -> str | None:
    return None if text is None else namespace_of(Document(text))


def _test_files(workspace: Path, path: Path) -> Iterator[Path]:
    """The file itself if it holds tests, else those named `test_NAME` or `NAME_test` after it.

    A package's file has its folder's name. A package at the top of a distribution has the distribution's folder's name
    as well, by which tests are looked for in that folder alone.
    """
    if is_test(path):
        yield path
        return
    is_package = path.stem == "__init__"
    yield from _named_after(path.parent.name if is_package else path.stem, workspace, path.suffix)
    folder = path.parent.parent
    folder, is_distribution = (folder.parent, True) if folder.name == SOURCES else (folder, _is_distribution(folder))
    if is_package and is_distribution and folder != workspace and folder.is_relative_to(workspace):
        yield from _named_after(folder.name.replace("-", "_"), folder, path.suffix)


def _named_after(name: str, folder: Path, suffix: str) -> Iterator[Path]:
    names = (f"test_{name}{suffix}", f"{name}_test{suffix}")
    found = files_of(folder, names, max_entries=MAX_ENTRIES)
    yield from (file for file in found if file.name in names and file.is_file())


def _is_distribution(folder: Path) -> bool:
    return any((folder / name).is_file() for name in DISTRIBUTIONS)


def is_test(path: Path) -> bool:
    """True for a file that is named like a file of tests."""
    return path.name.startswith("test_") or path.stem.endswith("_test")


def _words(fields: Json, home: str) -> Iterator[str]:
    """The failed tests of a run, each with its place below the folder `home`, and its words."""
    only_here = fields.get("onlyInThisRepl", ())
    for row in fields.get("results", ()):
        if row.get("outcome") == "pass":
            continue
        place = f" ({str(row['file']).removeprefix(home)}:{row.get('line', '?')})" if "file" in row else ""
        said = [str(row[key]) for key in ("message", "actual") if key in row]
        if "expected" in row:
            said.append(f"expected {row['expected']}")
        name = "/".join(part for part in (row.get("ns"), row.get("test")) if part)
        here = " (in this REPL alone; it passes in a new process)" if row.get("test") in only_here else ""
        yield f"{name}{place}{here}: {'; '.join(said) or row.get('outcome')}"[:SHOWN_CHARACTERS]
