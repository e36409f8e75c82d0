"""Describe failed Python tests in an answer, with the values and the code behind each failure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from codriver.errors import truncate
from codriver.tools.execution.failure_frames import display_path, frame_location, is_in_project
from codriver.tools.execution.failure_sources import MAX_DETAILED_ERRORS, failed_line, failure_frames

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from codriver.testing.runs import FailureFrame, LinkedError, TestFailure, TestFinished
    from codriver.tools.execution.failure_groups import FailureGroup
    from codriver.tools.execution.failure_sources import FailureSource


MAX_MESSAGE_CHARACTERS: Final = 500
"""Maximum number of characters in the first failure's message."""
MAX_LATER_MESSAGE_CHARACTERS: Final = 250
"""Maximum number of characters in the messages of later failures."""
MAX_VERBOSE_MESSAGE_CHARACTERS: Final = 2000
"""Maximum number of characters in the first failure's message if the caller passed `-vv` to pytest."""
MAX_SHORT_MESSAGE_CHARACTERS: Final = 60
"""Maximum number of characters in the message of a briefly described failure."""
MAX_CAUSE_CHARACTERS: Final = 100
"""Maximum number of characters in the description of each error that led to a failure."""
MAX_OUTPUT_CHARACTERS: Final = 300
"""Maximum number of characters of a failed test's output."""
MAX_DETAILS_CHARACTERS: Final = 4000
"""Maximum number of characters of a failure as pytest prints it, in a report."""
STRING_ASSERTION_PATTERN: Final = re.compile(
    r"assert (?P<quote>['\"])(?:(?!\.\.\.).)*(?P=quote) == ['\"](?:(?!\.\.\.).)*['\"]$"
)
"""Matches an assertion that compares two strings, neither of which is shortened."""
COMPARISON_PREFIXES: Final = ("", "  ", "  - ", "  + ", "  ? ")
"""Prefixes of the lines in which pytest compares two strings."""
UNITTEST_STRINGS_PATTERN: Final = re.compile(
    r"(?:AssertionError: )?(?P<quote>['\"])(?:(?!\[\d+ chars\]).)*(?P=quote) != ['\"](?:(?!\[\d+ chars\]).)*['\"]$"
)
"""Matches the unittest message that compares two strings, neither of which is shortened."""
UNITTEST_PREFIXES: Final = ("", "- ", "+ ", "? ")
"""Prefixes of the lines in which unittest compares two strings."""
ASSERT_PREFIX: Final = "assert "
"""Start of pytest's message about an assertion, which makes the name of the class redundant."""
VERBOSITY_HINT_PATTERN: Final = re.compile(
    r"\n +Use -v+ to get (?:more )?diff"
    r"|(?<=identical leading characters in diff), use -v to show"
    r"|(?<=identical trailing characters in diff), use -v to show"
    r"|(?<= hidden\)), use '-vv' to show"
    r"|(?<=\.\.\.)\n +\.\.\.Full output truncated, use '-vv' to show"
)
"""Matches pytest's hints in an assertion message about more verbose output."""
SHORTENED_MARKS: Final = ("...", "…")
"""Marks in the first line of an assertion message whose values are shortened."""
WHERE_PREFIX: Final = "\n +  where "
"""Start of pytest's explanation of calls in an assertion message, which makes the statement redundant."""
FUNCTION_OBJECT_PATTERN: Final = re.compile(
    r" \+ +where (?P<object><(?:function|bound method|built-in \w+) .+>) = (?P<name>\S.*)$"
)
"""Matches the line in pytest's message that explains which function object an earlier line means."""
MAX_FRAMES: Final = 5
"""Maximum number of frames in an answer about a failure or interruption."""
MAX_LOCALS: Final = 3
"""Maximum number of local variables in an answer about a failure."""
MAX_LOCAL_CHARACTERS: Final = 120
"""Maximum number of characters in a variable's value."""
MAX_REPEATED_LOCAL_CHARACTERS: Final = 40
"""Maximum number of characters in a variable's value for displaying it even if the message contains it."""
CLASS_ONLY_PATTERN: Final = re.compile(r"<[\w.<>]+>")
"""Matches a printed value that reveals only its class."""


def failure_rows(
    groups: Sequence[FailureGroup],
    workspace: Path,
    sources: Mapping[str, FailureSource] | None = None,
    *,
    message_characters: int = MAX_MESSAGE_CHARACTERS,
) -> list[dict[str, object]]:
    """Describe failed tests in JSON objects: the first errors with all details, and the others briefly.

    The message of the first one has at most `message_characters`. A statement that several tests have in common is
    included once.
    """
    rows = [
        failure_row(group, workspace, sources, is_first=not index, message_characters=message_characters)
        for index, group in enumerate(groups[:MAX_DETAILED_ERRORS])
    ]
    for index, row in enumerate(rows):
        if any(row.get("statement") == earlier.get("statement") for earlier in rows[:index]):
            row.pop("statement", None)
    return rows + [short_row(group, workspace) for group in groups[MAX_DETAILED_ERRORS:]]


def failure_row(
    group: FailureGroup,
    workspace: Path,
    sources: Mapping[str, FailureSource] | None = None,
    *,
    is_first: bool = True,
    message_characters: int = MAX_MESSAGE_CHARACTERS,
) -> dict[str, object]:
    """Describe a failed test in a JSON object.

    The object contains the failure's message, the project's frames with the innermost first, local variables, and
    source code from `sources`. It also names the other tests in the group. Unless `is_first`, the message is shorter,
    and variables of the test itself and its output are left out.
    """
    test = group.test
    source = (sources or {}).get(test.nodeid)
    failure = test.failure
    row: dict[str, object] = {"test": test.nodeid, "outcome": test.outcome, **_location_fields(test, workspace)}
    row |= group.fields
    if failure is None:
        return row
    if failure.phase not in ("call", "collect"):
        row["in"] = failure.phase
    if failure.part:
        row["subtest"] = failure.part
    row["message"] = (
        truncate(_failure_message(failure), message_characters)
        if is_first
        else truncate(_difference_message(failure), MAX_LATER_MESSAGE_CHARACTERS)
    )
    if source is not None and source.statement and WHERE_PREFIX not in failure.message:
        row["statement"] = source.statement
    project_frames = [frame for frame in failure.frames if is_in_project(frame, workspace)]
    frames = [frame_location(frame, workspace) for frame in project_frames if frame.file != test.file][:MAX_FRAMES]
    displayed_frames = {excerpt.partition("\n")[0] for excerpt in (source.excerpts if source is not None else ())}
    if callers := frames[1:] if displayed_frames.intersection(frames[:1]) else frames:
        row["frames"] = callers
    displayed = (
        _informative_locals(frame, failure) for frame in (*failure_frames(test, workspace)[:1], *project_frames[:1])
    )
    if (is_first or frames) and (found := next(filter(None, displayed), [])):
        row["locals"] = ", ".join(found)
    if source is not None and source.excerpts:
        row["source"] = "\n".join(source.excerpts)
    if source is not None and source.suspects:
        row["suspects"] = source.suspects
    if causes := [_describe_cause(cause, workspace) for cause in failure.chain]:
        row["causes"] = causes
    output = "\n".join(text.strip() for title, text in failure.sections if text.strip() and "log" not in title)
    if output and is_first:
        row["output"] = output if len(output) <= MAX_OUTPUT_CHARACTERS else f"…{output[-MAX_OUTPUT_CHARACTERS:]}"
    return row


def _informative_locals(frame: FailureFrame, failure: TestFailure) -> list[str]:
    """Return the first local variables of a frame whose values are worth displaying.

    Values that reveal only their class, and long values that the message contains, are left out.
    """
    known = f"{failure.message}{''.join(text for _, text in failure.sections)}"
    return [
        f"{name}={truncate(text, MAX_LOCAL_CHARACTERS)}"
        for name, text in frame.locals.items()
        if CLASS_ONLY_PATTERN.fullmatch(text) is None
        and (len(text) <= MAX_REPEATED_LOCAL_CHARACTERS or text not in known)
    ][:MAX_LOCALS]


def _describe_cause(error: LinkedError, workspace: Path) -> str:
    """Describe an error that led to a failure in one line, with its location in the project."""
    line = truncate(f"{error.type}: {error.message}", MAX_CAUSE_CHARACTERS)
    frame = next((candidate for candidate in error.frames if is_in_project(candidate, workspace)), None)
    return line if frame is None else f"{line} ({frame_location(frame, workspace)})"


def short_row(group: FailureGroup, workspace: Path) -> dict[str, object]:
    """Describe a failed test in a JSON object with only the beginning of the failure's message."""
    test = group.test
    row = {"test": test.nodeid, "outcome": test.outcome, **_location_fields(test, workspace), **group.fields}
    if test.failure is not None:
        row["message"] = truncate(_difference_message(test.failure).partition("\n")[0], MAX_SHORT_MESSAGE_CHARACTERS)
    return row


def _failure_message(failure: TestFailure) -> str:
    """Return the class and the message of a failure.

    The lines that compare two strings are left out if the first line contains both strings in full. The class of an
    assertion that pytest explains, and pytest's hints about its options, are left out.
    """
    message = _without_function_objects(failure.message)
    is_assertion = failure.type == "AssertionError"
    if is_assertion:
        lines = VERBOSITY_HINT_PATTERN.sub("", message.removeprefix(f"{failure.type}: ")).split("\n")
        message = "\n".join(line for line in lines if line.strip())
    first, _, rest = message.partition("\n")
    lines = rest.splitlines()
    is_known = STRING_ASSERTION_PATTERN.search(first) and all(line[:4] in COMPARISON_PREFIXES for line in lines)
    if is_known or (UNITTEST_STRINGS_PATTERN.match(first) and all(line[:2] in UNITTEST_PREFIXES for line in lines)):
        message = first
    is_explained = is_assertion and message.startswith(ASSERT_PREFIX)
    is_named = not failure.type or message.startswith(failure.type) or is_explained
    return message if is_named else f"{failure.type}: {message}"


def _difference_message(failure: TestFailure) -> str:
    """Return the message of a failure, without an assertion whose values are shortened if their difference follows."""
    message = _failure_message(failure)
    first, _, difference = message.partition("\n")
    is_shortened = first.startswith(ASSERT_PREFIX) and any(mark in first for mark in SHORTENED_MARKS)
    is_explained = difference.startswith("  ") and not difference.startswith(WHERE_PREFIX[1:])
    return difference.strip() if is_shortened and is_explained else message


def _without_function_objects(message: str) -> str:
    """Replace function objects in an assertion's message with the names used in the test.

    pytest explains each function object on a separate line, such as `where <function f at 0x7f0a> = shop.f`. These
    lines are removed.
    """
    lines: list[str] = []
    for line in message.split("\n"):
        found = FUNCTION_OBJECT_PATTERN.match(line)
        if found is not None and any(found["object"] in earlier for earlier in lines):
            lines = [earlier.replace(found["object"], found["name"]) for earlier in lines]
        else:
            lines.append(line)
    return "\n".join(lines)


def detailed_row(test: TestFinished, workspace: Path) -> dict[str, object]:
    """Describe a test in a JSON object with all details."""
    row: dict[str, object] = {"test": test.nodeid, "outcome": test.outcome, **_location_fields(test, workspace)}
    row["seconds"] = round(test.seconds, 6)
    if test.reason:
        row["reason"] = test.reason
    for failure in test.failures[:1]:
        row["message"] = truncate(_failure_message(failure), MAX_MESSAGE_CHARACTERS)
        row["text"] = truncate(failure.text or failure.message, MAX_DETAILS_CHARACTERS)
    return row


def _location_fields(test: TestFinished, workspace: Path) -> dict[str, object]:
    """Return the fields of an answer for the line at which a test failed, or else for the line of its definition.

    The file is included if the test's id does not contain it.
    """
    failed_at = failed_line(test)
    line = test.line if failed_at is None else failed_at
    file = display_path(test.file, workspace) if test.file else ""
    location: dict[str, object] = {} if not file or test.nodeid.startswith(file) else {"file": file}
    return location | ({"line": line} if line is not None else {})
