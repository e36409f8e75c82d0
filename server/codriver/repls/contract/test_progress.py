"""The progress of a test run under way, as its program tells it among what the tests print.

The program of `repls/programs/python` writes JSON text sequences: a record separator, an object, a line feed. Source:
RFC 7464.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from codriver.repls.contract.adapter_values import TestResult, TestRun

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SEPARATOR: Final = "\x1e"
HEAD: Final = f'{SEPARATOR}{{"codriver": "tests"'
"""The beginning of each record. A separator that goes on otherwise is what a test printed."""
MOST_RED: Final = 200
MOST_RECORD: Final = 2**20


class TestProgress:
    """The records of one run, taken out of its output as that comes, in pieces of any length."""

    __test__ = False  # for pytest: it is none

    def __init__(self) -> None:
        self.run: TestRun | None = None
        """The tests that have ended; None before the first has. `results` are those that did not pass."""
        self._held = ""
        self._failed = self._errors = 0
        self._red: list[TestResult] = []

    def take(self, text: str) -> str:
        """The text without records. What may be the beginning of a record is held back until more comes."""
        return "".join(self._parts(self._held + text))

    def rest(self) -> str:
        """The text that was held back, when no more comes."""
        held, self._held = self._held, ""
        return held

    def _parts(self, text: str) -> Iterator[str]:
        self._held = ""
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
                self._held = text
                return
            if not self._read(record[1:]):
                yield record + feed
            text = after

    def _read(self, record: str) -> bool:
        try:
            fields = json.loads(record)
            red = [_result(row) for row in fields["rows"]]
            tests, passed, of = int(fields["tests"]), int(fields["passed"]), fields.get("of")
        except (ValueError, KeyError, TypeError):
            return False
        self._failed += sum(one.outcome == "fail" for one in red)
        self._errors += sum(one.outcome == "error" for one in red)
        self._red += red[: MOST_RED - len(self._red)]
        of = of if isinstance(of, int) else None
        self.run = TestRun(tests, passed, self._failed, self._errors, tuple(self._red), of=of)
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
