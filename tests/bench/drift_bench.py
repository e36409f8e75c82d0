"""What it costs to compare 200 loaded modules with their files: nothing changed, one file edited, old objects alone.

Milliseconds, the median of 50 times. `python tests/bench/drift_bench.py [MODULES] [DEFINITIONS]`
"""

import importlib
import sys
import tempfile
import time
from pathlib import Path

from report import median_ms

from codriver.repls.worker.python_drift import Drift

TIMES = 50


def project(folder, modules, definitions):
    """The files of a project, imported: functions and classes in equal parts, spread over its modules."""
    sys.path.insert(0, str(folder))
    for number in range(modules):
        lines = []
        for one in range(definitions // modules // 2):
            lines.append(
                f"def function_{one}(first, second={one}):\n    return [first * {one} for _ in range(second)]\n"
            )
            lines.append(f"class Class{one}:\n    def method(self, other):\n        return (self, other, {one})\n")
        (folder / f"bench_{number}.py").write_text("\n".join(lines))
        importlib.import_module(f"bench_{number}")


def main(modules=200, definitions=2000):
    with tempfile.TemporaryDirectory() as name:
        folder, drift = Path(name), Drift()
        project(folder, modules, definitions)
        began = time.perf_counter()
        assert drift.rows(name) == []
        first = (time.perf_counter() - began) * 1000
        nothing, old = median_ms(TIMES, lambda: drift.rows(name)), median_ms(TIMES, lambda: drift.rows(name, "old"))
        edited = folder / "bench_7.py"
        edited.write_text(edited.read_text().replace("* 3", "* 33"))
        assert len(drift.rows(name)) == 1
        one = median_ms(TIMES, lambda: drift.rows(name))
    sys.stdout.write(
        f"{modules} files, {definitions} definitions: first {first:.1f} ms, nothing changed {nothing:.1f}, "
        f"one file edited {one:.1f}, old objects alone {old:.1f}\n"
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
