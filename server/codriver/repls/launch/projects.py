"""The projects in a workspace, recognized by their files, with the REPL and interpreter that each uses.

Python code runs in the configured interpreter or the one in the project's environment. A linked git worktree rarely has
an environment. It uses that of its main checkout if both sides of the link agree, because a `.git` file alone may come
from a stranger. If the checkout that contains the environment has not been accepted, an interpreter from elsewhere is
used.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from codriver import files
from codriver.files import FileRules, Links, toml_file
from codriver.files.toml_file import TomlFileError
from codriver.files.tree_walk import walk_files
from codriver.files.working_trees import main_checkout
from codriver.repls import kinds
from codriver.repls.kinds import PYTHON_KIND
from codriver.systems.programs import existing_python, is_path, python_in_path, python_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping


PORT_FILE_RULES: Final = FileRules(Links.NEVER, 4 * files.KIBIBYTE)
PROJECT_FILE_RULES: Final = FileRules(Links.WITHIN, 4 * files.MEBIBYTE)

NON_PROJECT_FILES: Final = ("codriver.toml", "opencode.json", "opencode.jsonc", "AGENTS.md", "CLAUDE.md", "GEMINI.md")
"""Files for agents and clients. A workspace that contains nothing else counts as empty."""
CLOJURE_DIALECT: Final = "clojure"
"""Name of the Clojure dialect. In its projects, Basilisp is the second choice."""
BASILISP_SETTING: Final = "lisp"
"""The value of the setting `repl` for Basilisp."""
MAX_PROJECT_DEPTH: Final = 2
"""Maximum depth at which separate projects in a workspace are found."""
MAX_CHECKED_SOURCES: Final = 2000
"""Maximum number of files checked to determine the language of a directory without project files."""


@dataclass(frozen=True, slots=True)
class Project:
    """A kind of project found in a workspace, and the file or package that identifies it."""

    kind: str
    evidence: str
    repl: str
    """The value of the setting `repl` that selects this kind of project."""
    programs: tuple[str, ...]
    """Alternative programs, one of which must be installed."""
    command: str
    """The command that starts the same REPL in a terminal."""


def find_projects(workspace: Path) -> tuple[Project, ...]:
    """Return the kinds of projects in a workspace, starting with the one to use first.

    Lisp projects identified by a project file come first, then those identified by a required package, and then Python
    projects, because many tools of Lisp projects are written in Python. Projects identified by source files follow,
    starting with files in the workspace itself. Those identified by packages of extras and groups come last.
    """
    found: dict[str, Project] = {}
    for project in _find(workspace):
        found.setdefault(project.repl, project)
    return tuple(found.values())


def projects_below(workspace: Path) -> tuple[Project, ...]:
    """Return the first project of each kind that is identified only by a project file below the workspace.

    No REPL is started for it, because its directory is a separate workspace.
    """
    of_marks = {mark: kind for kind in reversed(kinds.REPL_KINDS) for mark in kind.marks}
    at_root = {kind.repl for kind in kinds.REPL_KINDS for _ in _by_marks(kind, workspace)}
    found: dict[str, Project] = {}
    for file in walk_files(workspace, tuple(of_marks), max_entries=MAX_CHECKED_SOURCES, max_depth=MAX_PROJECT_DEPTH):
        kind = of_marks.get(file.name)
        if kind is not None and file.parent != workspace and kind.repl not in at_root:
            found.setdefault(kind.repl, new_project(kind, file.relative_to(workspace).as_posix()))
    return tuple(found.values())


def suggested_repl(workspace: Path) -> str:
    """Return the value of the setting `repl` that fits the workspace, or "" if no project is found."""
    return next((project.repl for project in _find(workspace)), "")


def repls_to_start(workspace: Path) -> tuple[str, ...]:
    """Return the values of the setting `repl` to try, in order, if none is configured.

    These are the REPLs of the projects in the workspace, with Basilisp after those of Clojure. If there is no project
    and no source file in another language, Python is the only one.

    Raises:
        OSError: the directory cannot be read.
    """
    found = [project.repl for project in find_projects(workspace)]
    if not found and is_python_default(workspace):
        return (kinds.PYTHON_KIND.repl,)
    has_clojure = any(kind.dialect == CLOJURE_DIALECT for kind in kinds.REPL_KINDS if kind.repl in found)
    return tuple(dict.fromkeys([*found, *([BASILISP_SETTING] if has_clojure else [])]))


def is_empty(workspace: Path) -> bool:
    """Return whether a directory has no files other than hidden ones and files for agents.

    Raises:
        OSError: the directory cannot be read.
    """
    return not _names_at_top(workspace)


def is_python_default(workspace: Path) -> bool:
    """Return whether Python is the default because a directory has no project or source file in another language.

    Raises:
        OSError: the directory cannot be read.
    """
    if is_empty(workspace):
        return True
    if any(is_file(workspace / name) for name in (*kinds.project_file_names(), *kinds.OTHER_LANGUAGE_PROJECT_FILES)):
        return False
    return next(walk_files(workspace, kinds.non_python_suffixes(), max_entries=MAX_CHECKED_SOURCES), None) is None


def _names_at_top(workspace: Path) -> list[str]:
    return [
        path.name
        for path in workspace.iterdir()
        if not path.name.startswith(".") and path.name not in NON_PROJECT_FILES
    ]


def port_files_with_port(workspace: Path) -> tuple[str, ...]:
    """Return the names of port files in the workspace that contain a port. Their REPLs may have ended."""
    return tuple(name for name in kinds.port_file_names() if read_port_text(workspace, name).isdecimal())


def _find(workspace: Path) -> Iterator[Project]:
    with suppress(OSError):
        if is_empty(workspace):
            return
    others = sorted(
        (kind for kind in kinds.REPL_KINDS if kind.dialect != kinds.PYTHON_KIND.dialect),
        key=lambda kind: kind.precedence,
    )
    all_kinds = [*others, kinds.PYTHON_KIND]
    for kind in others:
        yield from _by_marks(kind, workspace)
    yield from _by_needs(others, workspace, is_required=True)
    yield from _by_marks(kinds.PYTHON_KIND, workspace)
    for kind in [kinds.PYTHON_KIND, *others]:
        yield from _by_source(kind, workspace, max_depth=0)
    for kind in [kinds.PYTHON_KIND, *others]:
        yield from _by_source(kind, workspace)
    yield from _by_needs(all_kinds, workspace)


def _by_marks(kind: kinds.ReplKind, workspace: Path) -> Iterator[Project]:
    yield from (new_project(kind, name) for name in kind.marks if is_file(workspace / name))


def _by_needs(some: Iterable[kinds.ReplKind], workspace: Path, *, is_required: bool = False) -> Iterator[Project]:
    python = _python_needs(workspace, is_required=is_required)
    needs = {"package.json": _node_needs(workspace), "pyproject.toml": python}
    for kind in some:
        for file, package in kind.needed_packages:
            if package in needs.get(file, ()):
                yield new_project(kind, f"{file} requires {package}")


def _by_source(kind: kinds.ReplKind, workspace: Path, *, max_depth: int = sys.maxsize) -> Iterator[Project]:
    if kind.distinctive_suffixes:
        found = next(
            walk_files(workspace, kind.distinctive_suffixes, max_entries=MAX_CHECKED_SOURCES, max_depth=max_depth), None
        )
        if found is not None:
            yield new_project(kind, found.relative_to(workspace).as_posix())


def is_file(path: Path) -> bool:
    """Return whether a file exists. A file in an unreadable directory counts as missing."""
    return os.path.isfile(path)  # noqa: PTH113  # `Path.is_file` raises for such files


def new_project(kind: kinds.ReplKind, evidence: str) -> Project:
    """Create a project of this kind. `evidence` is the file or package that identifies it."""
    return Project(kind.title, evidence, kind.repl, kind.programs, kind.by_hand)


def _node_needs(workspace: Path) -> frozenset[str]:
    """Return the names of the packages that `package.json` requires."""
    try:
        package = _table(json.loads(_text(workspace, "package.json", PROJECT_FILE_RULES) or "{}"))
    except (ValueError, RecursionError):
        return frozenset()  # npm will report the error
    return frozenset(name for part in ("dependencies", "devDependencies") for name in _keys(package.get(part)))


def _python_needs(workspace: Path, *, is_required: bool = False) -> frozenset[str]:
    """Return the names of the packages that `pyproject.toml` lists for any tool.

    With `is_required`, only packages that the project needs to run are included, not those of extras, groups and the
    build.
    """
    try:
        document = toml_file.read_toml(workspace / "pyproject.toml", root=workspace)
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
    extras = {
        name for name, specification in by_poetry.items() if is_required and _table(specification).get("optional")
    }
    return frozenset(names | {name.lower() for name in by_poetry.keys() - extras})


def _table(value: object) -> dict[str, Any]:
    """Return the value if it is a table, or an empty table. Other tools' files may have any structure."""
    return value if isinstance(value, dict) else {}


def _keys(value: object) -> tuple[str, ...]:
    return tuple(_table(value))


def read_port_text(workspace: Path, name: str) -> str:
    """Return the content of a port file, or "" if it is missing or unreadable."""
    return _text(workspace, name, PORT_FILE_RULES).strip()


def _text(workspace: Path, name: str, rules: FileRules) -> str:
    try:
        return files.read_text(workspace / name, rules, root=workspace)
    except (OSError, UnicodeDecodeError):
        return ""


AUTO_PYTHON: Final = "auto"
"""Value of the setting `python` that selects the project's environment."""
ENVIRONMENT_DIRECTORIES: Final = (".venv", "venv")
"""Names of directories that may contain a project's environment, in order of preference."""
PATH_PYTHON_ORIGIN: Final = "python3 in PATH"

NEUTRAL_DIRECTORY: Final = os.sep
"""A directory without configuration files, in which programs in PATH are run to find their interpreter.

The shims of version managers read files in the current directory and those above it.
"""
PYTHON_PROBE_CODE: Final = "import sys; print(sys.executable if sys.version_info >= (3, 8) else '')"
"""Code that prints the path of the interpreter if it is new enough for the worker."""
PROBE_TIMEOUT_S: Final = 10.0
"""Seconds to wait for an interpreter. It normally takes 10 ms, or 100 ms with a shim, and longer on a busy disk."""
DIRECTORY_VARIABLES: Final = frozenset({"PWD", "OLDPWD", "PYENV_DIR"})
"""Environment variables that would lead a shim to the client's working directory."""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python interpreter for the project."""

    path: str
    whose: str
    """A description of where the interpreter comes from."""
    caution: str | None = None
    """A warning if it is not the project's own interpreter."""
    remark: str | None = None
    """Information for users of a new project, which is displayed once."""
    waits_for: Path | None = None
    """The checkout that must be accepted before its own interpreter is used instead of this one."""
    lapsed: str | None = None
    """The reason why an earlier acceptance of the checkout in `waits_for` no longer counts."""


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Whether the user has accepted a checkout, which decides whether programs in it may run."""

    is_given: bool = False
    directories: tuple[str, ...] | None = None
    """The accepted environments relative to the checkout, or None for all."""
    lapsed: str | None = None
    """The reason why an earlier acceptance no longer counts."""

    def lapse_reason(self, program: str, directory: Path) -> str | None:
        """Return the reason why the acceptance of `directory` does not cover a program in it, or None if it does."""
        if self.directories is None or any(
            is_inside(program, directory / name, directory) for name in self.directories
        ):
            return None
        accepted = ", ".join(self.directories)
        return (
            f"{program} is in none of the accepted environments ({accepted}), and `{TRUST_COMMAND}` accepts another "
            "one only while it is active"
        )


PROGRAM_START_RULES: Final = FileRules(Links.ANY, max_bytes=256)
"""Limits for reading the first line of a script. Source: Linux, `BINPRM_BUF_SIZE`."""
ACCEPTED: Final = Acceptance(is_given=True)
NOT_ACCEPTED: Final = Acceptance()
TRUST_COMMAND: Final = "codriver trust"
"""The command with which a user accepts a workspace."""


def find_python(workspace: Path, environ: Mapping[str, str], chosen: str = AUTO_PYTHON) -> Interpreter:
    """Return the interpreter for the project in `workspace`.

    `chosen` is the value of the setting `python`: a path, the name of a program in `PATH`, or `AUTO_PYTHON`.
    """
    if chosen != AUTO_PYTHON:
        named = str(workspace / chosen) if is_path(chosen) else shutil.which(chosen, path=environ.get("PATH"))
        return Interpreter(named or chosen, "chosen by the setting python")
    if (active := environ.get("VIRTUAL_ENV")) and (python := _find_interpreter(Path(active))):
        return Interpreter(python, f"the active environment {active}")
    for name in ENVIRONMENT_DIRECTORIES:
        if python := _find_interpreter(workspace / name):
            return Interpreter(python, f"the project's {name}")
    broken = describe_broken_environment(workspace, environ)
    main = main_checkout(workspace)
    for name in ENVIRONMENT_DIRECTORIES if main else ():
        if main and (python := _find_interpreter(main / name)):
            whose = f"{name} in the main checkout {main}, because this working tree has none"
            caution = (
                f"Python code runs in {whose}. If this working tree needs different packages, create an environment "
                "in it"
            )
            return _as_replacement_for(broken, Interpreter(python, whose, caution))
    if found := python_in_path(environ.get("PATH")):
        return _as_replacement_for(broken, Interpreter(found, PATH_PYTHON_ORIGIN, remark=_remark(workspace, found)))
    return _as_replacement_for(broken, _codrivers_python(workspace))


def find_safe_python(
    workspace: Path, environ: Mapping[str, str], chosen: str, acceptance_of: Callable[[Path], Acceptance]
) -> Interpreter:
    """Return an interpreter for `workspace` that runs nothing from a checkout that has not been accepted. This blocks.

    This is the project's interpreter unless it is in such a checkout. The replacement is a `python3` in `PATH` from
    outside the checkout, or Codriver's own interpreter, which may be inside one.
    """
    found = find_python(workspace, environ, chosen)
    inside = find_checkouts(workspace)
    if found.path != sys.executable:
        for directory in inside:
            if is_inside(found.path, directory, workspace):
                acceptance = acceptance_of(directory)
                lapsed = acceptance.lapse_reason(found.path, directory) if acceptance.is_given else acceptance.lapsed
                if lapsed is not None or not acceptance.is_given:
                    return replace(_outside_python(workspace, environ), waits_for=directory, lapsed=lapsed)
    if found.whose != PATH_PYTHON_ORIGIN or acceptance_of(workspace).is_given:
        return found
    return _as_replacement_for(describe_broken_environment(workspace, environ), _outside_python(workspace, environ))


def find_checkouts(workspace: Path) -> tuple[Path, ...]:
    """Return the workspace. For a linked git worktree, also return its main checkout."""
    return tuple(filter(None, (workspace, main_checkout(workspace))))


def is_inside(program: str, directory: Path, workspace: Path) -> bool:
    """Return whether a program is below `directory`, according to its path or its resolved path."""
    return any(
        path.is_relative_to(root)
        for path in (Path(os.path.abspath(workspace / program)), Path(os.path.realpath(workspace / program)))  # noqa: PTH100  # without following links
        for root in (directory, Path(os.path.realpath(directory)))
    )


def environment_outside_checkouts(workspace: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without Python's variables, and without paths inside the checkouts."""
    inside = find_checkouts(workspace)
    names = [str(path) for directory in inside for path in (directory, os.path.realpath(directory))]
    environment = {
        name: value
        for name, value in environ.items()
        if name not in DIRECTORY_VARIABLES
        and not name.startswith("PYTHON")
        and not any(directory_name in value for directory_name in names)
    }
    directories = environ.get("PATH", os.defpath).split(os.pathsep)
    return {
        **environment,
        "PATH": os.pathsep.join(directory for directory in directories if _is_outside(directory, workspace)),
    }


def _outside_python(workspace: Path, environ: Mapping[str, str]) -> Interpreter:
    """Return a `python3` in `PATH` outside all checkouts, or Codriver's own interpreter if there is none."""
    outside = environment_outside_checkouts(workspace, environ)
    named = python_in_path(outside["PATH"]) if outside["PATH"] else None
    if named is not None and _is_outside(named, workspace):
        found = _probe_executable(named, outside)
        if found and _is_outside(found, workspace):
            return Interpreter(found, PATH_PYTHON_ORIGIN, remark=_remark(workspace, found))
    return _codrivers_python(workspace)


def _is_outside(path: str, workspace: Path) -> bool:
    return Path(path).is_absolute() and not any(
        is_inside(path, directory, workspace) for directory in find_checkouts(workspace)
    )


def _probe_executable(program: str, environ: Mapping[str, str]) -> str:
    """Return the path of the interpreter that `program` starts, or "" if it is too old or does not run."""
    try:
        finished = subprocess.run(  # noqa: S603  # the program is the user's own, of PATH and of no checkout
            [program, "-I", "-S", "-c", PYTHON_PROBE_CODE], cwd=NEUTRAL_DIRECTORY, env=environ,
            stdin=subprocess.DEVNULL, capture_output=True, timeout=PROBE_TIMEOUT_S, check=True,
        ).stdout  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return ""
    return os.fsdecode(finished).strip()


def _as_replacement_for(broken: str | None, replacement: Interpreter) -> Interpreter:
    """Add a warning to an interpreter that replaces a broken environment.

    `broken` describes what is wrong with the environment, or is None.
    """
    if broken is None:
        return replacement
    where = f"{replacement.path} ({replacement.whose})"
    caution = (
        f"{broken}, so Python code runs in {where}, without the environment's packages. Create the environment again"
    )
    return replace(replacement, caution=caution, remark=None)


def describe_broken_environment(workspace: Path, environ: Mapping[str, str]) -> str | None:
    """Describe why one of the project's environments cannot be used. Return None if none is broken."""
    active = environ.get("VIRTUAL_ENV")
    named = [(Path(active), f"the active environment {active}")] if active else []
    for directory, title in (
        *named,
        *((workspace / name, f"the project's {name}") for name in ENVIRONMENT_DIRECTORIES),
    ):
        if (defect := _describe_defect(directory)) is not None:
            return f"{title} is broken ({defect})"
    return None


def _describe_defect(environment: Path) -> str | None:
    """Describe why an environment has no interpreter. Return None if it has one, or if it is not an environment."""
    python = python_path(environment)
    for path in (environment, python):
        if path.is_symlink() and not path.exists():
            return f"{path} leads to {path.readlink()}, which does not exist"
    if not python.exists():
        return f"{python} does not exist" if is_file(environment / "pyvenv.cfg") else None
    return _describe_program_defect(python)


def _describe_program_defect(program: Path) -> str | None:
    """Describe why a program cannot be started, or return None. Nothing is executed."""
    if not is_file(program) or not os.access(program, os.X_OK):
        return f"{program} is not executable"
    try:
        start = files.read_head(program, PROGRAM_START_RULES)
    except OSError:
        return None
    if not start:
        return f"{program} is empty"
    words = start.partition(b"\n")[0][2:].split() if start.startswith(b"#!") else []
    if words and words[0].startswith(b"/") and not os.path.exists(words[0]):  # noqa: PTH110  # the path is in bytes
        return f"{program} starts {os.fsdecode(words[0])}, which does not exist"
    return None


def _codrivers_python(workspace: Path) -> Interpreter:
    return Interpreter(sys.executable, "codriver's own interpreter", remark=_remark(workspace, sys.executable))


def _find_interpreter(environment: Path) -> str | None:
    python = existing_python(environment)
    return None if python is None or _describe_defect(environment) else str(python)


def _remark(workspace: Path, python: str) -> str | None:
    """Return a remark on the missing virtual environment if the workspace is a Python project, or None."""
    if not any((workspace / mark).exists() for mark in PYTHON_KIND.marks):
        return None
    return (
        f"this project has no virtual environment (.venv, venv), so its code runs in {python}, perhaps without its "
        "packages. Create an environment, or choose an interpreter with `codriver serve --python PATH` or with "
        "python = … in codriver.toml"
    )
