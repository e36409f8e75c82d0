"""Measure what `codriver run` adds to the start of a Python process, in pairs of runs with and without it.

`python tests/bench/run_start.py [PYTHON…]` starts `PYTHON -c pass` many times with the environment that `codriver run`
sets, and without. The bytecode is stored before.
"""

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

PAIRS = int(os.environ.get("PAIRS", "300"))
ARGUMENTS = ("-c", "pass")


def start_ms(python, environ):
    """Return how long a process takes from its start until its end."""
    started = time.perf_counter()
    pid = os.posix_spawn(python, [python, *ARGUMENTS], environ)
    _, status = os.waitpid(pid, 0)
    assert status == 0
    return (time.perf_counter() - started) * 1000


def measure(python, with_run, without):
    for environ in (with_run, without) * 3:
        start_ms(python, environ)
    pairs = []
    for number in range(PAIRS):
        if number % 2:
            first, second = start_ms(python, with_run), start_ms(python, without)
        else:
            second, first = start_ms(python, without), start_ms(python, with_run)
        pairs.append((first, second))
    armed, plain = zip(*pairs, strict=True)
    added = statistics.median(first - second for first, second in pairs)
    print(
        f"{python}: plain {statistics.median(plain):.2f} ms, minimum {min(plain):.2f}; with `codriver run` "
        f"{statistics.median(armed):.2f}, minimum {min(armed):.2f}; added: median of the pairs {added:.2f}, "
        f"of the minima {min(armed) - min(plain):.2f}",
        flush=True,
    )


def main():
    with tempfile.TemporaryDirectory() as place:
        os.environ |= {"XDG_STATE_HOME": f"{place}/state", "XDG_CACHE_HOME": f"{place}/cache"}
        from codriver.features.run.program_copy import prepare_program  # noqa: PLC0415  # it reads the environment
        from codriver.features.run.run_directory import create_run_directory  # noqa: PLC0415  # as above

        run = create_run_directory(Path(place), ["python"], "python")
        without = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        with_run = without | {"CODRIVER_RUN": str(run.directory), "PYTHONPATH": str(prepare_program())}
        for python in sys.argv[1:] or [sys.executable]:
            measure(python, with_run, without)


if __name__ == "__main__":
    main()
