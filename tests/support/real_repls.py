"""Real REPL servers for tests: each started once a run, when it is first asked for, and ended with the run.

`repl(name)` gives the shared one; `fresh(name)` one of your own, for a test that breaks it. A server that is not
installed skips the test, and fails it on CI.
"""

import atexit
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import RawIOBase
from pathlib import Path

import pytest
from needs import NODE_MODULES, do_without, missing_node

from codriver.repls.contract.adapter_values import Endpoint
from codriver.repls.launch import recipes, watchdog
from codriver.repls.launch.processes import _read_address

START_S = 300

java = ["java", "-XX:TieredStopAtLevel=1"]
"""Half the processor at its start: what tests ask is over before a second compiler pays. Benchmarks set another one."""


@dataclass
class RealRepl:
    name: str
    endpoint: Endpoint
    process: subprocess.Popen
    folder: Path
    report: RawIOBase
    lines: list[str] = field(default_factory=list)

    @property
    def address(self):
        return str(self.endpoint)

    def is_running(self):
        return self.process.poll() is None

    def kill(self):
        """End it as a crash would."""
        os.killpg(self.process.pid, 9)
        self.process.wait(60)

    def stop(self):
        self.process.stdin.close()
        try:
            self.process.wait(60)
        finally:
            self.report.close()


def _free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def clojure(*arguments, paths=()):
    """A command of Clojure on the JVM with these on its class path too; a text that says what to install for it."""
    jars = recipes._debian_jars()
    if shutil.which("java") is None or jars is None:
        return "apt-get install default-jre-headless clojure libnrepl-clojure"
    return [*java, "-cp", os.pathsep.join([*jars, *map(str, paths)]), "clojure.main", *arguments]


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
    return command if isinstance(command, str) else [*command, str(_free_port())]


def _node(package, script):
    def command():
        if words := missing_node(package, script):
            return words
        return ["node", str(NODE_MODULES / package / script), "nrepl-server", ":port", str(_free_port())]

    return command


def _worker(dialect):
    def command():
        if not recipes.WORKER.exists():
            return "the embedded worker"
        return [sys.executable, str(recipes.WORKER), "--dialect", dialect, "--supervised"]

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
NAMES = tuple(COMMANDS)

_shared: dict[str, RealRepl] = {}


def missing(name):
    """What to install before `name` can run; None when it can."""
    command = COMMANDS[name]()
    return command if isinstance(command, str) else None


def need(name):
    """Go on where the REPL `name` is installed."""
    if words := missing(name):
        do_without(f"the REPL {name!r} is not installed: {words}")


def start(name):
    """A new server; the caller stops it."""
    need(name)
    command = COMMANDS[name]()
    folder = Path(tempfile.mkdtemp(prefix=f"repl-{name}-"))
    env = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    env["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), env["PATH"]])
    reading, writing = os.pipe()
    stdin = "shared" if "--supervised" in command else "empty"
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", watchdog.__file__, str(writing), stdin, *command],
        cwd=folder,
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        pass_fds=(writing,),
    )
    os.close(writing)
    # Kept open for as long as the watchdog may write to it: a closed pipe would end it.
    report = os.fdopen(reading, "rb", buffering=0)
    lines, found = [], threading.Event()
    endpoints = []

    def drain(stream):
        with stream:
            for raw in stream:
                line = raw.decode("utf-8", "replace").rstrip("\n")
                lines.append(line)
                if not endpoints and (endpoint := _read_address(line)):
                    endpoints.append(endpoint)
                    found.set()
        found.set()

    for stream in (process.stdout, process.stderr):
        threading.Thread(target=drain, args=(stream,), daemon=True).start()
    deadline = time.monotonic() + START_S
    while not endpoints and process.poll() is None and time.monotonic() < deadline:
        found.wait(0.1)
    if not endpoints:
        RealRepl(name, None, process, folder, report, lines).stop()
        pytest.fail(f"the REPL {name!r} did not start: {lines[-5:]}")
    return RealRepl(name, endpoints[0], process, folder, report, lines)


def repl(name):
    """The shared server `name`, started when first asked for."""
    running = _shared.get(name)
    if running is not None and running.process.poll() is not None:
        running.stop()
        running = None
    if running is None:
        running = _shared[name] = start(name)
    return running


@contextmanager
def fresh(name):
    """A server of one's own."""
    running = start(name)
    try:
        yield running
    finally:
        running.stop()
        shutil.rmtree(running.folder, ignore_errors=True)


@atexit.register
def _stop_all():
    for running in _shared.values():
        running.stop()
        shutil.rmtree(running.folder, ignore_errors=True)
