"""Group failed tests that failed with the same error, which an answer describes once."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from codriver.testing.suspects import is_test_file
from codriver.tools.execution.failure_frames import is_in_project

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator
    from pathlib import Path

    from codriver.testing.runs import TestFinished

ASSERTION_CLASSES: Final = frozenset({"", "AssertionError", "Failed"})
"""Classes of errors whose messages only describe values, so different errors may have equal messages."""
ADDRESS_PATTERN: Final = re.compile(r"\b0x[0-9a-fA-F]+")
"""Matches the address of an object, which differs from run to run."""
MAX_NAMED_TESTS: Final = 5
"""Maximum number of tests that are named in addition to the one whose failure is described."""
MAX_PARAMETER_GROUPS: Final = 2
"""Maximum number of groups for a test that failed at the same line with several parameters."""


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """A failed test and the other tests that failed with the same error, or with other parameters at the same line."""

    test: TestFinished
    others: tuple[TestFinished, ...] = ()

    @property
    def fields(self) -> dict[str, object]:
        """Return a field of an answer with the names of the other tests, or no field if there are none.

        Names of tests in the same file omit the file. If there are many, the number of the rest is added.
        """
        file = self.test.nodeid.partition("::")[0]
        names = [test.nodeid.removeprefix(file) for test in self.others[:MAX_NAMED_TESTS]]
        left = len(self.others) - len(names)
        return {"alike": [*names, *([f"{left} more"] if left else [])]} if names else {}


def failure_groups(tests: Iterable[TestFinished], workspace: Path) -> list[FailureGroup]:
    """Group failed tests by their error, in the order of their first tests. Each test is in one group.

    Two errors are the same if they were raised at the same lines of the project's code, or if their messages are equal.
    Failed assertions with equal messages must also be at the same line, because they may be about different values.
    If a test failed at the same line with many parameters and different messages, only some of them have a group of
    their own, because they rarely have different causes.
    """
    distinct = {failed_test.nodeid: failed_test for failed_test in reversed([*tests])}
    groups: list[list[TestFinished]] = []
    known: dict[Hashable, list[TestFinished]] = {}
    parametrized: dict[Hashable, list[list[TestFinished]]] = {}
    for test in reversed(distinct.values()):
        keys = [*_error_keys(test, workspace)]
        group = next((known[key] for key in keys if key in known), None)
        parameter_key = _parametrized_key(test, workspace)
        same_test = [] if parameter_key is None else parametrized.setdefault(parameter_key, [])
        if group is None and len(same_test) == MAX_PARAMETER_GROUPS:
            group = same_test[0]
        elif group is None:
            group = []
            groups.append(group)
            same_test.append(group)
        group.append(test)
        for key in keys:
            known.setdefault(key, group)
    return [FailureGroup(first, tuple(others)) for first, *others in groups]


def _error_keys(test: TestFinished, workspace: Path) -> Iterator[Hashable]:
    """Yield keys of a test's error. Two errors are the same if they share a key."""
    failure = test.failure
    if failure is None:
        return
    kind = (test.outcome, failure.phase, failure.type)
    frames = [frame for frame in failure.frames if is_in_project(frame, workspace)]
    raised = []
    for frame in frames:
        if frame.file == test.file or is_test_file(frame.file, workspace):
            break
        raised.append((frame.file, frame.line))
    if raised:
        yield (*kind, *raised)
    is_ambiguous = failure.phase == "call" and (failure.type in ASSERTION_CLASSES or not failure.message)
    location = [(frame.file, frame.line) for frame in frames[:1]] if is_ambiguous else []
    if failure.message and (location or not is_ambiguous):
        yield (*kind, ADDRESS_PATTERN.sub("", failure.message), *location)


def _parametrized_key(test: TestFinished, workspace: Path) -> Hashable | None:
    """Return a key of a parametrized test and the line at which it failed, or None for another test."""
    name, bracket, _ = test.nodeid.partition("[")
    failure = test.failure
    if not bracket or failure is None:
        return None
    frames = [(frame.file, frame.line) for frame in failure.frames if is_in_project(frame, workspace)]
    return name, test.outcome, failure.phase, failure.type, *frames[:1]
