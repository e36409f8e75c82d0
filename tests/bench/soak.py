"""The load of the tests for as long as you like: 200 clients, 50 that never read, one that floods.

Run with `python tests/bench/soak.py [MINUTES] [TIMES]` (5, once). Prints times, counts and the server's memory; fails
when what the clients saw and what the server counted do not agree. Several times against the same server show what is a
leak and what is held once: the history, the log and the evaluations that can still be fetched, each up to its limit.
"""

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from trust.load import Plan, run_again


def main():
    minutes = float(sys.argv[1]) if len(sys.argv) > 1 else 5.0
    times = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    expected = 0
    with tempfile.TemporaryDirectory() as folder:
        for seen in run_again(Path(folder) / "soak", Plan(seconds=60 * minutes), times):
            sys.stdout.write(seen.report() + "\n")
            expected += seen.sent + 2
            accepted = seen.health["evaluations"]["accepted"]
            assert seen.right == seen.sent, "an evaluation was lost or answered wrong"
            assert accepted == expected, "the server counted other evaluations than were sent"
            assert seen.flood_answered == seen.flood_sent + 2, "an answer was lost"
            assert len(seen.files_after) <= seen.files_before, f"files were left open: {seen.files_after}"


if __name__ == "__main__":
    main()
