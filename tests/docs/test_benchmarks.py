"""The benchmarks: each can run alone and together with all others, as their page says."""

import os
import subprocess
import sys
from pathlib import Path

import needs

BENCH = Path(__file__).parents[1] / "bench"
MODULES = sorted(path.stem for path in BENCH.glob("*_bench.py"))
IMPORT_S = 120

WITHOUT_MEASURE = """
import importlib, inspect, sys
sys.path.insert(0, sys.argv[1])
import run
for name in sys.argv[2:]:
    measure = getattr(importlib.import_module(name), "measure", None)
    try:
        inspect.signature(measure).bind("report")
    except TypeError:
        print(name)
"""


def test_all_benchmarks_can_be_measured_together():
    needs.every_feature()
    assert MODULES
    command = [sys.executable, "-c", WITHOUT_MEASURE, str(BENCH), *MODULES]
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=IMPORT_S, check=False, env=environ)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr
