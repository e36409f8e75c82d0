"""Bugs drawn by a seed in real libraries: each found by one script of calls, and the right one of three fixes kept.

A bug is one constant, comparison or operator of a function that turns a test red which was green before. The script
knows nothing of it: it runs the red test with its calls recorded, and looks once further. The bug counts as found if
the wrong call, that of the function with the bug, is named by at most two answers, of 1,500 bytes in all. The
difference of the red run from a green one names the right call if its first line is one of that function; so does, in
Python, the line that Codriver says unasked after an act. Of three candidates in a drawn order, the text as it was and
two changes that leave the test red, the right one has to be kept: by `try_code`, and in Clojure, which does not fork,
by `edit_files` with `onFailure: "restore"`, one after the other.

Run with `python tests/bench/drawn_bugs.py [LIBRARY...] [--bugs 20] [--seed 1] [--python PYTHON]`. A LIBRARY is the
unpacked source of one that has its tests in it; one of Clojure has a `project.clj`, and needs nothing but Clojure.
PYTHON is an interpreter that has pytest, Flask and what the libraries need, and not the libraries themselves. A shop
made with Flask is drawn from in any case.
"""

import argparse
import json
import random
import sys
from dataclasses import asdict
from pathlib import Path

from bugs_in_clojure import hunted_in_clojure
from bugs_in_python import hunted

MOST_BYTES = 1500


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
        wanted = options.bugs * (number + 1) // len(places) - len(found)
        chance = random.Random(f"{options.seed} {name}")
        is_clojure = place is not None and (place / "project.clj").exists()
        bugs = hunted_in_clojure if is_clojure else hunted
        for one in bugs(place, wanted, chance, options.python):
            found.append(one)
            sys.stdout.write(json.dumps(asdict(one)) + "\n")
            sys.stdout.flush()
    at_hand = sum(one.is_named and one.size <= MOST_BYTES for one in found)
    by_trace, unasked = sum(one.differs_first for one in found), sum(one.is_said for one in found)
    kept = sum(one.is_kept for one in found)
    sys.stdout.write(
        f"{len(found)} bugs: the wrong call found in {at_hand}, named first by the difference in {by_trace}, "
        f"said unasked in {unasked}, the right one of three kept in {kept}\n"
    )


if __name__ == "__main__":
    main()
