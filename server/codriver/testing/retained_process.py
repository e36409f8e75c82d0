"""Evaluate code in the process of a failed test run, which is stopped in between."""

from __future__ import annotations

import os
import signal
import sys
from ast import literal_eval
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import anyio
from anyio import to_thread

from codriver.errors import refused
from codriver.systems.other_processes import ProcessTree
from codriver.systems.other_processes import interrupt as send_interrupt
from codriver.testing.event_stream import read_retained_failure
from codriver.testing.running_process import RunningProcess, end_process

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from anyio.abc import Process

    from codriver.testing.runs import FailureFrame

ANSWER_POLL_INTERVAL_S: Final = 0.02
"""Interval, in seconds, for checking whether a retained process has answered."""
EXIT_HANDLERS_TIMEOUT_S: Final = 2.0
"""Maximum time, in seconds, for a retained process to run its exit handlers."""


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
            await end_process(self._process, self._tree, self._start_guard, self._directory)
