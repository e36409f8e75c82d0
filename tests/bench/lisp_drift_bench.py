"""What it costs to compare 200 loaded Lisp namespaces with their files: nothing changed, one file edited.

Milliseconds, the median of 50 times, of a real server and of a JVM with 2,000 definitions: what a client waits for, and
the comparison alone. `python tests/bench/lisp_drift_bench.py [NAMESPACES] [DEFINITIONS]`
"""

import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from live_server import serving, until
from real_repls import repl
from report import median_ms

TIMES = 50


def project(folder, namespaces, definitions):
    """The files of a project: functions and values in equal parts, spread over its namespaces."""
    files = []
    for number in range(namespaces):
        lines = [f"(ns bench.n{number})"]
        for one in range(definitions // namespaces // 2):
            lines += [f"(defn function-{one} [first second]\n  (map (fn [x] (* x {one} first)) (range second)))"]
            lines += [f"(def value-{one} {{:one {one} :two [{one} {one}]}})"]
        files.append(folder / f"n{number}.clj")
        files[-1].write_text("\n".join(lines))
    return files


def main(namespaces=200, definitions=2000):
    with tempfile.TemporaryDirectory() as name:
        options = ("--nrepl", f"x={repl('jvm').endpoint}", "--repl", "none")
        with serving(Path(name), *options) as live, live.client() as client:
            until(lambda: "what_changed" in client.tools(), "the REPL's tools")
            files = project(live.workspace, namespaces, definitions)
            for file in files:
                client.call("evaluate_code", code=file.read_text().partition("\n")[0])
            code = "\n".join(f'(load-file "{file}")' for file in files)
            time.sleep(0.1)
            client.call("evaluate_code", code=code, timeoutMs=600_000)
            began = time.perf_counter()
            assert client.call("what_changed")["differences"] == []
            first = (time.perf_counter() - began) * 1000
            nothing = median_ms(TIMES, lambda: client.call("what_changed"))
            files[7].write_text(files[7].read_text().replace("(* x 3", "(* x 33"))
            assert client.call("what_changed")["count"] == 1
            one = median_ms(TIMES, lambda: client.call("what_changed"))
            known = median_ms(TIMES, lambda: client.call("evaluate_code", code="1"))
    sys.stdout.write(
        f"{namespaces} files, {definitions} definitions: first {first:.1f} ms, nothing changed {nothing:.1f}, "
        f"one file edited {one:.1f}; an evaluation {known:.1f}\n"
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
