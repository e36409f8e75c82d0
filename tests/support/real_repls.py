"""Real REPL servers, each started on first use and ended with the run.

`repl(name)` returns one that modules share, one after the other, `fresh(name)` a separate one, for a test that
breaks it. A server that is not installed skips the test, and fails it on CI.
"""

import os
import shlex
import shutil
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import compilation_cache
import pytest
from lent_servers import POLL_S, Watched, borrow, new_directory
from needs import NODE_MODULES, do_without, missing_node
from ports import closed_port

from codriver.repls.contract.endpoints import Endpoint
from codriver.repls.launch import recipes
from codriver.repls.launch.processes import _read_address

START_S = 300
NOT_THEIRS = ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED")
"""Variables from whoever runs the tests, without which a server must work."""

SHORT_LIVED = "-XX:TieredStopAtLevel=1"
java = [shutil.which("java") or "java", SHORT_LIVED]
"""Halves the start's processor time, as tests end before a second compiler pays off. Benchmarks set another command."""
node = [shutil.which("node") or "node", "--no-opt"]
"""Saves two thirds of the time that nbb takes to load the seam, for the same reason."""


@dataclass
class RealRepl:
    name: str
    endpoint: Endpoint
    watched: Watched

    @property
    def address(self):
        return str(self.endpoint)

    @property
    def folder(self):
        return self.watched.folder

    @property
    def lines(self):
        """Return everything that it wrote to stdout and stderr."""
        return self.watched.output.splitlines()

    def is_running(self):
        return self.watched.is_running()

    def kill(self):
        """End it as a crash would."""
        self.watched.kill()

    def stop(self):
        self.watched.stop()


def clojure(*arguments, paths=()):
    """Return a command of Clojure on the JVM with these on its class path too, or a text that says what to install
    for it.
    """
    jars = recipes._debian_jars()
    if shutil.which("java") is None or jars is None:
        return "apt-get install default-jre-headless clojure libnrepl-clojure"
    return [*java, "-cp", os.pathsep.join([*jars, *map(str, paths)]), "clojure.main", *arguments]


def compiled(command):
    """Return a Clojure command of the tests with compiled nREPL; other commands unchanged."""
    if SHORT_LIVED not in command or recipes._debian_jars() is None:
        return command
    jars = recipes._debian_jars()
    at = command.index("-cp") + 1
    paths = command[at].split(os.pathsep)
    if paths[: len(jars)] != jars:
        return command
    program, jars = compilation_cache.nrepl(command[: at - 1], jars)
    return [*program, "-cp", os.pathsep.join([*jars, *paths[len(jars) :]]), *command[at + 1 :]]


RECIPES = {
    "java": """#!/bin/sh
for word do
    shift
    case $word in
        {jars}) word={compiled} ;;
        *:{jars}) word={compiled}:${{word%:{jars}}} ;;
    esac
    set -- "$@" "$word"
done
exec {program} "$@"
""",
    "node": """#!/bin/sh
exec {program} "$@"
""",
}


@contextmanager
def short_lived_recipes():
    """Let recipes start programs as the tests' own REPLs are started, which is faster, for the duration of the context.

    A directory at the front of `PATH` has a `java` that uses the compiled nREPL instead of Debian's, and a `node`
    that compiles less.
    """
    folder, jars = new_directory("recipes"), recipes._debian_jars()
    programs = {"node": (node, ())}
    if jars is not None and shutil.which("java"):
        programs["java"] = compilation_cache.nrepl(java, jars)
    for name, (words, taken) in programs.items():
        if found := shutil.which(name):
            program = shlex.join([found, *words[1:]])
            script = RECIPES[name].format(
                program=program, jars=os.pathsep.join(jars or ()), compiled=os.pathsep.join(taken)
            )
            (folder / name).write_text(script)
            (folder / name).chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", os.pathsep.join([str(folder), os.environ["PATH"]]))
        yield


def _jvm():
    return clojure("-m", "nrepl.cmdline")


def _tools_nrepl():
    jars = recipes._debian_jars()
    jar = Path("/usr/share/java/tools.nrepl.jar")
    if shutil.which("java") is None or jars is None or not jar.exists():
        return "apt-get install default-jre-headless clojure libtools-nrepl-clojure"
    start = """
        (require '[clojure.tools.nrepl.server :as nrepl])
        (println (str "nREPL server started on port " (:port (nrepl/start-server :bind "127.0.0.1" :port 0))))
        @(promise)"""
    return [*java, "-cp", os.pathsep.join([*jars[:-1], str(jar)]), "clojure.main", "-e", start]


def _leiningen():
    repository = "/usr/share/maven-repo"
    if shutil.which("lein") is None or not Path(repository, "nrepl").exists():
        return "apt-get install leiningen"
    # What Leiningen needs is taken from Debian's packages; it looks for nothing elsewhere.
    debian = ["update-in", ":", "assoc", ":local-repo", f'"{repository}"', "--"]
    return ["env", f"LEIN_HOME={tempfile.gettempdir()}/lein-home", "lein", "-o", *debian, "repl", ":headless"]


def _script(name, *arguments):
    def command():
        program = Path(sys.executable).parent / name
        return [str(program), *arguments] if program.exists() else "pip install 'codriver[dev]'"

    return command


def _hy():
    command = _script("hy", "-m", "hy_nrepl.server")()
    return command if isinstance(command, str) else [*command, str(closed_port())]


def _node(package, script):
    def command():
        if words := missing_node(package, script):
            return words
        return [*node, str(NODE_MODULES / package / script), "nrepl-server", ":port", str(closed_port())]

    return command


def _worker(dialect):
    def command():
        if not recipes.WORKER_PROGRAM.exists():
            return "the embedded worker"
        return [sys.executable, str(recipes.WORKER_PROGRAM), "--dialect", dialect, "--supervised"]

    return command


COMMANDS = {
    "python": _worker("python"),
    "lisp": _worker("lisp"),
    "jvm": _jvm,
    "leiningen": _leiningen,
    "tools.nrepl": _tools_nrepl,
    "basilisp": _script("basilisp", "nrepl-server"),
    "hy": _hy,
    "nbb": _node("nbb", "cli.js"),
    "squint": _node("squint-cljs", "node_cli.js"),
}
UNKNOWN = "squint"
"""A server of a dialect that Codriver does not know: it evaluates, and no contract asks more of it."""
NAMES = tuple(name for name in COMMANDS if name != UNKNOWN)


def missing(name):
    """Return what to install before `name` can run; None if nothing is missing."""
    command = COMMANDS[name]()
    return command if isinstance(command, str) else None


def need(name):
    """Continue if the REPL `name` is installed."""
    if words := missing(name):
        do_without(f"the REPL {name!r} is not installed: {words}")


def start(name):
    """Start a new server; the caller stops it."""
    need(name)
    command = compiled(COMMANDS[name]())
    env = {key: value for key, value in os.environ.items() if key not in NOT_THEIRS}
    env["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), env["PATH"]])
    stdin = "shared" if "--supervised" in command else "empty"
    watched = Watched.start(new_directory(name), command, env, stdin=stdin)
    deadline = time.monotonic() + START_S
    while (endpoint := _printed_address(watched)) is None and watched.is_running() and time.monotonic() < deadline:
        time.sleep(POLL_S)
    if endpoint is None:
        text = watched.output.splitlines()[-5:]
        watched.stop()
        pytest.fail(f"the REPL {name!r} did not start: {text}")
    return RealRepl(name, endpoint, watched)


def _printed_address(watched):
    """Return the address that a server prints when it listens."""
    return next(filter(None, map(_read_address, watched.output.splitlines())), None)


def repl(name):
    """Return the shared server `name` while no other module uses it."""

    def find(folder):
        watched = Watched(folder)
        return RealRepl(name, _printed_address(watched), watched)

    return borrow(name, lambda: start(name), find)


@contextmanager
def fresh(name):
    """Start a server for one test."""
    running = start(name)
    try:
        yield running
    finally:
        running.stop()
