"""The load of the tests for as long as you like: 200 clients, 50 that never read, one that floods.

Run with `python tests/bench/soak.py [MINUTES]` (5). Prints times, counts and the server's memory; fails when what the
clients saw and what the server counted do not agree.
"""

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from trust.load import Plan, run


def main():
    minutes = float(sys.argv[1]) if len(sys.argv) > 1 else 5.0
    with tempfile.TemporaryDirectory() as folder:
        seen = run(Path(folder) / "soak", Plan(seconds=60 * minutes))
    sys.stdout.write(seen.report() + "\n")
    accepted = seen.health["evaluations"]["accepted"]
    assert seen.right == seen.sent, "an evaluation was lost or answered wrong"
    assert accepted == seen.sent + 2, "the server counted other evaluations than were sent"
    assert seen.flood_answered == seen.flood_sent + 2, "an answer was lost"
    assert seen.files_after == seen.files_before, "files were left open"


if __name__ == "__main__":
    main()
