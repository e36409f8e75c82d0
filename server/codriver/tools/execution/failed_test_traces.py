"""Convert the first failure of a test run into a stack trace."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from codriver.repls.contract.stack_trace_values import StackFrame, StackTrace
from codriver.tools.execution.failure_frames import is_in_project

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from codriver.testing.runs import FailureFrame
    from codriver.tools.calls.call import Call


def first_failure_trace(call: Call, job: str) -> StackTrace | None:
    """Return the stack trace of the first failure of a run, or None if no test failed.

    If the process of a failed test is retained for evaluating code in its frames, the failure of that test is returned
    instead, with numbered frames.
    """
    job_report, process = call.services.tests.report(job), call.services.tests.failure.process_of_run(job)
    failures = (
        [test for test in job_report.report.failures if test.failure is not None] if job_report is not None else []
    )
    found = next((test for test in failures if process is not None and test.nodeid == process.nodeid), None)
    found = found or next(iter(failures), None)
    if found is None or found.failure is None:
        return None
    failure, workspace = found.failure, call.services.workspace
    chain = [StackTrace(cause.type, cause.message, _stack_frames(cause.frames, workspace), relation=cause.relation)
             for cause in failure.chain]  # fmt: skip
    frames = _stack_frames(failure.frames, workspace)
    if process is not None and process.nodeid == found.nodeid:
        frames = _number_frames(frames, len(frames) - len(process.frames))
    return StackTrace(
        failure.type or found.outcome, failure.message, frames, f"test {found.nodeid}", chain=tuple(chain)
    )


def _number_frames(frames: Sequence[StackFrame], start: int) -> tuple[StackFrame, ...]:
    """Number the frames from the index `start` on, beginning with 0.

    The entries before it, such as the location of a syntax error, are not frames.
    """
    return tuple(replace(frame, number=at - start if at >= start else None) for at, frame in enumerate(frames))


def _stack_frames(frames: Sequence[FailureFrame], workspace: Path) -> tuple[StackFrame, ...]:
    """Convert the frames of a failure to frames of a stack trace."""
    return tuple(
        StackFrame(
            f"{frame.function} ({frame.file}:{frame.line})", frame.file, frame.line, frame.function,
            tooling=not is_in_project(frame, workspace), locals=frame.locals,
        )
        for frame in frames
    )  # fmt: skip
