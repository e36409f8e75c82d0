"""Describe recorded calls in answers: in lines after an evaluation's result, and in parts for `get_evaluation`.

A run is displayed as an outline of a few lines or as one call with its nested calls, or compared with another run.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from codriver.errors import RefusedError
from codriver.features.traces.call_lines import LINE_OVERHEAD_BYTES
from codriver.features.traces.outline import MAX_OUTLINE_LINES, MAX_WALK_BYTES, list_calls, outline_run
from codriver.features.traces.recorded_runs import MalformedRunError, RecordedRuns
from codriver.features.traces.run_comparison import compare_runs, format_differences
from codriver.tools.answers.answer_budget import json_bytes, requested_budget
from codriver.tools.calls.answer import Answer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codriver.core.evaluations import Evaluation
    from codriver.features.traces.recorded_runs import Run
    from codriver.tools.calls.call import Call
    from codriver.tools.get_evaluation import GetArguments

MAX_WALK_LINES: Final = 60
"""Maximum number of lines of a requested part of a run."""
MAX_PROFILE_BYTES: Final = 600
"""Maximum size of the list of the slowest functions."""


class NoRunError(RefusedError):
    """Raised when the calls made by an evaluation were not recorded or are no longer stored."""

    reason = "forgotten"

    def __init__(self, evaluation: str, available: Sequence[str]) -> None:
        known = f"recorded calls exist for {', '.join(available)}" if available else "no calls have been recorded"
        super().__init__(
            f"no recorded calls for evaluation {evaluation} are stored: {known}",
            hint="evaluate_code and run_tests record calls with trace",
        )


async def find_run(call: Call, evaluation: str) -> Run:
    """Return the recorded run of an evaluation.

    Raises:
        NoRunError: the calls were not recorded, or are no longer stored.
    """
    runs = call.services.part(RecordedRuns)
    try:
        run = await call.services.work.editing.run(call.client, partial(runs.get, evaluation))
    except MalformedRunError:
        run = None
    if run is None:
        raise NoRunError(evaluation, runs.evaluation_ids())
    return run


async def with_trace(call: Call, answer: Answer, evaluation: str) -> Answer:
    """Add an outline of the recorded calls to the answer about an evaluation."""
    if evaluation not in call.services.part(RecordedRuns).evaluation_ids():
        return answer
    try:
        fields = _run_fields(await find_run(call, evaluation), str(call.services.workspace))
    except NoRunError as error:
        fields = {"trace": error.message}
    return replace(answer, fields={**answer.fields, **fields})


def _run_fields(run: Run, workspace: str) -> dict[str, object]:
    """Return a run as fields of an answer: an outline, changed lines that did not run, and the slowest functions."""
    fields: dict[str, object] = {}
    if run.is_traced or run.refused:
        fields["trace"] = "\n".join(outline_run(run))
    if run.unrun is not None:
        fields["notRun"] = format_unrun_lines(run, workspace)
    if run.profile is not None:
        fields["profile"] = format_profile(run)
    return fields


async def describe_run_part(call: Call, evaluation: Evaluation, arguments: GetArguments) -> Answer:
    """Answer a request for a part of the recorded calls, or for their differences from those of another evaluation.

    Raises:
        NoRunError: the calls were not recorded, or are no longer stored.
    """
    most = None if arguments.length is None else requested_budget(call, "get_evaluation")
    path, start = arguments.path or (), arguments.start or 0
    fields = await _run_part_fields(
        call, evaluation.id, path, start=start, diff_with=arguments.diff_with, most_bytes=most
    )
    return Answer({"status": evaluation.status, **fields})


async def _run_part_fields(
    call: Call, evaluation: str, path: Sequence[int | str], *, start: int, diff_with: str | None, most_bytes: int | None
) -> dict[str, Any]:
    """Return a part of a run, or its differences from another run, as fields of an answer."""
    run = await find_run(call, evaluation)
    if diff_with is not None:
        other = await find_run(call, diff_with)
        pairs = compare_runs(other, run)
        text = "\n".join(format_differences(pairs)) or f"no recorded call differs from those in {diff_with}"
        return {"part": "trace", "text": text}
    # The requested budget includes all calls and the text after them.
    most = MAX_WALK_LINES if most_bytes is None else len(run.calls) + MAX_OUTLINE_LINES
    left = most_bytes or MAX_WALK_BYTES
    lines = list_calls(run, path, most, left)
    candidates = [lines[0], *lines[1 + start :]]
    fitting: list[str] = []
    for candidate in candidates:
        left -= json_bytes(candidate) + LINE_OVERHEAD_BYTES
        if left < 0 and fitting:
            break
        fitting.append(candidate)
    fields: dict[str, Any] = {"part": "trace", "text": "\n".join(fitting)}
    if len(fitting) < len(candidates):
        fields["next"] = start + len(fitting) - 1
    return fields


def format_profile(run: Run, most_bytes: int = MAX_PROFILE_BYTES) -> str:
    """Return the slowest functions, one per line, sorted by the time spent in the function itself."""
    lines = ["self ms, total ms, calls"]
    for name, file, number, calls, self_time, total in run.profile or ():
        lines.append(f"{self_time / 1000:.1f} {total / 1000:.1f} {calls} {name} {file.rpartition('/')[2]}:{number}")
        if sum(len(text.encode()) + 1 for text in lines) > most_bytes:
            return "\n".join(lines[:-1])
    return "\n".join(lines) if len(lines) > 1 else "no function in the project ran"


def format_unrun_lines(run: Run, workspace: str) -> list[str]:
    """Format the changed lines that no test executed, one file per line, such as `shop.py:4-6,9`."""
    return [f"{file.removeprefix(f'{workspace}/')}:{_format_ranges(lines)}" for file, lines in run.unrun or ()]


def _format_ranges(lines: Sequence[int]) -> str:
    """Format line numbers as ranges, such as `4-6,9`."""
    found: list[list[int]] = []
    for number in lines:
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in found)
