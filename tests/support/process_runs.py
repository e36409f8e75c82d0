"""Test runs of small projects, each in a real process."""

import os
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import anyio

from codriver.testing import runs
from codriver.testing.plain_process import start_plain

LIMIT_S = 120
"""A run that takes longer counts as hung."""
REMOVED_VARIABLES = {"PYTEST_CURRENT_TEST", "PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT", "PYTEST_VERSION"}
"""Variables of the run that these tests are part of."""


@dataclass
class Ran:
    """A finished run, with all that it printed."""

    report: runs.TestReport
    output: str
    events: list[runs.Event] = field(default_factory=list)

    @property
    def outcomes(self):
        return {item.nodeid: item.outcome for item in self.report.results}

    def result(self, name):
        """Return the result of the test whose id ends with a name."""
        (found,) = [item for item in self.report.results if item.nodeid.endswith(name)]
        return found

    def failure(self, name=""):
        return self.result(name).failure


def write_project(folder, files):
    """Write the files of a project."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def spec_of(folder, *arguments, env=None, **fields):
    seen = {key: value for key, value in os.environ.items() if key not in REMOVED_VARIABLES}
    # When a session of pytest ends, it removes folders of earlier sessions, which takes long after whole runs of these
    # tests.
    environment = {**seen, "PYTEST_DEBUG_TEMPROOT": str(folder.parent), **(env or {})}
    fields.setdefault("python", sys.executable)
    return runs.RunSpec(directory=folder, arguments=arguments, environment=environment, **fields)


async def follow(process, act=None):
    """Read all events of a process; `act` may react to each."""
    builder, output, events = runs.ReportBuilder(), [], []
    async for event in process.events():
        builder.add(event)
        events.append(event)
        if isinstance(event, runs.Output):
            output.append(event.text)
        if act is not None:
            await act(process, event)
    return Ran(builder.report(), "".join(output), events)


async def run_async(spec, act=None, start=start_plain):
    with anyio.fail_after(LIMIT_S):
        async with start(spec) as process:
            return await follow(process, act)


def run(folder, *arguments, act=None, start=start_plain, **fields):
    """Run the tests of a directory to their end."""
    return anyio.run(run_async, spec_of(folder, *arguments, **fields), act, start)


async def appears(path):
    """Wait for a file that has content, or that was created empty."""
    while not path.exists():
        await anyio.sleep(0.02)


async def is_empty(folder):
    """Wait until a directory is empty."""
    while list(folder.iterdir()):
        await anyio.sleep(0.02)


def assert_ended(pid):
    """Wait until a process has exited, or is a zombie that no process waits for."""
    for _ in range(500):
        try:
            if state_of(pid) == "Z":
                return
        except OSError:
            return
        time.sleep(0.02)
    raise AssertionError(pid)


async def has_state(pid, state):
    """Wait until a process is in a state, such as T for stopped."""
    while state_of(pid) != state:
        await anyio.sleep(0.02)


def state_of(pid):
    return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0]
