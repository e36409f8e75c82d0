"""Recipes for starting REPLs: how a `repl` setting becomes a command, or a hint on what to install.

Recipes only read files in the workspace and look up programs in `PATH`. They start nothing.
"""

from __future__ import annotations

import itertools
import os
import shutil
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Final

from codriver import files
from codriver.errors import StartError
from codriver.files import FileRules, Links
from codriver.files.working_trees import main_checkout
from codriver.repls.kinds import (
    NO_REPL_SETTING,
    NREPL_PROTOCOL,
    NREPL_VERSION,
    PYTHON_KIND,
    REPL_KINDS,
    Launcher,
    ReplKind,
    display_name,
    find_kind,
    kinds_by_word,
)
from codriver.repls.launch.processes import SUPERVISED_OPTION
from codriver.repls.launch.projects import (
    ACCEPTED,
    AUTO_PYTHON,
    TRUST_COMMAND,
    Acceptance,
    Interpreter,
    environment_outside_checkouts,
    find_checkouts,
    find_python,
    find_safe_python,
    is_inside,
)
from codriver.systems.programs import find_program, is_path, passes_arguments_unchanged, split_command
from codriver_lisp.reader import top_level_forms
from codriver_relay.starter import CLIENT_PYTHONPATH_VARIABLE, server_environment

UNACCEPTED_OPTION: Final = "--unaccepted"
"""The worker's option for a workspace that has not been accepted."""

NO_WORKSPACE: Final = Path(os.devnull)
"""A path that cannot contain files, used as the workspace of a REPL that must not read any."""

WORKER_PROGRAM: Final = Path(__file__).parents[1] / "worker" / "__main__.py"
"""The path of the program that starts Codriver's worker."""

CLOJURE_PROGRAMS: Final = ("clojure", "clj", "deps.exe")
"""Names of the Clojure CLI. The last one belongs to deps.clj, which is an executable file on Windows as well."""
ALLOW_ATTACH_FLAG: Final = "-J-Djdk.attach.allowAttachSelf"
"""The flag with which JVMs newer than 20 allow interrupting an endless loop."""

JAR_DIRECTORIES: Final = (Path("/usr/share/java"),)
"""Directories in which Debian's packages `clojure` and `libnrepl-clojure` install their jars."""

MAX_DEPS_BYTES: Final = 1 << 20
"""Maximum size of a deps.edn that is read."""

SLOW_START_TIMEOUT_S: Final = 180.0
"""Seconds to wait for a first start that may download dependencies, or compile Basilisp's core for half a minute."""

START_TIMEOUT_S: Final = 30.0
"""Seconds to wait for the start of other REPLs."""


class RecipeError(StartError):
    """Raised when the selected REPL cannot be started on this machine. The message says what to install."""

    def __init__(self, words: str, cause: str) -> None:
        super().__init__(f"`--repl {words}` cannot be started: {cause}")
        self.words = words
        self.cause = cause
        self.report = f"this project's REPL ({display_name(words)}) cannot be started: {cause}"
        """The message for a REPL that nobody requested by name."""


class NotAcceptedError(RecipeError):
    """Raised when the selected REPL cannot be started until the user has accepted a checkout."""

    def __init__(self, words: str, directory: Path, why: str, lapsed: str | None) -> None:
        missing = "nobody has accepted this checkout" if lapsed is None else lapse_clause(lapsed)
        super().__init__(words, f"{missing}: {acceptance_instruction(directory)}; {why}")
        because = "" if lapsed is None else f", and {lapse_clause(lapsed)}"
        instruction = acceptance_instruction(directory)
        self.report = f"this project's REPL ({display_name(words)}) runs project files{because}: {instruction}"


def acceptance_instruction(directory: Path) -> str:
    """Return an instruction for agents on how to get a checkout accepted."""
    return f"ask your human to run: {TRUST_COMMAND} (in {directory})"


def lapse_clause(lapsed: str) -> str:
    """Return a clause that says why an acceptance no longer counts."""
    return f"the acceptance has lapsed ({lapsed})"


@dataclass(frozen=True, slots=True)
class AddressFile:
    """A file with the address of a REPL, for REPLs whose address is chosen before their process starts.

    Such a REPL does not announce that it is ready, so connecting is retried.
    """

    path: Path
    prepare: Callable[..., None]
    """Write the file before the REPL starts, or raise a `StartError`. May block.

    Takes the path and `is_first`, which is true for the first start by this server. An existing file is only replaced
    at the first start.
    """
    discard: Callable[[Path], None]
    """Remove the file if it exists. May block."""
    farewell: Callable[[Path], Awaitable[None]]
    """Ask the REPL to exit by itself before its process is stopped."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """The command that starts a REPL. `env` is the complete environment of its process."""

    command: tuple[str, ...]
    env: Mapping[str, str]
    port_file: Path | None = None
    start_timeout_s: float = START_TIMEOUT_S
    protocol: str = NREPL_PROTOCOL
    notes: tuple[str, ...] = ()
    """Notes for the caller, such as where the interpreter comes from."""
    caution: str | None = None
    """A warning for all callers about something unexpected, such as an interpreter outside the project's environment.
    """
    remark: str | None = None
    """Information that is reported once per workspace."""
    address_file: AddressFile | None = None
    """The file with the REPL's address, if the address is chosen before the REPL starts."""
    remedies: tuple[tuple[str, str], ...] = ()
    """Pairs of a string and a remedy, which is reported if a process ends and its last output contains the string."""
    awaits_trust: bool = False
    """Whether the REPL replaces another one until the user accepts the workspace."""
    is_apart: bool = False
    """Whether the REPL starts in an empty directory, to which the path of its port file is relative."""
    withheld: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Capabilities of the REPL that must not be used, each with a hint on how to get it."""


@dataclass(frozen=True, slots=True)
class Project:
    """A workspace, the environment variables of its processes, and the value of the setting `python`."""

    workspace: Path
    environ: Mapping[str, str]
    python: str
    safe: Interpreter | None = None
    """The interpreter that replaces a forbidden one in the project."""
    added_kinds: Mapping[ReplKind, Launch] = field(default_factory=lambda: NO_ADDED_KINDS)
    """The kinds of REPL added by features, and how to start each."""

    def interpreter(self) -> Interpreter:
        """Return the interpreter that runs the project's Python code."""
        return self.safe or find_python(self.workspace, self.environ, self.python)


Launch = Callable[[ReplKind, str, Project], Recipe]
"""Returns the recipe for a REPL, given its kind, the words that name it, and the project. Raises a `RecipeError`."""
NO_ADDED_KINDS: Final[Mapping[ReplKind, Launch]] = MappingProxyType({})


def find_recipe(
    words: str,
    workspace: Path,
    environ: Mapping[str, str],
    *,
    acceptance_of: Callable[[Path], Acceptance] = lambda _: ACCEPTED,
    is_requested: bool = False,
    python: str = AUTO_PYTHON,
    added_kinds: Mapping[ReplKind, Launch] = NO_ADDED_KINDS,
) -> Recipe:
    """Return the recipe for a `repl` setting, which is a known name or a command line.

    `python` is the setting of that name. `is_requested` means that the user is starting the REPL explicitly, so any
    REPL is allowed. In a workspace that has not been accepted, Codriver's worker still runs nothing before the first
    evaluation.

    If `acceptance_of` says that a workspace has not been accepted, no program from it or from the main checkout of a
    linked git worktree is started, except the server's own interpreter. All REPLs other than Codriver's worker run
    files in the directory in which they start, so they start in an empty one if possible.

    Raises:
        RecipeError: the REPL cannot run on this machine, or is a program from an unaccepted checkout.
    """
    project = Project(workspace, environ, python, added_kinds=added_kinds)
    is_worker = is_embedded_repl(words)
    if is_requested:
        found = _recipe(words, project)
        is_bare = is_worker and not acceptance_of(workspace).is_given
        return replace(found, env=server_environment(str(workspace), found.env)) if is_bare else _with_pythonpath(found)
    if is_worker:
        safe = find_safe_python(workspace, environ, python, acceptance_of)
        found = _recipe(words, replace(project, safe=safe))
        acceptance = acceptance_of(workspace)
        return _with_pythonpath(found) if acceptance.is_given else _isolate(found, workspace, acceptance.lapsed)
    acceptance = acceptance_of(workspace)
    if not acceptance.is_given:
        # Project tools read their settings, Python imports modules from its start directory, and R runs a profile.
        safe = find_safe_python(workspace, environ, python, acceptance_of)
        return _recipe_apart(words, replace(project, safe=safe), acceptance.lapsed)
    found = _recipe(words, project)
    program = found.command[0]
    for directory in find_checkouts(workspace):
        if program != sys.executable and is_inside(program, directory, workspace):
            other = acceptance_of(directory)
            if not other.is_given:
                why = f"{program} is in that checkout, and a server started by a client runs nothing from it"
                raise NotAcceptedError(words, directory, why, other.lapsed)
    return _with_pythonpath(found)


def _isolate(found: Recipe, workspace: Path, lapsed: str | None) -> Recipe:
    """Restrict the worker's recipe for a workspace that has not been accepted.

    PYTHONPATH and the user's site-packages are ignored, because they may lead to a `sitecustomize` in the checkout.
    Modules in the checkout can only be imported by evaluated code, and come after all others. Tests are unavailable,
    because pytest would run plugins.
    """
    program, *arguments = found.command
    withheld: Mapping[str, str] = {}
    if PYTHON_KIND.arguments[0] in arguments:
        missing = "which nobody has accepted" if lapsed is None else f"and {lapse_clause(lapsed)}"
        why = f"pytest would run the plugins in this folder, {missing}"
        withheld = {"test": f"{why}: {acceptance_instruction(workspace)}"}
    caution = found.caution
    if lapsed is not None and caution is None:
        instruction = acceptance_instruction(workspace)
        caution = f"this REPL runs nothing from the project on its own, because {lapse_clause(lapsed)}: {instruction}"
    return replace(
        found,
        command=(program, "-I", *arguments, UNACCEPTED_OPTION),
        caution=caution,
        awaits_trust=True,
        withheld=MappingProxyType(withheld),
    )


def _recipe_apart(words: str, project: Project, lapsed: str | None) -> Recipe:
    """Return a recipe for a REPL in the same language that starts in an empty directory.

    Raises:
        NotAcceptedError: the REPL needs the project, or no program outside the checkouts can start it.
        RecipeError: the REPL could not be started in the project either.
    """
    workspace = project.workspace
    inside = find_checkouts(workspace)
    outside = replace(
        project,
        workspace=NO_WORKSPACE,
        environ=environment_outside_checkouts(workspace, project.environ),
        python=AUTO_PYTHON,
    )
    named_kind = next((kind for kind in REPL_KINDS if kind.repl == words.strip()), None) or find_kind(
        words, project.added_kinds
    )
    alike = [kind for kind in REPL_KINDS if named_kind is not None and kind.dialect == named_kind.dialect]
    for kind in alike if named_kind is not None and not named_kind.needs_project else ():
        with suppress(RecipeError):
            found = replace(_recipe(kind.repl, outside), awaits_trust=True, is_apart=True)
            if kind.launcher != "worker" and not any(
                is_inside(found.command[0], directory, workspace) for directory in inside
            ):
                report = f"this is a plain {kind.title.partition(' with ')[0]} REPL, started in an empty folder"
                because = "" if lapsed is None else f", because {lapse_clause(lapsed)}"
                return replace(
                    found,
                    caution=f"{report}{because}: to use the project's own REPL, {acceptance_instruction(workspace)}",
                )
    _recipe(words, project)
    raise NotAcceptedError(words, workspace, "this REPL runs project files when it starts", lapsed)


def _with_pythonpath(found: Recipe) -> Recipe:
    """Restore the client's complete PYTHONPATH, from which the server removed the project's entries."""
    env = dict(found.env)
    if given := env.pop(CLIENT_PYTHONPATH_VARIABLE, None):
        env["PYTHONPATH"] = given
    return replace(found, env=env)


def is_embedded_repl(words: str) -> bool:
    """Return whether a `repl` setting selects Codriver's worker."""
    kind = find_kind(words)
    return kind is not None and kind.launcher == "worker"


def check_repl_word(
    words: str,
    workspace: Path,
    environ: Mapping[str, str],
    *,
    python: str = AUTO_PYTHON,
    added_kinds: Mapping[ReplKind, Launch] = NO_ADDED_KINDS,
) -> None:
    """Check that a single word is a known REPL or a program. Anything else is probably misspelled.

    Raises:
        RecipeError: the word is unknown. The message lists the known words.
    """
    word = words.strip()
    if word and len(word.split()) == 1 and word != NO_REPL_SETTING and word not in kinds_by_word(added_kinds):
        _recipe(word, Project(workspace, environ, python, added_kinds=added_kinds))


def _recipe(words: str, project: Project) -> Recipe:
    if kind := find_kind(words, project.added_kinds):
        launch = project.added_kinds.get(kind) or _LAUNCHERS[kind.launcher]
        return launch(kind, words.strip(), project)
    try:
        command = tuple(split_command(words))
    except ValueError as error:
        raise RecipeError(words, f"this is not a valid command line ({error})") from error
    if not command:
        known_words = ", ".join(kinds_by_word(project.added_kinds))
        raise RecipeError(words, f"the command line is empty. Pass a command line, or one of {known_words}")
    found = _which(command[0], project)
    if found is None:
        known_words = ", ".join(kinds_by_word(project.added_kinds))
        raise RecipeError(words, f"there is no command {command[0]!r} in PATH. The known REPLs are {known_words}")
    command = (found, *command[1:])
    return Recipe(command, repl_environ(project.environ), project.workspace / ".nrepl-port", SLOW_START_TIMEOUT_S)


def _worker(kind: ReplKind, words: str, project: Project) -> Recipe:
    (language,) = kind.arguments
    found = project.interpreter()
    python, note = found.path, f"Python code is evaluated with {found.path} ({found.whose})"
    if language == "lisp":
        python, note = _lisp_python(kind, words, python, found.whose)
    command: tuple[str, ...] = (
        python,
        str(WORKER_PROGRAM),
        "--dialect",
        language,
        SUPERVISED_OPTION,
        "--workspace",
        str(project.workspace),
    )
    if checkout := main_checkout(project.workspace):
        command = (*command, "--checkout", str(checkout))
    made = replace(_create_recipe(kind, command, project, note, caution=found.caution), remark=found.remark)
    if found.waits_for is None:
        return made
    because = "" if found.lapsed is None else f", because {lapse_clause(found.lapsed)}"
    other_environment = f"this is {python}, not the project's own environment{because}"
    caution = f"{other_environment}: to use that one, {acceptance_instruction(found.waits_for)}"
    return replace(made, caution=caution, remark=None, awaits_trust=True)


def _lisp_python(kind: ReplKind, words: str, python: str, whose: str) -> tuple[str, str]:
    """Return an interpreter that has Basilisp, preferably the project's, and a note about it."""
    if _has_basilisp(python):
        return python, f"Lisp code is evaluated by Basilisp in {python} ({whose})"
    if not _has_basilisp(sys.executable):
        raise RecipeError(words, f"{kind.title} is not installed; {kind.install}")
    note = (
        "Lisp code is evaluated by Basilisp in codriver's own interpreter, without the project's packages, because "
        f"{python} ({whose}) has no Basilisp. Run `pip install basilisp` in the project's environment"
    )
    return sys.executable, note


def _create_recipe(
    kind: ReplKind, command: tuple[str, ...], project: Project, *notes: str, caution: str | None = None
) -> Recipe:
    port_file = next((project.workspace / name for name in kind.port_files), None)
    timeout_s = SLOW_START_TIMEOUT_S if kind.is_slow else START_TIMEOUT_S
    return Recipe(
        command, repl_environ(project.environ), port_file, timeout_s, kind.protocol, (*notes, *kind.notes), caution
    )


def _program_next_to_python(name: str, project: Project) -> str | None:
    """Return the path of a console script from the project's environment, from Codriver's environment, or from PATH."""
    python = project.interpreter().path
    candidates = (find_program(Path(interpreter).parent, name) for interpreter in (python, sys.executable))
    return next(filter(None, candidates), None) or _which(name, project)


def _python_program(kind: ReplKind, words: str, project: Project) -> Recipe:
    program = _program_next_to_python(kind.programs[0], project)
    if program is None:
        raise RecipeError(words, f"{kind.title} is not installed; {kind.install}")
    # Hy starts itself again by its base name, so its directory must be in PATH.
    path = os.pathsep.join([str(Path(program).parent), project.environ.get("PATH", os.defpath)])
    made = _create_recipe(kind, (program, *kind.arguments), replace(project, environ={**project.environ, "PATH": path}))
    if "-m" not in kind.arguments:
        return made
    module = kind.arguments[kind.arguments.index("-m") + 1].partition(".")[0]
    missing = f"{program} exists, but {module.replace('_', '-')} is not installed in the same environment"
    return replace(made, remedies=((f"No module named '{module}'", f"{missing}; {kind.install} in that environment"),))


def _clojure(kind: ReplKind, words: str, project: Project) -> Recipe:
    program = next((path for name in CLOJURE_PROGRAMS if (path := _which(name, project))), None)
    if program is not None and not passes_arguments_unchanged(program):
        why = f"{program} is a batch file, and Windows removes quotes from its arguments"
        raise RecipeError(words, f"{why}. Install deps.exe (github.com/borkdude/deps.clj) in a folder on your PATH")
    if program is not None and not _is_plain_launcher(program):
        deps = f'{{:deps {{nrepl/nrepl {{:mvn/version "{NREPL_VERSION}"}}}}}}'
        command = (program, ALLOW_ATTACH_FLAG, "-Sdeps", deps, "-M", "-m", "nrepl.cmdline")
        return _create_recipe(kind, command, project)
    java = _which("java", project)
    if java is None:
        raise RecipeError(words, "there is no java in PATH. Install a JDK and the Clojure CLI (clojure.org/guides)")
    jars = _debian_jars()
    if jars is None:
        raise RecipeError(words, f"the Clojure CLI is not installed; {kind.install}")
    named = _deps_paths(project.workspace)
    directories = dict.fromkeys(project.workspace / name for name in (*(named or ("src",)), "test", "resources"))
    sources = [str(directory) for directory in directories if directory.is_dir()]
    flag = ALLOW_ATTACH_FLAG.removeprefix("-J")
    command = (java, flag, "-cp", os.pathsep.join([*sources, *jars]), "clojure.main", "-m", "nrepl.cmdline")
    notes: tuple[str, ...] = ("Clojure and nREPL are from Debian's packages",)
    if (project.workspace / "deps.edn").exists():
        listed = (
            ", ".join(os.path.relpath(source, project.workspace) for source in sources) or "no folder in the project"
        )
        of_deps = "only :paths" if named else "nothing"
        report = (
            f"without the Clojure CLI (clojure.org/guides), {of_deps} from deps.edn can be used, not :deps or :aliases"
        )
        notes = (*notes, f"{report}; the classpath contains {listed}")
    return _create_recipe(kind, command, project, *notes)


def _deps_paths(workspace: Path) -> tuple[str, ...]:
    """Return the strings in `:paths` of the project's deps.edn, or () if there are none or the file cannot be read."""
    try:
        text = files.read(workspace / "deps.edn", FileRules(Links.WITHIN, MAX_DEPS_BYTES), root=workspace).decode()
    except (OSError, UnicodeDecodeError):
        return ()
    of_map = _forms(next((form for form in _forms(text) if form.startswith("{")), ""), "{")
    found = next((value for key, value in itertools.pairwise(of_map) if key == ":paths"), "")
    return tuple(path[1:-1] for path in _forms(found, "[") if path.startswith('"'))


def _forms(text: str, opening: str = "") -> list[str]:
    """Return the forms in a string. With `opening`, return the forms in a collection that starts with this bracket."""
    inner = text[1:-1] if opening and text.startswith(opening) else "" if opening else text
    return [inner[span.start : span.end] for span in top_level_forms(inner)]


def _program(kind: ReplKind, words: str, project: Project) -> Recipe:
    found = next((path for name in kind.programs if (path := _which(name, project))), None)
    if found is None:
        raise RecipeError(words, f"there is no {kind.programs[0]!r} in PATH or node_modules; {kind.install}")
    return _create_recipe(kind, (found, *kind.arguments), project)


_LAUNCHERS: Final[Mapping[Launcher, Launch]] = {
    "program": _program,
    "python-program": _python_program,
    "worker": _worker,
    "clojure": _clojure,
}
"""Functions that create a recipe, by launcher."""


def _which(name: str, project: Project) -> str | None:
    """Return the path of a program in `node_modules` or in `PATH`, or None."""
    if is_path(name):
        path = project.workspace / name
        return str(path) if os.access(path, os.X_OK) else None
    directories = [str(project.workspace / "node_modules" / ".bin"), project.environ.get("PATH", os.defpath)]
    return shutil.which(name, path=os.pathsep.join(directories))


def _is_plain_launcher(program: str) -> bool:
    """Return whether a `clojure` program is Debian's short script around `java`, which does not support `-Sdeps`."""
    if Path(program).suffix == ".exe":
        return False
    try:
        return b"-Sdeps" not in files.read_head(Path(program), FileRules(Links.ANY, 100_000))
    except OSError:
        return True


def _debian_jars() -> list[str] | None:
    """Return the paths of Debian's Clojure and nREPL jars, or None if any is missing."""
    for directory in JAR_DIRECTORIES:
        jars = [directory / f"{name}.jar" for name in ("clojure", "spec.alpha", "core.specs.alpha", "nrepl")]
        if all(jar.exists() for jar in jars):
            return [str(jar) for jar in jars]
    return None


def _has_basilisp(python: str) -> bool:
    """Return whether an interpreter has Basilisp. This checks files, because starting the interpreter is slow."""
    if python == sys.executable:
        return find_spec("basilisp") is not None
    root = Path(python).parent.parent
    return any(root.glob("lib/python3*/*-packages/basilisp/__init__.py"))


def repl_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a REPL.

    PYTHONDONTWRITEBYTECODE is removed, so that Basilisp can cache its core.
    """
    return {name: value for name, value in environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
