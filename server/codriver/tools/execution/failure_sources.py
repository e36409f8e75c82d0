"""Choose the code to display for failed tests: the most likely location of the cause.

The record of what each test executed ranks the functions. The frame that raised and the most suspicious function are
displayed. Others are displayed only if they are likely enough for their size, because every displayed function has to
be read, and a function that is not displayed costs another call only if it contains the bug. Some of the others are
named. Without a record, the functions that the failed statement called are displayed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio

from codriver.testing.suspects import is_test_file
from codriver.tools.answers.source_lines import MAX_LINE_CHARACTERS, excerpt, function_excerpt, without_numbers
from codriver.tools.execution.edited_lines import Edit
from codriver.tools.execution.failure_frames import display_path, frame_location, is_in_project

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from codriver.testing.recordings import Function
    from codriver.testing.runs import FailureFrame, TestFinished
    from codriver.testing.suspects import Suspect
    from codriver.testing.test_jobs import JobReport
    from codriver.tools.calls.call import Call
    from codriver.tools.execution.failure_groups import FailureGroup

SOURCES_TIMEOUT_S: Final = 10.0
"""Maximum time to wait for the source code of failures, in seconds. Files may be on a slow disk."""
MAX_DETAILED_ERRORS: Final = 3
"""Maximum number of different errors with all details. The others get one line each."""
MAX_SOURCE_CHARACTERS: Final = 1200
"""Maximum number of characters of source code for a failure that is not the first, or that has several functions."""
MAX_CERTAIN_CHARACTERS: Final = 3000
"""Maximum number of characters of the most suspicious function, displayed in full for the first failure."""
MAX_CALLED_CHARACTERS: Final = 4500
"""Maximum number of characters of a function that the first failure's statement called, if no other code is displayed.

A larger function is only named.
"""
MAX_FIRST_SUSPECT_CHARACTERS: Final = 4500
"""Maximum number of characters of the first displayed suspicious function, if no other code is displayed before it.

It is displayed in full because any of its lines may be wrong. A larger function is only named.
"""
MAX_SUSPECT_CHARACTERS: Final = 3000
"""Maximum total number of characters in the source code of suspicious functions in an answer."""
MAX_RAISED_CHARACTERS: Final = 2400
"""Maximum number of characters of a function displayed in full because the error was raised in it."""
MAX_FUNCTION_CHARACTERS: Final = 100_000
"""Maximum number of characters of a function for the function to be considered."""
LINE_NUMBER_PATTERN: Final = re.compile(r"^[ >] *(\d+)(?: |$)", re.MULTILINE)
"""Matches the line number at the start of a line in an excerpt."""
MAX_CALLED_FUNCTIONS: Final = 2
"""Maximum number of called functions that are displayed for a wrong value."""
NAMELESS_CODE: Final = ("<lambda>", "<genexpr>", "<listcomp>", "<setcomp>", "<dictcomp>")
"""Names of code objects inside functions, for which no separate function is recorded."""
MAX_RANKED_SOURCES: Final = 4
"""Maximum number of suspicious functions whose source an answer displays."""
MAX_SUSPECTS: Final = 3
"""Maximum number of suspicious functions that an answer names."""
MAX_CHARACTERS_PER_LIKELIHOOD: Final = 3000
"""Maximum number of characters of a function that is displayed after others, divided by its likelihood."""


@dataclass(slots=True)
class FailureSource:
    """The source code to display for a failed test."""

    statement: str = ""
    """The line of the test that failed."""
    excerpts: list[str] = field(default_factory=list)
    suspects: list[str] = field(default_factory=list)
    """Suspicious functions that are not displayed, most suspicious first."""


@dataclass(frozen=True, slots=True)
class _SuspectSource:
    """The source of a suspicious function. `text` is empty if it cannot be found."""

    function: Function
    title: str
    text: str

    @property
    def file(self) -> str:
        """Return the file of the function."""
        return self.function.file

    @property
    def size(self) -> int:
        """Return the number of displayed characters."""
        return len(without_numbers(self.text))

    @property
    def lines(self) -> set[tuple[str, str]]:
        """Return the displayed lines, each with its file and its number."""
        return _displayed_lines(self.file, self.text)


async def failure_sources(
    call: Call, job_report: JobReport, groups: Sequence[FailureGroup], edit: Edit | None = None
) -> dict[str, FailureSource]:
    """Choose the source code to display for the first failures of a run, by test.

    Each function is displayed once. Files that changed since the run, and functions changed by `edit`, are left out.
    If the files cannot be read in time, the result is empty, so that the answer does not wait for them.
    """
    with anyio.move_on_after(SOURCES_TIMEOUT_S):
        choose = partial(_Sources, call, job_report, groups, edit or Edit())
        return (await call.services.work.files.run(call.client, choose)).found
    return {}


class _Sources:
    """The source code to display for the first failures of a run, in which each function is displayed once.

    Creating it reads files, so it blocks.
    """

    def __init__(self, call: Call, job_report: JobReport, groups: Sequence[FailureGroup], edit: Edit) -> None:
        self._workspace = call.services.workspace
        self._without_secrets = call.services.log.redact
        self._changed = set(job_report.changed_files)
        self._suspects = job_report.suspects
        self._edit = edit
        self._displayed: set[tuple[str, str]] = set()
        """Files and numbers of displayed lines."""
        self._named: set[str] = set()
        """Called functions that are too long to display."""
        self._left = MAX_SUSPECT_CHARACTERS
        self.found = {group.test.nodeid: self._choose_source(group.test, is_first=not index)
                      for index, group in enumerate(groups[:MAX_DETAILED_ERRORS])}  # fmt: skip

    def _choose_source(self, test: TestFinished, *, is_first: bool) -> FailureSource:
        """Choose the source code to display for one failed test."""
        found = FailureSource(self._failed_statement(test))
        frames = failure_frames(test, self._workspace)
        ranked = [
            suspect
            for suspect in self._suspects.get(test.nodeid, ())
            if display_path(suspect.function.file, self._workspace) not in self._changed
            and not self._edit.has_changed(suspect.function.file, suspect.function.line)
        ]
        raised = [
            failed_frame
            for failed_frame in frames
            if test.failure is not None and failed_frame not in test.failure.called
        ]
        likely = _find_suspect(frames[0], ranked) if frames else None
        # The functions that a later failure called in addition are rarely new.
        for frame in raised if ranked else frames if is_first or raised else frames[:1]:
            if frame in raised:
                whole = MAX_CERTAIN_CHARACTERS if likely is not None and likely is ranked[0] else MAX_RAISED_CHARACTERS
                self._add_raised(found, frame, whole_characters=whole if is_first else 0)
            else:
                self._add_called(found, frame, MAX_CALLED_CHARACTERS if is_first else MAX_SOURCE_CHARACTERS)
        for frame in self._assigning_methods(test) if is_first else ():
            self._add_called(found, frame, MAX_CALLED_CHARACTERS)
        if ranked:
            self._left -= sum(map(len, found.excerpts))
            others = [suspect for suspect in ranked if not (raised and suspect is likely)]
            self._add_ranked(found, others if is_first else others[:1], _likelihoods(ranked), is_first=is_first)
            found.suspects = found.suspects if is_first else []
        return found

    def _assigning_methods(self, test: TestFinished) -> list[FailureFrame]:
        """Return the project's methods that assign the attribute named in an `AttributeError`."""
        frames = test.failure.assigned if test.failure is not None else ()
        return [frame for frame in frames if is_in_project(frame, self._workspace) and frame.file != test.file]

    def _add_ranked(
        self, found: FailureSource, ranked: Sequence[Suspect], likelihoods: Mapping[Function, float], *, is_first: bool
    ) -> None:
        """Add the source of the most suspicious functions that are worth reading, and the names of further ones.

        If nothing else is displayed for the first failure, its most suspicious function may be longer than the rest.
        Functions that only ran while files were imported are left out if there are others. A function that contains
        another one replaces it.
        """
        after_import = [suspect for suspect in ranked if suspect.is_after_import]
        sources = [
            source
            for source in map(self._suspect_source, after_import or ranked)
            if not self._is_displayed(source.file, source.text)
        ]
        displayed: list[_SuspectSource] = []
        for source in sources:
            is_only = is_first and not displayed and not found.excerpts
            inner = [other for other in displayed if other.lines < source.lines]
            size = source.size - sum(other.size for other in inner)
            is_worth = is_only or size <= likelihoods[source.function] * MAX_CHARACTERS_PER_LIKELIHOOD
            fits = size <= (MAX_FIRST_SUSPECT_CHARACTERS if is_only else self._left)
            is_inside = any(source.lines <= other.lines for other in displayed)
            if source.text and len(displayed) < MAX_RANKED_SOURCES and is_worth and fits and not is_inside:
                displayed = [*(other for other in displayed if other not in inner), source]
                self._left -= size
        for source in displayed:
            self._display(source.file, source.text)
            found.excerpts.append(f"{source.title}\n{self._copyable_text(source.text)}")
        for source in sources:
            if not self._is_displayed(source.file, source.text) and len(found.suspects) < MAX_SUSPECTS:
                found.suspects.append(source.title)

    def _suspect_source(self, suspect: Suspect) -> _SuspectSource:
        """Return the current source of a suspicious function."""
        function = suspect.function
        line = self._edit.current_line(function.file, function.line)
        title = f"{display_path(function.file, self._workspace)}:{line} in {function.name}"
        return _SuspectSource(function, title, function_excerpt(self._edit.current_lines(function.file), line))

    def _add_raised(self, found: FailureSource, frame: FailureFrame, *, whole_characters: int) -> None:
        """Add the code around the line that raised an error, unless it is too long or already displayed."""
        now = self._current_frame(frame)
        if now is None:
            return
        text = excerpt(self._edit.current_lines(now.file), now.line, whole_characters=whole_characters)
        fits = not found.excerpts or len(text) <= MAX_SOURCE_CHARACTERS - sum(map(len, found.excerpts))
        if text and fits and not self._is_displayed(now.file, text):
            self._display(now.file, text)
            found.excerpts.append(f"{frame_location(now, self._workspace)}\n{self._copyable_text(text)}")

    def _add_called(self, found: FailureSource, frame: FailureFrame, most: int) -> None:
        """Add a function that the failed statement called, unless it is already displayed.

        The function is displayed in full, because any of its lines may be wrong. If it has more than `most` characters,
        or does not fit after other excerpts, only its name is added.
        """
        now = self._current_frame(frame)
        if now is None:
            return
        text = excerpt(
            self._edit.current_lines(now.file), now.line, is_marked=False, whole_characters=MAX_FUNCTION_CHARACTERS
        )
        if not text or self._is_displayed(now.file, text):
            return
        words = frame_location(now, self._workspace)
        left = MAX_SOURCE_CHARACTERS - sum(map(len, found.excerpts)) if found.excerpts else most
        if len(text) <= left:
            self._display(now.file, text)
            found.excerpts.append(f"{words}\n{self._copyable_text(text)}")
        elif words not in self._named:
            self._named.add(words)
            found.suspects.append(words)

    def _current_frame(self, frame: FailureFrame) -> FailureFrame | None:
        """Return a frame with the current line number of its code, or None if the code has changed since the run."""
        is_changed = display_path(frame.file, self._workspace) in self._changed
        if is_changed or self._edit.has_changed(frame.file, frame.line):
            return None
        return replace(frame, line=self._edit.current_line(frame.file, frame.line))

    def _copyable_text(self, text: str) -> str:
        """Remove line numbers and secrets from an excerpt, so that its lines can be copied into an edit."""
        return self._without_secrets(without_numbers(text))

    def _is_displayed(self, file: str, text: str) -> bool:
        """Return whether all lines of an excerpt are already displayed."""
        return bool(text) and _displayed_lines(file, text) <= self._displayed

    def _display(self, file: str, text: str) -> None:
        self._displayed |= _displayed_lines(file, text)

    def _failed_statement(self, test: TestFinished) -> str:
        """Return the line of the test at which it failed, or an empty string if it is unknown."""
        line = failed_line(test)
        if test.file is None or line is None or display_path(test.file, self._workspace) in self._changed:
            return ""
        lines = self._edit.lines_during_run(test.file)
        text = lines[line - 1].strip() if 0 < line <= len(lines) else ""
        return self._without_secrets(
            text if len(text) <= MAX_LINE_CHARACTERS else f"{text[: MAX_LINE_CHARACTERS - 1]}…"
        )


def failure_frames(test: TestFinished, workspace: Path) -> list[FailureFrame]:
    """Return the frames whose code most likely contains the cause of a failure.

    This is the innermost frame in the project's code outside tests. If one error led to another, the frame of the first
    error comes before it. If only the test itself raised, these are the last functions that the failed statement
    called, at most two.
    """
    failure = test.failure
    if failure is None:
        return []

    def is_of_product(frame: FailureFrame) -> bool:
        return is_in_project(frame, workspace) and frame.file != test.file and not is_test_file(frame.file, workspace)

    project_frames = [frame for frame in failure.frames if is_in_project(frame, workspace)]
    outside = [frame for frame in project_frames if is_of_product(frame)]
    last = outside[:1] if outside and project_frames[0] is outside[0] else []
    for error in reversed(failure.chain):
        first = next((candidate for candidate in error.frames if is_of_product(candidate)), None)
        if first is not None:
            is_same = bool(last) and (first.file, first.function) == (last[0].file, last[0].function)
            return last if is_same else [first, *last]
    return (
        last
        or [candidate for candidate in failure.called if is_of_product(candidate)][:MAX_CALLED_FUNCTIONS]
        or outside[:1]
    )


def failed_line(test: TestFinished) -> int | None:
    """Return the line of the test's file at which it failed, or None if no frame is in this file."""
    failure = test.failure
    return next((frame.line for frame in failure.frames if frame.file == test.file), None) if failure else None


def _displayed_lines(file: str, text: str) -> set[tuple[str, str]]:
    """Return the lines in an excerpt, each with its file and its number."""
    return {(file, number) for number in LINE_NUMBER_PATTERN.findall(text)}


def _likelihoods(ranked: Sequence[Suspect]) -> dict[Function, float]:
    """Return how likely each suspicious function is to contain the bug. The sum is 1."""
    weights = {suspect.function: suspect.weight for suspect in ranked}
    total = sum(weights.values()) or 1.0
    return {function: weight / total for function, weight in weights.items()}


def _find_suspect(frame: FailureFrame, ranked: Sequence[Suspect]) -> Suspect | None:
    """Return the recorded function that contains a frame, or None if it was not recorded."""
    above = [
        suspect
        for suspect in ranked
        if suspect.function.file == frame.file
        and suspect.function.line <= frame.line
        and frame.function in (suspect.function.name.rpartition(".")[2], *NAMELESS_CODE)
    ]
    return max(above, key=lambda suspect: suspect.function.line, default=None)
