"""Tests at the end of a turn: those of the files that changed, run once, and their failures in words."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio

from codriver.editing import HY
from codriver.errors import RefusedError, ReplDisconnectedError
from codriver.files.workspace_walk import files_of
from codriver.lisp.rename import namespace_of
from codriver.lisp.source_text import Document
from codriver.repls.contract.questions import Drift
from codriver.tools.acts.edited_lisp import read_edited
from codriver.tools.acts.file_loads import LoadFileArguments, load_file
from codriver.tools.acts.test_runs import TestArguments, run_tests
from codriver.tools.calls.session_choice import server_of
from codriver.tools.truth.drift_notes import EDITED, is_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from codriver.core.state import Repl
    from codriver.tools.calls.base import Answer, Call, Json

LEAST_S: Final = 1.0
MOST_CHARACTERS: Final = 1500
SHOWN_CHARACTERS: Final = 300
"""Of what one test says."""
MAX_ENTRIES: Final = 20_000
PYTHON: Final = ".py"
BASILISP: Final = ".lpy"
DEFTEST: Final = "(deftest"
"""By which a REPL finds the tests of a file that it has not loaded."""
SOURCES: Final = "src"
"""The folder of a distribution that its packages are in, where it has one."""
DISTRIBUTIONS: Final = ("pyproject.toml", "setup.py")

Target = tuple["Path", str]
"""A file that changed, and a namespace, module or file with tests of it."""


async def failures(call: Call, who: str, *, wait_s: float) -> str:
    """The failures of tests of what `who` changed since they last ran; empty where none failed or none can be run.

    Tests that take longer than `wait_s` in all are ended and hold up nobody, and nothing runs a second time before
    another file changes.
    """
    services = call.services
    changed, settings = services.ledger.edits.take(who), services.settings
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
    """Load the Python files whose modules are loaded as they were before: tests would tell of what is no more.

    What does not load is said, a line each.
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
    """The answer of one run; None where nobody can run it: no REPL is no reason to hold anybody up."""
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
    """The tests of one file: those whose files are named after it, and of Lisp its namespace and that with `-test`."""
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
    """The namespace of each test file, and its path, or that again where no reader finds the tests in the file."""
    for file in _test_files(workspace, path):
        text = read_edited(workspace, file)
        namespace = _namespace(text)
        if namespace is not None:
            yield namespace, str(file.relative_to(workspace)) if DEFTEST in (text or "") else namespace


def name_in_lisp(workspace: Path, file: Path) -> str | None:
    """The name by which the tests of a file of Lisp are run; None for a file of no tests. Blocks."""
    text = read_edited(workspace, file)
    namespace = _namespace(text)
    if namespace is None or not (is_test(file) or namespace.endswith("test")):
        return None
    is_by_file = file.suffix == BASILISP and DEFTEST in (text or "")
    return str(file.relative_to(workspace)) if is_by_file else namespace


def _namespace(text: str | None) -> str | None:
    return None if text is None else namespace_of(Document(text))


def _test_files(workspace: Path, path: Path) -> Iterator[Path]:
    """The file itself where it holds tests, else those named `test_NAME` or `NAME_test` after it.

    A package's file has its folder's name. One at the top of a distribution has that one's folder's name as well, by
    which tests are looked for in that folder alone.
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
    """True for a file that is named as those of tests are."""
    return path.name.startswith("test_") or path.stem.endswith("_test")


def _words(fields: Json, home: str) -> Iterator[str]:
    """The failed tests of a run, each with its place below the folder `home`, and what it said."""
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
