"""What kind of project a workspace is, and which REPL it would use."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from codriver import files
from codriver.files import Links, Rules, toml_file
from codriver.files.toml_file import TomlFileError
from codriver.repls.launch.default_repl import PYTHON_MARKS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from codriver.setup.clients import Environment

PORT_FILES: Final = (".nrepl-port", ".shadow-cljs/nrepl.port")
"""Where a running REPL says its port. Source: nREPL, shadow-cljs."""

PORT_FILE: Final = Rules(Links.NEVER, 4 * files.KIBIBYTE)
PROJECT_FILE: Final = Rules(Links.WITHIN, 4 * files.MEBIBYTE)

SOURCES_SEEN: Final = 2000
"""How many files are looked at to find out what language a folder without a project file has."""

SKIPPED: Final = frozenset({"node_modules", "target", "venv", "__pycache__", "build", "dist"})

NREPL_DEPS: Final = (
    '\'{:deps {nrepl/nrepl {:mvn/version "1.3.1"} cider/cider-nrepl {:mvn/version "0.55.7"}}}\'',
    "'[cider.nrepl/cider-middleware]'",
)


@dataclass(frozen=True, slots=True)
class Project:
    """One kind of project found in a workspace.

    `repl` is what the setting `repl` would say so that Codriver starts its REPL, `programs` those of which one has to
    be installed for it, and `command` starts the same REPL by hand.
    """

    kind: str
    evidence: str
    repl: str
    programs: tuple[str, ...]
    command: str

    def can_start(self, workspace: Path, environment: Environment) -> bool:
        """Whether a program that the REPL needs is installed. Python and its Lisp need none but ours."""
        return not self.programs or any(_has_program(name, workspace, environment) for name in self.programs)


CLOJURE_COMMAND = f"clojure -Sdeps {NREPL_DEPS[0]} -M -m nrepl.cmdline --middleware {NREPL_DEPS[1]}"

CLJ: Final = ("clojure", "clj")

_BY_FILE: Final[tuple[tuple[str, str, str, tuple[str, ...], str], ...]] = (
    ("shadow-cljs.edn", "ClojureScript with shadow-cljs", "shadow-cljs", ("shadow-cljs",), "npx shadow-cljs server"),
    ("deps.edn", "Clojure with deps.edn", "clojure", CLJ, CLOJURE_COMMAND),
    ("project.clj", "Clojure with Leiningen", "lein", ("lein",), "lein repl :headless"),
    ("bb.edn", "Babashka", "bb", ("bb",), "bb nrepl-server 127.0.0.1:0"),
    ("nbb.edn", "nbb", "nbb", ("nbb",), "npx nbb nrepl-server"),
)

_Kind = tuple[str, str, tuple[str, ...], str]

LISP: Final[_Kind] = ("Basilisp", "lisp", (), "codriver serve --repl lisp")
HY: Final[_Kind] = ("Hy", "hy", ("hy",), "codriver serve --repl hy")
PYTHON: Final[_Kind] = ("Python", "python", (), "codriver serve --repl python")

# Where programs of a project lie that are not on the search path.
_BESIDE: Final = ("node_modules/.bin", ".venv/bin", "venv/bin")


def find_projects(workspace: Path) -> tuple[Project, ...]:
    """Every kind of project that the workspace shows, the one to use first."""
    found: dict[str, Project] = {}
    for project in _find(workspace):
        found.setdefault(project.repl, project)
    return tuple(found.values())


def running_repls(workspace: Path) -> tuple[str, ...]:
    """The port files in the workspace that hold a port. A REPL may have left one behind."""
    return tuple(name for name in PORT_FILES if port_text(workspace, name).isdecimal())


def _find(workspace: Path) -> Iterator[Project]:
    for name, kind, repl, programs, command in _BY_FILE:
        if (workspace / name).is_file():
            yield Project(kind, name, repl, programs, command)
    yield from _find_node(workspace)
    needs = _python_needs(workspace)
    for word, (kind, repl, programs, command) in (("basilisp", LISP), ("hy", HY)):
        if word in needs:
            yield Project(kind, f"pyproject.toml requires {word}", repl, programs, command)
    if lisp_file := _source(workspace, lambda path: path.suffix == ".lpy"):
        yield Project(LISP[0], lisp_file, *LISP[1:])
    if hy_file := _source(workspace, lambda path: path.suffix == ".hy"):
        yield Project(HY[0], hy_file, *HY[1:])
    for name in PYTHON_MARKS:
        if (workspace / name).is_file():
            yield Project(PYTHON[0], name, *PYTHON[1:])
    if python_file := _source(workspace, lambda path: path.suffix == ".py"):
        yield Project(PYTHON[0], python_file, *PYTHON[1:])


def _find_node(workspace: Path) -> Iterator[Project]:
    try:
        package = json.loads(_text(workspace, "package.json", PROJECT_FILE) or "{}")
    except (ValueError, RecursionError):
        return  # npm will tell; here it only means that nothing is known
    if not isinstance(package, dict):
        return
    needs = {name for part in ("dependencies", "devDependencies") for name in _names(package.get(part))}
    if "nbb" in needs:
        yield Project("nbb", "package.json requires nbb", "nbb", ("nbb",), "npx nbb nrepl-server")
    if "squint-cljs" in needs:
        words, command = "squint nrepl-server", "npx squint nrepl-server"
        yield Project("squint", "package.json requires squint-cljs", words, ("squint",), command)


def _has_program(name: str, workspace: Path, environment: Environment) -> bool:
    if environment.has_command(name):
        return True
    return any((workspace / folder / name).exists() for folder in _BESIDE)


def _python_needs(workspace: Path) -> frozenset[str]:
    """The names of all packages that `pyproject.toml` requires, whatever tool they are written for."""
    try:
        document = toml_file.read(workspace / "pyproject.toml", root=workspace)
    except TomlFileError:
        return frozenset()
    project, tool, build = (_table(document.get(key)) for key in ("project", "tool", "build-system"))
    poetry = _table(tool.get("poetry"))
    lists = [project.get("dependencies"), build.get("requires")]
    lists += [
        *_table(project.get("optional-dependencies")).values(),
        *_table(document.get("dependency-groups")).values(),
    ]
    names = {
        found.group().lower()
        for requirements in lists
        for text in (requirements if isinstance(requirements, list) else ())
        if isinstance(text, str) and (found := re.match(r"[A-Za-z0-9._-]+", text))
    }
    return frozenset(names | {name.lower() for name in _names(poetry.get("dependencies"))})


def _table(value: object) -> dict[str, Any]:
    """The value if it is a table; files of other tools may have any shape."""
    return value if isinstance(value, dict) else {}


def _names(value: object) -> tuple[str, ...]:
    return tuple(_table(value))


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


def port_text(workspace: Path, name: str) -> str:
    """What a port file of a REPL holds; empty when there is none, or none that is read."""
    return _text(workspace, name, PORT_FILE).strip()


def _text(workspace: Path, name: str, rules: Rules) -> str:
    try:
        return files.read_text(workspace / name, rules, root=workspace)
    except (OSError, UnicodeDecodeError):
        return ""
