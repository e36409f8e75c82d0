"""Stack frames, told once: those that are one call are one, and calls that repeat are told with how often.

On the JVM a call of a Clojure function is up to four frames (`invokeStatic`, `invoke`, `doInvoke`, `applyTo`), and an
error shares the outer frames with the one that was thrown around it.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from codriver.repls.contract.adapter_values import StackFrame

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_IN_CYCLE: Final = 8
"""So many functions may call one another in turn, that is seen as recursion."""
FEWEST_TIMES: Final = 3
"""Calls that come less often in a row are told one by one."""
FRAME: Final = re.compile(r"^(?P<function>.*?) \((?P<file>.+):(?P<line>\d+)\)(?: … (?P<repeated>.+))?$")
"""A frame in a line, as codriver's worker says it and as `text_of` does."""
OF_ONE_CALL: Final = ("invoke", "doInvoke", "invokePrim", "applyTo", "applyToHelper")
"""The methods around `invokeStatic`, or around each other, through which the JVM calls a Clojure function."""
CALLERS: Final = ("clojure.lang.RestFn", "clojure.lang.AFn", "clojure.lang.AFunction")
"""The classes whose methods of these names only pass a call on to a function."""
_SPECIAL: Final = {"_BANG_": "!", "_QMARK_": "?", "_STAR_": "*", "_GT_": ">", "_LT_": "<", "_EQ_": "=", "_PLUS_": "+"}


def read_frame(text: str, tooling: Sequence[str]) -> StackFrame:
    """A frame from its line; `tooling`: parts of the names of files that are not the user's."""
    is_tooling = any(part in text for part in tooling)
    if (match := FRAME.match(text)) is None:
        return StackFrame(text, tooling=is_tooling)
    alone = text.removesuffix(f" … {match['repeated']}")
    return StackFrame(alone, match["file"], int(match["line"]), match["function"], is_tooling, match["repeated"] or "")


def text_of(frame: StackFrame) -> str:
    """A frame in one line."""
    return f"{frame.text} … {frame.repeated}" if frame.repeated else frame.text


def folded(frames: Sequence[StackFrame]) -> tuple[StackFrame, ...]:
    """The frames, of those that repeat in a row only the first, the last of them with how often they came."""
    texts = [frame.text for frame in frames]
    told: list[StackFrame] = []
    place = 0
    while place < len(frames):
        size, times = _run_at(texts, place)
        told += frames[place : place + size]
        if times > 1:
            words = f"{times} times" if size == 1 else f"{times} times, these {size}"
            told[-1] = replace(told[-1], repeated=words)
        place += size * times
    return tuple(told)


def _run_at(texts: Sequence[str], place: int) -> tuple[int, int]:
    """The number of frames from a place on that repeat, and how often; one and once where none do."""
    for size in range(1, MOST_IN_CYCLE + 1):
        cycle, times = texts[place : place + size], 1
        if texts[place + size : place + 2 * size] != cycle:
            continue
        while texts[place + times * size : place + (times + 1) * size] == cycle:
            times += 1
        if times >= FEWEST_TIMES:
            return size, times
    return 1, 1


def calls(frames: Sequence[tuple[str, str]]) -> list[int]:
    """The places of the frames that begin a call, where each frame is a class and a method, innermost first.

    A call's innermost frame is kept, as it has the line that ran; any other has that of the function's beginning.
    """
    places: list[int] = []
    owner, passed = "", [""]
    for place, (name, method) in enumerate(frames):
        is_of_function = method == "invokeStatic" or method in OF_ONE_CALL
        if owner and method in OF_ONE_CALL and method not in passed and (name == owner or name in CALLERS):
            passed.append(method)
            continue
        owner, passed = (name if is_of_function else ""), [method]
        places.append(place)
    return places


def function_of(name: str, method: str) -> str:
    """The name of a function of Clojure from its class, `ns/name`; of any other method its class and name."""
    namespace, _, rest = name.partition("$")
    if not rest or (method != "invokeStatic" and method not in OF_ONE_CALL):
        return f"{name}/{method}"
    for special, character in _SPECIAL.items():
        rest = rest.replace(special, character)
    return f"{namespace}/{rest.replace('$', '/')}".replace("_", "-")


def of_its_own(frames: Sequence[StackFrame], inner: Sequence[StackFrame]) -> tuple[StackFrame, ...]:
    """The frames of an error that it does not share with the one inside it, at least the innermost."""
    shared = 0
    for frame, other in zip(reversed(frames), reversed(inner), strict=False):
        if frame.text != other.text:
            break
        shared += 1
    return tuple(frames[: max(1, len(frames) - shared)])
