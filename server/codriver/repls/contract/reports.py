"""Reports of test runs, their progress, and stack frames: as texts, and as one line for the log.

The text of a report is the value of its evaluation. The progress of a run is told by its program among what the tests
print: `repls/programs/python` writes JSON text sequences, a record separator, an object, a line feed. Source: RFC 7464.

Frames of one call are one, and repeated calls are told with their number. On the JVM a call of a Clojure function is up
to four frames (`invokeStatic`, `invoke`, `doInvoke`, `applyTo`), and an error shares the outer frames with the error
thrown around it.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from codriver.core.values import NO_KNOWN_TEST
from codriver.errors import cut, few
from codriver.repls.contract.adapter_values import UNKNOWN_TEST, StackFrame, TestResult, TestRun

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence


TEXT_CHARS = 4000
"""Longest text of one result's `expected` or `actual`."""
NAMED = 10
"""Failures that one line names."""


def report_text(run: TestRun, *, is_fresh: bool = False) -> str:
    """The report as JSON: the counts, failed results, then passed ones, and the test that was stopped.

    `times` has the namespace, the name and the seconds of each ended test. `fresh` marks tests in a new process.
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
    if is_fresh:
        fields["fresh"] = True
    return json.dumps(fields, ensure_ascii=False)


def words_of(run: TestRun) -> str:
    """Return the counts, and the names of failed tests."""
    counts = f"{_counted(run.tests, 'test')}, {run.passed} passed, {run.failed} failed, {_counted(run.errors, 'error')}"
    names = names_of_failures(run)
    failed = f": {few(names, NAMED)}" if names else ""
    return counts + failed + (f"; stopped in {name_of_stopped(run.stopped) or NO_KNOWN_TEST}" if run.stopped else "")


def names_of_failures(run: TestRun) -> list[str]:
    """Return the names of the tests that did not pass, each once."""
    return list(dict.fromkeys(_name(result) for result in run.results if result.outcome != "pass"))


def name_of_stopped(stopped: TestResult) -> str:
    """Return the name of the test during which a run was stopped; empty if it is not known."""
    return _name(stopped) if stopped.test != UNKNOWN_TEST else ""


def _counted(count: int, thing: str) -> str:
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"


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
        pairs[name] = cut(text, TEXT_CHARS) if text else None
    return {key: value for key, value in pairs.items() if value is not None}


def _frame(frame: StackFrame) -> dict[str, object]:
    pairs = {"function": frame.function, "file": frame.file, "line": frame.line, "tooling": frame.tooling or None}
    return {key: value for key, value in pairs.items() if value is not None}


SEPARATOR: Final = "\x1e"
HEAD: Final = f'{SEPARATOR}{{"codriver": "tests"'
"""The beginning of each record. A separator with another continuation is a test's own output."""
MOST_FAILED: Final = 200
MOST_RECORD: Final = 2**20


class TestProgress:
    """The records of one test run, extracted from its output, which may be split anywhere."""

    __test__ = False  # for pytest, which would take it for a test

    def __init__(self, frames: Callable[[Mapping[str, object]], tuple[StackFrame, ...]] = lambda _row: ()) -> None:
        """`frames`: the frames in the row of a failure."""
        self._frames = frames
        self.run: TestRun | None = None
        """The ended tests; None before the first end. `results` are those that did not pass."""
        self._pending = ""
        self._failed = self._errors = 0
        self._failures: list[TestResult] = []

    def feed(self, text: str) -> str:
        """Return the text without records. A possible start of a record is buffered until more is received."""
        return "".join(self._parts(self._pending + text))

    def rest(self) -> str:
        """Return the buffered text at the end of the output."""
        pending, self._pending = self._pending, ""
        return pending

    def _parts(self, text: str) -> Iterator[str]:
        self._pending = ""
        while text:
            before, separator, _ = text.partition(SEPARATOR)
            yield before
            text = text[len(before) :]
            if not separator:
                return
            if not (text.startswith(HEAD) or HEAD.startswith(text)):
                yield separator
                text = text[1:]
                continue
            record, feed, after = text.partition("\n")
            if not feed and len(record) < MOST_RECORD:
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
        self._failed += sum(one.outcome == "fail" for one in failures)
        self._errors += sum(one.outcome == "error" for one in failures)
        self._failures += failures[: MOST_FAILED - len(self._failures)]
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


MOST_IN_CYCLE: Final = 8
"""The most functions that call one another in turn and still count as recursion."""
FEWEST_TIMES: Final = 3
"""Minimum number of repetitions in a row that are folded."""
FRAME: Final = re.compile(r"^(?P<function>.*?) \((?P<file>.+):(?P<line>\d+)\)(?: … (?P<repeated>.+))?$")
"""A frame in a line, in the form of codriver's worker and of `text_of`."""
OF_ONE_CALL: Final = ("invoke", "doInvoke", "invokePrim", "applyTo", "applyToHelper")
"""The methods, around `invokeStatic` or each other, through which the JVM calls a Clojure function."""
CALLERS: Final = ("clojure.lang.RestFn", "clojure.lang.AFn", "clojure.lang.AFunction")
"""The classes whose methods of these names only pass a call on to a function."""
_SPECIAL: Final = {"_BANG_": "!", "_QMARK_": "?", "_STAR_": "*", "_GT_": ">", "_LT_": "<", "_EQ_": "=", "_PLUS_": "+"}


def read_frame(text: str, tooling: Sequence[str]) -> StackFrame:
    """Return a frame from its line; `tooling`: parts of the names of files that are not the user's."""
    is_tooling = any(part in text for part in tooling)
    if (match := FRAME.match(text)) is None:
        return StackFrame(text, tooling=is_tooling)
    alone = text.removesuffix(f" … {match['repeated']}")
    return StackFrame(alone, match["file"], int(match["line"]), match["function"], is_tooling, match["repeated"] or "")


def text_of(frame: StackFrame) -> str:
    """Return a frame in one line."""
    return f"{frame.text} … {frame.repeated}" if frame.repeated else frame.text


def folded(frames: Sequence[StackFrame]) -> tuple[StackFrame, ...]:
    """Return the frames with only the first of each repeated series, whose last frame has the number of repetitions."""
    lines = [frame.text for frame in frames]
    shortened: list[StackFrame] = []
    start = 0
    while start < len(frames):
        size, times = _run_at(lines, start)
        shortened += frames[start : start + size]
        if times > 1:
            words = f"{times} times" if size == 1 else f"{times} times, these {size}"
            shortened[-1] = replace(shortened[-1], repeated=words)
        start += size * times
    return tuple(shortened)


def _run_at(lines: Sequence[str], start: int) -> tuple[int, int]:
    """Return the number of frames that repeat from a place on, and the repetitions; 1 and 1 without any."""
    for size in range(1, MOST_IN_CYCLE + 1):
        cycle, times = lines[start : start + size], 1
        if lines[start + size : start + 2 * size] != cycle:
            continue
        while lines[start + times * size : start + (times + 1) * size] == cycle:
            times += 1
        if times >= FEWEST_TIMES:
            return size, times
    return 1, 1


def calls(frames: Sequence[tuple[str, str]]) -> list[int]:
    """Return the indexes of the frames that begin a call; frames are a class and a method, innermost first.

    The innermost frame of a call is included because it has the running line; other frames have the function's first
    line.
    """
    starts: list[int] = []
    owner, passed = "", [""]
    for start, (name, method) in enumerate(frames):
        is_of_function = method == "invokeStatic" or method in OF_ONE_CALL
        if owner and method in OF_ONE_CALL and method not in passed and (name == owner or name in CALLERS):
            passed.append(method)
            continue
        owner, passed = (name if is_of_function else ""), [method]
        starts.append(start)
    return starts


def function_of(name: str, method: str) -> str:
    """The name of a function of Clojure from its class, `ns/name`; for any other method its class and name."""
    namespace, _, rest = name.partition("$")
    if not rest or (method != "invokeStatic" and method not in OF_ONE_CALL):
        return f"{name}/{method}"
    for special, character in _SPECIAL.items():
        rest = rest.replace(special, character)
    return f"{namespace}/{rest.replace('$', '/')}".replace("_", "-")


def unshared_frames(frames: Sequence[StackFrame], inner: Sequence[StackFrame]) -> tuple[StackFrame, ...]:
    """Return the frames that an error does not share with the error inside it, at least the innermost."""
    shared = 0
    for frame, other in zip(reversed(frames), reversed(inner), strict=False):
        if frame.text != other.text:
            break
        shared += 1
    return tuple(frames[: max(1, len(frames) - shared)])
