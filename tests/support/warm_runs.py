"""Warm and plain runs of the same tests, and what differs between them."""

import math
import os
import re
import shutil
import subprocess
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio

from codriver.features.warm_tests.starter import warm_tests
from codriver.features.warm_tests.warm_options import WarmOptions
from codriver.testing.plain_process import start_plain
from codriver.testing.runs import Output, ReportBuilder, RunSpec, TestReport

READY_S = 300
ADDRESSES = re.compile(r"0x[0-9a-f]{6,}|\b\d+\.\d+s\b(?: \(\d+:\d\d:\d\d\))?|pytest-\d+|\bpid[= ]\d+")


def environment(**changes):
    """Return the environment of a run: that of this process without Python's variables."""
    kept = {
        key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PYTEST", "COV_", "CODRIVER"))
    }
    return {**kept, **changes}


@dataclass
class Run:
    """A finished run."""

    report: TestReport
    output: str

    @property
    def is_warm(self):
        return self.report.finished.hash_seed is not None

    def outcomes(self):
        """Return the outcome of each test with its failure, without what differs between any two processes."""
        return {
            result.nodeid: (result.outcome, ADDRESSES.sub("…", result.failure.message) if result.failure else "")
            for result in self.report.results
        }


async def run_tests(start, python, directory, *arguments, is_retained=False, **variables):
    """Run tests with a `StartRun`. With `is_retained`, retain the process of a failed run until this call ends."""
    spec = RunSpec(
        python=str(python),
        directory=Path(directory),
        arguments=arguments,
        environment=environment(**variables),
        retains_failed_process=is_retained,
    )
    builder, output = ReportBuilder(), []
    async with start(spec) as run:
        async for event in run.events():
            builder.add(event)
            if isinstance(event, Output):
                output.append(event.text)
        if (retained := run.detach()) is not None:
            await retained.aclose()
    return Run(builder.report(), "".join(output))


async def run_pytest(python, directory, *arguments, **variables):
    """Run `python -m pytest` as a shell does, without Codriver; return the exit status and the output.

    It leads a session, as Codriver's runs do: Linux shares processors between sessions, so on a busy machine a process
    of another session is several times slower.
    """
    command = [str(python), "-m", "pytest", *arguments]
    found = await anyio.run_process(
        command,
        cwd=directory,
        env=environment(**variables),
        check=False,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    return found.returncode, found.stdout.decode(errors="replace")


def comparable(text):
    """Return pytest output without what differs between any two processes; with workers, the lines are sorted."""
    text = ADDRESSES.sub("…", text).replace("\r\n", "\n")
    lines = [re.sub(r"={2,}|-{2,}|_{2,}|\[ *\d+%\]|\s+$", "", line).rstrip() for line in text.splitlines()]
    if not any(line.startswith("[gw") for line in lines):
        return lines
    # Which worker runs which test, and in which order they report, is chance.
    return sorted(re.sub(r"^\[gw\d+\]", "[gw]", line) for line in lines)


def remove_bytecode(directory):
    """Remove compiled code, which Python validates only by size and modification second."""
    for folder in list(Path(directory).rglob("__pycache__")):
        if ".venv" not in folder.parts:
            shutil.rmtree(folder, ignore_errors=True)


class Project:
    """A project whose tests run warm. `run` waits until they do, or until they stay plain for a reason."""

    def __init__(self, owner, python, directory):
        self.owner, self.python, self.directory = owner, str(python), Path(directory)

    @property
    def status(self):
        return self.owner.state(self.python, self.directory)

    @property
    def is_off(self):
        """Return whether runs stay plain until packages change."""
        return self.owner.is_off(self.python, self.directory)

    @property
    def preloaded(self):
        """Return the names of the preloaded modules."""
        (entry,) = self.owner._pool.projects.values()
        return entry.process.hidden if entry.process is not None else frozenset()

    async def settle(self):
        """Wait until the warm process is ready, or until it is clear that there will be none."""
        with anyio.fail_after(READY_S):
            while self.owner.is_preloading(self.python, self.directory):
                await anyio.sleep(0.02)

    async def run(self, *arguments, **variables):
        """Run tests as the server does."""
        await self.settle()
        return await run_tests(self.owner, self.python, self.directory, *arguments, **variables)

    async def plain(self, *arguments, **variables):
        """Run tests in a plain process that does not use compiled code."""
        remove_bytecode(self.directory)
        return await run_tests(start_plain, self.python, self.directory, *arguments, **variables)

    async def warm_up(self, *arguments, **variables):
        """Run the tests until a run is warm, five times at most, and return that run, or the last."""
        for _ in range(5):
            found = await self.run(*arguments, **variables)
            if found.is_warm or self.is_off:
                return found
        return found

    def write(self, files):
        """Write files below the directory; None removes one."""
        for name, text in files.items():
            path = self.directory / name
            if text is None:
                path.unlink(missing_ok=True)
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)


@asynccontextmanager
async def project(python, directory, files=None, *, min_saving_s=-math.inf, saved=None, **options):
    """Create a project with warm runs. `saved` contains what earlier ones learned.

    By default, runs stay warm even if they are slower than plain ones, as they may be on a busy machine.
    """
    settings = WarmOptions(is_enabled=True, min_saving_s=min_saving_s, **options)
    async with warm_tests(settings, saved) as owner:
        made = Project(owner, python, directory)
        made.write(files or {})
        yield made


def differences(plain, warm):
    """Return what differs between two runs."""
    item, other = plain.outcomes(), warm.outcomes()
    found = [
        f"{test}: {item.get(test)} {other.get(test)}" for test in {**item, **other} if item.get(test) != other.get(test)
    ]
    if list(item) != list(other) and sorted(item) == sorted(other):
        found.append("the order of the tests")
    if plain.report.exit_status != warm.report.exit_status:
        found.append(f"exit status {plain.report.exit_status} {warm.report.exit_status}")
    if plain.report.counts != warm.report.counts:
        found.append(f"counts {plain.report.counts} {warm.report.counts}")
    return found
