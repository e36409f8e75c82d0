"""What kind of project a workspace is, and which REPL it would use."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from codriver.setup.clients import Environment

PORT_FILES: Final = (".nrepl-port", ".shadow-cljs/nrepl.port")
"""Where a running REPL says its port. Source: nREPL, shadow-cljs."""

SOURCES_SEEN: Final = 2000
"""How many files are looked at to find out what language a folder without a project file has."""

SKIPPED: Final = frozenset({"node_modules", "target", "venv", "__pycache__", "build", "dist"})

PYTHON_FILES: Final = ("pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", "Pipfile")

NREPL_DEPS: Final = (
    '\'{:deps {nrepl/nrepl {:mvn/version "1.3.1"} cider/cider-nrepl {:mvn/version "0.55.7"}}}\'',
    "'[cider.nrepl/cider-middleware]'",
)


@dataclass(frozen=True, slots=True)
class Project:
    """One kind of project found in a workspace.

    `repl` is what the setting `repl` would say so that Codriver starts its REPL, `program` what has to be installed for
    it, and `command` starts the same REPL by hand.
    """

    kind: str
    evidence: str
    repl: str
    program: str
    command: str

    def can_start(self, environment: Environment) -> bool:
        """Whether the program that the REPL needs is installed. Python and its Lisp need none but ours."""
        return not self.program or environment.has_command(self.program)


CLOJURE_COMMAND = f"clojure -Sdeps {NREPL_DEPS[0]} -M -m nrepl.cmdline --middleware {NREPL_DEPS[1]}"

_BY_FILE: Final = (
    ("shadow-cljs.edn", "ClojureScript with shadow-cljs", "shadow-cljs", "npx", "npx shadow-cljs server"),
    ("deps.edn", "Clojure with deps.edn", "clojure", "clojure", CLOJURE_COMMAND),
    ("project.clj", "Clojure with Leiningen", "lein", "lein", "lein repl :headless"),
    ("bb.edn", "Babashka", "bb", "bb", "bb nrepl-server 0"),
    ("nbb.edn", "nbb", "nbb", "npx", "npx nbb nrepl-server"),
)

LISP: Final = ("Basilisp", "lisp", "", "codriver serve --repl lisp")
HY: Final = ("Hy", "hy", "hy", "codriver serve --repl hy")
PYTHON: Final = ("Python", "python", "", "codriver serve --repl python")


def find_projects(workspace: Path) -> tuple[Project, ...]:
    """Every kind of project that the workspace shows, the one to use first."""
    found: dict[str, Project] = {}
    for project in _find(workspace):
        found.setdefault(project.repl, project)
    return tuple(found.values())


def running_repls(workspace: Path) -> tuple[str, ...]:
    """The port files in the workspace that hold a port. A REPL may have left one behind."""
    return tuple(name for name in PORT_FILES if _text(workspace / name).strip().isdecimal())


def _find(workspace: Path) -> Iterator[Project]:
    for name, kind, repl, program, command in _BY_FILE:
        if (workspace / name).is_file():
            yield Project(kind, name, repl, program, command)
    yield from _find_node(workspace)
    needs = _python_needs(workspace)
    for word, (kind, repl, program, command) in (("basilisp", LISP), ("hy", HY)):
        if word in needs:
            yield Project(kind, f"pyproject.toml requires {word}", repl, program, command)
    if lisp_file := _source(workspace, lambda path: path.suffix == ".lpy"):
        yield Project(LISP[0], lisp_file, *LISP[1:])
    if hy_file := _source(workspace, lambda path: path.suffix == ".hy"):
        yield Project(HY[0], hy_file, *HY[1:])
    for name in PYTHON_FILES:
        if (workspace / name).is_file():
            yield Project(PYTHON[0], name, *PYTHON[1:])
    if python_file := _source(workspace, lambda path: path.suffix == ".py"):
        yield Project(PYTHON[0], python_file, *PYTHON[1:])


def _find_node(workspace: Path) -> Iterator[Project]:
    try:
        package = json.loads(_text(workspace / "package.json") or "{}")
    except ValueError:
        return  # npm will tell; here it only means that nothing is known
    if not isinstance(package, dict):
        return
    needs = {name for part in ("dependencies", "devDependencies") for name in _names(package.get(part))}
    if "nbb" in needs:
        yield Project("nbb", "package.json requires nbb", "nbb", "npx", "npx nbb nrepl-server")
    if "squint-cljs" in needs:
        command = "npx squint nrepl-server"
        yield Project("squint", "package.json requires squint-cljs", command, "npx", command)


def _python_needs(workspace: Path) -> frozenset[str]:
    """The names of all packages that `pyproject.toml` requires, whatever tool they are written for."""
    try:
        document = tomllib.loads(_text(workspace / "pyproject.toml"))
    except tomllib.TOMLDecodeError:
        return frozenset()
    project = document.get("project", {})
    poetry = document.get("tool", {}).get("poetry", {})
    lists = [project.get("dependencies", []), *project.get("optional-dependencies", {}).values()]
    lists += document.get("dependency-groups", {}).values()
    lists.append(document.get("build-system", {}).get("requires", []))
    names = {
        found.group().lower()
        for requirements in lists
        for text in requirements
        if isinstance(text, str) and (found := re.match(r"[A-Za-z0-9._-]+", text))
    }
    return frozenset(names | {name.lower() for name in _names(poetry.get("dependencies"))})


def _names(table: object) -> tuple[str, ...]:
    return tuple(table) if isinstance(table, dict) else ()


def _source(workspace: Path, wanted: Callable[[Path], bool]) -> str | None:
    """The first source file that is `wanted`, relative to the workspace; None when there is none near the top."""
    waiting, seen = [workspace], 0
    while waiting and seen < SOURCES_SEEN:
        try:
            entries = sorted(waiting.pop(0).iterdir())
        except OSError:
            continue
        for entry in entries:
            seen += 1
            if entry.name.startswith(".") or entry.name in SKIPPED:
                continue
            if entry.is_dir() and not entry.is_symlink():
                waiting.append(entry)
            elif wanted(entry):
                return entry.relative_to(workspace).as_posix()
    return None


def _text(file: Path) -> str:
    """The text of a file; empty when it cannot be had."""
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
