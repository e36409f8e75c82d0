"""Run the load test for any duration: 200 clients, 50 that never read, and one that floods the server.

Run with `python tests/bench/soak.py [MINUTES] [TIMES]` (5, once). It prints times, counts and the server's memory, and
fails if the clients' observations disagree with the server's counts. Repeated runs against the same server distinguish
leaks from what is stored only once: the history, the log and recent evaluations, each up to its limit.
"""

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from trust.client_load import Plan, run_again


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
