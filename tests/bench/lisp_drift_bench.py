"""Measure the comparison of 200 loaded Lisp namespaces with their files: unchanged, and with one edited file.

Measures how long a client of a real server with a JVM and 2,000 definitions waits, compared with an evaluation. Run
with `python tests/bench/lisp_drift_bench.py [NAMESPACES] [DEFINITIONS]`. It needs the JVM nREPL that the tests use.
"""

import sys
import tempfile
import time
from pathlib import Path

from live_server import serving, until
from real_repls import missing, repl
from report import Report, in_turns, timed_ms

UNCHANGED = "nothing changed"


def project(folder, namespaces, definitions):
    """Return the files of a project, with functions and values spread evenly over its namespaces."""
    files = []
    for number in range(namespaces):
        lines = [f"(ns bench.n{number})"]
        for item in range(definitions // namespaces // 2):
            lines += [f"(defn function-{item} [first second]\n  (map (fn [x] (* x {item} first)) (range second)))"]
            lines += [f"(def value-{item} {{:one {item} :two [{item} {item}]}})"]
        files.append(folder / f"n{number}.clj")
        files[-1].write_text("\n".join(lines))
    return files


def load(client, files):
    """Load the files, whose namespaces the server has seen, in one evaluation."""
    for file in files:
        client.call("evaluate_code", code=file.read_text().partition("\n")[0])
    code = "\n".join(f'(load-file "{file}")' for file in files)
    time.sleep(0.1)
    client.call("evaluate_code", code=code, timeoutMs=600_000)


def times(client, files, rounds):
    """Return the milliseconds of each way, by name."""

    def what_changed():
        return client.call("what_changed")

    samples = {"the first time": [timed_ms(what_changed)]}
    assert what_changed()["differences"] == []
    samples |= in_turns(
        {UNCHANGED: what_changed, "an evaluation": lambda: client.call("evaluate_code", code="1")}, rounds
    )
    files[7].write_text(files[7].read_text().replace("(* x 3", "(* x 33"))
    assert what_changed()["count"] == 1
    return samples | in_turns({"one file edited": what_changed}, rounds)


def measure(report, namespaces=200, definitions=2000):
    title = f"compare {namespaces} Clojure files, {definitions} definitions, with what is loaded"
    if why := missing("jvm"):
        report.skip(title, why)
        return
    options = ("--nrepl", f"x={repl('jvm').endpoint}", "--repl", "none")
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(Path(folder), *options) as live,
        live.client() as client,
    ):
        until(lambda: "what_changed" in client.tools(), "the REPL's tools")
        files = project(live.workspace, namespaces, definitions)
        load(client, files)
        samples = times(client, files, report.rounds(50))
    report.table(title, "ms", samples, base=UNCHANGED)


if __name__ == "__main__":
    measure(Report(), *map(int, sys.argv[1:]))
