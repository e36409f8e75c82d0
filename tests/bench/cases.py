"""List the cases of all tests with the kinds of REPL that they use, or compare two such lists.

`python tests/bench/cases.py > before.txt` prints a line per test: its name, the number of its cases, the number of
cases with each kind of REPL, and its files. `python tests/bench/cases.py before.txt after.txt` reports tests that are
gone, new or moved, or that have fewer cases of a kind. A test without parameters has one case.
"""

import contextlib
import io
import os
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
KINDS = frozenset({
    "python", "lisp", "jvm", "leiningen", "tools.nrepl", "basilisp", "hy", "nbb", "bb", "clojure",
    "ipykernel", "xpython", "bash", "deno", "ir", "memory",
})  # fmt: skip
OF_SUPPORT = ("live", "client", "other")
"""The fixtures of `conftest.py` with which a test queries the server of its module."""


@dataclass
class ListedTest:
    """One test, as the list describes it."""

    files: set[str] = field(default_factory=set)
    cases: int = 0
    kinds: Counter[str] = field(default_factory=Counter)


def kinds_of(item):
    """Return the kinds of REPL that the parameters of a case, or the mark of its module's server, name."""
    named = list(item.callspec.params.values()) if hasattr(item, "callspec") else []
    if mark := item.get_closest_marker("served"):
        named += mark.args or ("python",)
    elif any(name in item.fixturenames for name in OF_SUPPORT):
        named.append("python")
    flat = [part for value in named for part in (value if isinstance(value, tuple | list) else (value,))]
    return {part for part in flat if isinstance(part, str) and part in KINDS}


class Listing:
    """A pytest plugin that records each test as it is collected."""

    def __init__(self):
        self.tests = defaultdict(ListedTest)

    def pytest_collection_finish(self, session):
        for item in session.items:
            record = self.tests[getattr(item, "originalname", None) or item.name]
            record.files.add(item.path.relative_to(ROOT).as_posix())
            record.cases += 1
            record.kinds.update(kinds_of(item))


def listed():
    listing, text = Listing(), io.StringIO()
    os.environ["CODRIVER_TESTS"] = "all"
    with contextlib.redirect_stdout(text):
        status = pytest.main(["--collect-only", "-qq", "-p", "no:cacheprovider", "--rootdir", str(ROOT)], [listing])
    if status:
        sys.exit(text.getvalue())
    return listing.tests


def read(path):
    tests = {}
    for line in Path(path).read_text().splitlines():
        if not line.startswith("#"):
            name, cases, kinds, files = line.split("\t")
            numbers = {kind: int(number) for kind, _, number in (word.partition(":") for word in kinds.split())}
            tests[name] = ListedTest(set(files.split()), int(cases), Counter(numbers))
    return tests


def lines(tests):
    """Return the lines of the list."""
    kinds = sum((reported.kinds for reported in tests.values()), Counter())
    yield f"# {len(tests)} names of tests, {sum(reported.cases for reported in tests.values())} cases"
    yield f"# cases by kind: {', '.join(f'{kind} {number}' for kind, number in sorted(kinds.items()))}"
    for name, reported in sorted(tests.items()):
        by_kind = " ".join(f"{kind}:{number}" for kind, number in sorted(reported.kinds.items()))
        yield "\t".join([name, str(reported.cases), by_kind, " ".join(sorted(reported.files))])


def differences(before, after):
    """Yield one line for each difference between tests, and the totals."""
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        if new is None:
            yield f"gone: {name}, {old.cases} cases, {' '.join(sorted(old.files))}"
        elif old is None:
            yield f"new: {name}, {new.cases} cases, {' '.join(sorted(new.files))}"
        else:
            if new.cases != old.cases:
                yield f"cases: {name}, {old.cases} -> {new.cases}, {' '.join(sorted(new.files))}"
            if lost := old.kinds - new.kinds:
                yield f"kinds: {name}, fewer of {' '.join(sorted(lost))}"
            if new.files != old.files:
                yield f"moved: {name}, {' '.join(sorted(old.files))} -> {' '.join(sorted(new.files))}"
    yield f"cases in all: {sum(t.cases for t in before.values())} -> {sum(t.cases for t in after.values())}"


if __name__ == "__main__":
    told = differences(*map(read, sys.argv[1:])) if len(sys.argv) > 1 else lines(listed())
    sys.stdout.writelines(f"{line}\n" for line in told)
