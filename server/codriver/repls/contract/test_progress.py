"""Separate the progress of a test run from the output of its tests.

While tests are running, the program that runs them writes its progress into their output as JSON text sequences
(RFC 7464): a record separator, an object, and a line feed. See `repls/programs/python`.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from codriver.repls.contract.test_run_values import TestResult, TestRun

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from codriver.repls.contract.stack_trace_values import StackFrame

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

    The output may be split at any position.
    """

    __test__ = False  # pytest must not collect this class

    def __init__(self, frames: Callable[[Mapping[str, object]], tuple[StackFrame, ...]] = lambda _row: ()) -> None:
        """Create a parser. `frames` extracts the stack frames from the record of a failure."""
        self._frames = frames
        self.run: TestRun | None = None
        """The finished tests, or None before the first one has finished. Its `results` omit tests that passed."""
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
