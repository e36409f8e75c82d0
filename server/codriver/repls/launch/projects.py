"""The projects in a workspace, recognised by their files, and the REPL that each would use."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from codriver import files
from codriver.files import Links, Rules, toml_file
from codriver.files.toml_file import TomlFileError
from codriver.files.workspace_walk import files_of
from codriver.repls import kinds

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

PORT_FILE: Final = Rules(Links.NEVER, 4 * files.KIBIBYTE)
PROJECT_FILE: Final = Rules(Links.WITHIN, 4 * files.MEBIBYTE)

NO_MARKS: Final = ("codriver.toml", "opencode.json", "opencode.jsonc", "AGENTS.md", "CLAUDE.md", "GEMINI.md")
"""Files that are about agents and clients: a workspace that holds nothing else is as good as empty."""
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
    """Every kind of project that the workspace shows, the one to use first."""
    found: dict[str, Project] = {}
    for project in _find(workspace):
        found.setdefault(project.repl, project)
    return tuple(found.values())


def repl_of_project(workspace: Path) -> str:
    """The text for the setting `repl` that the files of the workspace call for; empty where they show no project."""
    return next((project.repl for project in _find(workspace)), "")


def embedded_kinds(workspace: Path) -> Iterator[kinds.Kind]:
    """The kinds of REPL to start where none was asked for, of those that come with Codriver; the best first.

    Basilisp's where the project requires it, or has its sources at the top and shows no other project; Python's where
    Python is at the top, or nothing at all.

    Raises:
        OSError: the folder cannot be read.
    """
    needs, names = _python_needs(workspace, is_required=True), _names_at_top(workspace)
    embedded = [kind for kind in kinds.KINDS if kind.launcher == "worker"]
    yield from (kind for kind in embedded if any(package in needs for _, package in kind.needed_packages))
    if _is_python_or_empty(names):
        yield kinds.PYTHON
    elif not kinds.project_marks().intersection(names):
        at_top = tuple(Path(name).suffix for name in names)
        yield from (kind for kind in embedded if kind.telling_suffix in at_top)


def is_python_or_empty(workspace: Path) -> bool:
    """Whether the folder shows Python at its top, or nothing at all. Names that begin with a dot show nothing.

    Raises:
        OSError: the folder cannot be read.
    """
    return _is_python_or_empty(_names_at_top(workspace))


def _is_python_or_empty(names: Collection[str]) -> bool:
    python = kinds.PYTHON
    return not names or any(name in python.marks or name.endswith(python.suffixes) for name in names)


def _names_at_top(workspace: Path) -> list[str]:
    return [path.name for path in workspace.iterdir() if not path.name.startswith(".") and path.name not in NO_MARKS]


def running_repls(workspace: Path) -> tuple[str, ...]:
    """The port files in the workspace that hold a port. A REPL may have left one behind."""
    return tuple(name for name in kinds.port_files() if port_text(workspace, name).isdecimal())


def _find(workspace: Path) -> Iterator[Project]:
    needs = {"package.json": _node_needs(workspace), "pyproject.toml": _python_needs(workspace)}
    for precedence in sorted({kind.precedence for kind in kinds.KINDS}):
        equals = [kind for kind in kinds.KINDS if kind.precedence == precedence]
        for kind in equals:
            yield from (_project(kind, name) for name in kind.marks if is_file(workspace / name))
        for kind in equals:
            for file, package in kind.needed_packages:
                if package in needs.get(file, ()):
                    yield _project(kind, f"{file} requires {package}")
        for kind in equals:
            if kind.telling_suffix and (source := _source(workspace, kind.telling_suffix)):
                yield _project(kind, source)


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


def _source(workspace: Path, suffix: str) -> str | None:
    """The first source file that ends so, relative to the workspace; None when there is none near the top."""
    found = next(files_of(workspace, (suffix,), max_entries=SOURCES_SEEN), None)
    return None if found is None else found.relative_to(workspace).as_posix()


def port_text(workspace: Path, name: str) -> str:
    """The text of a REPL's port file; empty when there is none, or none that is read."""
    return _text(workspace, name, PORT_FILE).strip()


def _text(workspace: Path, name: str, rules: Rules) -> str:
    try:
        return files.read_text(workspace / name, rules, root=workspace)
    except (OSError, UnicodeDecodeError):
        return ""
