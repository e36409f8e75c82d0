"""The server's side of a warm process: start it, request children, measure it, and end it."""

from __future__ import annotations

import ast
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import anyio
from anyio.streams.buffered import BufferedByteReceiveStream

from codriver.errors import CodriverError, truncate
from codriver.features.warm_tests.decisions import WarmState
from codriver.systems.other_processes import ProcessTree
from codriver.testing.program_bundle import script_command

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anyio.abc import Process

WARM_PROGRAM: Final = Path(__file__).with_name("child") / "__main__.py"
"""The program run by a warm process."""
RECORDER_SCRIPT: Final = WARM_PROGRAM.with_name("record_plan.py")
PRELOAD_TIMEOUT_S: Final = 300.0
"""Maximum time for a warm process to start. Importing torch takes seconds, and is repeated if modules are excluded."""
FORK_TIMEOUT_S: Final = 10.0
"""Maximum time for the warm process to fork a child."""
END_TIMEOUT_S: Final = 5.0
"""Maximum time for the warm process to end before it is killed."""
MAX_LINE_BYTES: Final = 2**22
"""Maximum length of a line written by the process."""


class WarmProcessError(CodriverError):
    """Raised when a warm process cannot be used. The run then uses a plain process."""


class WarmChild:
    """A child of the warm process, in which a test run executes."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._exited = anyio.Event()

    async def wait(self) -> int:
        """Wait until the child exits, and return its exit status."""
        await self._exited.wait()
        assert self.returncode is not None  # noqa: S101  # `record_exit` sets both
        return self.returncode

    def record_exit(self, status: int) -> None:
        """Record the child's exit status, and let all calls to `wait` return."""
        if self.returncode is None:
            self.returncode = status
            self._exited.set()

    def kill(self) -> None:
        """Kill the child's process group."""
        if self.returncode is None:
            ProcessTree.of(self.pid).kill()

    async def aclose(self) -> None:
        """Do nothing, because the files of the child belong to the run."""


class WarmProcess:
    """A running warm process. A task of the owner must run `read` while the process is alive."""

    def __init__(self, process: Process, environment: Mapping[str, str], seed: int) -> None:
        assert process.stdin is not None  # noqa: S101  # it is a pipe
        assert process.stdout is not None  # noqa: S101  # it is a pipe
        self._process = process
        self._input = process.stdin
        self._output = BufferedByteReceiveStream(process.stdout)
        self._children: dict[int, WarmChild] = {}
        self._forked = anyio.Condition()
        self._new: list[WarmChild] = []
        self._lock = anyio.Lock()
        self._idle = anyio.Event()
        self._started_at = time.monotonic()
        self.environment = dict(environment)
        self.seed = seed
        self.runs = 0
        self.used_at = time.monotonic()
        self.is_ready = False
        self.has_exited = False
        self.has_startup_code = False
        self.excluded: dict[str, str] = {}
        self.watched: dict[str, tuple[str, ...]] = {}
        self.registries: dict[str, tuple[str, ...]] = {}
        self.hidden: frozenset[str] = frozenset()

    @classmethod
    async def start(
        cls, python: str, directory: Path, environment: Mapping[str, str], *, seed: int, plan: Path
    ) -> Self:
        """Start a warm process.

        Raises:
            WarmProcessError: the process cannot be started.
        """
        moved = {"PWD": str(directory)} if "PWD" in environment else {}  # as for a plain run
        try:
            process = await anyio.open_process(
                script_command(python, str(WARM_PROGRAM), str(plan)),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,  # what Python prints at startup, see `_read_message`
                cwd=directory,
                env={**environment, **moved, "PYTHONHASHSEED": str(seed)},
                start_new_session=True,
            )
        except OSError as error:
            raise WarmProcessError(f"the warm process cannot be started: {error}") from error
        return cls(process, environment, seed)

    async def preload(self) -> None:
        """Wait until the process has preloaded all modules.

        Raises:
            WarmProcessError: the process exited, took too long, or is not suitable for tests.
        """
        with anyio.move_on_after(PRELOAD_TIMEOUT_S):
            state = await self._read_message()
            if state is None:
                raise WarmProcessError("the warm process ended while importing packages")
            if reason := state.get("problem"):
                raise WarmProcessError(str(reason))
            self.has_startup_code = bool(state["has_startup_code"])
            self.excluded = dict(state["excluded"])
            self.watched = {name: tuple(values) for name, values in state["watched"].items()}
            self.registries = {name: tuple(values) for name, values in state["registries"].items()}
            self.hidden = frozenset(state["hidden"])
            self.is_ready = True
            return
        raise WarmProcessError(f"importing packages took longer than {PRELOAD_TIMEOUT_S:g} s")

    @property
    def pid(self) -> int:
        """Return the process id."""
        return self._process.pid

    async def wait_idle(self) -> None:
        """Wait until all children have exited."""
        while self._children and not self.has_exited:
            self._idle = anyio.Event()
            await self._idle.wait()

    def state(self) -> WarmState:
        """Return the properties of the process that decide whether it can run the next tests."""
        return WarmState(
            is_ready=self.is_ready and not self.has_exited,
            environment=self.environment,
            has_startup_code=self.has_startup_code,
            runs=self.runs,
            age_s=time.monotonic() - self._started_at,
        )

    async def fork(self, run: Mapping[str, Any]) -> WarmChild:
        """Fork a child for a run, and return it.

        Raises:
            WarmProcessError: the process does not answer.
        """
        async with self._lock:
            self.runs += 1
            self.used_at = time.monotonic()
            try:
                with anyio.fail_after(FORK_TIMEOUT_S):
                    await self._input.send(ascii(dict(run)).encode() + b"\n")
                    async with self._forked:
                        while not self._new:
                            if self.has_exited:
                                raise WarmProcessError("the warm process has ended")
                            await self._forked.wait()
                        return self._new.pop()
            except (TimeoutError, OSError, anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
                raise WarmProcessError(f"the warm process does not answer: {error!r}") from error

    async def read(self) -> None:
        """Read messages from the process until it exits."""
        try:
            while (line := await self._read_message()) is not None:
                pid = int(line["pid"])
                if "status" in line:
                    self.used_at = time.monotonic()
                    if (child := self._children.pop(pid, None)) is not None:
                        child.record_exit(int(line["status"]))
                    if not self._children:
                        self._idle.set()
                else:
                    self._children[pid] = child = WarmChild(pid)
                    async with self._forked:
                        self._new.append(child)
                        self._forked.notify_all()
        finally:
            self.has_exited = True
            with anyio.CancelScope(shield=True):
                async with self._forked:
                    self._forked.notify_all()
            for child in self._children.values():
                child.kill()
                child.record_exit(-signal.SIGKILL)
            self._children.clear()
            self._idle.set()

    async def _read_message(self) -> dict[str, Any] | None:
        """Read the next message from the process. Return None when it has exited.

        Raises:
            WarmProcessError: the process printed something else, for example from a `sitecustomize` module.
        """
        try:
            line = await self._output.receive_until(b"\n", MAX_LINE_BYTES)
        except (anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError, anyio.ClosedResourceError):
            return None
        text = line.decode(errors="replace")
        try:
            found = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            found = None
        if not isinstance(found, dict):
            raise WarmProcessError(f"Python prints unexpected output whenever it starts: {truncate(text, 100)!r}")
        return found

    async def aclose(self) -> None:
        """End the process and all of its children."""
        self.has_exited = True
        with anyio.CancelScope(shield=True):
            await self._input.aclose()
            with anyio.move_on_after(END_TIMEOUT_S):
                await self._process.wait()
            if self._process.returncode is None:
                self._process.kill()
            await self._process.aclose()
