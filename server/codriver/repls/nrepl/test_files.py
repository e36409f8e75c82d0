"""The test files of a workspace in Clojure's dialects: their namespaces, their files, and those of test results."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codriver import files
from codriver.files import workspace_walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codriver.repls.contract.adapter_values import TestResult, TestRun

SUFFIXES: Final = {
    "clojure": (".clj", ".cljc"),
    "babashka": (".clj", ".cljc", ".bb"),
    "basilisp": (".lpy", ".cljc"),
    "nbb": (".cljs", ".cljc"),
    "squint": (".cljs", ".cljc"),
}
FOLDERS: Final = ("test", "tests", "src/test/clojure", "src/test")
"""Where projects keep tests, from the workspace."""
SOURCE_FOLDERS: Final = ("test", "tests", "src", "src/test/clojure", "src/test", "")
"""Where projects keep namespaces, from the workspace; those of tests first."""
SOURCE_SUFFIXES: Final = (".clj", ".cljc", ".cljs", ".bb")
MAX_FILES: Final = 2000
MAX_ENTRIES: Final = 50_000
RULES: Final = files.Rules(files.Links.WITHIN, files.MEBIBYTE)
_NAMESPACE: Final = re.compile(r"^\(ns\s+(?:\^\S+\s+)*([^\s()\[\]{}\";]+)", re.MULTILINE)


def find(workspace: Path, dialect: str, where: str = "") -> list[tuple[str, str]]:
    """Namespaces that define tests, each with its file: of the file or folder `where`, else of the usual folders."""
    suffixes = SUFFIXES.get(dialect, ())
    places = [workspace / where] if where else [workspace / folder for folder in FOLDERS]
    found: dict[str, str] = {}
    for place in places:
        for path in _paths(place, suffixes):
            if len(found) < MAX_FILES and (text := read(path, workspace)) and (match := _NAMESPACE.search(text)):
                found.setdefault(match[1], path)
    return sorted(found.items())


def read(path: str, workspace: Path) -> str | None:
    """The text of a file with tests; None of what has none or cannot be read."""
    try:
        text = files.read_text(Path(path), RULES, root=workspace)
    except (OSError, UnicodeDecodeError):
        return None
    return text if "(deftest" in text else None


def _paths(place: Path, suffixes: tuple[str, ...]) -> Iterator[str]:
    if place.is_file():
        yield str(place)
        return
    yield from map(str, workspace_walk.files_of(place, suffixes, max_entries=MAX_ENTRIES))


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
    for folder in SOURCE_FOLDERS:
        for suffix in SOURCE_SUFFIXES:
            path = workspace / folder / f"{stem}{suffix}"
            if path.is_file() and (told is None or path.name == Path(told).name):
                return str(path)
    return told
