"""Describe failures of tests as plain values: class, frames, variables at the failure, and the errors that caused it.

Variables are converted to short strings immediately, because fixtures and later tests change them. The conversion runs
no project code, and omits variables whose names suggest secrets.
"""

from __future__ import annotations

import os

from ...repls.worker.basics.plain_values import PYTHON_PRINTER, SECRET_NAME_PATTERN
from .assigned_attributes import assigning_methods
from .called_functions import called_function_locations
from .parsed_files import ParsedFiles

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import CodeType, FrameType, TracebackType
    from typing import Any

    Values = dict[str, Any]

MAX_FRAMES = 40
"""Maximum number of frames in a failure. Half of them are the innermost frames, and half the outermost."""
MAX_FRAMES_WITH_LOCALS = 20
"""Maximum number of frames whose variables are described, starting with the innermost."""
MAX_LOCALS = 20
"""Maximum number of variables described per frame, starting with the frame's arguments."""
MAX_LOCAL_CHARACTERS = 200
"""Maximum number of characters in a variable's value."""
MIN_ALIKE_CHARACTERS = 60
"""Minimum length of a prefix that long strings have in common for only their differing parts to be displayed."""
MAX_COMPARED_CHARACTERS = 100_000
"""Maximum number of characters to search for a difference in a string."""
DIFFERENCE_CONTEXT_CHARACTERS = 20
"""Number of equal characters to display before a difference."""
DIFFERENCE_CHARACTERS = 50
"""Number of characters to display from the start of a difference."""
MAX_CHAINED_ERRORS = 10
"""Maximum number of errors that are described in the chain or the group of a failure."""
MAX_FAILURE_CHARACTERS = 20_000
"""Maximum number of characters in the text of a failure."""
STDLIB_PREFIX = os.path.dirname(os.__file__) + os.sep
"""Path of the standard library's directory, with a separator at its end."""
RUNNER_DIRECTORIES = tuple(
    os.sep + name + os.sep for name in ("_pytest", "pluggy", "unittest", "pytest", "xdist", "execnet")
)
"""Directories of test runners, as they occur in the paths of the runners' files."""
PSEUDO_FILE_PREFIXES = ("<_codriver", "<frozen ")
"""Prefixes of the names of code that has no file: Codriver's programs and Python's frozen modules."""


def shorten_middle(text: str, most: int = MAX_FAILURE_CHARACTERS) -> str:
    """Omit the middle of a string that is longer than `most` characters."""
    if len(text) <= most:
        return text
    return text[: most // 2] + "\n[… " + str(len(text) - most) + " characters …]\n" + text[-(most // 2) :]


def class_name(kind: type) -> str:
    """Return the qualified name of a class, or the plain name of a built-in class."""
    module = getattr(kind, "__module__", None)
    name = str(getattr(kind, "__qualname__", kind.__name__))
    return name if module in ("builtins", "__main__", None) else str(module) + "." + name


def error_message(error: BaseException) -> str:
    """Return the message of an exception."""
    try:
        return shorten_middle(str(error))
    except BaseException as failure:
        return "the message cannot be displayed: " + type(failure).__name__


def describe_error(
    error: BaseException,
    trace: TracebackType | None,
    executed: Sequence[CodeType] | None = None,
    parsed: ParsedFiles | None = None,
) -> Values:
    """Describe an exception: its class, its frames, innermost first, and the exceptions linked to it.

    `executed` are the functions that the test executed, last returned first, or None if they were not recorded.
    `parsed` caches syntax trees.
    """
    frames = frame_values(trace)
    if isinstance(error, SyntaxError) and error.filename:
        frames.insert(0, {"file": error.filename, "line": error.lineno or 1, "function": "<module>"})
    chain = []
    for relation, other in _linked_errors(error):
        inner = frame_values(other.__traceback__)
        chain.append(
            {"relation": relation, "type": class_name(type(other)), "message": error_message(other), "frames": inner}
        )
        if len(chain) == MAX_CHAINED_ERRORS:
            break
    parsed = parsed or ParsedFiles()
    return {
        "type": class_name(type(error)),
        "frames": frames,
        "chain": chain,
        "called": _called_functions(trace, executed, parsed),
        "assigned": _assigning_methods(error, trace, parsed),
    }


def executed_functions_getter(recorders: Sequence[Any]) -> Callable[[], Sequence[CodeType] | None]:
    """Return a function to call when a test has failed. It returns the functions that the test executed.

    They are ordered by their last return, latest first. The function returns None if they are not recorded.
    """
    return next(
        (recorder.record_failure for recorder in recorders if hasattr(recorder, "record_failure")), lambda: None
    )


def _assigning_methods(error: BaseException, trace: TracebackType | None, parsed: ParsedFiles) -> list[Values]:
    """Return the project's methods that assign the attribute that was missing or None."""
    frames = test_frames(trace)
    if not isinstance(error, AttributeError) or not frames:
        return []
    try:
        return assigning_methods(
            error, *frames[0], lambda file: not is_library_file(file) and not is_runner_file(file), parsed
        )
    except Exception:  # a failure is reported even if its objects cannot be inspected
        return []


def _called_functions(
    trace: TracebackType | None, executed: Sequence[CodeType] | None, parsed: ParsedFiles
) -> list[Values]:
    """Return the project's functions that the innermost statement of the tests or the project called."""
    frames = [entry for entry in test_frames(trace) if not is_library_file(entry[0].f_code.co_filename)]
    if not frames:
        return []
    files = {frame.f_code.co_filename for frame, _ in (frames[0], frames[-1])}
    try:
        return called_function_locations(
            frames,
            lambda file: file not in files and not is_library_file(file) and not is_runner_file(file),
            executed,
            parsed,
        )
    except Exception:  # a failure is reported even if its module cannot be inspected
        return []


def _linked_errors(error: BaseException) -> Iterator[tuple[str, BaseException]]:
    """Yield the exceptions linked to an exception, nearest first, each with its relation.

    Members of exception groups are included.
    """
    seen, waiting = {id(error)}, [error]
    while waiting:
        current = waiting.pop(0)
        members = getattr(current, "exceptions", None)
        found: list[tuple[str, BaseException]] = []
        if isinstance(members, tuple):
            found += [("member", member) for member in members if isinstance(member, BaseException)]
        if current.__cause__ is not None:
            found.append(("cause", current.__cause__))
        elif current.__context__ is not None and not current.__suppress_context__:
            found.append(("context", current.__context__))
        for relation, other in found:
            if id(other) not in seen:
                seen.add(id(other))
                waiting.append(other)
                yield relation, other


def is_runner_file(file: str) -> bool:
    """Return whether a file belongs to a test runner or to Codriver."""
    return file.startswith(PSEUDO_FILE_PREFIXES) or any(name in file for name in RUNNER_DIRECTORIES)


def is_library_file(file: str) -> bool:
    """Return whether a file belongs to the standard library or to an installed package."""
    return file.startswith((STDLIB_PREFIX, "<frozen")) or "-packages" + os.sep in file


def test_frames(trace: TracebackType | None) -> list[tuple[FrameType, int]]:
    """Return the frames of a traceback with line numbers, innermost first. Frames of the test runner are omitted."""
    found: list[tuple[FrameType, int]] = []
    while trace is not None:
        frame = trace.tb_frame
        if not is_runner_file(frame.f_code.co_filename) and frame.f_locals.get("__tracebackhide__") is not True:
            found.append((frame, trace.tb_lineno))
        trace = trace.tb_next
    # Callers of the project's code, such as an event loop or the import system, do not belong to the failure.
    while (
        found
        and is_library_file(found[0][0].f_code.co_filename)
        and not all(is_library_file(frame.f_code.co_filename) for frame, _ in found)
    ):
        del found[0]
    found.reverse()
    return found if len(found) <= MAX_FRAMES else found[: MAX_FRAMES // 2] + found[-MAX_FRAMES // 2 :]


def frame_values(trace: TracebackType | None) -> list[Values]:
    """Return the frames of a traceback as plain values, innermost first."""
    values: list[Values] = []
    for index, (frame, line) in enumerate(test_frames(trace)):
        file = frame.f_code.co_filename
        described: Values = {"file": file, "line": line or 1, "function": frame.f_code.co_name}
        if index < MAX_FRAMES_WITH_LOCALS and not is_library_file(file) and frame.f_locals is not frame.f_globals:
            described["locals"] = local_variables(frame)
        values.append(described)
    return values


def local_variables(frame: FrameType) -> dict[str, str]:
    """Return short representations of the local variables of a frame, by name."""
    found: dict[str, str] = {}
    values = frame.f_locals
    for name in list(values):
        # Names that pytest adds for assertions begin with an at sign.
        if name[:1] in ("@", ".") or name[:2] == "__" or SECRET_NAME_PATTERN.search(name):
            continue
        try:
            found[name] = PYTHON_PRINTER.text(values[name], MAX_LOCAL_CHARACTERS)
        except BaseException as failure:
            found[name] = "<not displayed: " + type(failure).__name__ + ">"
        if len(found) == MAX_LOCALS:
            break
    found.update(_differing_parts({name: values[name] for name in found if type(values.get(name)) is str}))
    return found


def _differing_parts(strings: dict[str, str]) -> dict[str, str]:
    """Return a representation of each long string that begins like another, starting where the two differ.

    Their beginnings would not show why a comparison failed.
    """
    found: dict[str, str] = {}
    heads = {name: text[:MAX_COMPARED_CHARACTERS] for name, text in strings.items() if len(text) > MAX_LOCAL_CHARACTERS}
    for name, head in heads.items():
        text = strings[name]
        alike = max([_common_length(head, other) for other in heads.values() if other != head], default=0)
        if alike >= MIN_ALIKE_CHARACTERS:
            start = alike - DIFFERENCE_CONTEXT_CHARACTERS
            part = repr(text[start : alike + DIFFERENCE_CHARACTERS])
            found[name] = "from character " + str(start) + " of " + str(len(text)) + ": " + part
    return found


def _common_length(text: str, other: str) -> int:
    """Return the length of the common beginning of two strings."""
    low, high = 0, min(len(text), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if text[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
