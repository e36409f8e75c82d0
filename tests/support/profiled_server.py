"""`codriver` with measurements of its event loop's thread, controlled from outside. POSIX only.

A SIGUSR1 starts counting function calls, and the next one ends it. A SIGUSR2 requests the processor time of the
process so far, in seconds. Each answer is one line in the file named by `BENCH_COUNTS`.
"""

import cProfile
import os
import signal
import sys
import time
from pathlib import Path

from codriver.commands.cli import main

assert sys.platform != "win32"

COUNTS = Path(os.environ["BENCH_COUNTS"])


class Counter:
    """The function calls between two signals, including those of built-in functions."""

    def __init__(self):
        self.profile = None

    def toggle(self, *_):
        if self.profile is None:
            self.profile = cProfile.Profile()
            self.profile.enable()
            write_number(0)
            return
        self.profile.disable()
        # The next signal may come as soon as the answer is there.
        profile, self.profile = self.profile, None
        write_number(sum(entry.callcount for entry in profile.getstats()))


def write_number(number):
    """Write one line."""
    with COUNTS.open("a") as file:
        file.write(f"{number}\n")


if __name__ == "__main__":
    signal.signal(signal.SIGUSR1, Counter().toggle)
    signal.signal(signal.SIGUSR2, lambda *_: write_number(time.process_time()))
    main()
