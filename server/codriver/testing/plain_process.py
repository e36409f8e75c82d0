"""Test runs as plain new processes: to the tests, `python -m pytest`, `python -m unittest` or `python manage.py test`.

Results go through a file, and so does output: a process that a test leaves running can hold a pipe open for ever, and
the end of a run is the end of its process. The process leads a group, which is killed when the run is over or the
server is gone, however the server ended.
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
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import anyio
from anyio import to_thread

from codriver.errors import refused
from codriver.systems.other_processes import HAS_GROUPS, NEW_CONSOLE, ProcessTree
from codriver.systems.other_processes import interrupt as send_interrupt
from codriver.testing import program_bundle
from codriver.testing.event_stream import EventStream, read_kept
from codriver.testing.runs import Counts, Interruption, Output, RunFinished, RunProblem, SecretsSeen

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from anyio.abc import Process

    from codriver.testing.runs import Event, FailureFrame, KeptProcess, RunSpec, TestProcess

POLL_S: Final = 0.05
GRACE_S: Final = 5.0
"""The time in which an interrupted run tears its fixtures down."""
END_S: Final = 5.0
"""The longest wait for the end of a killed process."""
LINGER_S: Final = 10.0
"""The time for a process to end after its last test: threads are joined, and exit handlers run."""
OUTPUT_BYTES: Final = 2**20
"""The output read at once."""
GUARD: Final = 'read -r line || { kill -s KILL -- "-$1"; rm -rf -- "$2"; }'
"""A shell that kills a process group, and removes its files, when its standard input ends without a line: the server is
gone.
"""
SOURCES: Final = "sources"
"""The directory of a run with the contents that it sees in place of files."""
KEPT: Final = "kept process"
STOPPED_S: Final = 0.02
"""Between two looks for the answer of a process that was stopped."""
QUIT_S: Final = 2.0
"""The time for a kept process to run its exit handlers."""
_HINTS: Final = {
    "no-pytest": "install it in the project's environment: `uv pip install --python {python} pytest`",
    "old-pytest": "install pytest 7 or later: `uv pip install --python {python} 'pytest>=7'`",
    "no-django": "install it in the project's environment: `uv pip install --python {python} django`",
}


class PlainRun:
    """A run in a process of its own."""

    def __init__(self, spec: RunSpec, folder: Path, process: RunningProcess) -> None:
        self._spec = spec
        self._process = process
        self.tree = ProcessTree.of(process.pid)
        self._stream = EventStream()
        self._files = _Tail(folder / "output", folder / "events")
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._started_at = time.monotonic()
        self._is_interrupted = False
        self._folder = folder
        self._kept: KeptRun | None = None
        self.guard: Process | None = None
        self.is_given_away = False
        """Whether the process was kept, and belongs to the caller."""

    @property
    def pid(self) -> int:
        """The process id of the runner."""
        return self._process.pid

    async def events(self) -> AsyncIterator[Event]:
        """The events, once; the last one is `RunFinished`."""
        ended_at: float | None = None
        lingers = False
        while True:
            with anyio.move_on_after(POLL_S):
                await self._process.wait()
            has_ended = self._process.returncode is not None
            is_rest = False
            while not is_rest:
                output, data, is_rest = await to_thread.run_sync(self._files.read)
                events = self._stream.feed(data)
                # Whoever takes secrets out of the output has to know them before.
                for event in events:
                    if isinstance(event, SecretsSeen):
                        yield event
                if text := self._decoder.decode(output, final=has_ended and is_rest):
                    yield Output(text)
                for event in events:
                    if not isinstance(event, SecretsSeen):
                        yield event
            if has_ended or self._stream.kept is not None:
                break
            if self._stream.end is not None:
                ended_at = ended_at or time.monotonic()
                if time.monotonic() - ended_at > LINGER_S and not lingers:
                    lingers = True
                    await self.kill()
        if self._stream.kept is not None and not has_ended:
            self._kept = KeptRun(self._process, self.tree, self.guard, self._folder, self._stream.kept)
        yield self._finished(lingers=lingers)

    def _finished(self, *, lingers: bool) -> RunFinished:
        """The end of the run, from what the process reported and how it ended."""
        stream, status = self._stream, self._process.returncode
        end, problem = stream.end, stream.problem
        if self._kept is not None:
            status = stream.status
        if lingers:
            status = end.status if end is not None else None
            problem = problem or RunProblem(
                "lingers",
                f"the tests are done, and their process did not end within {LINGER_S:g} s",
                "a thread that is no daemon, or an exit handler, still runs",
            )
        elif end is None and problem is None and not self._is_interrupted:
            problem = self._problem(status)
        if problem is not None and not problem.hint and problem.kind in _HINTS:
            hint = _HINTS[problem.kind].format(python=self._spec.python)
            problem = RunProblem(problem.kind, problem.message, hint, problem.failure)
        interruption = stream.interruption
        if self._is_interrupted and interruption is None:
            interruption = Interruption("")
        return RunFinished(
            exit_status=status,
            counts=end.counts if end is not None else Counts(),
            seconds=time.monotonic() - self._started_at,
            interruption=interruption,
            problem=problem,
            warnings=end.warnings if end is not None else (),
            is_kept=self._kept is not None,
            not_kept=stream.not_kept,
        )

    def _problem(self, status: int | None) -> RunProblem | None:
        """Why the process ended without a report."""
        if status is not None and status < 0:
            with suppress(ValueError):
                return RunProblem("died", f"the process was ended by {signal.Signals(-status).name}")
            return RunProblem("died", f"the process was ended by signal {-status}")
        return RunProblem("died", f"the process ended with status {status} before its run was over")

    async def interrupt(self) -> None:
        """Interrupt the run as Ctrl-C does, so that fixtures are torn down; kill it 5 s later if it still runs."""
        if self._process.returncode is None:
            self._is_interrupted = True
            send_interrupt(self.pid, is_group=True)
            with anyio.move_on_after(GRACE_S if HAS_GROUPS else 0):
                await self._process.wait()
        await self.kill()

    async def kill(self) -> None:
        """Kill the process group, and wait for the end."""
        if self._process.returncode is None and not self.tree.kill():
            self._process.kill()
        with anyio.move_on_after(END_S):
            await self._process.wait()
        self.tree.kill()

    def keep(self) -> KeptProcess | None:
        """The process of a failed run, which from now on belongs to the caller; None if it is not kept."""
        self.is_given_away = self._kept is not None
        return self._kept


class KeptRun:
    """The process of a failed run, which is stopped while nobody evaluates code in it."""

    def __init__(
        self,
        process: RunningProcess,
        tree: ProcessTree,
        guard: Process | None,
        folder: Path,
        kept: Mapping[str, Any],
    ) -> None:
        self._process, self._tree, self._guard, self._folder = process, tree, guard, folder
        self._nodeid, self._frames = read_kept(kept)
        self._is_closed = False
        self._lock = anyio.Lock()
        self._interrupted = anyio.Event()
        self._number = 0

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def nodeid(self) -> str:
        """The test that failed first."""
        return self._nodeid

    @property
    def frames(self) -> tuple[FailureFrame, ...]:
        """The frames of that failure, innermost first."""
        return self._frames

    async def evaluate(self, code: str, frame: int, *, timeout_s: float) -> Mapping[str, Any]:
        """Evaluate code in a frame, 0 being the innermost; `value` or `error`, and `output`, as texts.

        Raises:
            RefusedError: the process is gone, or did not answer an interrupt and was ended.
        """
        async with self._lock:
            number, self._number = self._number, self._number + 1
            self._interrupted = anyio.Event()
            await to_thread.run_sync(self._ask, number, (frame, code))
            answer = await self._answer(number, timeout_s)
            if answer is None and self._process.returncode is None:
                send_interrupt(self.pid, is_group=False)
                self._interrupted = anyio.Event()
                answer = await self._answer(number, QUIT_S)
        if answer is None:
            await self.aclose()
            raise refused("no-frame", f"the process of {self._nodeid} is gone", hint="run the test again")
        return answer

    async def interrupt(self) -> None:
        """Interrupt the code that is evaluated; its process is ended if that takes longer than 2 s."""
        self._interrupted.set()

    def _ask(self, number: int, question: tuple[int | None, str]) -> None:
        """Write a question. Blocks."""
        path = self._folder / f"question-{number}"
        new = path.with_suffix(".new")
        new.write_text(ascii(question), "ascii")
        new.replace(path)

    async def _answer(self, number: int, timeout_s: float) -> Mapping[str, Any] | None:
        """Let the process go on until it answers."""
        path = self._folder / f"answer-{number}"
        with anyio.move_on_after(timeout_s):
            while self._process.returncode is None and not self._interrupted.is_set():
                self._continue()
                if path.exists():
                    found = literal_eval(path.read_text("ascii"))
                    return found if isinstance(found, dict) else None
                with anyio.move_on_after(STOPPED_S):
                    await self._interrupted.wait()
        return None

    def _continue(self) -> None:
        if sys.platform != "win32":
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGCONT)

    async def aclose(self) -> None:
        """End the process and everything that it started. Again is harmless."""
        if self._is_closed:
            return
        self._is_closed = True
        with anyio.CancelScope(shield=True):
            if self._process.returncode is None:
                with suppress(OSError):
                    await to_thread.run_sync(self._ask, self._number, (None, ""))
                with anyio.move_on_after(QUIT_S):
                    while self._process.returncode is None:
                        self._continue()
                        with anyio.move_on_after(STOPPED_S):
                            await self._process.wait()
            await _end(self._process, self._tree, self._guard, self._folder)


class _Tail:
    """Reads what is new in the two files of a run."""

    def __init__(self, output: Path, events: Path) -> None:
        self._output, self._events = output, events
        self._output_end = self._events_end = 0

    def read(self) -> tuple[bytes, bytes, bool]:
        """The new bytes of the output and of the events, and whether that is all of them. Blocks."""
        output = _read_from(self._output, self._output_end, OUTPUT_BYTES)
        events = _read_from(self._events, self._events_end, OUTPUT_BYTES)
        self._output_end += len(output)
        self._events_end += len(events)
        return output, events, max(len(output), len(events)) < OUTPUT_BYTES


def _read_from(path: Path, start: int, most: int) -> bytes:
    with path.open("rb") as file:
        file.seek(start)
        return file.read(most)


class _NoProcess:
    """A run whose process could not be started."""

    pid = 0

    def __init__(self, problem: RunProblem) -> None:
        self._problem = problem

    async def events(self) -> AsyncIterator[Event]:
        """The end of the run."""
        yield RunFinished(exit_status=None, problem=self._problem)

    async def interrupt(self) -> None:
        """Nothing runs."""

    async def kill(self) -> None:
        """Nothing runs."""

    def keep(self) -> KeptProcess | None:
        """There is no process."""
        return None


class RunningProcess(Protocol):
    """What a run needs of its process, which leads a process group."""

    @property
    def pid(self) -> int:
        """The process id."""
        ...

    @property
    def returncode(self) -> int | None:
        """The exit status as `subprocess` has it; None while it runs."""
        ...

    async def wait(self) -> int:
        """Wait for the end, and return the exit status."""
        ...

    def kill(self) -> None:
        """Kill the process."""
        ...

    async def aclose(self) -> None:
        """Release what belongs to the process."""
        ...


OpenProcess = Callable[["RunSpec", "Sequence[str]", Path], "Awaitable[RunningProcess]"]
"""A way to run a command: an interpreter, a script and its arguments. It prints to `output` in the directory given."""


@asynccontextmanager
async def start_plain(spec: RunSpec) -> AsyncIterator[TestProcess]:
    """Start a run as a plain new process. Leaving the context ends the run, and removes its files."""
    async with start_with(spec, open_plain) as run:
        yield run


@asynccontextmanager
async def start_with(spec: RunSpec, open_process: OpenProcess) -> AsyncIterator[TestProcess]:
    """Start a run in a process that `open_process` opens. Leaving the context ends the run, and removes its files."""
    folder = await to_thread.run_sync(_make_folder)
    try:
        try:
            programs = await to_thread.run_sync(_lay_request, spec, folder)
            command = [spec.python, str(program_bundle.BOOT), str(programs), str(folder / "request")]
            process = await open_process(replace(spec, environment=_environment(spec, folder)), command, folder)
        except OSError as error:
            await to_thread.run_sync(_remove, folder)
            yield _NoProcess(RunProblem("no-python", f"{spec.python} cannot be started: {error.strerror or error}"))
            return
        run = PlainRun(spec, folder, process)
        is_given_away = False
        try:
            run.guard = await _guard(process.pid, folder)
            yield run
            is_given_away = run.is_given_away
        finally:
            if not is_given_away:
                with anyio.CancelScope(shield=True):
                    await _end(process, run.tree, run.guard, folder)
    except BaseException:
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(_remove, folder)
        raise


async def _end(process: RunningProcess, tree: ProcessTree, guard: Process | None, folder: Path) -> None:
    """End a process with all that it started, and remove its files."""
    if process.returncode is None and not tree.kill():
        process.kill()
    with anyio.move_on_after(END_S):
        await process.wait()
    tree.kill()
    await process.aclose()
    await _release(guard)
    await to_thread.run_sync(_remove, folder)


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


def _make_folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="codriver-tests-"))


def _lay_request(spec: RunSpec, folder: Path) -> Path:
    """Write what the process reads at its start, and return the file of its programs. Blocks."""
    for name in ("output", "events"):
        (folder / name).touch(mode=0o600)
    if spec.sources:
        _lay_sources(spec, folder / SOURCES)
    programs = program_bundle.bundle(spec.runner, (*_recorders(spec), *([KEPT] if _is_to_be_kept(spec) else [])))
    (folder / "request").write_text(ascii(_request(spec, folder, programs)), "ascii")
    return programs


def _lay_sources(spec: RunSpec, folder: Path) -> None:
    """Write the contents that the process sees in place of files, and the program that shows them. Blocks."""
    folder.mkdir(mode=0o700)
    table: dict[str, str | None] = {}
    for path, content in spec.sources.items():
        place = folder / f"content-{len(table)}"
        table[path] = None if content is None else str(place)
        if content is not None:
            place.write_bytes(content)
            for parent in Path(path).parents:
                if parent.exists() or str(parent) in table:
                    break
                directory = folder / f"directory-{len(table)}"
                directory.mkdir()
                table[str(parent)] = str(directory)
    (folder / "table").write_text(ascii(table), "ascii")
    shutil.copyfile(program_bundle.REPLACED_FILES, folder / "sitecustomize.py")


def _request(spec: RunSpec, folder: Path, programs: Path) -> Mapping[str, Any]:
    arguments = list(spec.arguments)
    recorders = [(program_bundle.recorder_program(name), options) for name, options in _recorders(spec).items()]
    request: dict[str, Any] = {
        "events": str(folder / "events"),
        "without_runner": program_bundle.without_runner(),
        "plugin": program_bundle.plugin_of(spec.runner),
        "recorders": recorders,
        "path": str(folder / "request"),
        "boot": str(program_bundle.BOOT),
        "programs": str(programs),
        "has_sources": bool(spec.sources),
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


def _is_to_be_kept(spec: RunSpec) -> bool:
    return spec.keeps_failed_process or "--pdb" in spec.arguments


def _recorders(spec: RunSpec) -> Mapping[str, Mapping[str, Any]]:
    """The options of the recorders of a run, by name."""
    roots = list(spec.roots or (str(spec.directory),))
    return {name: {"roots": roots, **options} for name, options in spec.recorders.items()}


def _environment(spec: RunSpec, folder: Path) -> dict[str, str]:
    """The environment of the process. A shell that changes its directory changes PWD, too."""
    changed = {"PWD": str(spec.directory)} if "PWD" in spec.environment else {}
    if spec.sources:
        others = [one for one in [spec.environment.get("PYTHONPATH")] if one]
        changed["PYTHONPATH"] = os.pathsep.join([str(folder / SOURCES), *others])
    return {**spec.environment, **changed}


async def open_plain(spec: RunSpec, command: Sequence[str], folder: Path) -> Process:
    """Run a command in a new process: see `OpenProcess`."""
    with (folder / "output").open("ab") as output:
        return await anyio.open_process(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=spec.directory,
            env=spec.environment,
            start_new_session=sys.platform != "win32",
            creationflags=NEW_CONSOLE,
        )


async def _guard(pid: int, folder: Path) -> Process | None:
    """A process that kills a group when the server is gone; on Windows the tree ends with the server by itself."""
    if not HAS_GROUPS:
        return None
    try:
        return await anyio.open_process(
            ["/bin/sh", "-c", GUARD, "sh", str(pid), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        return None


async def _release(guard: Process | None) -> None:
    """End the process that guards a group that is gone."""
    if guard is None or guard.stdin is None:
        return
    with suppress(OSError, anyio.BrokenResourceError):
        await guard.stdin.send(b"\n")
    with anyio.move_on_after(END_S):
        await guard.wait()
    await guard.aclose()
