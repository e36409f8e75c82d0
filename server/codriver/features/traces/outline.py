"""Describe the calls of a recorded run: an outline of a few lines, or the calls that one call made."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Final

from codriver.errors import format_count
from codriver.features.traces.call_lines import (
    INDENT,
    LINE_OVERHEAD_BYTES,
    format_call,
    format_outcome,
    format_whole_call,
    shorten_to_line,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from codriver.features.traces.recorded_runs import CallRecord, Run

MAX_WALK_BYTES: Final = 780
"""Maximum size of a requested part of a run."""
MAX_OUTLINE_LINES: Final = 12
"""Maximum number of lines of an outline."""
MAX_OUTLINE_BYTES: Final = 680
"""Maximum size of a run in an answer about an evaluation. With one follow-up request, the total is 1,500 bytes."""
MAX_SLOWEST_CALLS: Final = 3
"""Maximum number of slowest calls in an outline."""
MIN_SLOW_US: Final = 1000
"""Minimum duration for a call to be reported as one of the slowest."""
SAME_CHANGE_MS: Final = 2000
"""Changes to functions within this time count as one change, because one edit may load several files."""
MAX_CHANGED_FUNCTIONS: Final = 2
"""Maximum number of changed functions in an outline."""
MORE_CALLS_HINT: Final = (
    '; for other calls, pass part: "trace" and path: [number of a call, or a function] to get_evaluation'
)
"""Hint appended to the first line of an outline that does not include all calls."""


@dataclass(frozen=True, slots=True)
class CallGroup:
    """Consecutive calls to the same function by the same caller, displayed as one line."""

    calls: tuple[CallRecord, ...]

    @property
    def representative(self) -> CallRecord:
        """Return the call to display: the first that failed, or else the first in the group."""
        return next((call for call in self.calls if call.error), self.calls[0])


def outline_run(run: Run, most: int = MAX_OUTLINE_LINES) -> list[str]:
    """Return the lines of a run's outline.

    These are the counts, the call tree, the call that failed, and the slowest calls. Repeated calls that differ are
    folded only if not all of them fit.
    """
    if run.refused:
        return [f"nothing was recorded: {run.refused}"]
    calls = "1 call" if run.count == "1" else f"{run.count} calls"
    names = format_count(len(run.functions), "function")
    head = f"run {run.id}: {calls} to {names}" if run.calls else f"run {run.id}: no call in the project's code"
    if len(run.threads) > 1:
        head += f" in {len(run.threads)} threads"
    ending, changed = [*_error_origin(run), *_slowest_lines(run), *run.notes], _last_changed_lines(run)
    left = MAX_OUTLINE_BYTES - sum(map(_line_size, (head, *changed.values(), *ending)))
    most_calls = most - 1 - len(ending) - len(changed)
    tree, is_complete = _call_tree_lines(run, most_calls, left)
    if not is_complete:
        head += MORE_CALLS_HINT
    return [head, *tree.values(), *(text for number, text in changed.items() if number not in tree), *ending]


def list_calls(run: Run, path: Sequence[int | str], most: int, most_bytes: int = MAX_WALK_BYTES) -> list[str]:
    """Return lines about a part of a run.

    If the path ends with a number, list the call with this number and the calls that it made, level by level until
    `most_bytes` is reached. If it ends with a name, list all calls to the function. If it is empty, return the outline.
    """
    if run.refused or not path:
        return outline_run(run, most)
    children = run.children()
    last = path[-1]
    if isinstance(last, int):
        if not 1 <= last <= len(run.calls):
            return [f"there is no call {last}. Calls are numbered from 1 to {len(run.calls)}"]
        call = run.calls[last - 1]
        nested = _nested_lines(call, children, most - 1, most_bytes - len(format_whole_call(call).encode()))
        return [format_whole_call(call), *_limit_lines(nested, most - 1)]
    found = [call for call in run.calls if call.function.is_named(last)]
    if not found:
        known = ", ".join(sorted(function.short_name for function in run.functions)[:20])
        return [f"no call to {last} was recorded. The recorded functions are {known}"]
    counted = found[0].function.call_count_text
    return [
        f"{counted} calls to {found[0].function.name}",
        *_limit_lines([format_call(call, INDENT) for call in found], most - 1),
    ]


def _nested_lines(
    call: CallRecord, children: Mapping[int, Sequence[CallRecord]], most: int, most_bytes: int
) -> list[str]:
    """Return lines that describe the nested calls of a call, level by level. Repeated calls are folded.

    All calls of the first level are included, but deeper calls only up to `most` lines and `most_bytes` bytes.
    """
    level, depth = [CallGroup((child,)) for child in children.get(call.number, ())], 1
    rows: dict[int, str] = {}
    while level:
        for group in level:
            number = group.representative.number
            rows[number] = format_call(group.representative, INDENT * depth, len(group.calls))
            most_bytes -= _line_size(rows[number])
            if depth > 1 and (most_bytes < 0 or len(rows) > most):
                del rows[number]
                return [rows[number] for number in sorted(rows)]
        level = [group for parent in level for group in _nested_groups(parent, children)]
        depth += 1
    return [rows[number] for number in sorted(rows)]


def _limit_lines(lines: Sequence[str], most: int) -> list[str]:
    """Return at most `most` lines. If there are more, the last line states how many were omitted."""
    return list(lines) if len(lines) <= most else [*lines[: most - 1], f"{INDENT}and {len(lines) - most + 1} more"]


def _groups(calls: Sequence[CallRecord]) -> list[CallGroup]:
    found = groupby(calls, key=lambda call: (id(call.function), call.thread))
    return [CallGroup(tuple(group)) for _, group in found]


def _nested_groups(group: CallGroup, children: Mapping[int, Sequence[CallRecord]]) -> list[CallGroup]:
    """Return the calls made by the displayed call of a group, and calls of other functions by the rest of the group."""
    found = _groups(children.get(group.representative.number, ()))
    known = {id(selected.representative.function) for selected in found}
    others: dict[int, list[CallRecord]] = {}
    for call in () if group.representative.error else group.calls:
        for made in children.get(call.number, ()):
            if id(made.function) not in known:
                others.setdefault(id(made.function), []).append(made)
    return [*found, *(CallGroup(tuple(calls)) for calls in others.values())]


def _last_changed_lines(run: Run) -> dict[int, str]:
    """Return lines about functions that were changed most recently or redefined, by call number.

    Return an empty mapping if the run did not fail.
    """
    if not any(call.error for call in run.calls):
        return {}
    inner = [call for call in run.calls if call.parent is not None]
    newest = max((call.function.changed_ms for call in inner), default=0)
    calls: dict[int, list[CallRecord]] = {}
    for call in inner:
        is_loaded = newest and call.function.changed_ms > newest - SAME_CHANGE_MS
        if is_loaded or call.function.is_redefined:
            calls.setdefault(id(call.function), []).append(call)
    groups = [CallGroup(tuple(same_calls)) for same_calls in calls.values()][:MAX_CHANGED_FUNCTIONS]
    return {
        group.representative.number: shorten_to_line(
            f"changed last: {format_call(group.representative, '', len(group.calls))}"
        )
        for group in groups
    }


def _call_tree_lines(run: Run, most: int, most_bytes: int) -> tuple[dict[int, str], bool]:
    """Return the lines of the call tree by call number, and whether they include all calls.

    Repeated calls that differ are folded only if not all of them fit. The lines then leave room for
    `MORE_CALLS_HINT`.
    """
    every = _all_call_lines(run)
    if len(every) <= most and sum(map(_line_size, every.values())) <= most_bytes:
        return every, True
    rows: list[tuple[int, str]] = []
    for number, text in _ranked_calls(run):
        size = _line_size(text)
        if len(rows) >= most or (rows and size > most_bytes):
            break
        most_bytes -= size
        rows.append((number, text))
    while len(rows) > 1 and most_bytes < len(MORE_CALLS_HINT):
        most_bytes += _line_size(rows.pop()[1])
    return dict(sorted(rows)), False


def _all_call_lines(run: Run) -> dict[int, str]:
    """Return lines about all calls by call number, indented below their callers. Only equal lines are folded."""
    children, depths = run.children(), {0: -1}

    def identity(call: CallRecord) -> object:
        caller = call.parent.number if call.parent else 0
        depths[call.number] = depths[caller] + 1
        return call.number if call.number in children else (caller, call.thread, call.source, format_outcome(call))

    found = [tuple(group) for _, group in groupby(run.calls, key=identity)]
    return {calls[0].number: format_call(calls[0], INDENT * depths[calls[0].number], len(calls)) for calls in found}


def _line_size(text: str) -> int:
    return len(text.encode()) + LINE_OVERHEAD_BYTES


def _ranked_calls(run: Run) -> Iterator[tuple[int, str]]:
    """Yield the number and the line of each call in the call tree, the most relevant first.

    Calls below the last failed call come first, later ones before earlier ones. They are followed by other calls that
    lead to errors, and then by calls closer to the roots.
    """
    children, failing = run.children(), _failing_numbers(run)
    last = max((call.number for call in run.calls if call.error and call.parent is None), default=0)
    waiting: list[tuple[int, int, int, CallGroup, int]] = []

    def push(groups: Sequence[CallGroup], depth: int, *, root: int = 0, is_within: bool = False) -> None:
        for group in groups:
            of, number = root or group.representative.number, group.representative.number
            is_last = of == last and last > 0
            rank = 0 if is_last else 1 if is_within or any(call.number in failing for call in group.calls) else 2
            heapq.heappush(waiting, (rank, depth, -number if is_last else number, group, of))

    push(_groups(children.get(0, ())), 0)
    while waiting:
        _, depth, _, group, root = heapq.heappop(waiting)
        number = group.representative.number
        yield number, format_call(group.representative, INDENT * depth, len(group.calls))
        push(_nested_groups(group, children), depth + 1, root=root, is_within=number in failing)


def _failing_numbers(run: Run) -> set[int]:
    """Return the numbers of the calls that raised an exception, and of all their callers."""
    found: set[int] = set()
    for call in run.calls:
        origin: CallRecord | None = call if call.error else None
        while origin is not None and origin.number not in found:
            found.add(origin.number)
            origin = origin.parent
    return found


def _error_origin(run: Run) -> Iterator[str]:
    """Yield a line about the call in which the last unhandled error was raised, with the names of its callers."""
    escaped = [call for call in run.calls if call.error and call.parent is None]
    if not escaped:
        return
    call, children = escaped[-1], run.children()
    around: list[str] = []
    while True:
        inner = [child for child in children.get(call.number, ()) if child.error and child.error == call.error]
        if not inner:
            break
        around.append(call.function.short_name)
        call = inner[-1]
    if around:
        yield shorten_to_line(
            f"raised first in #{call.number} {call.source}: {call.error}"
            + "".join(f" < {number}" for number in around[::-1][:3])
        )


def _slowest_lines(run: Run) -> Iterator[str]:
    self_times = {call.number: call.duration_us for call in run.calls if call.duration_us >= MIN_SLOW_US}
    for call in run.calls:
        if call.parent is not None and call.parent.number in self_times and call.duration_us > 0:
            self_times[call.parent.number] -= call.duration_us
    slow = sorted(
        (number for number in self_times if self_times[number] >= MIN_SLOW_US), key=lambda number: -self_times[number]
    )
    if slow:
        slowest = (
            f"#{number} {run.calls[number - 1].function.short_name} {self_times[number] / 1000:.0f} ms"
            for number in slow[:MAX_SLOWEST_CALLS]
        )
        yield f"longest self times: {', '.join(slowest)}"
