"""Time warm and plain test runs alongside `python -m pytest`, interleaved, with medians and ratios: see README.md."""

import argparse
import math
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import anyio

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "support"), str(HERE)]
from report import Report  # noqa: E402
from warm_runs import environment, project, run_pytest  # noqa: E402

from codriver.testing.plain_process import start_plain  # noqa: E402
from codriver.testing.runs import ReportBuilder, RunSpec  # noqa: E402

INI = "[pytest]\naddopts = -p no:cacheprovider -p no:randomly\n"
SQL_TEST = """
import sqlalchemy
def test_a():
    with sqlalchemy.create_engine("sqlite://").connect() as connection:
        assert connection.exec_driver_sql("select 1").scalar() == 1
"""
DJANGO_FILES = {
    "pytest.ini": f"{INI}DJANGO_SETTINGS_MODULE = site_settings\n",
    "site_settings.py": (
        "SECRET_KEY = 'a'\nUSE_TZ = True\nDEFAULT_AUTO_FIELD = 'django.db.models.AutoField'\n"
        "INSTALLED_APPS = ['django.contrib.contenttypes', 'django.contrib.auth']\n"
        "DATABASES = {'default': {'ENGINE': 'django.db.backends.sqlite3', 'NAME': ':memory:'}}\n"
    ),
    "test_a.py": (
        "import pytest\nfrom django.contrib.auth.models import User\n"
        "@pytest.mark.django_db\ndef test_a(): assert User.objects.create(username='a').pk\n"
    ),
}


@dataclass(frozen=True)
class Sample:
    """A project with one quick test."""

    package: str
    """The package that the project needs."""
    files: Mapping[str, str]
    goal: float
    """The maximum time of a warm run, as a part of the shell's time."""


PROJECTS = {
    "data (pandas)": Sample(
        "pandas", {"test_a.py": "import pandas\ndef test_a(): assert pandas.Series([1, 2]).sum() == 3\n"}, 0.2
    ),
    "web (FastAPI)": Sample(
        "fastapi",
        {"test_a.py": "import fastapi, pydantic\ndef test_a(): assert fastapi.FastAPI().title == 'FastAPI'\n"},
        0.2,
    ),
    "SQLAlchemy": Sample("sqlalchemy", {"test_a.py": SQL_TEST}, 0.2),
    "Django": Sample("pytest_django", DJANGO_FILES, 0.3),
    "pytest alone": Sample("pytest", {"test_a.py": "def test_a(): assert sum([1, 2]) == 3\n"}, 0.3),
}
SEED_TEST = "def test_order(): assert list({'a', 'b'})[0] == 'a'\n"


async def timed_run(start, python, folder, recorders):
    """Return the seconds of a run, and its outcome."""
    spec = RunSpec(
        python=python, directory=folder, arguments=("test_a.py",), environment=environment(), recorders=recorders
    )
    builder, began = ReportBuilder(), time.perf_counter()
    async with start(spec) as run:
        async for event in run.events():
            builder.add(event)
        seconds = time.perf_counter() - began
    return seconds, builder.report().finished


def imports(python, package):
    return subprocess.run([python, "-c", f"import {package}"], check=False, capture_output=True).returncode == 0


async def measure_project(name, python, rounds, report):
    """Report the times of a project: shell, plain and warm runs, each with and without recording."""
    sample = PROJECTS[name]
    if not imports(python, sample.package):
        report.skip(name, f"needs {sample.package}")
        return
    with tempfile.TemporaryDirectory(prefix="warm-bench-") as folder:
        root = Path(folder)
        async with project(python, root, {"pytest.ini": INI, **sample.files}) as made:
            await run_pytest(python, root, "test_a.py")  # compiles what is not compiled
            first_s, _ = await timed_run(made.owner, python, root, {})
            await made.settle()
            found = {"shell": [], "plain": [], "plain, recording": [], "warm": [], "warm, recording": []}
            memory_mb, modules = made.status.memory_mb, made.preloaded
            for _ in range(rounds):
                began = time.perf_counter()
                await run_pytest(python, root, "test_a.py")
                found["shell"].append(time.perf_counter() - began)
                for label, start in (("plain", start_plain), ("warm", made.owner)):
                    for ending, recorders in (("", {}), (", recording", {"functions": {}})):
                        await made.settle()
                        seconds, end = await timed_run(start, python, root, recorders)
                        if label == "plain" or end.hash_seed is not None:
                            found[label + ending].append(seconds)
        samples = {label: [1000 * item for item in times] for label, times in found.items() if times}
        report.table(f"one quick test, {name}", "ms", samples, base="shell")
        ratio = statistics.median(found["warm"] or [math.nan]) / statistics.median(found["shell"])
        report.fact(f"one quick test, {name}", "warm, as a part of the shell's time", ratio, "", at_most=sample.goal)
        plain, warm = statistics.median(found["plain"]), statistics.median(found["warm"] or [math.nan])
        imported_s, imported_mb = import_modules(python, modules)
        saved, memory = (plain - warm) / imported_s, memory_mb / imported_mb
        title = f"one quick test, {name}"
        report.fact(title, "saved of the start and the imports", saved, "", at_least=0.8)
        report.fact(title, "memory of the warm process", memory_mb, "MB")
        report.fact(title, "memory, as a part of a process with the same imports", memory, "", at_most=1.1)
        first = first_s / statistics.median(found["shell"])
        report.fact(title, "the first run, as a part of the shell's time", first, "", at_most=1.05)


def import_modules(python, modules):
    """Return the seconds and the memory, in MB, of a process that imports what a warm process preloads."""
    code = (
        f"for name in {sorted(modules, key=lambda name: name.count('.'))!r}:\n"
        "    try: __import__(name)\n"
        "    except Exception: pass\n"
        "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmRSS')))"
    )
    times = []
    for _ in range(3):
        began = time.perf_counter()
        done = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True)
        times.append(time.perf_counter() - began)
    return min(times), int(done.stdout.split()[-1]) / 1024


async def seeds(python, rounds):
    """Print the outcomes of a test that depends on set order, and the most runs of one seed."""
    with tempfile.TemporaryDirectory(prefix="warm-bench-") as folder:
        outcomes, drawn = set(), []
        async with project(python, Path(folder), {"pytest.ini": INI, "test_a.py": SEED_TEST}) as made:
            for _ in range(rounds):
                run = await made.run("test_a.py")
                if run.is_warm:
                    outcomes.add(run.report.results[0].outcome)
                    drawn.append(run.report.finished.hash_seed)
    most = max(map(drawn.count, drawn), default=0)
    print(f"set order: outcomes {sorted(outcomes)}, {len({*drawn})} seeds, at most {most} runs of one")


def measure(report):
    """Measure the projects whose packages the interpreter of the benchmarks has."""
    for name in PROJECTS:
        anyio.run(measure_project, name, sys.executable, report.rounds(10), report)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--only", default="", help="projects whose names contain this")
    parser.add_argument("--seed-runs", type=int, default=0, help="runs of a test that depends on set order")
    options = parser.parse_args()
    report = Report()
    for name in PROJECTS:
        if options.only in name:
            anyio.run(measure_project, name, options.python, options.rounds, report)
    if options.seed_runs:
        anyio.run(seeds, options.python, options.seed_runs)


if __name__ == "__main__":
    main()
