"""Export fifty sessions in Python, Basilisp and Clojure. All pass in a new process, and fail after a change.

Run with `python tests/bench/run.py export`. It needs the JVM nREPL and the Basilisp that the tests use.
"""

import sys
import tempfile
import time
from pathlib import Path

from real_repls import missing
from report import main

sys.path.insert(0, str(Path(__file__).parents[1] / "features" / "export"))

import test_exported_sessions

TITLE = "fifty sessions exported, run again, and run with a definition changed"


def measure(report):
    for name in test_exported_sessions.SHARED.values():
        if why := missing(name):
            report.skip(TITLE, why)
            return
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        tests, share = test_exported_sessions.check_all(Path(folder))
    report.fact(TITLE, "tests in Python", tests, "tests")
    report.fact(TITLE, "of their steps reproduce", 100 * share, "%")
    report.fact(TITLE, "with both Lisps", time.perf_counter() - began, "s")


if __name__ == "__main__":
    main(measure)
