"""How fast Lisp text is read, edited and balanced, on clojure/core.clj, with parinfer.js beside it in the same run.

Needs Debian's `clojure`; for the comparison node, and `npm install` in tests/node. Prints medians in milliseconds.
"""

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from functools import partial
from pathlib import Path

import anyio

from codriver.editing import Editor, Limits, Wanted
from codriver.lisp.balance import balance
from codriver.lisp.document import Document
from codriver.lisp.edit import Append, Rename, Replace, apply
from codriver.lisp.parinfer import indent_mode, paren_mode
from codriver.lisp.reader import check, read
from codriver.lisp.targeting import Target

JAR = Path("/usr/share/java/clojure.jar")
HERE = Path(__file__).parent
RUNS = 15
WORD = "(defn complement"
"""The first line of a form in the middle of the file."""
READ_GOAL_MS, EDIT_GOAL_MS = 150, 50


def median_ms(work, runs=RUNS, clock=time.perf_counter):
    """The median of some runs, after one to warm up."""
    work()
    taken = []
    for _ in range(runs):
        begin = clock()
        work()
        taken.append((clock() - begin) * 1000)
    return statistics.median(taken)


def cpu_ms(work):
    """The same in processor time, which a busy machine does not change."""
    return median_ms(work, 5, time.process_time)


class ParinferJs:
    """parinfer.js in a process of its own that times itself."""

    def __init__(self):
        command = ["node", str(HERE / "parinfer_timing.mjs")]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8")

    def median_ms(self, mode, text):
        self._process.stdin.write(json.dumps([mode, text, RUNS]) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self):
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(10)


def say(text):
    sys.stdout.write(text + "\n")


def row(name, took_ms, goal_ms=None):
    verdict = "" if goal_ms is None else f"   goal {goal_ms}: {'met' if took_ms < goal_ms else 'MISSED'}"
    say(f"{name:<52}{took_ms:9.2f} ms{verdict}")


def edits(text):
    """Name and edit, of one document each."""
    document = Document(text)
    line = next(n for n in range(1, document.places.count) if document.line_text(n).startswith(WORD))
    target = Target(line, document.line_text(line))
    return document, {
        "replace a form": Replace(target, "(defn complement [f]\n  (comp not f))"),
        "delete a form": Replace(target, ""),
        "append a form": Append("(def z 1)"),
        "rename a local in a form": Rename("f", "renamed-f", target),
        "rename a name in all of it": Rename("concat", "renamed-concat"),
    }


async def edit_file(text, workspace):
    """One edit through the editor, all of it: read the file, check, write it safely, make the diff."""
    editor = Editor(workspace)
    document, _ = edits(text)
    line = next(n for n in range(1, document.places.count) if document.line_text(n).startswith(WORD))
    taken = []
    for run in range(RUNS):
        wanted = [Wanted("core.clj", Replace(Target(line, document.line_text(line)), f"{WORD} [f] {run})"))]
        begin = time.perf_counter()
        await editor.edit("bench", wanted, limits=Limits(), allow_outside=False)
        taken.append((time.perf_counter() - begin) * 1000)
        await editor.undo("bench")
    return statistics.median(taken)


def main():
    with zipfile.ZipFile(JAR) as jar:
        text = jar.read("clojure/core.clj").decode()
    lines = text.count("\n")
    say(f"clojure/core.clj: {lines} lines, {len(text)} characters; medians of {RUNS} runs\n")
    row("read it", median_ms(partial(read, text)), READ_GOAL_MS)
    row("read it, and find all forms that can be edited", median_ms(lambda: Document(text).units_by_line), READ_GOAL_MS)
    row("check its brackets", median_ms(partial(check, text)))
    document, some = edits(text)
    document.units_by_line  # noqa: B018  # read, as after the first edit
    for name, edit in some.items():
        row(f"{name}, once it is read", median_ms(partial(apply, document, {0: edit})), EDIT_GOAL_MS)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "core.clj").write_text(text)
        row("edit it as a file: read, edit, write, diff", anyio.run(edit_file, text, Path(folder).resolve()))
    row("balance it", median_ms(partial(balance, text)))

    broken = text.replace(")\n\n(defn", "\n\n(defn")
    parts = {"core.clj": text, "core.clj, closers missing": broken}
    ours = {"indent": indent_mode, "paren": paren_mode}
    if shutil.which("node") and (HERE.parent / "node" / "node_modules" / "parinfer").exists():
        say("\nparinfer, in turn with parinfer.js")
        peer = ParinferJs()
        for name, part in parts.items():
            for mode, work in ours.items():
                theirs = [peer.median_ms(mode, part)]
                mine = median_ms(partial(work, part))
                theirs.append(peer.median_ms(mode, part))
                say(
                    f"{mode + ' mode, ' + name:<52}{mine:9.2f} ms   parinfer.js {min(theirs):6.2f} ms"
                    f"   ratio {mine / min(theirs):5.1f}"
                )
        peer.close()
    else:
        say("\nno node or no parinfer package: nothing to compare with")

    say("\nlinearity: processor time for a text so many times as long, over that for one, divided by how many")
    works = {"read": read, "indent mode": indent_mode, "paren mode": paren_mode, "balance": balance}
    part = text[: text.index("\n(defn", len(text) // 4) + 1]
    shapes = {"a quarter of core.clj": part, "a deep nest": "(a " * 5000 + ")" * 5000 + "\n"}
    for shape, unit in shapes.items():
        for name, work in works.items():
            single = cpu_ms(partial(work, unit))
            ratios = [f"{k}: {cpu_ms(partial(work, unit * k)) / single / k:.2f}" for k in (2, 4, 8)]
            say(f"{name + ', ' + shape:<40}{'   '.join(ratios)}")


if __name__ == "__main__":
    main()
