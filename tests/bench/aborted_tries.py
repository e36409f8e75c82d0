"""Tries that do harm and are ended: whether the process in which they were asked for is the same before and after each.

Each kind of harm of `tests/support/hostile_tries.py`, and writes to a mapped array of numpy's where PYTHON has that,
so many times, eight at a time, in a live worker: its objects, descriptors and their offsets, threads, children, files
and their contents, locks, random state, environment, limits and signals are compared. Run with `python
tests/bench/aborted_tries.py [--rounds 5] [--python PYTHON]`.
"""

import argparse
import collections
import json
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
sys.path.insert(0, str(Path(__file__).parents[2] / "server"))

from hostile_tries import ARRAY, ARRAY_KINDS, AT_ONCE, EXPECTED, HARM, KINDS
from worker_client import Repl, texts

WALL_MS = 700
MEBIBYTE = 2**20


def attempt(repl, kinds):
    """Try to do harm of these kinds; how each ended, in a word."""
    asked = {
        "candidates": [{"label": kind, "files": [], "code": f"{kind}()"} for kind in kinds],
        "check": "",
        "program": "",
        "tests": [],
        "folders": [str(repl.folder)],
        "wallMs": WALL_MS,
    }
    (told,) = texts(repl.ask("codriver/try", code=json.dumps(asked)), "value")
    rows = json.loads(told)["told"]
    return [next((key for key in ("timedOut", "died", "error", "value") if key in row), "nothing") for row in rows]


def resident(repl):
    """The resident memory of the worker in bytes."""
    fields = Path(f"/proc/{repl.process.pid}/statm").read_text().split()
    return int(fields[1]) * 4096


def aborted(repl, rounds):
    """Each kind so many times; how each ended, in how many of all the process was equal, and whether it works after."""
    attempt(repl, ["str"])
    repl.evaluate(HARM % str(repl.folder))
    has_numpy = not texts(repl.evaluate(ARRAY), "ex")
    view = "(view(), array_view())" if has_numpy else "view()"
    drawn = [*KINDS, *(ARRAY_KINDS if has_numpy else ())] * rounds
    ended, equal = collections.defaultdict(collections.Counter), 0
    while drawn:
        kinds, drawn = drawn[:AT_ONCE], drawn[AT_ONCE:]
        before = texts(repl.evaluate(view), "value")
        for kind, how in zip(kinds, attempt(repl, kinds), strict=True):
            ended[kind][how] += 1
        after = texts(repl.evaluate(view), "value")
        if after == before:
            equal += len(kinds)
        else:
            sys.stdout.write(f"not equal after {kinds}:\n{before}\n{after}\n")
    return ended, equal, texts(repl.evaluate("still_works()"), "value") == [EXPECTED]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--python", default=sys.executable)
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(Repl(Path(folder), python=options.python)) as repl,
        repl.fresh_session(),
    ):
        before, began = resident(repl), time.monotonic()
        ended, equal, works = aborted(repl, options.rounds)
        took, after = time.monotonic() - began, resident(repl)
    for kind, how in ended.items():
        sys.stdout.write(f"  {kind:16} {', '.join(f'{word} {count}x' for word, count in how.items())}\n")
    tried = sum(count for how in ended.values() for count in how.values())
    sys.stdout.write(
        f"{len(ended)} kinds, {options.rounds} times each: the process is equal in {equal} of {tried}, "
        f"{'works' if works else 'DOES NOT WORK'} afterwards; {took:.1f} s, "
        f"resident {before // MEBIBYTE} -> {after // MEBIBYTE} MiB\n"
    )


if __name__ == "__main__":
    main()
