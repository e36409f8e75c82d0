"""Answers about recorded runs: lines added to an evaluation's result, and parts that `get_evaluation` returns.

A run is displayed as an outline of a few lines or as one call with its nested calls, or compared with another run.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from codriver.errors import RefusedError, format_count
from codriver.features.traces.recorded_runs import MalformedRunError, RecordedRuns
from codriver.tools.answers.answer_budget import json_bytes, requested_budget
from codriver.tools.calls.answer import Answer

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping, Sequence

    from codriver.core.evaluations import Evaluation
    from codriver.features.traces.recorded_runs import CallRecord, Run
    from codriver.tools.calls.call import Call
    from codriver.tools.get_evaluation import GetArguments


MAX_WALK_LINES: Final = 60
"""Maximum number of lines of a requested part of a run."""
MAX_WALK_BYTES: Final = 780
"""Maximum size of a requested part of a run."""


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
    """Return answer fields for a run: the outline, the changed lines that did not run, and the slowest functions."""
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
    """Return answer fields for a part of a run, or for its differences from another run."""
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


MAX_OUTLINE_LINES: Final = 12
"""Maximum number of lines of an outline."""
MAX_OUTLINE_BYTES: Final = 680
"""Maximum size of a run in an answer about an evaluation. With one follow-up request, the total is 1,500 bytes."""
MAX_LINE_CHARACTERS: Final = 88
"""Maximum length of a line about a call."""
MAX_SLOWEST_CALLS: Final = 3
"""Maximum number of slowest calls in an outline."""
MAX_RUN_DIFFERENCES: Final = 12
"""Maximum number of reported differences between two runs."""
MIN_SLOW_US: Final = 1000
"""Minimum duration for a call to be reported as one of the slowest."""
MAX_PROFILE_BYTES: Final = 600
"""Maximum size of the list of the slowest functions."""
SAME_CHANGE_MS: Final = 2000
"""Changes to functions within this time count as one change, because one edit may load several files."""
MAX_CHANGED_FUNCTIONS: Final = 2
"""Maximum number of changed functions in an outline."""
MORE_CALLS_HINT: Final = "; for others, pass part trace and path [number of a call] to get_evaluation"
"""Hint appended to the first line of an outline that does not include all calls."""
INDENT: Final = "  "
"""Indentation of a call below its caller."""
LINE_OVERHEAD_BYTES: Final = 2
"""Bytes that each line adds to an answer in addition to its text."""
LAZY_RESULT: Final = "<lazy>"
"""The result of a Clojure call whose lazy value was not computed. It is treated as equal to any other result."""


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

    These are the counts, the call tree with repeated calls folded, the call that failed, and the slowest calls.
    """
    if run.refused:
        return [f"nothing was recorded: {run.refused}"]
    calls = "1 call" if run.count == "1" else f"{run.count} calls"
    names = format_count(len(run.functions), "function")
    head = f"run {run.id}: {calls} to {names}" if run.calls else f"run {run.id}: no call in the project's code"
    if len(run.threads) > 1:
        head += f" in {len(run.threads)} threads"
    ending, changed = [*_error_origin(run), *_slowest_lines(run), *run.notes], _last_changed_lines(run)
    left = MAX_OUTLINE_BYTES - sum(
        len(string.encode()) + LINE_OVERHEAD_BYTES for string in (head, *changed.values(), *ending)
    )
    most_calls = most - 1 - len(ending) - len(changed)
    tree, is_complete = _call_tree_lines(run, most_calls, left)
    if not is_complete:
        head += MORE_CALLS_HINT
        tree, _ = _call_tree_lines(run, most_calls, left - len(MORE_CALLS_HINT))
    return [head, *tree.values(), *(text for number, text in changed.items() if number not in tree), *ending]


def format_profile(run: Run, most_bytes: int = MAX_PROFILE_BYTES) -> str:
    """Return the slowest functions, one per line, sorted by the time spent in the function itself."""
    lines = ["own ms, total ms, calls"]
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
            return [f"there is no call {last}: calls are numbered 1 to {len(run.calls)}"]
        call = run.calls[last - 1]
        nested = _nested_lines(call, children, most - 1, most_bytes - len(_format_whole_call(call).encode()))
        return [_format_whole_call(call), *_limit_lines(nested, most - 1)]
    found = [call for call in run.calls if call.function.is_named(last)]
    if not found:
        known = ", ".join(sorted(function.short_name for function in run.functions)[:20])
        return [f"no call to {last} was recorded; the recorded functions are {known}"]
    counted = found[0].function.call_count_text
    return [
        f"{counted} calls to {found[0].function.name}",
        *_limit_lines([format_call(call, INDENT) for call in found], most - 1),
    ]


def _nested_lines(
    call: CallRecord, children: Mapping[int, Sequence[CallRecord]], most: int, most_bytes: int
) -> list[str]:
    """Return lines about the calls that a call made, level by level. Repeated calls are folded.

    All calls of the first level are included, deeper ones only up to `most` lines and `most_bytes` bytes.
    """
    level, depth = [CallGroup((child,)) for child in children.get(call.number, ())], 1
    rows: dict[int, str] = {}
    while level:
        for group in level:
            number = group.representative.number
            rows[number] = format_call(group.representative, INDENT * depth, len(group.calls))
            most_bytes -= len(rows[number].encode()) + LINE_OVERHEAD_BYTES
            if depth > 1 and (most_bytes < 0 or len(rows) > most):
                del rows[number]
                return [rows[number] for number in sorted(rows)]
        level = [group for parent in level for group in _nested_groups(parent, children)]
        depth += 1
    return [rows[number] for number in sorted(rows)]


def format_call(call: CallRecord, indent: str = "", times: int = 1) -> str:
    """Return a line about a call. `times` is the number of repeated calls that it represents."""
    number = f"#{call.number}" if times == 1 else f"#{call.number} x{times}"
    return shorten_to_line(f"{indent}{number} {call.source}{format_outcome(call)}")


def format_outcome(call: CallRecord) -> str:
    """Return a call's result or error, to be appended to the call's text."""
    if call.error is not None:
        return f" raised {call.error}"
    if call.yields:
        return f" yielded {call.yields}x" + (
            f", then {call.result}" if call.duration_us >= 0 else f", last {call.result}"
        )
    return " goes on" if call.duration_us < 0 else f" -> {call.result}"


def shorten_to_line(text: str) -> str:
    """Return a text on one line. A long text is shortened in the middle, because a call's outcome is at the end."""
    text = text.replace("\n", " ")
    if len(text) <= MAX_LINE_CHARACTERS:
        return text
    return f"{text[: MAX_LINE_CHARACTERS * 2 // 3]}…{text[-MAX_LINE_CHARACTERS // 3 + 1 :]}"


def _format_whole_call(call: CallRecord) -> str:
    """Return a line about a call with its complete arguments, outcome, duration, position and caller."""
    function = call.function
    named = [f"{name}={text}" for name, text in function.pair_with_parameters(call.arguments)]
    whole = (
        f"{function.name}({', '.join(named)})" if function.arities is None else f"({' '.join([function.name, *named])})"
    )
    caller = f", under #{call.parent.number} {call.parent.function.short_name}" if call.parent else ""
    duration = f", {call.duration_us / 1000:g} ms" if call.duration_us >= 0 else ""
    location = f", {function.file.rpartition('/')[2]}:{function.line}"
    return f"#{call.number} {whole}{format_outcome(call)}{duration}{location}{caller}"


def _limit_lines(lines: Sequence[str], most: int) -> list[str]:
    """Return at most `most` lines. If there are more, the last line states how many were omitted."""
    return list(lines) if len(lines) <= most else [*lines[: most - 1], f"{INDENT}and {len(lines) - most + 1} more"]


def _groups(calls: Sequence[CallRecord]) -> list[CallGroup]:
    found = groupby(calls, key=lambda call: (id(call.function), call.thread))
    return [CallGroup(tuple(group)) for _, group in found]


def _nested_groups(group: CallGroup, children: Mapping[int, Sequence[CallRecord]]) -> list[CallGroup]:
    """Return the calls made by a group's displayed call, and calls to other functions made by the other calls."""
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

    If not all calls fit, calls below the last failed call are preferred, later ones first. They are followed by other
    calls that lead to errors, and then by calls closer to the roots.
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
    rows: list[tuple[int, str]] = []
    while waiting and len(rows) < most:
        _, depth, _, group, root = heapq.heappop(waiting)
        number = group.representative.number
        text = format_call(group.representative, INDENT * depth, len(group.calls))
        most_bytes -= len(text.encode()) + LINE_OVERHEAD_BYTES
        if most_bytes < 0 and rows:
            return dict(sorted(rows)), False
        rows.append((number, text))
        push(_nested_groups(group, children), depth + 1, root=root, is_within=number in failing)
    return dict(sorted(rows)), not waiting


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
        yield f"slowest by themselves: {', '.join(slowest)}"


# Comparison of two runs


@dataclass(frozen=True, slots=True)
class CallPair:
    """The same call in two runs.

    Calls correspond if they have the same callers, and as many earlier calls to the same function.
    """

    before: CallRecord | None
    now: CallRecord | None

    @property
    def name(self) -> str:
        """Return the name of the called function."""
        call = self.now or self.before
        return call.function.name if call is not None else ""

    @property
    def is_alike(self) -> bool:
        """Return whether the call was made in both runs with the same arguments."""
        return self.before is not None and self.now is not None and self.before.arguments == self.now.arguments

    @property
    def has_changed_code(self) -> bool:
        """Return whether the call was made in both runs and the code of its function is known to have changed."""
        marks = [call.function.text_mark for call in (self.before, self.now) if call is not None]
        return None not in marks and len(set(marks)) > 1

    @property
    def has_different_outcome(self) -> bool:
        """Return whether the call was made in both runs and its outcomes differ."""
        before, now = self.before, self.now
        if before is None or now is None or LAZY_RESULT in (before.result, now.result):
            return False
        return (before.result, before.error, before.yields) != (now.result, now.error, now.yields)


def compare_runs(before: Run, now: Run) -> list[CallPair]:
    """Return the calls that differ between two runs, starting with the likely cause.

    The likely cause is a call that has the same arguments in both runs, but a different outcome or different nested
    calls, and that contains no such call itself. Calls of functions whose code has changed are preferred. If the code
    of the cause has not changed, the difference may be due to hidden state, so earlier calls to changed functions
    precede it.

    The other differences follow in the order in which the calls started. A call that exists in only one run is ignored
    if not all calls to its function were recorded.
    """
    causes: list[CallPair] = []
    rest: list[CallPair] = []
    capped = {function.name for run in (before, now) for function in run.functions if function.is_capped}
    _compare(CallPair(None, None), before.children(), now.children(), capped, causes, rest)
    causes.sort(key=lambda pair: (not pair.has_different_outcome, not pair.has_changed_code))
    first = causes[0] if causes else None
    if first is None or not (first.has_different_outcome and first.has_changed_code):
        causes = [*_changed_function_calls(before, now, first), *causes]
    return [*causes, *(pair for pair in rest if pair not in causes)]


def _changed_function_calls(before: Run, now: Run, cause: CallPair | None) -> Iterator[CallPair]:
    """Yield the first call of each changed function that started before the end of `cause`."""
    known = {call.function.name: call for call in reversed(before.calls)}
    end = cause.now if cause is not None and cause.has_different_outcome else None
    firsts = {call.function.name: call for call in reversed(now.calls)}
    for call in sorted(firsts.values(), key=lambda first: first.number):
        pair = CallPair(known.get(call.function.name), call)
        if pair.has_changed_code and (end is None or call.number < end.number or _is_within(call, end)):
            yield pair


def _is_within(call: CallRecord, other: CallRecord) -> bool:
    """Return whether `other` made `call`, directly or indirectly."""
    above = call.parent
    while above is not None and above is not other:
        above = above.parent
    return above is other


def format_differences(pairs: Sequence[CallPair], most: int = MAX_RUN_DIFFERENCES) -> list[str]:
    """Return the differences, one per line, with the values of both runs."""
    rows = [format_difference(pair) for pair in pairs[:most]]
    return rows if len(pairs) <= most else [*rows, f"and {len(pairs) - most} more"]


def format_difference(pair: CallPair) -> str:
    """Return a line about a call that differs between two runs, with the values of both."""
    before, now = pair.before, pair.now
    if now is None and before is not None:
        return shorten_to_line(f"no longer: {before.source}{format_outcome(before)}")
    if before is None and now is not None:
        return shorten_to_line(f"new: #{now.number} {now.source}{format_outcome(now)}")
    if before is None or now is None:
        return ""
    if not pair.is_alike:
        return shorten_to_line(
            f"#{now.number} {before.source}{format_outcome(before)} -> {now.source}{format_outcome(now)}"
        )
    if not pair.has_different_outcome and pair.has_changed_code:
        return shorten_to_line(f"#{now.number} {now.source}{format_outcome(now)}, its source changed")
    if not pair.has_different_outcome:
        return shorten_to_line(f"#{now.number} {now.source} makes different calls")
    return shorten_to_line(f"#{now.number} {now.source} {_outcome_text(before)} -> {_outcome_text(now)}")


def _outcome_text(call: CallRecord) -> str:
    """Return a call's outcome without the leading arrow."""
    return format_outcome(call).removeprefix(" -> ").strip()


def _compare(
    above: CallPair,
    before: Mapping[int, Sequence[CallRecord]],
    now: Mapping[int, Sequence[CallRecord]],
    capped: Container[str],
    causes: list[CallPair],
    rest: list[CallPair],
) -> bool:
    """Compare the calls made within a pair of calls, and add the differences to `causes` and `rest`.

    Return whether one of the calls has the same arguments in both runs but differs otherwise.
    """
    has_cause = False
    for pair in _pair_calls(before.get(_call_number(above.before), ()), now.get(_call_number(above.now), ())):
        if (pair.before is None or pair.now is None) and pair.name in capped:
            continue  # the call may have been made but not recorded
        is_deep, index = False, len(rest)
        if pair.before is not None and pair.now is not None:
            is_deep = _compare(pair, before, now, capped, causes, rest)
        others = len(rest) > index
        if not pair.is_alike or pair.has_different_outcome:
            rest.insert(index, pair)
        if pair.is_alike and not is_deep and (pair.has_different_outcome or others):
            causes.append(pair)
        has_cause |= is_deep or (pair.is_alike and (pair.has_different_outcome or others))
    return has_cause


def _call_number(call: CallRecord | None) -> int:
    return 0 if call is None else call.number


def _pair_calls(before: Sequence[CallRecord], now: Sequence[CallRecord]) -> Iterator[CallPair]:
    """Match the calls that a function made in two runs: first calls of another function, second calls, and so on.

    The pairs are in the order of the new run, followed by calls that exist only in the old run.
    """
    waiting: dict[str, list[CallRecord]] = {}
    for call in before:
        waiting.setdefault(call.function.name, []).append(call)
    for call in now:
        known = waiting.get(call.function.name)
        yield CallPair(known.pop(0) if known else None, call)
    for left in waiting.values():
        for call in left:
            yield CallPair(call, None)
