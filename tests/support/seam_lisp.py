"""Separate Clojure and nbb processes with the application `shop` and its seam, and queries to it."""

import json
import os
import queue
import shutil
import subprocess
import tempfile
import threading
from functools import cache
from pathlib import Path

import compilation_cache
import needs
from real_repls import clojure, compiled, node

ROOT = Path(__file__).parents[2]
SEAM = ROOT / "server" / "codriver_seam" / "clojure"
APP = ROOT / "tests" / "seam" / "clojure"
NBB = ROOT / "tests" / "node" / "node_modules" / "nbb" / "cli.js"


COMPILE = '(binding [*compile-path* "."] (compile (quote codriver.seam))) (System/exit 0)'


@cache
def compiled_seam():
    """Return a directory with the Clojure seam as classes, which a JVM loads ten times faster; None if there can be
    none.

    It is cached in the tests' environment for as long as the seam and Clojure stay the same.
    """
    command = clojure("-e", COMPILE, paths=(".", SEAM))
    if isinstance(command, str):
        return None
    command = compiled(command)

    def make(folder):
        made = Path(tempfile.mkdtemp(dir=folder.parent))
        subprocess.run(command, cwd=made, check=True, capture_output=True)
        shutil.copytree(SEAM, made, dirs_exist_ok=True)  # with its times, because classes that are not older are used
        made.rename(folder)

    return compilation_cache.cached_directory("seam", (command, (SEAM / "codriver" / "seam.cljc").read_text()), make)


def edn(value):
    """Return a JSON value as EDN, with keywords as keys."""
    if isinstance(value, dict):
        return "{" + " ".join(f":{key} {edn(part)}" for key, part in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + " ".join(map(edn, value)) + "]"
    return "nil" if value is None else json.dumps(value)


class Lisp:
    """One process that evaluates code, one line at a time."""

    def __init__(self, dialect, command):
        self.dialect = dialect
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
        )
        self._answers = queue.Queue()
        self.frames = queue.Queue()
        self.printed = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self):
        for line in self._process.stdout:
            if line[0] == "\x1e":
                self.frames.put(json.loads(line[1:]))
            elif line[0] in "=!":
                self._answers.put(line)
            else:
                self.printed.append(line)
        self._answers.put(f"!it ended: {''.join(self.printed)}")

    def run(self, code):
        """Return the printed value of code."""
        self._process.stdin.write(" ".join(code.split("\n")) + "\n")
        self._process.stdin.flush()
        answer = self._answers.get(timeout=240)
        assert answer[0] == "=", answer
        return answer[1:].rstrip("\n")

    def call(self, name, arguments, origin=None):
        """Return the answer from the seam as text."""
        code = f"(seam/call {json.dumps(name)} {json.dumps(edn(arguments))} {json.dumps(edn(origin))})"
        # A string has the same form in EDN as in JSON, except for control characters.
        return json.loads(self.run(code), strict=False)

    def query(self, name, origin=None, **arguments):
        """Return the answer from the seam."""
        return json.loads(self.call(name, arguments, origin))

    def refused(self, name, reason, **arguments):
        """Return the refusal from the seam, which must have this reason."""
        answer = self.query(name, **arguments)
        assert (answer["ok"], answer["reason"]) == (False, reason), answer
        assert answer["hint"]
        return answer

    def state(self):
        """Return the state of the shop."""
        return self.run("@shop/db")

    def frame(self, stream):
        """Return the next frame of a stream; frames of earlier streams are skipped."""
        while True:
            frame = self.frames.get(timeout=120)
            if frame["sub"] == stream:
                return frame

    def close(self):
        """End the process."""
        self._process.stdin.close()
        try:
            self._process.wait(30)
        finally:
            self._process.kill()
            self._reader.join()
            self._process.stdout.close()


def started(dialect):
    """Start a process of that dialect with the shop loaded."""
    if dialect == "jvm":
        command = clojure("-m", "driver", paths=(compiled_seam() or SEAM, APP))
        if isinstance(command, str):
            needs.do_without(command)
        command = compiled(command)
    else:
        needs.node("nbb", "cli.js")
        command = [*node, str(NBB), "-cp", os.pathsep.join(map(str, (SEAM, APP))), str(APP / "driver.cljc")]
    lisp = Lisp(dialect, command)
    lisp.run("(require '[codriver.seam :as seam] '[shop])")
    return lisp
