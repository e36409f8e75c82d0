"""A test run in a fork of a warm process, which is repeated in a plain process if necessary."""

from __future__ import annotations

from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import anyio
from anyio import to_thread

from codriver.features.warm_tests.learning import MAX_LATE_IMPORT_S
from codriver.features.warm_tests.plans import Obstacle
from codriver.features.warm_tests.run_observations import RunObservations
from codriver.features.warm_tests.warm_process import RECORDER_SCRIPT, WarmProcess, WarmProcessError
from codriver.testing.plain_process import start_in_process
from codriver.testing.running_process import open_plain_process
from codriver.testing.runs import ReportBuilder, RunError, RunFinished, TestStarted

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from codriver.features.warm_tests.decisions import Decision
    from codriver.features.warm_tests.learning import RunLearner
    from codriver.features.warm_tests.process_pool import WarmProcessPool
    from codriver.features.warm_tests.project_state import ProjectState
    from codriver.testing.running_process import RunningProcess
    from codriver.testing.runs import Event, RetainedProcess, RunSpec, TestProcess, TestReport

STARTED_EVENT_PART: Final = '"event":"started"'
"""A string that the events file contains once a test has started."""


class WarmRun:
    """A test run in a fork of the warm process. It is repeated in a plain process if that turns out to be necessary."""

    def __init__(
        self, pool: WarmProcessPool, learner: RunLearner, spec: RunSpec, entry: ProjectState, stack: AsyncExitStack
    ) -> None:
        self._learner = learner
        self._spec = spec
        self._entry = entry
        self._stack = stack
        self._record = pool.new_file("record")
        self._answer = pool.new_file("answer")
        self._process: WarmProcess | None = None
        self._run: TestProcess
        self._is_stopped = False

    async def start(self, decision: Decision) -> None:
        """Start the process of the run, as decided."""
        self._stack.push_async_callback(self._remove_files)
        if decision.is_warm:
            self._process = self._entry.process
            try:
                # If the server exits, the warm process ends the run.
                start = start_in_process(self._spec, self._open_warm, has_guard=False)
                self._run = await self._stack.enter_async_context(start)
            except WarmProcessError as error:
                self._entry.reason = str(error)
                self._process = None
            else:
                return
        await self._start_plain()

    async def _start_plain(self) -> None:
        self._process = None
        self._run = await self._stack.enter_async_context(start_in_process(self._spec, self._open_recorded))

    async def _open_warm(self, spec: RunSpec, command: Sequence[str], directory: Path) -> RunningProcess:
        """Start the run in a new child of the warm process."""
        _, script, *arguments = command
        if self._process is None:
            raise WarmProcessError("the warm process has ended")
        return await self._process.fork(
            {
                "script": script,
                "arguments": arguments,
                "directory": str(spec.directory),
                "environment": dict(spec.environment),
                "output": str(directory / "output"),
                "events": str(directory / "events"),
                "begun": STARTED_EVENT_PART,
                "record": str(self._record),
                "min_imported_s": MAX_LATE_IMPORT_S,
                "answer": str(self._answer),
            }
        )

    async def _open_recorded(self, spec: RunSpec, command: Sequence[str], directory: Path) -> RunningProcess:
        """Start the run in a plain process. The imports of a project's first plain run are recorded."""
        if self._entry.project.plan is None:
            command = (command[0], str(RECORDER_SCRIPT), str(self._record), *command[1:])
        return await open_plain_process(spec, command, directory)

    @property
    def pid(self) -> int:
        """Return the process id of the test runner."""
        return self._run.pid

    async def events(self) -> AsyncIterator[Event]:
        """Yield the events of the run. May be iterated only once.

        The events of a warm run are held back until a test starts, because the run may have to be repeated.
        """
        if self._process is None:
            async for event in self._plain_events():
                yield event
            return
        builder, observations, has_started = ReportBuilder(), RunObservations.start(), False
        waiting: list[Event] = []
        async for event in self._run.events():
            builder.add(event)
            observations.add(event)
            waiting.append(event)
            if isinstance(event, RunFinished):
                obstacle = await to_thread.run_sync(_read_obstacle, self._answer)
                if obstacle is not None and await self._start_again(obstacle):
                    async for other in self._plain_events():
                        yield other
                    return
                waiting[-1] = finished = self._finish_event(event, obstacle)
                builder.add(finished)
                if obstacle is None:
                    await self._report_results(builder.report(), observations, is_warm=True)
            has_started = has_started or isinstance(event, (TestStarted, RunFinished))
            if has_started:
                for message in waiting:
                    yield message
                waiting.clear()

    async def _start_again(self, obstacle: Obstacle) -> bool:
        """Correct the plan, and repeat the run in a plain process. Return whether it is repeated.

        It is not repeated if a test has started or the run was stopped.
        """
        self._entry.reason = obstacle.reason
        await self._learner.learn_from_obstacle(self._spec, self._entry, obstacle)
        if obstacle.has_started or self._is_stopped:
            return False
        await self._start_plain()
        return True

    def _finish_event(self, event: RunFinished, obstacle: Obstacle | None) -> RunFinished:
        """Return the last event of a warm run with the hash seed added, and an error if the run was aborted."""
        seed = self._process.seed if self._process is not None else None
        if obstacle is None:
            return replace(event, hash_seed=seed)
        # The run interrupted itself, unless it was interrupted from outside.
        interruption = event.interruption if self._is_stopped else None
        return replace(event, hash_seed=seed, error=_obstacle_error(obstacle), interruption=interruption)

    async def _plain_events(self) -> AsyncIterator[Event]:
        builder, observations = ReportBuilder(), RunObservations.start()
        async for event in self._run.events():
            builder.add(event)
            observations.add(event)
            if isinstance(event, RunFinished):
                await self._report_results(builder.report(), observations, is_warm=False)
            yield event

    async def _report_results(self, report: TestReport, observations: RunObservations, *, is_warm: bool) -> None:
        """Pass the results of the run to the learner."""
        record = await to_thread.run_sync(_text, self._record)
        self._learner.learn_later(self._spec, self._entry, report, observations, record, is_warm=is_warm)

    async def interrupt(self) -> None:
        """Interrupt the run. See `TestProcess.interrupt`."""
        self._is_stopped = True
        await self._run.interrupt()

    async def kill(self) -> None:
        """Kill the process of the run. See `TestProcess.kill`."""
        self._is_stopped = True
        await self._run.kill()

    def detach(self) -> RetainedProcess | None:
        """Detach the process of a failed run. See `TestProcess.detach`."""
        return self._run.detach()

    async def _remove_files(self) -> None:
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(_remove, (self._record, self._answer))


def _obstacle_error(obstacle: Obstacle) -> RunError:
    return RunError(
        "preloaded",
        f"the run was not finished: {obstacle.reason}",
        "run the tests again: the next run uses a plain process",
    )


def _text(path: Path) -> str | None:
    try:
        return path.read_text("utf-8")
    except OSError:
        return None


def _remove(paths: Sequence[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


def _read_obstacle(path: Path) -> Obstacle | None:
    text = _text(path)
    with suppress(ValueError):
        return Obstacle.parse(text) if text is not None else None
    return None
