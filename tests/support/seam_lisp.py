"""A Clojure and an nbb of their own, with the application `shop` and its seam, and questions to that."""

import json
import os
import queue
import shutil
import subprocess
import tempfile
import threading
from functools import cache
from pathlib import Path

import compiled_once
import needs
from real_repls import clojure, compiled, node

ROOT = Path(__file__).parents[2]
SEAM = ROOT / "server" / "codriver_seam" / "clojure"
APP = ROOT / "tests" / "seam" / "clojure"
NBB = ROOT / "tests" / "node" / "node_modules" / "nbb" / "cli.js"


COMPILE = '(binding [*compile-path* "."] (compile (quote codriver.seam))) (System/exit 0)'


@cache
def compiled_seam():
    """A folder with the seam for Clojure as classes, which a JVM loads in a tenth of the time; None where none can be.

    It is kept in the environment of the tests, for as long as the seam and Clojure are the same.
    """
    command = clojure("-e", COMPILE, paths=(".", SEAM))
    if isinstance(command, str):
        return None
    command = compiled(command)

    def make(folder):
        made = Path(tempfile.mkdtemp(dir=folder.parent))
        subprocess.run(command, cwd=made, check=True, capture_output=True)
        shutil.copytree(SEAM, made, dirs_exist_ok=True)  # with its times: classes are taken that are not older
        made.rename(folder)

    return compiled_once.kept("seam", (command, (SEAM / "codriver" / "seam.cljc").read_text()), make)


def edn(value):
    """A value of JSON as EDN, with keywords for keys."""
    if isinstance(value, dict):
        return "{" + " ".join(f":{key} {edn(part)}" for key, part in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + " ".join(map(edn, value)) + "]"
    return "nil" if value is None else json.dumps(value)


class Lisp:
    """One process that evaluates what it is told, a line each."""

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
        """The value of code, as it prints itself."""
        self._process.stdin.write(" ".join(code.split("\n")) + "\n")
        self._process.stdin.flush()
        answer = self._answers.get(timeout=240)
        assert answer[0] == "=", answer
        return answer[1:].rstrip("\n")

    def call(self, name, arguments, origin=None):
        """The answer of the seam, as its text."""
        code = f"(seam/call {json.dumps(name)} {json.dumps(edn(arguments))} {json.dumps(edn(origin))})"
        # A text prints itself in EDN as JSON has it, but for control characters.
        return json.loads(self.run(code), strict=False)

    def ask(self, name, origin=None, **arguments):
        """The answer of the seam."""
        return json.loads(self.call(name, arguments, origin))

    def refused(self, name, reason, **arguments):
        """The answer of the seam, which refuses for that reason."""
        answer = self.ask(name, **arguments)
        assert (answer["ok"], answer["reason"]) == (False, reason), answer
        assert answer["hint"]
        return answer

    def state(self):
        """The state of the shop."""
        return self.run("@shop/db")

    def frame(self, stream):
        """The next frame of a stream; what is still under way from others before is passed over."""
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
    """A process of that dialect in which the shop is open."""
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
