"""Format the results and the progress of test runs, and stack frames, as text.

The report of a run is the value of its evaluation. While tests are running, the program that runs them writes its
progress into their output as JSON text sequences (RFC 7464): a record separator, an object, and a line feed. See
`repls/programs/python`.

Frames that belong to one call are merged, and repeated calls are counted. A call to a Clojure function takes up to four
frames on the JVM (`invokeStatic`, `invoke`, `doInvoke`, `applyTo`). An error has the outermost frames in common with
the error that wraps it.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from codriver.errors import format_count, join_first, truncate
from codriver.repls.contract.stack_trace_values import StackFrame
from codriver.repls.contract.test_run_values import UNKNOWN_TEST_NAME, TestResult, TestRun

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence


MAX_TEXT_CHARS = 4000
"""Maximum length of `expected`, `actual` and the message of one result."""
MAX_NAMED_FAILURES = 10
"""Maximum number of failures named in one line."""
UNKNOWN_TEST_TEXT = "an unknown test"
"""Text used instead of a test's location if a run was stopped while the REPL did not know of a running test."""


def encode_report(run: TestRun) -> str:
    """Format a test run as JSON: the counts, the results with failures first, and the interrupted test, if any.

    `times` has the namespace, name and duration in seconds of each finished test.
    """
    rows = [_row(result) for result in run.results]
    fields: dict[str, object] = {
        "tests": run.tests,
        "passed": run.passed,
        "failed": run.failed,
        "errors": run.errors,
        "results": rows,
    }
    hows = {"skipped": run.skipped, "xfailed": run.xfailed, "xpassed": run.xpassed}
    fields |= {name: count for name, count in hows.items() if count}
    if run.times:
        fields["times"] = [[time.namespace, time.test, round(time.seconds, 6)] for time in run.times]
    if run.of is not None:
        fields["of"] = run.of
    if run.stopped:
        fields["stopped"] = _row(run.stopped)
    return json.dumps(fields, ensure_ascii=False)


def summarize_run(run: TestRun) -> str:
    """Summarize a test run in one line with its counts and the names of failed tests."""
    tests, errors = format_count(run.tests, "test"), format_count(run.errors, "error")
    counts = f"{tests}, {run.passed} passed, {run.failed} failed, {errors}"
    names = failed_test_names(run)
    failed = f": {join_first(names, MAX_NAMED_FAILURES)}" if names else ""
    return (
        counts + failed + (f"; stopped in {stopped_test_name(run.stopped) or UNKNOWN_TEST_TEXT}" if run.stopped else "")
    )


def failed_test_names(run: TestRun) -> list[str]:
    """Return the names of tests that did not pass, without duplicates."""
    return list(dict.fromkeys(_name(result) for result in run.results if result.outcome != "pass"))


def stopped_test_name(stopped: TestResult) -> str:
    """Return the name of the test that was running when its run was interrupted, or "" if unknown."""
    return _name(stopped) if stopped.test != UNKNOWN_TEST_NAME else ""


def _name(result: TestResult) -> str:
    return f"{result.namespace}/{result.test}"


def _row(result: TestResult) -> dict[str, object]:
    pairs: dict[str, object] = {
        "test": result.test,
        "ns": result.namespace,
        "outcome": result.outcome,
        "skipped": result.is_skipped or None,
        "file": result.file,
        "line": result.line,
        "frames": [_frame(frame) for frame in result.frames] or None,
    }
    for name, text in (("message", result.message), ("expected", result.expected), ("actual", result.actual)):
        pairs[name] = truncate(text, MAX_TEXT_CHARS) if text else None
    return {key: value for key, value in pairs.items() if value is not None}


def _frame(frame: StackFrame) -> dict[str, object]:
    pairs = {"function": frame.function, "file": frame.file, "line": frame.line, "tooling": frame.tooling or None}
    return {key: value for key, value in pairs.items() if value is not None}


RECORD_SEPARATOR: Final = "\x1e"
"""The character that starts a record of progress. Source: RFC 7464."""
RECORD_START: Final = f'{RECORD_SEPARATOR}{{"codriver": "tests"'
"""The start of each record. A separator followed by anything else is test output."""
MAX_RETAINED_FAILURES: Final = 200
"""Maximum number of failures that are retained for a run in progress."""
MAX_RECORD_CHARS: Final = 2**20
"""Maximum length of a record in characters."""


class TestProgress:
    """A parser that separates a test run's progress records from the output of the tests.

    The text may be split anywhere.
    """

    __test__ = False  # pytest must not collect this class

    def __init__(self, frames: Callable[[Mapping[str, object]], tuple[StackFrame, ...]] = lambda _row: ()) -> None:
        """Create a parser. `frames` extracts the stack frames from the record of a failure."""
        self._frames = frames
        self.run: TestRun | None = None
        """The finished tests, or None before the first one has finished. `results` has only those that did not pass."""
        self._pending = ""
        self._failed = self._errors = 0
        self._failures: list[TestResult] = []

    def feed(self, text: str) -> str:
        """Return `text` without progress records. Text that may be the start of a record is buffered."""
        return "".join(self._parts(self._pending + text))

    def flush(self) -> str:
        """Return the buffered text. Call this after the output has ended."""
        pending, self._pending = self._pending, ""
        return pending

    def _parts(self, text: str) -> Iterator[str]:
        self._pending = ""
        while text:
            before, separator, _ = text.partition(RECORD_SEPARATOR)
            yield before
            text = text[len(before) :]
            if not separator:
                return
            if not (text.startswith(RECORD_START) or RECORD_START.startswith(text)):
                yield separator
                text = text[1:]
                continue
            record, feed, after = text.partition("\n")
            if not feed and len(record) < MAX_RECORD_CHARS:
                self._pending = text
                return
            if not self._read(record[1:]):
                yield record + feed
            text = after

    def _read(self, record: str) -> bool:
        try:
            fields = json.loads(record)
            failures = [replace(_result(row), frames=self._frames(row)) for row in fields["rows"]]
            tests, passed, of = int(fields["tests"]), int(fields["passed"]), fields.get("of")
        except (ValueError, KeyError, TypeError):
            return False
        self._failed += sum(failure.outcome == "fail" for failure in failures)
        self._errors += sum(failure.outcome == "error" for failure in failures)
        self._failures += failures[: MAX_RETAINED_FAILURES - len(self._failures)]
        of = of if isinstance(of, int) else None
        self.run = TestRun(tests, passed, self._failed, self._errors, tuple(self._failures), of=of)
        return True


def _result(row: Mapping[str, object]) -> TestResult:
    file, line, message, actual = (row.get(key) for key in ("file", "line", "message", "actual"))
    return TestResult(
        test=str(row["test"]),
        namespace=str(row["ns"]),
        outcome="fail" if row["outcome"] == "fail" else "error",
        message=message if isinstance(message, str) else None,
        actual=actual if isinstance(actual, str) else None,
        file=file if isinstance(file, str) else None,
        line=line if isinstance(line, int) else None,
    )


MAX_CYCLE_FUNCTIONS: Final = 8
"""Maximum number of mutually recursive functions that are recognized as a cycle."""
MIN_FOLDED_REPETITIONS: Final = 3
"""Minimum number of consecutive repetitions that are folded."""
FRAME_PATTERN: Final = re.compile(r"^(?P<function>.*?) \((?P<file>.+):(?P<line>\d+)\)(?: … (?P<repeated>.+))?$")
"""Matches a frame as formatted by Codriver's worker and `format_frame`."""
CALL_METHODS: Final = ("invoke", "doInvoke", "invokePrim", "applyTo", "applyToHelper")
"""The methods through which the JVM calls a Clojure function. Their frames surround `invokeStatic` or one another."""
FORWARDING_CLASSES: Final = ("clojure.lang.RestFn", "clojure.lang.AFn", "clojure.lang.AFunction")
"""Classes whose methods named in `CALL_METHODS` only forward calls to a function."""
_MUNGED_CHARACTERS: Final = {
    "_BANG_": "!",
    "_QMARK_": "?",
    "_STAR_": "*",
    "_GT_": ">",
    "_LT_": "<",
    "_EQ_": "=",
    "_PLUS_": "+",
}
"""Characters in Clojure names, by their replacements in Java class names."""


def parse_frame(text: str, tooling: Sequence[str]) -> StackFrame:
    """Parse a stack frame from one line. `tooling` has substrings that identify files that are not the user's."""
    is_tooling = any(part in text for part in tooling)
    if (match := FRAME_PATTERN.match(text)) is None:
        return StackFrame(text, tooling=is_tooling)
    alone = text.removesuffix(f" … {match['repeated']}")
    return StackFrame(alone, match["file"], int(match["line"]), match["function"], is_tooling, match["repeated"] or "")


def format_frame(frame: StackFrame) -> str:
    """Format a frame as one line."""
    return f"{frame.text} … {frame.repeated}" if frame.repeated else frame.text


def fold_repeated_frames(frames: Sequence[StackFrame]) -> tuple[StackFrame, ...]:
    """Replace each repeated series of frames with its first occurrence.

    The last frame in the series has the number of repetitions.
    """
    lines = [frame.text for frame in frames]
    shortened: list[StackFrame] = []
    start = 0
    while start < len(frames):
        size, times = _repetition_at(lines, start)
        shortened += frames[start : start + size]
        if times > 1:
            words = f"{times} times" if size == 1 else f"{times} times, these {size}"
            shortened[-1] = replace(shortened[-1], repeated=words)
        start += size * times
    return tuple(shortened)


def _repetition_at(lines: Sequence[str], start: int) -> tuple[int, int]:
    """Return the length and count of the series of lines that repeats from `start`, or (1, 1) if there is none."""
    for size in range(1, MAX_CYCLE_FUNCTIONS + 1):
        cycle, times = lines[start : start + size], 1
        if lines[start + size : start + 2 * size] != cycle:
            continue
        while lines[start + times * size : start + (times + 1) * size] == cycle:
            times += 1
        if times >= MIN_FOLDED_REPETITIONS:
            return size, times
    return 1, 1


def call_start_indexes(frames: Sequence[tuple[str, str]]) -> list[int]:
    """Return the indexes of frames that begin a call. A frame is a pair of class and method, innermost first.

    Only the innermost frame of a call has the current line. The others have the line on which the function starts.
    """
    starts: list[int] = []
    owner, passed = "", [""]
    for start, (name, method) in enumerate(frames):
        is_of_function = method == "invokeStatic" or method in CALL_METHODS
        if owner and method in CALL_METHODS and method not in passed and (name == owner or name in FORWARDING_CLASSES):
            passed.append(method)
            continue
        owner, passed = (name if is_of_function else ""), [method]
        starts.append(start)
    return starts


def clojure_function_name(name: str, method: str) -> str:
    """Convert the class and method of a JVM frame to the Clojure name `ns/name`, if it is a compiled function.

    For other methods, return `class/method`.
    """
    namespace, _, rest = name.partition("$")
    if not rest or (method != "invokeStatic" and method not in CALL_METHODS):
        return f"{name}/{method}"
    for special, character in _MUNGED_CHARACTERS.items():
        rest = rest.replace(special, character)
    return f"{namespace}/{rest.replace('$', '/')}".replace("_", "-")


def unshared_frames(frames: Sequence[StackFrame], inner: Sequence[StackFrame]) -> tuple[StackFrame, ...]:
    """Return the frames that an error does not share with its inner error, but at least the innermost frame."""
    shared = 0
    for frame, other in zip(reversed(frames), reversed(inner), strict=False):
        if frame.text != other.text:
            break
        shared += 1
    return tuple(frames[: max(1, len(frames) - shared)])
