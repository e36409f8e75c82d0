"""Measure reading, editing and balancing of Lisp text with clojure/core.clj, and compare with parinfer.js.

Needs Debian's `clojure`. The comparison needs node, and `npm install` in tests/node.
"""

import json
import shutil
import statistics
import subprocess
import tempfile
import time
import zipfile
from functools import partial
from pathlib import Path

import anyio
from report import main

from codriver.editing import Editor, EditRequest, SearchLimits
from codriver_lisp.edit import Append, Replace, apply_edits
from codriver_lisp.edit_targets import Target
from codriver_lisp.parinfer import balance_by_indentation, indent_mode
from codriver_lisp.reader import check_balance, read_forms
from codriver_lisp.source_text import Document

JAR = Path("/usr/share/java/clojure.jar")
HERE = Path(__file__).parent
RUNS = 15
WORD = "(defn complement"
"""The first line of a form in the middle of the file."""
READ_GOAL_MS, EDIT_GOAL_MS = 150, 50
LINEAR = 1.3
"""Factor by which a text may take longer because it does not fit in the processor's caches."""
HELD = 500_000
"""Number of nested containers, as in a large program, which the garbage collector visits repeatedly."""


def median_ms(work):
    """Return the median of several runs, after one to warm up."""
    work()
    taken = []
    for _ in range(RUNS):
        begin = time.perf_counter()
        work()
        taken.append((time.perf_counter() - begin) * 1000)
    return statistics.median(taken)


def growth(work, text):
    """Return how much more processor time a text 8 times as long takes, relative to handling a text 8 times.

    Returns the median of several rounds, after one to warm up. Both are measured in each round, because other load on
    the machine increases processor time as well.
    """
    ratios = []
    for _ in range(6):
        begin = time.process_time()
        work(text * 8)
        between = time.process_time()
        for _ in range(8):
            work(text)
        ratios.append((between - begin) / (time.process_time() - between))
    return statistics.median(ratios[1:])


class ParinferJs:
    """parinfer.js in a process of its own that times itself."""

    def __init__(self):
        command = ["node", str(HERE / "parinfer_timing.mjs")]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8")

    def median_ms(self, text):
        self._process.stdin.write(json.dumps([text, RUNS]) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self):
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(10)


def edits(text):
    """Return the document of a text, and edits of it by name."""
    document = Document(text)
    line = next(n for n in range(1, document.positions.count) if document.line_text(n).startswith(WORD))
    target = Target(line, document.line_text(line))
    return document, {
        "replace a form": Replace(target, "(defn complement [f]\n  (comp not f))"),
        "delete a form": Replace(target, ""),
        "append a form": Append("(def z 1)"),
    }


async def edit_file(text, workspace):
    """Apply one edit with the editor: read the file, check it, write it safely, and make the diff."""
    editor = Editor(workspace)
    document, _ = edits(text)
    line = next(n for n in range(1, document.positions.count) if document.line_text(n).startswith(WORD))
    taken = []
    for run in range(RUNS):
        expected = [EditRequest("core.clj", Replace(Target(line, document.line_text(line)), f"{WORD} [f] {run})"))]
        begin = time.perf_counter()
        await editor.edit("bench", expected, limits=SearchLimits(), allow_outside=False)
        taken.append((time.perf_counter() - begin) * 1000)
        await editor.undo("bench")
    return statistics.median(taken)


def measure_editing(report, text):
    lines = text.count("\n")
    title = f"clojure/core.clj, {lines} lines"
    whole = [
        ("read it", partial(read_forms, text)),
        ("read it, and find all forms that can be edited", lambda: Document(text).units_by_line),
    ]
    for name, work in whole:
        report.fact(title, name, median_ms(work), "ms", at_most=READ_GOAL_MS)
    report.fact(title, "check its brackets", median_ms(partial(check_balance, text)), "ms")
    report.fact(title, "balance it", median_ms(partial(balance_by_indentation, text)), "ms")
    document, some = edits(text)
    document.units_by_line  # noqa: B018  # read, as after the first edit
    for name, edit in some.items():
        took = median_ms(partial(apply_edits, document, {0: edit}))
        report.fact(title, f"{name}, once it is read", took, "ms", at_most=EDIT_GOAL_MS)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "core.clj").write_text(text)
        took = anyio.run(edit_file, text, Path(folder).resolve())
        report.fact(title, "edit it as a file: read, edit, write, diff", took, "ms")


def measure_parinfer(report, text):
    if not (shutil.which("node") and (HERE.parent / "node" / "node_modules" / "parinfer").exists()):
        report.skip("parinfer.js", "it needs node, and `npm install` in tests/node")
        return
    broken = text.replace(")\n\n(defn", "\n\n(defn")
    parts = {"core.clj": text, "core.clj, closers missing": broken}
    peer = ParinferJs()
    for name, part in parts.items():
        theirs = [peer.median_ms(part)]
        mine = median_ms(partial(indent_mode, part))
        theirs.append(peer.median_ms(part))
        report.table(
            f"indent mode, {name}", "ms", {"parinfer.js": theirs, "codriver": [mine]},
            base="parinfer.js", at_most={"codriver": 20},
        )  # fmt: skip
    peer.close()


def measure_growth(report, text):
    title = "processor time for a text 8 times as long, over that for one, divided by 8"
    works = {"read": read_forms, "indent mode": indent_mode, "balance": balance_by_indentation}
    part = text[: text.index("\n(defn", len(text) // 4) + 1]
    shapes = {"a quarter of core.clj": part, "a deep nest": "(a " * 5000 + ")" * 5000 + "\n"}
    for shape, unit in shapes.items():
        for name, work in works.items():
            report.fact(title, f"{name}, {shape}", growth(work, unit), "x", at_most=LINEAR)
    retained = [{number: [number]} for number in range(HELD)]
    title += f", in a process that holds {2 * len(retained)} other containers"
    for name, work in (works | {"read, and find all forms": lambda text: Document(text).units_by_line}).items():
        report.fact(title, f"{name}, core.clj", growth(work, text), "x", at_most=LINEAR)


def measure(report):
    if not JAR.exists():
        report.skip("Lisp text", "it is measured on the sources in Debian's package `clojure`")
        return
    with zipfile.ZipFile(JAR) as jar:
        text = jar.read("clojure/core.clj").decode()
    measure_editing(report, text)
    measure_parinfer(report, text)
    measure_growth(report, text)


if __name__ == "__main__":
    main(measure)
