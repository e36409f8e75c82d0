"""Run tests in a new process.

To the tests, the process looks like `python -m pytest`, `python -m unittest` or `python manage.py test`. Results and
output go through files, because a process started by a test could hold a pipe open forever. A run ends when its process
ends. The process leads a process group, which is killed when the run has finished or the server has exited for any
reason.
"""

from __future__ import annotations

import codecs
import signal
import time
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Final

import anyio
from anyio import to_thread

from codriver.systems.other_processes import HAS_GROUPS, ProcessTree, processor_wait_s
from codriver.systems.other_processes import interrupt as send_interrupt
from codriver.testing import exit_deadlines, program_bundle
from codriver.testing.event_stream import EventStream
from codriver.testing.exit_deadlines import KILL_TIMEOUT_S, TimeSinceFinished, has_exit_time_left, has_grace_time_left
from codriver.testing.process_guard import start_guard
from codriver.testing.retained_process import RetainedRun
from codriver.testing.running_process import (
    OpenProcess,
    RunningProcess,
    end_process,
    open_plain_process,
    remove_directory,
)
from codriver.testing.runs import (
    NO_TESTS_STATUS,
    Interruption,
    OutcomeCounts,
    Output,
    RunError,
    RunFinished,
    SecretsFound,
)
from codriver.testing.start_files import make_directory, process_environment, write_start_files

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from anyio.abc import Process

    from codriver.testing.runs import Event, RetainedProcess, RunSpec, TestProcess

MAX_POLL_INTERVAL_S: Final = 0.05
"""Maximum interval, in seconds, between reads of new output and events, and between checks of an interrupted run."""
MIN_POLL_INTERVAL_S: Final = 0.005
"""Minimum interval, in seconds, between reads of new output and events."""
POLLS_PER_DURATION: Final = 40
"""The polling interval is the time since the start of the run divided by this number. Short runs are polled often."""
MAX_READ_BYTES: Final = 2**20
"""Maximum number of bytes of output or events to read at once."""
TEXT_OPTIONS: Final = frozenset({"--version", "-V", "-VV", "--help", "-h"})
"""Options with which a test runner prints its version or help instead of running tests."""
_HINT_TEMPLATES: Final = {
    "no-pytest": "Install it in the project's environment: `uv pip install --python {python} pytest`",
    "old-pytest": "Install pytest 7 or later: `uv pip install --python {python} 'pytest>=7'`",
    "no-django": "Install it in the project's environment: `uv pip install --python {python} django`",
}
"""Templates of hints about errors in a run, by kind of error."""


def poll_interval_s(elapsed_s: float) -> float:
    """Return the interval until output and events are read again, given the time since the start of the run."""
    return min(MAX_POLL_INTERVAL_S, max(MIN_POLL_INTERVAL_S, elapsed_s / POLLS_PER_DURATION))


class PlainRun:
    """A test run in a new process."""

    def __init__(self, spec: RunSpec, directory: Path, process: RunningProcess) -> None:
        self._spec = spec
        self._process = process
        self.tree = ProcessTree.of(process.pid)
        self._stream = EventStream()
        self._files = _Tail(directory / "output", directory / "events")
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._started_at = time.monotonic()
        self._is_interrupted = False
        self._directory = directory
        self._retained: RetainedRun | None = None
        self.guard: Process | None = None
        self.is_detached = False
        """Whether the process was retained and now belongs to the caller."""

    @property
    def pid(self) -> int:
        """Return the process id of the test runner."""
        return self._process.pid

    async def events(self) -> AsyncIterator[Event]:
        """Yield the events of the run. May be iterated only once. The last event is `RunFinished`."""
        finished = TimeSinceFinished()
        lingers = False
        while True:
            with anyio.move_on_after(poll_interval_s(time.monotonic() - self._started_at)):
                await self._process.wait()
            has_exited = self._process.returncode is not None
            is_rest = False
            while not is_rest:
                output, data, is_rest = await to_thread.run_sync(self._files.read)
                events = self._stream.feed(data)
                # Secrets have to be known before the output is redacted.
                for event in events:
                    if isinstance(event, SecretsFound):
                        yield event
                if text := self._decoder.decode(output, final=has_exited and is_rest):
                    yield Output(text)
                for event in events:
                    if not isinstance(event, SecretsFound):
                        yield event
            if has_exited or self._stream.retained is not None:
                break
            if self._stream.end is not None:
                finished.advance(time.monotonic(), processor_wait_s(self.pid))
                if not lingers and not has_exit_time_left(finished.elapsed_s, finished.starved_s):
                    lingers = True
                    await self.kill()
        if self._stream.retained is not None and not has_exited:
            self._retained = RetainedRun(self._process, self.tree, self.guard, self._directory, self._stream.retained)
        yield self._finished_event(lingers=lingers)

    def _finished_event(self, *, lingers: bool) -> RunFinished:
        """Create the final event of the run from the summary of the process and its exit status.

        `lingers` is true if the process was killed because it did not exit after its last test.
        """
        stream, status = self._stream, self._process.returncode
        end, error = stream.end, stream.error
        if self._retained is not None:
            status = stream.status
        if lingers:
            status = end.status if end is not None else None
            error = error or RunError(
                "lingers",
                f"the tests have finished, but their process did not exit within {exit_deadlines.EXIT_GRACE_S:g} s",
                "A non-daemon thread or an exit handler is still running.",
            )
        elif end is None and error is None and not self._is_interrupted:
            error = None if status == 0 and self._only_prints_text() else self._exit_error(status)
        elif end is not None and error is None and status == 0 and not any(asdict(end.counts).values()):
            # unittest before Python 3.12 and Django's runner exit with status 0 in this case.
            status = status if self._spec.runner == "pytest" else NO_TESTS_STATUS
        if error is not None and not error.hint and error.kind in _HINT_TEMPLATES:
            hint = _HINT_TEMPLATES[error.kind].format(python=self._spec.python)
            error = RunError(error.kind, error.message, hint, error.failure)
        interruption = stream.interruption
        if self._is_interrupted and interruption is None:
            interruption = Interruption("")
        return RunFinished(
            exit_status=status,
            counts=end.counts if end is not None else OutcomeCounts(),
            seconds=time.monotonic() - self._started_at,
            interruption=interruption,
            error=error,
            unawaited=end.unawaited if end is not None else (),
            is_retained=self._retained is not None,
            why_not_retained=stream.why_not_retained,
        )

    def _only_prints_text(self) -> bool:
        """Return whether the arguments make the runner print its version or help and exit without a test session."""
        return not TEXT_OPTIONS.isdisjoint(self._spec.arguments)

    def _exit_error(self, status: int | None) -> RunError | None:
        """Return the error for a process that exited without writing a summary."""
        if status is not None and status < 0:
            with suppress(ValueError):
                return RunError("died", f"the process was ended by {signal.Signals(-status).name}")
            return RunError("died", f"the process was ended by signal {-status}")
        return RunError("died", f"the process ended with status {status} before the test run had finished")

    async def interrupt(self) -> None:
        """Interrupt the run as with Ctrl-C, so that fixtures are torn down. Kill it if the teardown takes over 5 s.

        A second call does not interrupt the teardown, but also waits for it.
        """
        if self._process.returncode is None and not self._is_interrupted:
            self._is_interrupted = True
            send_interrupt(self.pid, is_group=True)
        started_s, starved_s = time.monotonic(), processor_wait_s(self.pid)
        while HAS_GROUPS and self._process.returncode is None:
            if not has_grace_time_left(time.monotonic() - started_s, processor_wait_s(self.pid) - starved_s):
                break
            with anyio.move_on_after(MAX_POLL_INTERVAL_S):
                await self._process.wait()
        await self.kill()

    async def kill(self) -> None:
        """Kill the process group and wait until the process has exited."""
        if self._process.returncode is None and not self.tree.kill():
            self._process.kill()
        with anyio.move_on_after(KILL_TIMEOUT_S):
            await self._process.wait()
        self.tree.kill()

    def detach(self) -> RetainedProcess | None:
        """Return the retained process of a failed run, or None if it is not retained.

        The caller becomes responsible for closing it.
        """
        self.is_detached = self._retained is not None
        return self._retained


class _Tail:
    """Reads the data that is appended to a run's output and event files."""

    def __init__(self, output: Path, events: Path) -> None:
        self._output, self._events = output, events
        self._output_end = self._events_end = 0

    def read(self) -> tuple[bytes, bytes, bool]:
        """Return the new bytes of the output and of the events, and whether the ends of both were reached.

        Blocks.
        """
        output = _read_from(self._output, self._output_end, MAX_READ_BYTES)
        events = _read_from(self._events, self._events_end, MAX_READ_BYTES)
        self._output_end += len(output)
        self._events_end += len(events)
        return output, events, max(len(output), len(events)) < MAX_READ_BYTES


def _read_from(path: Path, start: int, most: int) -> bytes:
    """Return at most `most` bytes of a file, starting at the offset `start`. Blocks."""
    with path.open("rb") as file:
        file.seek(start)
        return file.read(most)


class _NoProcess:
    """A test run whose process could not be started."""

    pid = 0

    def __init__(self, error: RunError) -> None:
        self._exit_error = error

    async def events(self) -> AsyncIterator[Event]:
        """Yield the event that ends the run with an error."""
        yield RunFinished(exit_status=None, error=self._exit_error)

    async def interrupt(self) -> None:
        """Do nothing, because nothing is running."""

    async def kill(self) -> None:
        """Do nothing, because nothing is running."""

    def detach(self) -> RetainedProcess | None:
        """Return None, because there is no process."""
        return None


@asynccontextmanager
async def start_plain(spec: RunSpec) -> AsyncIterator[TestProcess]:
    """Start a test run in a new process. End it and remove its files when the context is exited."""
    async with start_in_process(spec, open_plain_process) as run:
        yield run


@asynccontextmanager
async def start_in_process(
    spec: RunSpec, open_process: OpenProcess, *, has_guard: bool = True
) -> AsyncIterator[TestProcess]:
    """Start a test run with `open_process`. End the process and remove its files when the context is exited.

    With `has_guard`, another process does this if the server exits earlier.
    """
    directory = await to_thread.run_sync(make_directory)
    try:
        try:
            programs = await to_thread.run_sync(write_start_files, spec, directory)
            command = [spec.python, str(program_bundle.BOOT_SCRIPT), str(programs), str(directory / "request")]
            process = await open_process(
                replace(spec, environment=process_environment(spec, directory)), command, directory
            )
        except OSError as error:
            await to_thread.run_sync(remove_directory, directory)
            yield _NoProcess(RunError("no-python", f"{spec.python} cannot be started: {error.strerror or error}"))
            return
        run = PlainRun(spec, directory, process)
        is_detached = False
        try:
            if has_guard:
                run.guard = await start_guard(process.pid, directory)
            yield run
            is_detached = run.is_detached
        finally:
            if not is_detached:
                with anyio.CancelScope(shield=True):
                    await end_process(process, run.tree, run.guard, directory)
    except BaseException:
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(remove_directory, directory)
        raise
