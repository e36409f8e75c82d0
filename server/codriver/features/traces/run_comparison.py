"""Compare the calls of two recorded runs, and find the call that is the likely cause of their differences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from codriver.features.traces.call_lines import format_outcome, shorten_to_line

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping, Sequence

    from codriver.features.traces.recorded_runs import CallRecord, Run

MAX_RUN_DIFFERENCES: Final = 12
"""Maximum number of reported differences between two runs."""
LAZY_RESULT: Final = "<lazy>"
"""The result of a Clojure call whose lazy value was not computed. It is treated as equal to any other result."""


@dataclass(frozen=True, slots=True)
class CallPair:
    """The same call in two runs.

    Two calls correspond if they have the same callers and the same number of earlier calls to the same function.
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
    """Pair the calls that a function made in two runs.

    For each called function, the first calls are paired, then the second ones, and so on. The pairs are in the order of
    the new run, followed by calls that exist only in the old run.
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
