"""Start warm processes, limit their memory, and end them when they are idle."""

from __future__ import annotations

import secrets
import shutil
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
from anyio import to_thread

from codriver.features.warm_tests import decisions
from codriver.features.warm_tests.plans import lasting_exclusions
from codriver.features.warm_tests.project_state import ProjectState
from codriver.features.warm_tests.stamps import digest_start_conditions
from codriver.features.warm_tests.warm_process import WarmProcess, WarmProcessError

if TYPE_CHECKING:
    from collections.abc import Callable

    from anyio.abc import TaskGroup

    from codriver.features.warm_tests.saved_plans import SavedPlans
    from codriver.features.warm_tests.warm_options import WarmOptions
    from codriver.testing.runs import RunSpec

MAX_REMEMBERED_PROJECTS: Final = 16
"""Maximum number of (interpreter, directory) pairs to remember. The least recently used ones are dropped."""
IDLE_CHECK_S: Final = 30.0
"""Time between two checks for idle processes."""


class WarmProcessPool:
    """Owns the warm processes, at most one for each project."""

    def __init__(self, options: Callable[[], WarmOptions], tasks: TaskGroup, saved: SavedPlans | None) -> None:
        """Create the pool without any process.

        `options` returns the current options. `tasks` owns the processes. `saved` stores what is learned for later
        servers.
        """
        self._current_options = options
        self._saved = saved
        self._tasks = tasks
        self._directory: Path | None = None
        self.projects: dict[tuple[str, Path], ProjectState] = {}
        """What is known about each project, by interpreter and directory, the least recently used one first."""
        self._number = 0

    @property
    def options(self) -> WarmOptions:
        """Return the current options."""
        return self._current_options()

    async def create_directory(self) -> None:
        """Create the directory for the files of runs, also if somebody has removed it.

        A background task eventually removes it.
        """
        if self._directory is None:
            self._directory = Path(await to_thread.run_sync(lambda: tempfile.mkdtemp(prefix="codriver-warm-")))
            self._tasks.start_soon(self._clean_up, self._directory)
        elif not self._directory.exists():
            self._directory.mkdir(mode=0o700, exist_ok=True)

    def new_file(self, name: str) -> Path:
        """Return an unused path in the directory for the files of runs."""
        assert self._directory is not None  # noqa: S101  # every run creates it first
        self._number += 1
        return self._directory / f"{self._number}-{name}"

    def find(self, spec: RunSpec) -> ProjectState:
        """Return the state for the interpreter and directory of a run.

        If there are too many states, drop the least recently used one.
        """
        key = spec.python, spec.directory
        entry = self.projects.pop(key, None) or ProjectState(*key)
        self.projects[key] = entry  # the newest is last
        while len(self.projects) > MAX_REMEMBERED_PROJECTS:
            oldest = self.projects.pop(next(iter(self.projects)))
            self.end(oldest)
        return entry

    def end(self, entry: ProjectState) -> None:
        """End the warm process once its runs have finished."""
        process, entry.process = entry.process, None
        if process is not None:
            self._tasks.start_soon(_end_when_idle, process)

    async def load_saved(self, entry: ProjectState) -> None:
        """Load what an earlier server learned about a project, unless it was already loaded."""
        if entry.is_loaded or self._saved is None:
            return
        entry.is_loaded = True
        found = await to_thread.run_sync(self._saved.load, entry.python, entry.directory, self.options.packages)
        if found is not None and entry.project.plan is None:
            entry.project = found

    async def save(self, entry: ProjectState) -> None:
        """Save what was learned about a project, so that later servers can use it."""
        if self._saved is not None:
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(
                    self._saved.save, entry.python, entry.directory, self.options.packages, entry.project
                )

    def warm_up(self, spec: RunSpec, entry: ProjectState) -> None:
        """Start a warm process if warm runs are useful for the project and it has none."""
        if entry.process is not None and entry.process.state().must_be_replaced:
            self.end(entry)
        project = entry.project
        is_off = bool(project.off or project.unfit)
        if entry.process is None and project.plan is not None and not is_off and not entry.is_preloading:
            entry.is_preloading = True
            self._tasks.start_soon(self._run_process, spec, entry)

    async def _run_process(self, spec: RunSpec, entry: ProjectState) -> None:
        """Start a warm process, and end it when it is no longer needed."""
        plan, path, process, is_ready = entry.project.plan, self.new_file("plan"), None, False
        assert plan is not None  # noqa: S101  # `_warm_up` has checked it
        circumstances = await self.digest_circumstances(spec)
        try:
            try:
                await to_thread.run_sync(path.write_text, plan.to_literal())
            except OSError as error:
                raise WarmProcessError(f"the plan of the warm process cannot be written: {error}") from error
            process = await WarmProcess.start(
                spec.python, spec.directory, spec.environment, seed=secrets.randbelow(2**32 - 1) + 1, plan=path
            )
            await process.preload()
            entry.memory_mb = await to_thread.run_sync(_memory_mb, process.pid)
            self._check_memory(entry.memory_mb)
            if entry.project.plan is plan:  # otherwise, it was corrected in the meantime
                excluded = {**lasting_exclusions(process.excluded, plan.excluded), **plan.excluded}
                known = replace(plan, excluded=excluded, watched=process.watched, registries=process.registries)
                entry.project = replace(entry.project, plan=known)
            entry.process, entry.is_preloading, is_ready = process, False, True
            entry.project = replace(entry.project, failed_starts=0)
            self._limit_memory(entry)
            await self.save(entry)
            await process.read()
        except WarmProcessError as error:
            entry.project = decisions.record_failed_start(entry.project, str(error), circumstances)
        finally:
            if not is_ready:
                entry.is_preloading = False
            if process is not None:
                if entry.process is process:
                    entry.process = None
                await process.aclose()
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(lambda: path.unlink(missing_ok=True))

    async def digest_circumstances(self, spec: RunSpec) -> str:
        """Return a digest of what affects the start of a warm process for this run."""
        return await to_thread.run_sync(
            digest_start_conditions, spec.directory, spec.environment, self.options.memory_mb
        )

    def _check_memory(self, memory_mb: int) -> None:
        """Check that a warm process alone does not exceed the memory limit.

        Raises:
            WarmProcessError: the process uses too much memory.
        """
        limit_mb = self.options.memory_mb
        if memory_mb > limit_mb:
            raise WarmProcessError(f"the warm process uses {memory_mb} MB, but the limit is {limit_mb} MB")

    def _limit_memory(self, entry: ProjectState) -> None:
        """End the least recently used processes if all warm processes together exceed the memory limit.

        The process of `entry` is kept, unless the entry has been dropped since the process was started.
        """
        if self.projects.get((entry.python, entry.directory)) is not entry:
            self.end(entry)
        with_process = [other for other in self.projects.values() if other.process is not None]
        excess_mb = sum(other.memory_mb for other in with_process) - self.options.memory_mb
        for other in with_process:
            if excess_mb > 0 and other is not entry:
                excess_mb -= other.memory_mb
                other.reason = "the warm processes of all projects together used too much memory"
                self.end(other)

    async def _clean_up(self, directory: Path) -> None:
        """End idle warm processes until cancelled, and then remove the directory."""
        try:
            await self._end_idle_processes()
        finally:
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(lambda: shutil.rmtree(directory, ignore_errors=True))

    async def _end_idle_processes(self) -> None:
        while True:
            await anyio.sleep(IDLE_CHECK_S)
            for entry in self.projects.values():
                process = entry.process
                if process is not None and time.monotonic() - process.used_at > decisions.IDLE_TIMEOUT_S:
                    self.end(entry)


def _memory_mb(pid: int) -> int:
    """Return the resident memory of a process in MiB, including mapped files."""
    try:
        text = Path(f"/proc/{pid}/status").read_text("utf-8")
    except OSError:
        return 0
    kilobytes = next((line.split()[1] for line in text.splitlines() if line.startswith("VmRSS:")), "0")
    return int(kilobytes) // 1024


async def _end_when_idle(process: WarmProcess) -> None:
    """End a warm process after its children have exited."""
    await process.wait_idle()
    await process.aclose()
