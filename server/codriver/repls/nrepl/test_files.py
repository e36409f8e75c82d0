"""The test files of a workspace in Clojure's dialects: which namespaces there are, and the files they are in."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codriver import files
from codriver.files import workspace_walk

if TYPE_CHECKING:
    from collections.abc import Iterator

SUFFIXES: Final = {
    "clojure": (".clj", ".cljc"),
    "babashka": (".clj", ".cljc", ".bb"),
    "basilisp": (".lpy", ".cljc"),
    "nbb": (".cljs", ".cljc"),
    "squint": (".cljs", ".cljc"),
}
FOLDERS: Final = ("test", "tests", "src/test/clojure", "src/test")
"""Where projects keep tests, from the workspace."""
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
