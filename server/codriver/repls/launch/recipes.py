"""From the words of `--repl` to a command: what to run, where, and what to install when it cannot work here.

Nothing here starts anything: a recipe is looked up in files and in `PATH`, and reads the workspace only.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codriver import files
from codriver.errors import StartError
from codriver.files import Links, Rules
from codriver.repls.launch.processes import SUPERVISED

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

WORKER: Final = Path(__file__).parents[1] / "worker" / "__main__.py"

NREPL_VERSION: Final = "1.3.1"
"""The nREPL that is put on a Clojure project's classpath; it interrupts on new JVMs too."""

NREPL_FLAG: Final = "-J-Djdk.attach.allowAttachSelf"
"""Without it a JVM newer than 20 cannot be interrupted in an endless loop."""

JAR_FOLDERS: Final = (Path("/usr/share/java"),)
"""Where Debian's packages `clojure` and `libnrepl-clojure` put their jars."""

SLOW_START_S: Final = 180.0
"""A first start may fetch dependencies, or compile Basilisp's core for half a minute."""

START_S: Final = 30.0


class RecipeError(StartError):
    """A REPL that was asked for cannot be started on this machine. The message says what to install."""

    def __init__(self, words: str, problem: str) -> None:
        super().__init__(f"`--repl {words}` cannot work here: {problem}")
        self.words = words
        self.problem = problem


@dataclass(frozen=True, slots=True)
class Recipe:
    """How to start one REPL. `env` is whole: nothing is to be added to it."""

    command: tuple[str, ...]
    env: Mapping[str, str]
    port_file: Path | None = None
    start_timeout_s: float = START_S
    key: str = "nrepl"
    """A session key to suggest."""
    notes: tuple[str, ...] = ()
    """Sentences for whoever asked, such as whose interpreter is used."""


def recipe(words: str, workspace: Path, environ: Mapping[str, str], *, is_accepted: bool = True) -> Recipe:
    """How to start what `words` name: a known REPL, or any command line.

    Without `is_accepted`, which says that the user has accepted the workspace, no program is started that lies in it:
    whoever made the checkout made the program too. Only the interpreter that runs the server may lie there.

    Raises:
        RecipeError: it cannot work on this machine, or is a program of a workspace that nobody has accepted.
    """
    found = _recipe(words, workspace, environ)
    program = Path(found.command[0])
    if not is_accepted and program != Path(sys.executable) and _lies_in(program, workspace):
        problem = (
            f"{program} lies in the workspace, which nobody has accepted, and a server that starts by itself runs "
            "nothing from there; run `codriver trust` once, or start the server yourself with `codriver serve`"
        )
        raise RecipeError(words, problem)
    return found


def _lies_in(program: Path, workspace: Path) -> bool:
    """Whether a program lies below a folder, by its own name or where that leads."""
    return any(
        path.is_relative_to(folder)
        for path in (Path(os.path.abspath(workspace / program)), Path(os.path.realpath(workspace / program)))  # noqa: PTH100  # without following links
        for folder in (workspace, Path(os.path.realpath(workspace)))
    )


def _recipe(words: str, workspace: Path, environ: Mapping[str, str]) -> Recipe:
    known = _KNOWN.get(words.strip())
    if known is not None:
        return known(words.strip(), workspace, environ)
    try:
        command = tuple(shlex.split(words))
    except ValueError as error:
        raise RecipeError(words, f"it is no command line ({error})") from error
    if not command:
        raise RecipeError(words, f"it names nothing; give a command line, or one of {', '.join(_KNOWN)}")
    if _which(command[0], workspace, environ) is None:
        known_words = ", ".join(_KNOWN)
        raise RecipeError(words, f"there is no command {command[0]!r} in PATH; known REPLs are {known_words}")
    return Recipe(command, _child_environ(environ), _port_file(workspace), SLOW_START_S)


def project_python(workspace: Path, environ: Mapping[str, str]) -> tuple[str, str]:
    """The interpreter in which the project's own code runs, and in words whose it is."""
    if active := environ.get("VIRTUAL_ENV"):
        python = Path(active) / "bin" / "python"
        if python.exists():
            return str(python), f"the active environment {active}"
    for name in (".venv", "venv"):
        python = workspace / name / "bin" / "python"
        if python.exists():
            return str(python), f"the project's {name}"
    if found := shutil.which("python3", path=environ.get("PATH")):
        return found, "python3 of PATH"
    return sys.executable, "codriver's own interpreter"


def _python(_words: str, workspace: Path, environ: Mapping[str, str]) -> Recipe:
    python, whose = project_python(workspace, environ)
    return _worker(python, "python", workspace, environ, (f"Python code is evaluated with {python} ({whose})",))


def _lisp(words: str, workspace: Path, environ: Mapping[str, str]) -> Recipe:
    python, whose = project_python(workspace, environ)
    note = f"Lisp code is evaluated by Basilisp in {python} ({whose})"
    if not _has_basilisp(python):
        if not _has_basilisp(sys.executable):
            raise RecipeError(words, "Basilisp is not installed; run `pip install 'codriver[lisp]'`")
        note = (
            f"Lisp code is evaluated by Basilisp in codriver's own interpreter, as {python} ({whose}) has no Basilisp: "
            "the project's packages are not there; run `pip install basilisp` in the project's environment to have them"
        )
        python = sys.executable
    return _worker(python, "lisp", workspace, environ, (note,), start_timeout_s=SLOW_START_S)


def _worker(
    python: str,
    dialect: str,
    workspace: Path,
    environ: Mapping[str, str],
    notes: tuple[str, ...],
    *,
    start_timeout_s: float = START_S,
) -> Recipe:
    command = (python, str(WORKER), "--dialect", dialect, SUPERVISED, "--workspace", str(workspace))
    key = "lpy" if dialect == "lisp" else "py"
    return Recipe(command, _child_environ(environ), None, start_timeout_s, key, notes)


def _beside_python(name: str, workspace: Path, environ: Mapping[str, str]) -> str | None:
    """A program that Python packages bring: of the project's environment, else of ours, else in PATH."""
    python, _ = project_python(workspace, environ)
    beside = [Path(interpreter).parent / name for interpreter in (python, sys.executable)]
    return next((str(path) for path in beside if path.exists()), None) or _which(name, workspace, environ)


def _basilisp(words: str, workspace: Path, environ: Mapping[str, str]) -> Recipe:
    program = _beside_python("basilisp", workspace, environ)
    if program is None:
        raise RecipeError(words, "Basilisp is not installed; run `pip install basilisp`")
    notes = ("Basilisp compiles its core for about 20 s at its first start",)
    port_file = _port_file(workspace)
    return Recipe((program, "nrepl-server"), _child_environ(environ), port_file, SLOW_START_S, "lpy", notes)


def _clojure(words: str, workspace: Path, environ: Mapping[str, str]) -> Recipe:
    program = _which("clojure", workspace, environ) or _which("clj", workspace, environ)
    if program is not None and not _is_plain_launcher(program):
        deps = f'{{:deps {{nrepl/nrepl {{:mvn/version "{NREPL_VERSION}"}}}}}}'
        command = (program, NREPL_FLAG, "-Sdeps", deps, "-M", "-m", "nrepl.cmdline")
        return Recipe(command, _child_environ(environ), _port_file(workspace), SLOW_START_S, "clj")
    java = _which("java", workspace, environ)
    if java is None:
        raise RecipeError(words, "there is no java in PATH; install a JDK and the Clojure CLI (clojure.org/guides)")
    jars = _debian_jars()
    if jars is None:
        problem = (
            "the Clojure CLI is not installed; install it (clojure.org/guides/install_clojure), "
            "or on Debian run `apt install clojure libnrepl-clojure`"
        )
        raise RecipeError(words, problem)
    sources = [str(workspace / name) for name in ("src", "test", "resources") if (workspace / name).is_dir()]
    flag = NREPL_FLAG.removeprefix("-J")
    command = (java, flag, "-cp", os.pathsep.join([*sources, *jars]), "clojure.main", "-m", "nrepl.cmdline")
    notes: tuple[str, ...] = ("Clojure and nREPL are those of Debian's packages",)
    if (workspace / "deps.edn").exists():
        notes = (*notes, "deps.edn is not read without the Clojure CLI: src, test and resources are on the classpath")
    return Recipe(command, _child_environ(environ), _port_file(workspace), SLOW_START_S, "clj", notes)


def _lein(words: str, workspace: Path, environ: Mapping[str, str]) -> Recipe:
    command = (_program(words, "lein", "leiningen.org", workspace, environ), "repl", ":headless")
    return Recipe(command, _child_environ(environ), _port_file(workspace), SLOW_START_S, "clj")


def _babashka(words: str, workspace: Path, environ: Mapping[str, str]) -> Recipe:
    # Port 0 lets babashka choose: its fixed default may be taken by another project.
    command = (_program(words, "bb", "babashka.org", workspace, environ), "nrepl-server", "127.0.0.1:0")
    return Recipe(command, _child_environ(environ), _port_file(workspace), START_S, "bb")


def _nbb(words: str, workspace: Path, environ: Mapping[str, str]) -> Recipe:
    program = _program(words, "nbb", "run `npm install nbb`", workspace, environ)
    return Recipe((program, "nrepl-server"), _child_environ(environ), _port_file(workspace), START_S, "nbb")


def _hy(words: str, workspace: Path, environ: Mapping[str, str]) -> Recipe:
    program = _beside_python("hy", workspace, environ)
    if program is None:
        raise RecipeError(words, "Hy is not installed; run `pip install hy hy-nrepl`")
    env = _child_environ(environ)
    # It starts `hy` again by its bare name, so its own folder must be in PATH.
    env["PATH"] = os.pathsep.join([str(Path(program).parent), env.get("PATH", os.defpath)])
    return Recipe((program, "-m", "hy_nrepl.server"), env, None, START_S, "hy")


def _shadow_cljs(words: str, workspace: Path, environ: Mapping[str, str]) -> Recipe:
    program = _program(words, "shadow-cljs", "run `npm install --save-dev shadow-cljs`", workspace, environ)
    port_file = workspace / ".shadow-cljs" / "nrepl.port"
    notes = ("the REPL starts in Clojure: evaluate (shadow/repl :BUILD) to enter a ClojureScript build",)
    return Recipe((program, "server"), _child_environ(environ), port_file, SLOW_START_S, "cljs", notes)


_KNOWN: Final[dict[str, Callable[[str, Path, Mapping[str, str]], Recipe]]] = {
    "python": _python,
    "lisp": _lisp,
    "basilisp": _basilisp,
    "clojure": _clojure,
    "clj": _clojure,
    "lein": _lein,
    "bb": _babashka,
    "nbb": _nbb,
    "hy": _hy,
    "shadow-cljs": _shadow_cljs,
}


def _program(words: str, name: str, install: str, workspace: Path, environ: Mapping[str, str]) -> str:
    if (found := _which(name, workspace, environ)) is None:
        how = install if install.startswith("run ") else f"see {install}"
        raise RecipeError(words, f"there is no {name!r} in PATH or node_modules; {how}")
    return found


def _which(name: str, workspace: Path, environ: Mapping[str, str]) -> str | None:
    """The program `name`: the project's own from `node_modules` first, then of `PATH`."""
    if "/" in name:
        path = workspace / name
        return str(path) if os.access(path, os.X_OK) else None
    folders = [str(workspace / "node_modules" / ".bin"), environ.get("PATH", os.defpath)]
    return shutil.which(name, path=os.pathsep.join(folders))


def _is_plain_launcher(program: str) -> bool:
    """Whether `clojure` is Debian's few lines around `java`, which knows no `-Sdeps`."""
    try:
        return b"-Sdeps" not in files.read_head(Path(program), Rules(Links.ANY, 100_000))
    except OSError:
        return True


def _debian_jars() -> list[str] | None:
    """The jars of Clojure and nREPL as Debian installs them; None when one is missing."""
    for folder in JAR_FOLDERS:
        jars = [folder / f"{name}.jar" for name in ("clojure", "spec.alpha", "core.specs.alpha", "nrepl")]
        if all(jar.exists() for jar in jars):
            return [str(jar) for jar in jars]
    return None


def _has_basilisp(python: str) -> bool:
    """Whether the interpreter has Basilisp, read from its folders: starting it to ask would cost time."""
    if python == sys.executable:
        return find_spec("basilisp") is not None
    root = Path(python).parent.parent
    return any(root.glob("lib/python3*/*-packages/basilisp/__init__.py"))


def _port_file(workspace: Path) -> Path:
    return workspace / ".nrepl-port"


def _child_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a REPL: with PYTHONDONTWRITEBYTECODE Basilisp would compile its core at every start."""
    return {name: value for name, value in environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
