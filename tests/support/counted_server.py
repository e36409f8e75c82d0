"""A server whose work can be measured in function calls and processor time. POSIX only."""

import os
import signal
import sys
from pathlib import Path

from live_server import Live, until

COUNT, TELL_TIME = signal.Signals["SIGUSR1"], signal.Signals["SIGUSR2"]
SERVER = Path(__file__).with_name("profiled_server.py")


class Counted(Live):
    """A server that measures its own work."""

    def __init__(self, folder, *options):
        self.counts = folder / "counts"
        self.counts.touch()
        os.environ["BENCH_COUNTS"] = str(self.counts)
        super().__init__(folder, *options)

    def command(self, name, *options):
        return [sys.executable, str(SERVER), name, "--workspace", str(self.workspace), *options]

    def query(self, number):
        """Send a signal to the server, and return the number that it reports."""
        return query(self.process, self.counts, number)

    def calls_of(self, work):
        """Return the number of function calls of the work."""
        self.query(COUNT)
        work()
        return self.query(COUNT)

    def seconds_of(self, work):
        """Return the processor time of the work."""
        return seconds_of(self.process, self.counts, work)


def query(process, counts, number):
    """Send a signal to a process, and return the number that it then writes into the file `counts`."""
    before = counts.read_text()
    process.send_signal(number)

    def written_line():
        line = counts.read_text().removeprefix(before)
        return line if line.endswith("\n") else ""

    return float(until(written_line, "the server's count"))


def seconds_of(process, counts, work):
    """Return the processor time that the work costs a process that reports its own on SIGUSR2."""
    before = query(process, counts, TELL_TIME)
    work()
    return query(process, counts, TELL_TIME) - before


def evaluation_calls(live, evaluate, *, rounds):
    """Return the function calls of one evaluation: one of the lowest counts from many rounds, without a timer in
    between.
    """
    for _ in range(50):
        evaluate()
    idle = _one_of_the_least(live.calls_of(lambda: None) for _ in range(12))
    return _one_of_the_least(live.calls_of(evaluate) for _ in range(rounds)) - idle


def _one_of_the_least(counts):
    """Return the count at the fifth percentile: the lowest may belong to an incomplete round.

    The busier the machine, the more rounds have split answers and timers in between.
    """
    found = sorted(counts)
    return found[max(1, len(found) // 20)]
