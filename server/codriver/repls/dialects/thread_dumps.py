"""Parse thread dumps and reduce them to the user's code."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from codriver.repls.contract.stack_trace_values import ThreadDump

if TYPE_CHECKING:
    from collections.abc import Sequence


_MODULE_PREFIX_PATTERN: Final = re.compile(r"^(?:[^/() ]*//|[\w.]+@[^/() ]+/)")
"""Matches the class loader or module that the JVM prints before a class."""


_THREAD_START_PATTERN: Final = re.compile(
    r'^ +File ".*[/\\\\]threading\.py", line \d+, in (?:_bootstrap|_bootstrap_inner|run)\b'
)
"""Matches a frame in which Python starts a thread."""
_PYTHON_FRAME_PATTERN: Final = re.compile(r'^ +File "')


@dataclass(frozen=True, slots=True)
class Thread:
    """A thread in a dump. `title` is its first line, and `frames` are its stack frames in the printed order."""

    title: str
    frames: tuple[str, ...]


def build_thread_dump(threads: Sequence[Thread], tooling: tuple[str, ...]) -> ThreadDump | None:
    """Create a dump of these threads, or return None if there are none. `tooling` identifies tool frames."""
    if not threads:
        return None
    user_threads = [
        Thread(thread.title, tuple(f for f in thread.frames if not _is_tooling(f, tooling))) for thread in threads
    ]
    return ThreadDump(_dump_text(threads), _dump_text([thread for thread in user_threads if thread.frames]))


def parse_python_dump(text: str) -> tuple[Thread, ...]:
    """Parse a thread dump in Python's format: one block per thread, with two lines per frame."""
    threads = []
    for block in text.strip("\n").split("\n\n"):
        title, *lines = block.split("\n")
        frames: list[str] = []
        for line in lines:
            if frames and not _PYTHON_FRAME_PATTERN.match(line):
                frames[-1] += f"\n{line}"
            else:
                frames.append(line)
        if title.strip():
            threads.append(Thread(title, tuple(_without_thread_start(frames))))
    return tuple(threads)


def _without_thread_start(frames: list[str]) -> list[str]:
    """Return the frames without those that only start a thread, or all frames if there are no others.

    Frames are ordered with the outermost first.
    """
    first = next((at for at, frame in enumerate(frames) if not _THREAD_START_PATTERN.match(frame)), 0)
    return frames[first:]


def _is_tooling(frame: str, tooling: tuple[str, ...]) -> bool:
    if _PYTHON_FRAME_PATTERN.match(frame):
        return any(part in frame.split("\n", 1)[0] for part in tooling)
    return _MODULE_PREFIX_PATTERN.sub("", frame.strip().removeprefix("at ")).startswith(tooling)


def _dump_text(threads: Sequence[Thread]) -> str:
    return "\n\n".join("\n".join([thread.title, *thread.frames]) for thread in threads)
