"""Recipes for starting REPLs: from the words of `--repl` to a command, or to the program to install.

Nothing here starts anything: recipes are looked up in files and in `PATH`, and only read the workspace.
"""

from __future__ import annotations

import itertools
import os
import shutil
import sys
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from codriver import files
from codriver.errors import StartError, install_extra
from codriver.files import Links, Rules
from codriver.files.working_trees import main_checkout
from codriver.repls.jupyter.connection_files import (
    CODRIVER_PREFIX,
    KernelSpecError,
    command_of,
    find_kernelspec,
    kernel_directories,
    runtime_directory,
)
from codriver.repls.kinds import KINDS, NO_REPL, NREPL, NREPL_VERSION, PYTHON, by_word, kind_of, title_of
from codriver.repls.launch.processes import SUPERVISED
from codriver.repls.launch.projects import (
    ACCEPTED,
    AUTO,
    Acceptance,
    Interpreter,
    checkouts,
    find_python,
    find_safe_python,
    is_inside,
    outside_environment,
)
from codriver.systems.programs import is_path, passes_quotes_on, program_in, split_command
from codriver_lisp.reader import top_level_forms
from codriver_relay.starter import CLIENTS_PATH, server_environment

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from codriver.repls.kinds import Kind, Launcher

UNACCEPTED: Final = "--unaccepted"
"""The worker's option for a workspace that nobody has accepted."""
TRUST: Final = "codriver trust"

NOWHERE: Final = Path(os.devnull)
"""The place for a project of which nothing is read."""

WORKER: Final = Path(__file__).parents[1] / "worker" / "__main__.py"

CLOJURE_PROGRAMS: Final = ("clojure", "clj", "deps.exe")
"""The Clojure CLI; the last name is deps.clj's, which is a program on Windows, too."""
NREPL_FLAG: Final = "-J-Djdk.attach.allowAttachSelf"
"""Without it a JVM newer than 20 cannot be interrupted in an endless loop."""

JAR_DIRECTORIES: Final = (Path("/usr/share/java"),)
"""The folder in which Debian's packages `clojure` and `libnrepl-clojure` put their jars."""

DEPS_BYTES: Final = 1 << 20
"""Largest deps.edn that is read, far above any seen."""

SLOW_START_S: Final = 180.0
"""A first start may fetch dependencies, or compile Basilisp's core for half a minute."""

START_S: Final = 30.0

IPYKERNEL: Final = "ipykernel_launcher"
PACKAGES: Final[Mapping[str, str]] = {IPYKERNEL: "ipykernel", "xpython_launcher": "xeus-python"}
"""The packages of the modules that start kernels, if their names differ."""


class RecipeError(StartError):
    """A requested REPL cannot be started on this machine. The message says what to install."""

    def __init__(self, words: str, cause: str) -> None:
        super().__init__(f"`--repl {words}` cannot work here: {cause}")
        self.words = words
        self.cause = cause
        self.report = f"the REPL of this project ({title_of(words)}) cannot be started: {cause}"
        """The problem in words for a REPL that nobody requested by name."""


class NotAcceptedError(RecipeError):
    """A requested REPL is not started before the user has accepted a checkout."""

    def __init__(self, words: str, directory: Path, why: str, lapsed: str | None) -> None:
        missing = "nobody has accepted this checkout" if lapsed is None else lapse_of(lapsed)
        super().__init__(words, f"{missing}: {to_accept(directory)}; {why}")
        because = "" if lapsed is None else f", and {lapse_of(lapsed)}"
        self.report = f"the REPL of this project ({title_of(words)}) runs files of it{because}: {to_accept(directory)}"


def to_accept(directory: Path) -> str:
    """Return the words for an agent on the way to accept a checkout."""
    return f"ask your human to run: {TRUST} (in {directory})"


def lapse_of(lapsed: str) -> str:
    """Return the clause about an acceptance that does not count any more."""
    return f"the acceptance has lapsed ({lapsed})"


@dataclass(frozen=True, slots=True)
class Recipe:
    """A command that starts one REPL. `env` is the whole environment."""

    command: tuple[str, ...]
    env: Mapping[str, str]
    port_file: Path | None = None
    start_timeout_s: float = START_S
    protocol: str = NREPL
    notes: tuple[str, ...] = ()
    """Sentences for the caller, such as the owner of the interpreter."""
    caution: str | None = None
    """A sentence for all callers of a REPL that may surprise them, such as one outside the project's environment."""
    remark: str | None = None
    """A sentence that is reported once in a workspace, as nothing is wrong."""
    connection_file: Path | None = None
    """For a kernel: the file with its ports and key, which has to exist before the start."""
    remedies: tuple[tuple[str, str], ...] = ()
    """Words in the last output of an ended process, and their meaning."""
    awaits_trust: bool = False
    """True of a REPL that stands in as long as the user has not accepted the workspace."""
    is_apart: bool = False
    """True of a REPL that starts in an empty folder; the path of its port file is relative to that folder."""
    withheld: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """For each capability of the REPL that is not used: the way to get it."""


@dataclass(frozen=True, slots=True)
class Project:
    """A workspace, the environment of its processes, and the setting `python`."""

    workspace: Path
    environ: Mapping[str, str]
    python: str
    safe: Interpreter | None = None
    """The interpreter to use in place of a forbidden one of the project."""

    def interpreter(self) -> Interpreter:
        """Return the interpreter in which the project's Python code runs."""
        return self.safe or find_python(self.workspace, self.environ, self.python)


def recipe(
    words: str,
    workspace: Path,
    environ: Mapping[str, str],
    *,
    acceptance_of: Callable[[Path], Acceptance] = lambda _: ACCEPTED,
    is_requested: bool = False,
    python: str = AUTO,
) -> Recipe:
    """The recipe for `words`: a known REPL, or any command line. `python`: the setting of that name.

    `is_requested`: the user starts the REPL here and now, so that any REPL is allowed. In a workspace that nobody has
    accepted, our own worker still runs nothing of the workspace before the first evaluation.

    In a workspace that the user has not accepted, according to `acceptance_of`, no program from the workspace or the
    main checkout of a linked working tree is started: the maker of the checkout made the program too. Only the server's
    own interpreter may lie there. Every REPL but our own worker runs files of its start folder, and so is started in an
    empty one, if possible.

    Raises:
        RecipeError: the REPL cannot work on this machine, or is a program of a checkout that nobody has accepted.
    """
    project = Project(workspace, environ, python)
    is_worker = is_embedded(words)
    if is_requested:
        found = _recipe(words, project)
        is_bare = is_worker and not acceptance_of(workspace).is_given
        return replace(found, env=server_environment(str(workspace), found.env)) if is_bare else _whole(found)
    if is_worker:
        safe = find_safe_python(workspace, environ, python, acceptance_of)
        found = _recipe(words, replace(project, safe=safe))
        acceptance = acceptance_of(workspace)
        return _whole(found) if acceptance.is_given else _isolated(found, workspace, acceptance.lapsed)
    acceptance = acceptance_of(workspace)
    if not acceptance.is_given:
        # A project's tool reads its settings file, Python takes modules from its start folder, R a profile.
        safe = find_safe_python(workspace, environ, python, acceptance_of)
        return _apart(words, replace(project, safe=safe), acceptance.lapsed)
    found = _recipe(words, project)
    program = found.command[0]
    for directory in checkouts(workspace):
        if program != sys.executable and is_inside(program, directory, workspace):
            other = acceptance_of(directory)
            if not other.is_given:
                why = f"{program} lies there, and a server that starts by itself runs nothing from it"
                raise NotAcceptedError(words, directory, why, other.lapsed)
    return _whole(found)


def _isolated(found: Recipe, workspace: Path, lapsed: str | None) -> Recipe:
    """Return the recipe of our worker in a workspace that no one has accepted.

    PYTHONPATH and the user's own packages may lead into the checkout, whose `sitecustomize` would run. Its modules can
    be imported by evaluated code alone, and after all others. pytest would run its plugins.
    """
    program, *arguments = found.command
    withheld: Mapping[str, str] = {}
    if PYTHON.arguments[0] in arguments:
        missing = "which nobody has accepted" if lapsed is None else f"and {lapse_of(lapsed)}"
        why = f"pytest would run the plugins of this folder, {missing}"
        withheld = {"test": f"{why}: {to_accept(workspace)}"}
    caution = found.caution
    if lapsed is not None and caution is None:
        caution = f"this REPL runs nothing of the project by itself: {lapse_of(lapsed)}: {to_accept(workspace)}"
    return replace(
        found,
        command=(program, "-I", *arguments, UNACCEPTED),
        caution=caution,
        awaits_trust=True,
        withheld=MappingProxyType(withheld),
    )


def _apart(words: str, project: Project, lapsed: str | None) -> Recipe:
    """The recipe of a REPL in the same language as the one in `words`, started in an empty folder.

    Raises:
        NotAcceptedError: the REPL needs the project, or no program from outside of the checkouts starts it.
        RecipeError: the REPL cannot be started in the project either.
    """
    workspace = project.workspace
    inside = checkouts(workspace)
    outside = Project(NOWHERE, outside_environment(workspace, project.environ), AUTO, project.safe)
    named_kind = next((kind for kind in KINDS if kind.repl == words.strip()), None) or kind_of(words)
    alike = [kind for kind in KINDS if named_kind is not None and kind.dialect == named_kind.dialect]
    for kind in alike if named_kind is not None and not named_kind.needs_project else ():
        with suppress(RecipeError):
            found = replace(_recipe(kind.repl, outside), awaits_trust=True, is_apart=True)
            if kind.launcher != "worker" and not any(is_inside(found.command[0], one, workspace) for one in inside):
                report = f"this is a REPL of {kind.title.partition(' with ')[0]} alone, started in an empty folder"
                because = "" if lapsed is None else f", as {lapse_of(lapsed)}"
                return replace(found, caution=f"{report}{because}: to have the project's own, {to_accept(workspace)}")
    _recipe(words, project)
    raise NotAcceptedError(words, workspace, "this REPL runs files of the project as it starts", lapsed)


def _whole(found: Recipe) -> Recipe:
    """The recipe with the client's whole PYTHONPATH; the server itself was started without the project's part of it."""
    env = dict(found.env)
    if given := env.pop(CLIENTS_PATH, None):
        env["PYTHONPATH"] = given
    return replace(found, env=env)


def is_embedded(words: str) -> bool:
    """Return true if the REPL in `words` is our own worker."""
    kind = kind_of(words)
    return kind is not None and kind.launcher == "worker"


def check_word(words: str, workspace: Path, environ: Mapping[str, str], *, python: str = AUTO) -> None:
    """Refuse a word that is neither a known REPL nor a program: its writer meant something else.

    Raises:
        RecipeError: the word is unknown; the text lists the known words.
    """
    word = words.strip()
    if word and len(word.split()) == 1 and word != NO_REPL and word not in by_word():
        _recipe(word, Project(workspace, environ, python))


def _recipe(words: str, project: Project) -> Recipe:
    if kind := kind_of(words):
        return _LAUNCHERS[kind.launcher](kind, words.strip(), project)
    try:
        command = tuple(split_command(words))
    except ValueError as error:
        raise RecipeError(words, f"it is no command line ({error})") from error
    if not command:
        raise RecipeError(words, f"it names nothing; give a command line, or one of {', '.join(by_word())}")
    found = _which(command[0], project)
    if found is None:
        known_words = ", ".join(by_word())
        raise RecipeError(words, f"there is no command {command[0]!r} in PATH; known REPLs are {known_words}")
    command = (found, *command[1:])
    return Recipe(command, _child_environ(project.environ), project.workspace / ".nrepl-port", SLOW_START_S)


def _worker(kind: Kind, words: str, project: Project) -> Recipe:
    (language,) = kind.arguments
    found = project.interpreter()
    python, note = found.path, f"Python code is evaluated with {found.path} ({found.whose})"
    if language == "lisp":
        python, note = _lisp_python(kind, words, python, found.whose)
    command: tuple[str, ...] = (
        python,
        str(WORKER),
        "--dialect",
        language,
        SUPERVISED,
        "--workspace",
        str(project.workspace),
    )
    if checkout := main_checkout(project.workspace):
        command = (*command, "--checkout", str(checkout))
    made = replace(_recipe_of(kind, command, project, note, caution=found.caution), remark=found.remark)
    if found.waits_for is None:
        return made
    because = "" if found.lapsed is None else f", as {lapse_of(found.lapsed)}"
    other_environment = f"this is {python}, not the project's own environment{because}"
    caution = f"{other_environment}: to have that, {to_accept(found.waits_for)}"
    return replace(made, caution=caution, remark=None, awaits_trust=True)


def _lisp_python(kind: Kind, words: str, python: str, whose: str) -> tuple[str, str]:
    """Return the interpreter with Basilisp, the project's first, and a note on its owner."""
    if _has_basilisp(python):
        return python, f"Lisp code is evaluated by Basilisp in {python} ({whose})"
    if not _has_basilisp(sys.executable):
        raise RecipeError(words, f"{kind.title} is not installed; {kind.install}")
    note = (
        f"Lisp code is evaluated by Basilisp in codriver's own interpreter, as {python} ({whose}) has no Basilisp: "
        "the project's packages are not there; run `pip install basilisp` in the project's environment to have them"
    )
    return sys.executable, note


def _recipe_of(
    kind: Kind, command: tuple[str, ...], project: Project, *notes: str, caution: str | None = None
) -> Recipe:
    port_file = next((project.workspace / name for name in kind.port_files), None)
    timeout_s = SLOW_START_S if kind.is_slow else START_S
    return Recipe(
        command, _child_environ(project.environ), port_file, timeout_s, kind.protocol, (*notes, *kind.notes), caution
    )


def _program_next_to_python(name: str, project: Project) -> str | None:
    """Return a program of Python packages: from the project's environment, else from ours, else in PATH."""
    python = project.interpreter().path
    candidates = (program_in(Path(interpreter).parent, name) for interpreter in (python, sys.executable))
    return next(filter(None, candidates), None) or _which(name, project)


def _python_program(kind: Kind, words: str, project: Project) -> Recipe:
    program = _program_next_to_python(kind.programs[0], project)
    if program is None:
        raise RecipeError(words, f"{kind.title} is not installed; {kind.install}")
    # Hy starts itself again by its bare name, so its own folder must be in PATH.
    path = os.pathsep.join([str(Path(program).parent), project.environ.get("PATH", os.defpath)])
    made = _recipe_of(kind, (program, *kind.arguments), replace(project, environ={**project.environ, "PATH": path}))
    if "-m" not in kind.arguments:
        return made
    module = kind.arguments[kind.arguments.index("-m") + 1].partition(".")[0]
    missing = f"{program} is there, and {module.replace('_', '-')} is not installed beside it"
    return replace(made, remedies=((f"No module named '{module}'", f"{missing}; {kind.install} in that environment"),))


def _clojure(kind: Kind, words: str, project: Project) -> Recipe:
    program = next((path for name in CLOJURE_PROGRAMS if (path := _which(name, project))), None)
    if program is not None and not passes_quotes_on(program):
        why = f"{program} is a batch file, to which Windows passes no quotes on"
        raise RecipeError(words, f"{why}; install deps.exe (github.com/borkdude/deps.clj) into a folder of PATH")
    if program is not None and not _is_plain_launcher(program):
        deps = f'{{:deps {{nrepl/nrepl {{:mvn/version "{NREPL_VERSION}"}}}}}}'
        command = (program, NREPL_FLAG, "-Sdeps", deps, "-M", "-m", "nrepl.cmdline")
        return _recipe_of(kind, command, project)
    java = _which("java", project)
    if java is None:
        raise RecipeError(words, "there is no java in PATH; install a JDK and the Clojure CLI (clojure.org/guides)")
    jars = _debian_jars()
    if jars is None:
        raise RecipeError(words, f"the Clojure CLI is not installed; {kind.install}")
    named = _deps_paths(project.workspace)
    directories = dict.fromkeys(project.workspace / name for name in (*(named or ("src",)), "test", "resources"))
    sources = [str(directory) for directory in directories if directory.is_dir()]
    flag = NREPL_FLAG.removeprefix("-J")
    command = (java, flag, "-cp", os.pathsep.join([*sources, *jars]), "clojure.main", "-m", "nrepl.cmdline")
    notes: tuple[str, ...] = ("Clojure and nREPL are those of Debian's packages",)
    if (project.workspace / "deps.edn").exists():
        listed = ", ".join(os.path.relpath(source, project.workspace) for source in sources) or "nothing of the project"
        of_deps = "its :paths alone" if named else "nothing"
        report = (
            f"of deps.edn {of_deps} can be used without the Clojure CLI (clojure.org/guides), not :deps or :aliases"
        )
        notes = (*notes, f"{report}; on the classpath is {listed}")
    return _recipe_of(kind, command, project, *notes)


def _deps_paths(workspace: Path) -> tuple[str, ...]:
    """The textual `:paths` of the project's deps.edn; none for a file without any, or an unreadable one."""
    try:
        text = files.read(workspace / "deps.edn", Rules(Links.WITHIN, DEPS_BYTES), root=workspace).decode()
    except (OSError, UnicodeDecodeError):
        return ()
    of_map = _forms(next((form for form in _forms(text) if form.startswith("{")), ""), "{")
    found = next((value for key, value in itertools.pairwise(of_map) if key == ":paths"), "")
    return tuple(path[1:-1] for path in _forms(found, "[") if path.startswith('"'))


def _forms(text: str, opening: str = "") -> list[str]:
    """Return the forms of a text; with an `opening` bracket, the forms in the text's collection."""
    inner = text[1:-1] if opening and text.startswith(opening) else "" if opening else text
    return [inner[span.start : span.end] for span in top_level_forms(inner)]


def _program(kind: Kind, words: str, project: Project) -> Recipe:
    found = next((path for name in kind.programs if (path := _which(name, project))), None)
    if found is None:
        raise RecipeError(words, f"there is no {kind.programs[0]!r} in PATH or node_modules; {kind.install}")
    return _recipe_of(kind, (found, *kind.arguments), project)


def _jupyter(kind: Kind, words: str, project: Project) -> Recipe:
    """A kernel: IPython's in the project's interpreter, which needs no kernelspec, or that of the named spec."""
    if find_spec("jupyter_client") is None:
        raise RecipeError(words, f"jupyter_client is not installed; run {install_extra('jupyter')}")
    found = project.interpreter()
    _, is_named, spec_name = words.partition(":")
    name = f"{CODRIVER_PREFIX}{os.getpid()}-{words.replace(':', '-')}.json"
    file = runtime_directory(project.environ) / name
    added: dict[str, str] = {}
    note = f"Python code is evaluated by IPython in {found.path} ({found.whose})"
    command: tuple[str, ...] = (found.path, "-m", IPYKERNEL, "-f", str(file))
    if is_named:
        try:
            spec = find_kernelspec(spec_name, kernel_directories(found.path, project.environ))
            command, added = command_of(spec, file, python=found.path, environ=project.environ)
        except KernelSpecError as error:
            raise RecipeError(words, str(error)) from error
        note = f"the kernel is that of {spec.directory}"
    is_in_python = command[0] == found.path
    module = command[command.index("-m") + 1] if is_in_python and "-m" in command[:-1] else ""
    package = PACKAGES.get(module, module)
    remedy = f"{found.path} has no {package}: run `pip install {package}` in that environment ({found.whose})"
    return Recipe(
        command,
        {**_kernel_environ(project.environ), **added},
        start_timeout_s=SLOW_START_S,
        protocol=kind.protocol,
        notes=(note,),
        caution=found.caution if is_in_python else None,
        remark=found.remark if is_in_python else None,
        connection_file=file,
        remedies=((f"No module named {module}", remedy),) if module else (),
    )


def _kernel_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a kernel, with no word of another kernel's or of a server's, and no warning at its start."""
    environment = {name: value for name, value in _child_environ(environ).items() if not name.startswith("JPY_")}
    return {**environment, "PYDEVD_DISABLE_FILE_VALIDATION": "1"}


_LAUNCHERS: Final[Mapping[Launcher, Callable[[Kind, str, Project], Recipe]]] = {
    "program": _program,
    "python-program": _python_program,
    "worker": _worker,
    "clojure": _clojure,
    "jupyter": _jupyter,
}


def _which(name: str, project: Project) -> str | None:
    """Return the program `name`: the project's own from `node_modules` first, then of `PATH`."""
    if is_path(name):
        path = project.workspace / name
        return str(path) if os.access(path, os.X_OK) else None
    directories = [str(project.workspace / "node_modules" / ".bin"), project.environ.get("PATH", os.defpath)]
    return shutil.which(name, path=os.pathsep.join(directories))


def _is_plain_launcher(program: str) -> bool:
    """Return whether `clojure` is Debian's short script around `java`, which knows no `-Sdeps`."""
    if Path(program).suffix == ".exe":
        return False
    try:
        return b"-Sdeps" not in files.read_head(Path(program), Rules(Links.ANY, 100_000))
    except OSError:
        return True


def _debian_jars() -> list[str] | None:
    """Debian's jars of Clojure and nREPL; None if one is missing."""
    for directory in JAR_DIRECTORIES:
        jars = [directory / f"{name}.jar" for name in ("clojure", "spec.alpha", "core.specs.alpha", "nrepl")]
        if all(jar.exists() for jar in jars):
            return [str(jar) for jar in jars]
    return None


def _has_basilisp(python: str) -> bool:
    """Whether the interpreter has Basilisp, read from its folders: starting it to ask would cost time."""
    if python == sys.executable:
        return find_spec("basilisp") is not None
    root = Path(python).parent.parent
    return any(root.glob("lib/python3*/*-packages/basilisp/__init__.py"))


def _child_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a REPL: without PYTHONDONTWRITEBYTECODE, which has Basilisp compile its core each time."""
    return {name: value for name, value in environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
