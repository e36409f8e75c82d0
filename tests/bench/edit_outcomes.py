"""Load every edit of the tables in `tests/support/edits_of_*.py`, and count what is right, reported, silent and false.

`python tests/bench/edit_outcomes.py [--python PYTHON] [--only WORD] [TABLE ...]`: PYTHON runs the edits, and needs the
libraries of `tests/seam/applications.txt`; edits of libraries that it lacks are left out.
"""

import argparse
import collections
import importlib
import subprocess
import sys
from pathlib import Path

SUPPORT = Path(__file__).parents[1] / "support"
TABLES = (
    "values",
    "classes",
    "frameworks",
    "idioms",
    "libraries",
    "programs",
    "applications",
    "projects",
    "services",
    "patterns",
    "features",
    "objects",
    "reviews",
    "sites",
    "systems",
    "tools",
    "commits",
    "workflows",
    "weeks",
    "layouts",
    "tutorials",
    "packages",
    "combinations",
    "mixtures",
    "assortments",
    "branches",
    "ventures",
    "departments",
    "crafts",
    "guilds",
    "parishes",
    "dependents",
)
PYTHON = Path(__file__).parents[1] / "seam" / ".venv" / "bin" / "python"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="*", default=TABLES)
    parser.add_argument("--python", default=PYTHON)
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    sys.path.insert(0, str(SUPPORT))
    cases = importlib.import_module("edit_cases")
    counts = collections.Counter()
    for table in given.tables:
        edits = [item for item in importlib.import_module(f"edits_of_{table}").ALL if given.only in item.name]
        needs = {name for item in edits for name in item.needs}
        lacking = {name for name in needs if not has(given.python, name)}
        edits = [item for item in edits if lacking.isdisjoint(item.needs)]
        for edit, outcome in zip(edits, cases.run(edits, given.python), strict=True):
            verdict, why = cases.judge(outcome)
            counts[verdict] += 1
            if verdict != edit.expects and (verdict, edit.expects) != ("silent", "invisible"):
                sys.stdout.write(f"{table}: {edit.name}: {verdict}, expected {edit.expects}: {why}\n")
                sys.stdout.flush()
        if lacking:
            sys.stdout.write(f"{table}: left out for want of {', '.join(sorted(lacking))}\n")
    sys.stdout.write(f"{dict(counts)}\n")


def has(python, name):
    done = subprocess.run([str(python), "-c", f"import {name}"], check=False, capture_output=True)
    return done.returncode == 0


if __name__ == "__main__":
    main()
