"""Compile what a test run loads, in one process only, if it is not compiled yet.

On a fresh checkout each process of a run would compile all tests at the same time, which takes about ten seconds of
processor time, and each of the first Lisp REPLs would compile Basilisp's core, about fifteen seconds. Each JVM would
compile nREPL, which Debian packages only as source: more than one second of the 1.5 that it needs to start.
"""

import contextlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from functools import partial
from pathlib import Path
from zlib import crc32

import lent_servers

TESTS = Path(__file__).parents[1]
POLL_S = 0.1
BASILISP = """
import importlib
import basilisp.main
basilisp.main.init()
for name in ("core", "contrib.nrepl_server", "io", "repl", "string", "test", "walk"):
    importlib.import_module("basilisp." + name)
"""


@contextlib.contextmanager
def one_collects_first():
    """Let one process of the run collect the tests first if they are not compiled; the others follow at once."""
    folder = lent_servers.run_directory()
    collected = folder / "collected"
    with (folder / "collects").open("wb") as turn:
        while not (is_done := collected.exists() or _are_tests_compiled()) and not lent_servers.locked(turn.fileno()):
            time.sleep(POLL_S)
        if is_done:
            turn.close()
        yield
        collected.touch()


def _are_tests_compiled():
    """Return whether pytest has cached the compiled tests that come last; true if it may not cache any."""
    return sys.dont_write_bytecode or any(TESTS.glob("wire/__pycache__/test_zmtp.*-pytest-*.pyc"))


def basilisp():
    """Start a process that compiles Basilisp; return None if it is compiled already or not installed."""
    found = importlib.util.find_spec("basilisp")
    core = found and Path(importlib.util.cache_from_source(Path(found.origin).with_name("core.lpy")))
    if core is None or core.with_suffix(".lpyc").exists():
        return None
    cached_directory = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environ = cached_directory | {"BASILISP_EMIT_GENERATED_PYTHON": "false"}
    return subprocess.Popen([sys.executable, "-c", BASILISP], env=environ, stderr=subprocess.DEVNULL)


def cached_directory(name, of, make):
    """Return a directory that is cached in the tests' environment, or None if nothing can be cached.

    It is valid as long as `repr(of)` stays the same. One process creates it by calling `make` with its path, and the
    others wait until it is complete.
    """
    folder = Path(sys.prefix, "share", f"{name}-of-tests-{crc32(repr(of).encode()):08x}")
    if folder.exists():
        return folder
    if not os.access(sys.prefix, os.W_OK):
        return None
    folder.parent.mkdir(exist_ok=True)
    with folder.with_suffix(".lock").open("wb") as turn:
        while not folder.exists() and not lent_servers.locked(turn.fileno()):
            time.sleep(POLL_S)
        if not folder.exists():
            make(folder)
    return folder


NREPL = '(binding [*compile-path* "classes"] (compile \'nrepl.cmdline))'
LOADED = "(require 'nrepl.cmdline 'clojure.test 'clojure.repl 'clojure.pprint) (System/exit 0)"
QUIET = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")
"""Suppresses the warning from a JVM that cannot use the archive because of other classes on its path."""


def nrepl(java, jars):
    """Return the command that starts a JVM, and the jars of Clojure, of which the last is nREPL, compiled and archived.

    They are cached in the tests' environment for as long as Java and the jars stay the same.
    """
    program = os.path.realpath(shutil.which(java[0]))
    stamps = [(path, Path(path).stat().st_size, Path(path).stat().st_mtime_ns) for path in (program, *jars)]
    folder = cached_directory("nrepl", (java, stamps), partial(_compile_nrepl, java, jars))
    if folder is None:
        return java, jars
    archive = folder / "loaded.jsa"
    archived = [f"-XX:SharedArchiveFile={archive}", *QUIET] if archive.exists() else []
    return [*java, *archived], [*jars[:-1], str(folder / "nrepl.jar")]


def _compile_nrepl(java, jars, folder):
    """Create that directory, which appears when it is complete. A JVM that cannot create an archive does without
    one.
    """

    def run(code, *options, paths):
        command = [*java, *options, "-cp", os.pathsep.join(paths), "clojure.main", "-e", code]
        subprocess.run(command, cwd=made, check=True, capture_output=True)

    made = Path(tempfile.mkdtemp(dir=folder.parent))
    (made / "classes").mkdir()
    run(NREPL, paths=["classes", *jars])
    with zipfile.ZipFile(jars[-1]) as sources, zipfile.ZipFile(made / "nrepl.jar", "w") as jar:
        for name in sources.namelist():
            jar.writestr(zipfile.ZipInfo(name), sources.read(name))  # older than the classes, so the classes are used
        for path in sorted(made.glob("classes/**/*.class")):
            if (name := path.relative_to(made / "classes").as_posix()) not in sources.namelist():
                jar.write(path, name)
    shutil.rmtree(made / "classes")
    made.rename(folder)
    made = folder
    with contextlib.suppress(subprocess.CalledProcessError):
        run(LOADED, "-XX:ArchiveClassesAtExit=made.jsa", *QUIET, paths=[*jars[:-1], str(folder / "nrepl.jar")])
        (folder / "made.jsa").rename(folder / "loaded.jsa")
