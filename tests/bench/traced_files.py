"""Compare the cost of recording calls and changed lines of whole test files with cProfile, coverage.py and a debugger.

`python tests/bench/traced_files.py LIBRARY TESTS... [--changed FILE] [--python PYTHON] [--rounds N]`: LIBRARY is the
unpacked source of a library that includes its tests, TESTS are files or directories in it, FILE is the one whose lines
have all changed (`all` for every file), and PYTHON is an interpreter with pytest, coverage.py and the requirements of
the library. The processor time of a REPL is measured in turns. `--no-debugger` omits the debugger that never stops,
which takes long.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

from report import Report
from worker_client import Repl, texts

from codriver.repls.dialects import WORKER_PYTHON

PLAIN = "plainly"
ALL = "all"
AROUND = """
import bdb, cProfile, os

class Steps(bdb.Bdb):
    def user_line(self, frame):
        del frame

def covered(act, core):
    os.environ["COVERAGE_CORE"] = core
    import coverage
    lines = coverage.Coverage(source=[os.getcwd()], data_file=None)
    lines.start()
    try:
        return act()
    finally:
        lines.stop()

def used_ms():
    return sum(os.times()[:4]) * 1000
"""
GIT = ["git", "-c", "user.name=bench", "-c", "user.email=bench@localhost"]


def committed(library, folder, changed):
    """Copy a library into a repository in which all files except the changed ones are committed."""
    shutil.copytree(library, folder)
    rest = [] if changed == ALL else [["add", "."], ["rm", "-q", "--cached", changed]]
    for words in (["init", "-q"], *rest, ["commit", "-q", "--allow-empty", "-m", "the rest"]):
        subprocess.run([*GIT, *words], cwd=folder, check=True)


class Tests:
    """Test files that run in a REPL in several ways."""

    def __init__(self, repl, names):
        self.repl = repl
        self.codes = [
            WORKER_PYTHON.program_code("test", ns=name, name="", match="", words=[], only=(), root=str(repl.folder))
            for name in names
        ]

    def used_ms(self):
        (value,) = texts(self.repl.evaluate("used_ms()"), "value")
        return float(value)

    def run(self, around="{}", **fields):
        """Return the processor time for all files, with their code evaluated within other code or with these fields."""
        before = self.used_ms()
        for code in self.codes:
            answer = self.repl.evaluate(around.format(f"({code})"), **fields)
            assert not texts(answer, "ex"), texts(answer, "err")
        return self.used_ms() - before


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", type=Path)
    parser.add_argument("tests", nargs="+")
    parser.add_argument("--changed", default="setup.py")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--no-debugger", action="store_true")
    options = parser.parse_args()
    report = Report()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "workspace"
        committed(options.library, folder, options.changed)
        with closing(Repl(folder, python=options.python)) as repl, repl.fresh_session():
            repl.evaluate(AROUND)
            (version,) = texts(repl.evaluate("__import__('sys').version.split()[0]"), "value")
            tests = Tests(repl, options.tests)
            ways = {
                PLAIN: tests.run,
                "calls recorded (trace)": lambda: tests.run(**{"codriver/trace": []}),
                "changed lines noted (coverage)": lambda: tests.run(**{"codriver/cover": 1}),
                "cProfile": lambda: tests.run("cProfile.Profile().runcall(lambda: {})"),
                "coverage.py": lambda: tests.run("covered(lambda: {}, 'ctrace')"),
                "coverage.py, sysmon": lambda: tests.run("covered(lambda: {}, 'sysmon')"),
                "bdb, every line": lambda: tests.run("Steps().runcall(lambda: {})"),
            }
            if version.startswith("3.11"):
                del ways["coverage.py, sysmon"]
            if options.fail_on_debugger:
                del ways["bdb, every line"]
            tests.run()
            samples = {way: [] for way in ways}
            for _ in range(options.rounds):
                for way, run in ways.items():
                    samples[way].append(run())
    title = f"processor time of {' '.join(options.tests)} in {options.library.name}, Python {version}"
    most = 1.5 if "3.13" in version else 2.5
    goals = {"calls recorded (trace)": most, "changed lines noted (coverage)": 1.2}
    report.table(title, "ms", samples, base=PLAIN, at_most=goals)


if __name__ == "__main__":
    main()
