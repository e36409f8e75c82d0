"""Where a test is, when the REPL tells the base name of its file alone, or none: found by the name of its namespace."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from codriver.repls.adapter_values import TestResult, TestRun

FOLDERS: Final = ("test", "tests", "src", "src/test/clojure", "src/test", "")
"""Where projects keep namespaces, from the workspace; those of tests first."""
SUFFIXES: Final = (".clj", ".cljc", ".cljs", ".bb")


def located(run: TestRun, workspace: Path | None) -> TestRun:
    """`run` with the paths of the namespaces' files in `workspace`, for results that tell none."""
    if workspace is None:
        return run
    found: dict[tuple[str, str | None], str | None] = {}
    for result in run.results:
        key = (result.namespace, result.file)
        if key not in found:
            found[key] = _file(result, workspace)
    return replace(
        run, results=tuple(replace(result, file=found[result.namespace, result.file]) for result in run.results)
    )


def _file(result: TestResult, workspace: Path) -> str | None:
    told = result.file
    if told is not None and (Path(told).is_absolute() or ":" in told):
        return told
    stem = result.namespace.replace("-", "_").replace(".", "/")
    for folder in FOLDERS:
        for suffix in SUFFIXES:
            path = workspace / folder / f"{stem}{suffix}"
            if path.is_file() and (told is None or path.name == Path(told).name):
                return str(path)
    return told
