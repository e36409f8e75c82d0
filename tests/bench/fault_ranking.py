"""Count how often the answer about a failed test displays or names the function with the fault.

Run it with `python tests/bench/fault_ranking.py INTERPRETER LIBRARY:SOURCES:TESTS...`. LIBRARY is the unpacked source
of a library, SOURCES and TESTS are directories or files in it, such as `sqlparse-0.5.2:sqlparse:tests`. INTERPRETER is
Python 3.12 or later, and has pytest and what the tests need. `--bugs` is the number of bugs for each library.

A seed draws changes of one line that make some tests fail, as in `small_fixes.py`. Codriver runs all tests, and its
answer is searched for the changed line, in the code of all failures, and for the changed function.
"""

import argparse
import json
import random
import re
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from live_server import serving
from small_fixes import copy_library, draw

HEADER = re.compile(r"(?P<file>\S+):\d+ in \S+$")


def main():
    """Draw bugs, and print a line for each and the sums."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("interpreter")
    parser.add_argument("libraries", nargs="+")
    parser.add_argument("--bugs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rows = []
    for library in options.libraries:
        with tempfile.TemporaryDirectory() as folder:
            for row in judge(library, Path(folder), options):
                rows.append(row)
                sys.stdout.write(json.dumps(row) + "\n")
                sys.stdout.flush()
    displayed, named = sum(row["displayed"] for row in rows), sum(row["displayed"] or row["named"] for row in rows)
    size = sum(row["bytes"] for row in rows) // max(1, len(rows))
    sys.stdout.write(f"{len(rows)} bugs: {displayed} displayed, {named} displayed or named; {size} bytes of source\n")


def judge(library, folder, options):
    """Yield a row for each bug drawn in a library."""
    source, package, tests = library.split(":")
    workspace = folder / "workspace"
    copy_library(source, workspace, options.interpreter)
    files = sorted((workspace / package).rglob("*.py")) if (workspace / package).is_dir() else [workspace / package]
    modules = [(str(file.relative_to(workspace)), tests) for file in files if "def " in file.read_text()]
    chance = random.Random(f"{options.seed} {Path(source).name}")
    with serving(folder, "--repl", "python") as live, live.client() as client:
        for _ in range(options.bugs):
            bug, failed = draw(workspace, modules, chance)
            (workspace / bug.source).write_text(bug.wrong)
            answer = client.call("run_tests", paths=[tests], timeoutMs=300_000, detail=False)
            (workspace / bug.source).write_text(bug.right)
            found = answer.get("results", [])
            source_text = "\n".join(row.get("source", "") for row in found)
            suspects = [item for row in found for item in row.get("suspects", ())]
            yield {
                "bug": f"{bug.source}:{bug.line} in {bug.function}",
                "failed": len(failed),
                "displayed": is_displayed(bug, source_text),
                "named": any(
                    suspect.partition(":")[0] == bug.source and suspect.endswith(bug.function) for suspect in suspects
                ),
                "bytes": len(source_text),
            }


def is_displayed(bug, source):
    """Return whether the code of failures has the changed line, below a header with its file."""
    found, file = [], ""
    for line in source.splitlines():
        if header := HEADER.match(line):
            file = header["file"]
        elif file == bug.source:
            found.append(line.lstrip(" >"))
    changed = [line.strip() for line in bug.changed_lines(bug.wrong).splitlines()]
    return any(found[at : at + len(changed)] == changed for at in range(len(found)))


if __name__ == "__main__":
    main()
