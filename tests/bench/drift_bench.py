"""Measure the comparison of 200 loaded modules with their files: unchanged, with one edited file, and of old objects.

Run with `python tests/bench/drift_bench.py [MODULES] [DEFINITIONS]`.
"""

import importlib
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

from report import Report, in_turns, timed_ms

from codriver.repls.worker.python.loaded_sources import LoadedSources
from codriver.repls.worker.python.python_drift import Drift

UNCHANGED = "nothing changed"


def write(folder, modules, definitions):
    """Write the files of a project with functions and classes spread evenly over them. Return the modules' names."""
    names = [f"bench_{number}" for number in range(modules)]
    for name in names:
        lines = []
        for item in range(definitions // modules // 2):
            lines.append(
                f"def function_{item}(first, second={item}):\n    return [first * {item} for _ in range(second)]\n"
            )
            lines.append(f"class Class{item}:\n    def method(self, other):\n        return (self, other, {item})\n")
        (folder / f"{name}.py").write_text("\n".join(lines))
    return names


@contextmanager
def imported(folder, names):
    """Import the modules of the project, and remove them again afterwards."""
    sys.path.insert(0, str(folder))
    try:
        for name in names:
            importlib.import_module(name)
        yield
    finally:
        sys.path.remove(str(folder))
        for name in names:
            sys.modules.pop(name, None)


def measure(report, modules=200, definitions=2000):
    rounds, texts = report.rounds(50), LoadedSources()
    drift = Drift(texts)
    texts.start_recording()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with imported(folder, write(folder, modules, definitions)):
            samples = {"the first time": [timed_ms(lambda: drift.find_differences(name))]}
            assert drift.find_differences(name) == []
            ways = {
                UNCHANGED: lambda: drift.find_differences(name),
                "old objects alone": lambda: drift.find_differences(name, "old"),
            }
            samples |= in_turns(ways, rounds)
            edited = folder / "bench_7.py"
            edited.write_text(edited.read_text().replace("* 3", "* 33"))
            assert len(drift.find_differences(name)) == 1
            samples |= in_turns({"one file edited": lambda: drift.find_differences(name)}, rounds)
            for file in folder.glob("*.py"):
                file.write_text(file.read_text().replace("* 2", "* 22"))
            samples["every file edited, the first time"] = [timed_ms(lambda: drift.find_differences(name))]
    texts.stop_recording()
    title = f"compare {modules} Python files, {definitions} definitions, with what is loaded"
    report.table(title, "ms", samples, base=UNCHANGED)


if __name__ == "__main__":
    measure(Report(), *map(int, sys.argv[1:]))
