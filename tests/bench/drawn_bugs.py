"""Draw random bugs in real libraries, find each with a fixed script of calls, and select the right one of three fixes.

A bug is a change of one constant, comparison or operator in a function that makes a passing test fail. The script does
not know it. It runs the failed test with its calls recorded, and reads one more answer. The bug counts as found if at
most two answers, of 1,500 bytes in total, name the wrong call, which is the one of the changed function. The comparison
with a passing run names the right call if its first line is about that function. In Python, so does the note that
Codriver adds on its own after an edit. The candidates in random order are the original text and two changes with which
the test still fails. The original must be selected by `try_code`, or in Clojure, which cannot fork, by applying each
with `edit_files` and `onFailure: "restore"`.

Run with `python tests/bench/drawn_bugs.py [LIBRARY...] [--bugs 20] [--seed 1] [--python PYTHON]`. A LIBRARY is the
unpacked source of a library that includes its tests. One in Clojure has a `project.clj`, and needs nothing except
Clojure. PYTHON is an interpreter with pytest, Flask and the requirements of the libraries, but not the libraries
themselves. A Flask shop is always included.
"""

import argparse
import json
import random
import sys
from dataclasses import asdict
from pathlib import Path

from bugs_in_clojure import hunted_in_clojure
from bugs_in_python import hunted

MAX_BYTES = 1500


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("libraries", nargs="*", type=Path)
    parser.add_argument("--bugs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--python", default=sys.executable)
    options = parser.parse_args()
    places, found = [None, *options.libraries], []
    for number, place in enumerate(places):
        name = "shop" if place is None else place.name
        expected = options.bugs * (number + 1) // len(places) - len(found)
        chance = random.Random(f"{options.seed} {name}")
        is_clojure = place is not None and (place / "project.clj").exists()
        bugs = hunted_in_clojure if is_clojure else hunted
        for bug in bugs(place, expected, chance, options.python):
            found.append(bug)
            sys.stdout.write(json.dumps(asdict(bug)) + "\n")
            sys.stdout.flush()
    at_hand = sum(item.is_named and item.size <= MAX_BYTES for item in found)
    by_trace, unasked = sum(item.differs_first for item in found), sum(item.is_reported for item in found)
    kept = sum(item.is_kept for item in found)
    sys.stdout.write(
        f"{len(found)} bugs: the wrong call found in {at_hand}, named first by the difference in {by_trace}, "
        f"said unasked in {unasked}, the right one of three kept in {kept}\n"
    )


if __name__ == "__main__":
    main()
