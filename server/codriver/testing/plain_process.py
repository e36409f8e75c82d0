"""Run tests in a new process.

To the tests it is `python -m pytest`, `python -m unittest` or `python manage.py test`. Results and output go through
files, because a process started by a test could hold a pipe open forever. A run ends when its process ends. The process
leads a process group, which is killed when the run has finished or the server has exited for any reason.
"""

from __future__ import annotations

import codecs
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from ast import literal_eval
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import anyio
from anyio import to_thread

from codriver.errors import refused
from codriver.systems.other_processes import HAS_GROUPS, NEW_CONSOLE, ProcessTree, processor_wait_s
from codriver.systems.other_processes import interrupt as send_interrupt
from codriver.testing import program_bundle
from codriver.testing.event_stream import EventStream, read_retained_failure
from codriver.testing.runs import (
    NO_TESTS_STATUS,
    Interruption,
    OutcomeCounts,
    Output,
    RunError,
    RunFinished,
    SecretsFound,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from anyio.abc import Process

    from codriver.testing.runs import Event, FailureFrame, RetainedProcess, RunSpec, TestProcess

MAX_POLL_INTERVAL_S: Final = 0.05
"""Maximum interval, in seconds, for reading new output and events and for checking if an interrupted run has ended."""
MIN_POLL_INTERVAL_S: Final = 0.005
"""Minimum interval, in seconds, for reading new output and events."""
POLLS_PER_DURATION: Final = 40
"""The polling interval is the time since the start of the run divided by this, so it is shorter for a short run."""
TEARDOWN_GRACE_S: Final = 5.0
"""Time for an interrupted run to tear down its fixtures, in seconds.

Time spent waiting for a processor does not count.
"""
MAX_TEARDOWN_GRACE_S: Final = 30.0
"""Maximum time, in seconds, for an interrupted run to tear down its fixtures, including waits for a processor."""
KILL_TIMEOUT_S: Final = 5.0
"""Maximum time to wait for a killed process, in seconds."""
EXIT_GRACE_S: Final = 10.0
"""Time for a process to join its threads, run its exit handlers and exit after its last test, in seconds.

Time spent waiting for a processor does not count.
"""
MAX_EXIT_TIMEOUT_S: Final = 60.0
"""Maximum time, in seconds, for a process to exit after its last test, including waits for a processor."""
MAX_COUNTED_GAP_S: Final = 1.0
"""Maximum time between two polls, in seconds, that is counted as time of the run.

If more time passes, this process itself was not running.
"""
MAX_READ_BYTES: Final = 2**20
"""Maximum number of bytes of output or events to read at once."""
GUARD_SCRIPT: Final = 'read -r line || { kill -s KILL -- "-$1"; rm -rf -- "$2"; }'
"""Shell script that kills a process group and removes its files when its stdin ends without a line.

That happens when the server is gone.
"""
SOURCES_DIRECTORY: Final = "sources"
"""Name of the directory with the content that a run sees in place of the files on disk."""
RETAINED_PROCESS_PROGRAMS: Final = "kept process"
"""Name of the additional programs that keep the process of a failed run alive."""
ANSWER_POLL_INTERVAL_S: Final = 0.02
"""Interval, in seconds, for checking whether a retained process has answered."""
EXIT_HANDLERS_TIMEOUT_S: Final = 2.0
"""Maximum time, in seconds, for a retained process to run its exit handlers."""
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


def has_grace_time_left(elapsed_s: float, starved_s: float) -> bool:
    """Return whether an interrupted run may continue to tear down its fixtures.

    `starved_s` is the part of `elapsed_s` during which its process waited for a processor.
    """
    return elapsed_s - starved_s < TEARDOWN_GRACE_S and elapsed_s < MAX_TEARDOWN_GRACE_S


def has_exit_time_left(elapsed_s: float, starved_s: float) -> bool:
    """Return whether a process may continue to exit after its last test.

    The arguments are those of `has_grace_time_left`.
    """
    return elapsed_s - starved_s <= EXIT_GRACE_S and elapsed_s <= MAX_EXIT_TIMEOUT_S


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
                f"the tests have finished, but their process did not exit within {EXIT_GRACE_S:g} s",
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
            warnings=end.warnings if end is not None else (),
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
        """Interrupt the run as with Ctrl-C, so that fixtures are torn down. Kill it if that takes more than 5 s.

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


class TimeSinceFinished:
    """Measures the time since the last test in a process.

    Long intervals in which the server itself did not run are only counted in part.
    """

    def __init__(self) -> None:
        self._checked_s: float | None = None
        self._starved_before_s = 0.0
        self.elapsed_s = 0.0
        self.starved_s = 0.0
        """The part of this time in which the process waited for a processor."""

    def advance(self, now_s: float, starved_s: float) -> None:
        """Add the time since the previous call.

        `starved_s` is the time that the process has waited for a processor since its start, or 0 if the process is
        gone.
        """
        if self._checked_s is None:
            self._starved_before_s = starved_s
        else:
            self.elapsed_s += min(now_s - self._checked_s, MAX_COUNTED_GAP_S)
        self._checked_s = now_s
        self.starved_s = max(self.starved_s, starved_s - self._starved_before_s)


class RetainedRun:
    """The retained process of a failed run. It is stopped except while it evaluates code."""

    def __init__(
        self,
        process: RunningProcess,
        tree: ProcessTree,
        guard: Process | None,
        directory: Path,
        retained: Mapping[str, Any],
    ) -> None:
        self._process, self._tree, self._start_guard, self._directory = process, tree, guard, directory
        self._nodeid, self._frames = read_retained_failure(retained)
        self._is_closed = False
        self._lock = anyio.Lock()
        self._interrupted = anyio.Event()
        self._number = 0

    @property
    def pid(self) -> int:
        """Return the process id."""
        return self._process.pid

    @property
    def nodeid(self) -> str:
        """Return the id of the first test that failed."""
        return self._nodeid

    @property
    def frames(self) -> tuple[FailureFrame, ...]:
        """Return the frames of the failure, innermost first."""
        return self._frames

    async def evaluate(self, code: str, frame: int, *, timeout_s: float) -> Mapping[str, Any]:
        """Evaluate code in a frame, where 0 is the innermost. Return `output` and either `value` or `error`.

        Raises:
            RefusedError: the process has exited, or was ended because it did not respond to an interrupt.
        """
        async with self._lock:
            number, self._number = self._number, self._number + 1
            self._interrupted = anyio.Event()
            await to_thread.run_sync(self._write_request, number, (frame, code))
            answer = await self._wait_for_answer(number, timeout_s)
            if answer is None and self._process.returncode is None:
                send_interrupt(self.pid, is_group=False)
                self._interrupted = anyio.Event()
                answer = await self._wait_for_answer(number, EXIT_HANDLERS_TIMEOUT_S)
        if answer is None:
            await self.aclose()
            raise refused("no-frame", f"the process of {self._nodeid} has ended", hint="Run the test again.")
        return answer

    async def interrupt(self) -> None:
        """Interrupt the code that is being evaluated. If it does not stop within 2 s, end the process."""
        self._interrupted.set()

    def _write_request(self, number: int, request: tuple[int | None, str]) -> None:
        """Write a request with a frame and code for the process. A frame of None ends the process. Blocks."""
        path = self._directory / f"question-{number}"
        new = path.with_suffix(".new")
        new.write_text(ascii(request), "ascii")
        new.replace(path)

    async def _wait_for_answer(self, number: int, timeout_s: float) -> Mapping[str, Any] | None:
        """Resume the process until it has answered a request.

        Return None if it exits, is interrupted, or does not answer in time.
        """
        path = self._directory / f"answer-{number}"
        with anyio.move_on_after(timeout_s):
            while self._process.returncode is None and not self._interrupted.is_set():
                self._resume()
                if path.exists():
                    found = literal_eval(path.read_text("ascii"))
                    return found if isinstance(found, dict) else None
                with anyio.move_on_after(ANSWER_POLL_INTERVAL_S):
                    await self._interrupted.wait()
        return None

    def _resume(self) -> None:
        """Resume the process after it has stopped itself."""
        if sys.platform != "win32":
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGCONT)

    async def aclose(self) -> None:
        """End the process and its child processes. Has no effect if it was already closed."""
        if self._is_closed:
            return
        self._is_closed = True
        with anyio.CancelScope(shield=True):
            if self._process.returncode is None:
                with suppress(OSError):
                    await to_thread.run_sync(self._write_request, self._number, (None, ""))
                with anyio.move_on_after(EXIT_HANDLERS_TIMEOUT_S):
                    while self._process.returncode is None:
                        self._resume()
                        with anyio.move_on_after(ANSWER_POLL_INTERVAL_S):
                            await self._process.wait()
            await _end_process(self._process, self._tree, self._start_guard, self._directory)


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


class RunningProcess(Protocol):
    """The process of a test run. It leads a process group."""

    @property
    def pid(self) -> int:
        """Return the process id."""
        ...

    @property
    def returncode(self) -> int | None:
        """Return the exit status as defined by `subprocess`, or None while the process is running."""
        ...

    async def wait(self) -> int:
        """Wait until the process exits, and return the exit status."""
        ...

    def kill(self) -> None:
        """Kill the process."""
        ...

    async def aclose(self) -> None:
        """Release the resources of the process."""
        ...


OpenProcess = Callable[["RunSpec", "Sequence[str]", Path], "Awaitable[RunningProcess]"]
"""A function that starts a command, whose output goes to the file `output` in the given directory."""


@asynccontextmanager
async def start_plain(spec: RunSpec) -> AsyncIterator[TestProcess]:
    """Start a test run in a new process. End it and remove its files when the context is left."""
    async with start_in_process(spec, open_plain_process) as run:
        yield run


@asynccontextmanager
async def start_in_process(spec: RunSpec, open_process: OpenProcess) -> AsyncIterator[TestProcess]:
    """Start a test run in a process that `open_process` opens. End it and remove its files when the context is left."""
    directory = await to_thread.run_sync(_make_directory)
    try:
        try:
            programs = await to_thread.run_sync(_write_start_files, spec, directory)
            command = [spec.python, str(program_bundle.BOOT_SCRIPT), str(programs), str(directory / "request")]
            process = await open_process(
                replace(spec, environment=_process_environment(spec, directory)), command, directory
            )
        except OSError as error:
            await to_thread.run_sync(_remove_directory, directory)
            yield _NoProcess(RunError("no-python", f"{spec.python} cannot be started: {error.strerror or error}"))
            return
        run = PlainRun(spec, directory, process)
        is_detached = False
        try:
            run.guard = await _start_guard(process.pid, directory)
            yield run
            is_detached = run.is_detached
        finally:
            if not is_detached:
                with anyio.CancelScope(shield=True):
                    await _end_process(process, run.tree, run.guard, directory)
    except BaseException:
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(_remove_directory, directory)
        raise


async def _end_process(process: RunningProcess, tree: ProcessTree, guard: Process | None, directory: Path) -> None:
    """End a process and its child processes, and remove the run's files."""
    if process.returncode is None and not tree.kill():
        process.kill()
    with anyio.move_on_after(KILL_TIMEOUT_S):
        await process.wait()
    tree.kill()
    await process.aclose()
    await _release_guard(guard)
    await to_thread.run_sync(_remove_directory, directory)


def _remove_directory(directory: Path) -> None:
    """Remove the directory of a run. Errors are ignored. Blocks."""
    shutil.rmtree(directory, ignore_errors=True)


def _make_directory() -> Path:
    """Create a temporary directory for a run's files. Blocks."""
    return Path(tempfile.mkdtemp(prefix="codriver-tests-"))


def _write_start_files(spec: RunSpec, directory: Path) -> Path:
    """Write the files that the process reads when it starts. Return the file with its programs. Blocks."""
    for name in ("output", "events"):
        (directory / name).touch(mode=0o600)
    if spec.sources:
        _write_sources(spec, directory / SOURCES_DIRECTORY)
    programs = program_bundle.bundle_programs(
        spec.runner,
        (*_recorder_options(spec), *([RETAINED_PROCESS_PROGRAMS] if _retains_process(spec) else [])),
        run_directory=directory,
    )
    (directory / "request").write_text(ascii(_build_request(spec, directory, programs)), "ascii")
    return programs


def _write_sources(spec: RunSpec, run_directory: Path) -> None:
    """Write the contents that the process sees in place of files, and the program that replaces them. Blocks."""
    run_directory.mkdir(mode=0o700)
    table: dict[str, str | None] = {}
    for path, content in spec.sources.items():
        content_file = run_directory / f"content-{len(table)}"
        table[path] = None if content is None else str(content_file)
        if content is not None:
            content_file.write_bytes(content)
            for parent in Path(path).parents:
                if parent.exists() or str(parent) in table:
                    break
                directory = run_directory / f"directory-{len(table)}"
                directory.mkdir()
                table[str(parent)] = str(directory)
    (run_directory / "table").write_text(ascii(table), "ascii")
    shutil.copyfile(program_bundle.REPLACED_FILES_SCRIPT, run_directory / "sitecustomize.py")


def _build_request(spec: RunSpec, directory: Path, programs: Path) -> Mapping[str, Any]:
    """Return the request that the process reads when it starts: what to run and record, and the paths of its files."""
    arguments = list(spec.arguments)
    recorders = [(program_bundle.recorder_program(name), options) for name, options in _recorder_options(spec).items()]
    request: dict[str, Any] = {
        "events": str(directory / "events"),
        "without_runner": program_bundle.runner_independent_programs(),
        "plugin": program_bundle.plugin_program(spec.runner),
        "recorders": recorders,
        "path": str(directory / "request"),
        "boot": str(program_bundle.BOOT_SCRIPT),
        "programs": str(programs),
        "has_sources": bool(spec.sources),
        "is_isolated": spec.is_isolated,
        "chosen": None if spec.chosen is None else (list(spec.chosen.functions), list(spec.chosen.files)),
        "script": "",
    }
    if spec.runner == "django":
        script = "manage.py"
        words = [script, "test", *arguments]
        return {
            **request,
            "imports": ["django"],
            "package": "django",
            "module": "",
            "script": script,
            "argv": words,
        } | {"orig_argv": [spec.python, *words]}
    return {
        **request,
        "imports": ["runpy", spec.runner],
        "package": spec.runner,
        "module": spec.runner,
        "argv": ["-m", *arguments],
        "orig_argv": [spec.python, "-m", spec.runner, *arguments],
    }


def _retains_process(spec: RunSpec) -> bool:
    """Return whether the process is to be retained if the run fails."""
    return spec.retains_failed_process or "--pdb" in spec.arguments


def _recorder_options(spec: RunSpec) -> Mapping[str, Mapping[str, Any]]:
    """Return the options for each recorder in a run, by the recorder's name."""
    roots = list(spec.roots or (str(spec.directory),))
    return {name: {"roots": roots, **options} for name, options in spec.recorders.items()}


def _process_environment(spec: RunSpec, run_directory: Path) -> dict[str, str]:
    """Return the environment variables of the process, with PWD set to its directory, as in a shell."""
    environment = dict(spec.environment)
    if spec.is_isolated:
        environment = {name: value for name, value in environment.items() if not name.startswith("PYTHON")}
        environment["PYTHONNOUSERSITE"] = "1"
    if "PWD" in environment:
        environment["PWD"] = str(spec.directory)
    if spec.sources:
        others = [path for path in [environment.get("PYTHONPATH")] if path]
        environment["PYTHONPATH"] = os.pathsep.join([str(run_directory / SOURCES_DIRECTORY), *others])
    return environment


async def open_plain_process(spec: RunSpec, command: Sequence[str], run_directory: Path) -> Process:
    """Run a command in a new process, with its output written to a file. See `OpenProcess`."""
    with (run_directory / "output").open("ab") as output:
        return await anyio.open_process(
            program_bundle.script_command(*command),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=spec.directory,
            env=spec.environment,
            start_new_session=sys.platform != "win32",
            creationflags=NEW_CONSOLE,
        )


async def _start_guard(pid: int, directory: Path) -> Process | None:
    """Start a process that kills a process group when the server exits.

    Return None on Windows, where the process tree ends together with the server.
    """
    if not HAS_GROUPS:
        return None
    try:
        return await anyio.open_process(
            ["/bin/sh", "-c", GUARD_SCRIPT, "sh", str(pid), str(directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        return None


async def _release_guard(guard: Process | None) -> None:
    """End the guard of a process group that has ended."""
    if guard is None or guard.stdin is None:
        return
    with suppress(OSError, anyio.BrokenResourceError):
        await guard.stdin.send(b"\n")
    with anyio.move_on_after(KILL_TIMEOUT_S):
        await guard.wait()
    await guard.aclose()
