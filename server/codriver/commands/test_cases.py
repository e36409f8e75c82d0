"""Test cases and their outcomes, for `codriver test` and its reports."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


Outcome = Literal["pass", "skip", "fail", "error"]


WHOLE_RUN_NAME = "(run)"
"""The name of the test case that represents a run without results, or with incomplete results."""


@dataclass(frozen=True, slots=True)
class CaseResult:
    """The result of a test case."""

    namespace: str
    name: str
    outcome: Outcome
    message: str = ""
    """The failure's message, usually one line."""
    details: str = ""
    """The text of all failed results, each starting with its location."""
    file: str = ""
    """The file's path, relative if it is in the workspace. Empty if unknown."""
    line: int | None = None
    seconds: float = 0.0
    kind: str = ""
    """The reason why the run could not start, such as `no-tests` or `no-repl`. Empty for a test."""
    joint: str = "/"
    """The separator between namespace and name: `::` for a test run by pytest, `.` for other Python tests."""

    @property
    def title(self) -> str:
        """Return the full name of the test, including its namespace or file."""
        return f"{self.namespace}{self.joint}{self.name}" if self.name else self.namespace


def read_test_cases(answer: Mapping[str, Any], workspace: Path) -> list[CaseResult]:
    """Return the results of test cases in a `run_tests` answer, in the order in which they finished.

    A test with several assertions is one case, which failed if any of them did. A test without assertions passed.
    """
    if is_python_run(answer):
        return [_read_python_case(row, answer) for row in answer.get("results", ())]
    seconds = {(namespace, test): float(duration) for namespace, test, duration in answer.get("times", ())}
    rows: dict[tuple[str, str], list[Mapping[str, Any]]] = {named: [] for named in seconds}
    for row in answer.get("results", ()):
        rows.setdefault((row["ns"], row["test"]), []).append(row)
    return [
        replace(_combine_results(named, of_test, workspace), seconds=seconds.get(named, 0.0))
        for named, of_test in rows.items()
    ]


def is_python_run(answer: Mapping[str, Any]) -> bool:
    """Return whether an answer is about Python tests."""
    return "exitStatus" in answer


def _read_python_case(row: Mapping[str, Any], answer: Mapping[str, Any]) -> CaseResult:
    """Return the result of a Python test. The answer names the runner only if the tests were not run by pytest."""
    return _read_unittest_case(row) if "runner" in answer else _read_pytest_case(row)


SHORT_OUTCOMES: Mapping[str, Outcome] = {"passed": "pass", "xpassed": "pass", "skipped": "skip", "xfailed": "skip",
                                   "failed": "fail", "error": "error"}  # fmt: skip
"""Outcomes of test cases, by the outcomes in `run_tests` answers."""


UNEXPECTED_SUCCESS_MESSAGE = "unexpected success"
"""Message about a test that was expected to fail, but passed."""


def _read_pytest_case(row: Mapping[str, Any]) -> CaseResult:
    file, _, name = str(row["test"]).partition("::")
    outcome = SHORT_OUTCOMES[row["outcome"]]
    message = row.get("message", "") if outcome in ("fail", "error") else row.get("reason", "")
    return CaseResult(
        file, name, outcome, str(message).partition("\n")[0], str(row.get("text", "")), str(row.get("file", file)),
        row.get("line"), float(row.get("seconds", 0)), joint="::",
    )  # fmt: skip


UNITTEST_ID_PATTERN = re.compile(r"(?P<namespace>[\w.]+)\.(?P<name>\w+)|(?P<step>\w+) \((?P<place>[\w.]+)\)")
"""Matches the id of a test in unittest, and that of the setup or cleanup of a class or a module."""


def _read_unittest_case(row: Mapping[str, Any]) -> CaseResult:
    """Return the result of a test that unittest or Django ran. Its namespace is the class.

    An unexpected success is a failure, as for these runners.
    """
    found = UNITTEST_ID_PATTERN.fullmatch(str(row["test"]))
    namespace, name = (found["namespace"] or found["place"], found["name"] or found["step"]) if found else ("", "")
    is_unexpected = row["outcome"] == "xpassed"
    failed = {"outcome": "failed", "message": UNEXPECTED_SUCCESS_MESSAGE} if is_unexpected else {}
    case = _read_pytest_case({"file": "", **row, **failed})
    return replace(case, namespace=namespace, name=name, joint=".") if found else case


def stopped_case(answer: Mapping[str, Any], message: str, workspace: Path) -> CaseResult:
    """Return the result of the test case during which a run was stopped. Its message is the reason."""
    row = answer["stoppedIn"]
    if "ns" not in row:
        case = _read_python_case({"test": WHOLE_RUN_NAME, **row, "outcome": "error"}, answer)
        return replace(case, message=message, details=message)
    return replace(
        _combine_results((row["ns"], row["test"]), [{**row, "outcome": "error"}], workspace), message=message
    )


def _combine_results(named: tuple[str, str], rows: Sequence[Mapping[str, Any]], workspace: Path) -> CaseResult:
    wrong = [row for row in rows if row["outcome"] != "pass"]
    skipped = [row for row in rows if row.get("skipped")]
    first_row = (wrong or skipped or rows or [{}])[0]
    outcome: Outcome = "pass"
    if wrong:
        outcome = "error" if any(row["outcome"] == "error" for row in wrong) else "fail"
    elif skipped:
        outcome = "skip"
    return CaseResult(
        *named,
        outcome,
        message=_message(first_row) if outcome != "pass" else "",
        details="\n\n".join(_details(row, workspace) for row in wrong),
        file=_display_path(first_row.get("file"), workspace),
        line=first_row.get("line"),
    )


def _message(row: Mapping[str, Any]) -> str:
    if row.get("skipped"):
        return str(row.get("message", "")).removeprefix("skipped: ")
    first = str(row.get("actual", "")).partition("\n")[0]
    against = f"expected {row['expected']}, got {first}" if _has_comparison(row) else first
    return ": ".join(part for part in (str(row.get("message", "")).removesuffix("."), against) if part)


def _has_comparison(row: Mapping[str, Any]) -> bool:
    """Return whether to print the expected and the actual value. For errors, they are not useful."""
    return row["outcome"] == "fail" and bool(row.get("expected")) and row.get("actual") is not None


def _details(row: Mapping[str, Any], workspace: Path) -> str:
    """Return everything that is known about a result as text."""
    file, line = _display_path(row.get("file"), workspace), row.get("line")
    location = f"{file}:{line}" if file and line else file
    head = ": ".join(str(part) for part in (location, row.get("message")) if part)
    actual = str(row.get("actual") or "")
    against = [f"expected: {row['expected']}", f"  actual: {actual}"] if _has_comparison(row) else [actual]
    return "\n".join(
        [*(text for text in (head, *against) if text), *(f"  at {frame}" for frame in row.get("frames", ()))]
    )


def _display_path(file: object, workspace: Path) -> str:
    path = Path(str(file)) if file else None
    if path is None or not path.is_relative_to(workspace):
        return str(file or "")
    return path.relative_to(workspace).as_posix()
