"""Parse, format and combine stack frames.

Frames that belong to one call are merged, and repeated calls are counted. A call to a Clojure function takes up to four
frames on the JVM (`invokeStatic`, `invoke`, `doInvoke`, `applyTo`). An error has the outermost frames in common with
the error that wraps it.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from codriver.repls.contract.stack_trace_values import StackFrame

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    """Parse a stack frame from one line. `tooling` contains substrings that identify files that are not the user's."""
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
            words = f"{times} times" if size == 1 else f"these {size} frames, {times} times"
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
