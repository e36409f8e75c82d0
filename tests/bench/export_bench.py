"""Fifty sessions exported, in Python, Basilisp and Clojure: all green in a process of their own, and red when changed.

`PYTHONPATH=tests/support:tests/commands/documents python tests/bench/export_bench.py`
"""

import sys
import tempfile
import time
from pathlib import Path

import test_exported_sessions

if __name__ == "__main__":
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        tests, share = test_exported_sessions.check_all(Path(folder))
    seconds = time.perf_counter() - began
    sys.stdout.write(
        f"{tests} tests in Python, {share:.1%} of their steps reproduce; {seconds:.0f} s with both Lisps\n"
    )
