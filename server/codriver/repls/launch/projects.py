"""The projects in a workspace, recognised by their files, and the REPL that each would use."""

from __future__ import annotations

import json
import os
import re
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from codriver import files
from codriver.files import Links, Rules, toml_file
from codriver.files.toml_file import TomlFileError
from codriver.files.working_trees import files_of
from codriver.repls import kinds

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

PORT_FILE: Final = Rules(Links.NEVER, 4 * files.KIBIBYTE)
PROJECT_FILE: Final = Rules(Links.WITHIN, 4 * files.MEBIBYTE)

NO_MARKS: Final = ("codriver.toml", "opencode.json", "opencode.jsonc", "AGENTS.md", "CLAUDE.md", "GEMINI.md")
"""Files that are about agents and clients: a workspace that holds nothing else is as good as empty."""
CLOJURE: Final = "clojure"
"""The dialect of which Basilisp is a kind."""
BASILISP: Final = "lisp"
FOLDERS_BELOW: Final = 2
"""How deep in a workspace projects of their own are looked for."""
SOURCES_SEEN: Final = 2000
"""How many files are looked at to find out what language a folder without a project file has."""


@dataclass(frozen=True, slots=True)
class Project:
    """One kind of project found in a workspace, by the file or package that shows it.

    `repl` is the text for the setting `repl`, `programs` those of which one has to be installed for it, and `command`
    starts the same REPL by hand.
    """

    kind: str
    evidence: str
    repl: str
    programs: tuple[str, ...]
    command: str


def find_projects(workspace: Path) -> tuple[Project, ...]:
    """Every kind of project that the workspace shows, the one to use first.

    Files that make a folder a project come before packages that it requires, and Lisp before Python, in which many a
    tool of a Lisp project is written; sources count from the top down, and packages of extras and groups last.
    """
    found: dict[str, Project] = {}
    for project in _find(workspace):
        found.setdefault(project.repl, project)
    return tuple(found.values())


def projects_below(workspace: Path) -> tuple[Project, ...]:
    """The first project of each kind that only a folder below the workspace shows, by a file that makes it one.

    A REPL of the workspace is not started there: such a folder is a workspace of its own.
    """
    of_marks = {mark: kind for kind in reversed(kinds.KINDS) for mark in kind.marks}
    here = {kind.repl for kind in kinds.KINDS for _ in _by_marks(kind, workspace)}
    found: dict[str, Project] = {}
    for file in files_of(workspace, tuple(of_marks), max_entries=SOURCES_SEEN, max_depth=FOLDERS_BELOW):
        kind = of_marks.get(file.name)
        if kind is not None and file.parent != workspace and kind.repl not in here:
            found.setdefault(kind.repl, _project(kind, file.relative_to(workspace).as_posix()))
    return tuple(found.values())


def repl_of_project(workspace: Path) -> str:
    """The text for the setting `repl` that the files of the workspace call for; empty where they show no project."""
    return next((project.repl for project in _find(workspace)), "")


def repls_to_start(workspace: Path) -> tuple[str, ...]:
    """The REPLs of which the first that can be started is, where none was asked for: texts for the setting `repl`.

    They are those of the projects here, and Basilisp's after those of Clojure; in an empty folder Python's.

    Raises:
        OSError: the folder cannot be read.
    """
    if not _names_at_top(workspace):
        return (kinds.PYTHON.repl,)
    found = [project.repl for project in find_projects(workspace)]
    has_clojure = any(kind.dialect == CLOJURE for kind in kinds.KINDS if kind.repl in found)
    return tuple(dict.fromkeys([*found, *([BASILISP] if has_clojure else [])]))


def is_empty(workspace: Path) -> bool:
    """True where the folder shows nothing. Names that begin with a dot, and files about agents, show nothing.

    Raises:
        OSError: the folder cannot be read.
    """
    return not _names_at_top(workspace)


def _names_at_top(workspace: Path) -> list[str]:
    return [path.name for path in workspace.iterdir() if not path.name.startswith(".") and path.name not in NO_MARKS]


def running_repls(workspace: Path) -> tuple[str, ...]:
    """The port files in the workspace that hold a port. A REPL may have left one behind."""
    return tuple(name for name in kinds.port_files() if port_text(workspace, name).isdecimal())


def _find(workspace: Path) -> Iterator[Project]:
    with suppress(OSError):
        if is_empty(workspace):
            return
    others = sorted(
        (kind for kind in kinds.KINDS if kind.dialect != kinds.PYTHON.dialect), key=lambda kind: kind.precedence
    )
    all_kinds = [*others, kinds.PYTHON]
    for kind in others:
        yield from _by_marks(kind, workspace)
    yield from _by_needs(others, workspace, is_required=True)
    yield from _by_marks(kinds.PYTHON, workspace)
    for kind in [kinds.PYTHON, *others]:
        yield from _by_source(kind, workspace, max_depth=0)
    for kind in [kinds.PYTHON, *others]:
        yield from _by_source(kind, workspace)
    yield from _by_needs(all_kinds, workspace)


def _by_marks(kind: kinds.Kind, workspace: Path) -> Iterator[Project]:
    yield from (_project(kind, name) for name in kind.marks if is_file(workspace / name))


def _by_needs(some: Iterable[kinds.Kind], workspace: Path, *, is_required: bool = False) -> Iterator[Project]:
    python = _python_needs(workspace, is_required=is_required)
    needs = {"package.json": _node_needs(workspace), "pyproject.toml": python}
    for kind in some:
        for file, package in kind.needed_packages:
            if package in needs.get(file, ()):
                yield _project(kind, f"{file} requires {package}")


def _by_source(kind: kinds.Kind, workspace: Path, *, max_depth: int = sys.maxsize) -> Iterator[Project]:
    if kind.telling_suffixes:
        found = next(files_of(workspace, kind.telling_suffixes, max_entries=SOURCES_SEEN, max_depth=max_depth), None)
        if found is not None:
            yield _project(kind, found.relative_to(workspace).as_posix())


def is_file(path: Path) -> bool:
    """Whether there is such a file; one in a folder that cannot be looked into is none."""
    return os.path.isfile(path)  # noqa: PTH113  # `Path.is_file` raises where it may not look


def _project(kind: kinds.Kind, evidence: str) -> Project:
    return Project(kind.title, evidence, kind.repl, kind.programs, kind.by_hand)


def _node_needs(workspace: Path) -> frozenset[str]:
    """The names of all packages that `package.json` requires."""
    try:
        package = _table(json.loads(_text(workspace, "package.json", PROJECT_FILE) or "{}"))
    except (ValueError, RecursionError):
        return frozenset()  # npm will tell; here it only means that nothing is known
    return frozenset(name for part in ("dependencies", "devDependencies") for name in _names(package.get(part)))


def _python_needs(workspace: Path, *, is_required: bool = False) -> frozenset[str]:
    """The names of the packages in `pyproject.toml`, whatever tool they are written for.

    `is_required`: those alone without which the project cannot run, not those of extras, groups and the build.
    """
    try:
        document = toml_file.read(workspace / "pyproject.toml", root=workspace)
    except TomlFileError:
        return frozenset()
    project, tool, build = (_table(document.get(key)) for key in ("project", "tool", "build-system"))
    poetry = _table(tool.get("poetry"))
    lists = [project.get("dependencies")]
    if not is_required:
        lists += [
            build.get("requires"),
            *_table(project.get("optional-dependencies")).values(),
            *_table(document.get("dependency-groups")).values(),
        ]
    names = {
        found.group().lower()
        for requirements in lists
        for text in (requirements if isinstance(requirements, list) else ())
        if isinstance(text, str) and (found := re.match(r"[A-Za-z0-9._-]+", text))
    }
    by_poetry = _table(poetry.get("dependencies"))
    extras = {name for name, wanted in by_poetry.items() if is_required and _table(wanted).get("optional")}
    return frozenset(names | {name.lower() for name in by_poetry.keys() - extras})


def _table(value: object) -> dict[str, Any]:
    """The value if it is a table; files of other tools may have any shape."""
    return value if isinstance(value, dict) else {}


def _names(value: object) -> tuple[str, ...]:
    return tuple(_table(value))


def port_text(workspace: Path, name: str) -> str:
    """The text of a REPL's port file; empty when there is none, or none that is read."""
    return _text(workspace, name, PORT_FILE).strip()


def _text(workspace: Path, name: str, rules: Rules) -> str:
    try:
        return files.read_text(workspace / name, rules, root=workspace)
    except (OSError, UnicodeDecodeError):
        return ""
