"""The test files of a workspace in Clojure's dialects: which namespaces there are, and the files they are in."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codriver import files

if TYPE_CHECKING:
    from collections.abc import Iterator

SUFFIXES: Final = {
    "clojure": (".clj", ".cljc"),
    "babashka": (".clj", ".cljc", ".bb"),
    "basilisp": (".lpy", ".cljc"),
}
"""By dialect that can load a file into the namespace it names."""
FOLDERS: Final = ("test", "tests", "src/test/clojure", "src/test")
"""Where projects keep tests, from the workspace."""
MAX_FILES: Final = 2000
RULES: Final = files.Rules(files.Links.ANY, most_bytes=2**20)
_NAMESPACE: Final = re.compile(r"^\(ns\s+(?:\^\S+\s+)*([^\s()\[\]{}\";]+)", re.MULTILINE)


def find(workspace: Path, dialect: str, where: str = "") -> list[tuple[str, str]]:
    """Namespaces that define tests, each with its file: of the file or folder `where`, else of the usual folders."""
    suffixes = SUFFIXES.get(dialect, ())
    places = [workspace / where] if where else [workspace / folder for folder in FOLDERS]
    found: dict[str, str] = {}
    for place in places:
        for path in _paths(place, suffixes):
            if len(found) < MAX_FILES and (name := _namespace(path)):
                found.setdefault(name, str(path))
    return sorted(found.items())


def _paths(place: Path, suffixes: tuple[str, ...]) -> Iterator[Path]:
    if place.is_file():
        yield place
    for folder, below, names in os.walk(place):
        below[:] = sorted(name for name in below if not name.startswith((".", "node_modules")))
        yield from (Path(folder, name) for name in sorted(names) if name.endswith(suffixes))


def _namespace(path: Path) -> str | None:
    try:
        text = files.read_text(path, RULES)
    except (OSError, UnicodeDecodeError):
        return None
    match = _NAMESPACE.search(text)
    return match[1] if match and "(deftest" in text else None
