"""Thread dumps: the whole of one, and the part of it that is in the user's own code."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from codriver.repls.contract.adapter_values import ThreadDump

if TYPE_CHECKING:
    from collections.abc import Sequence

_MODULE: Final = re.compile(r"^(?:[^/() ]*//|[\w.]+@[^/() ]+/)")
"""What the JVM writes before a class: its loader or its module."""
_PYTHON_FRAME: Final = re.compile(r'^ +File "')


@dataclass(frozen=True, slots=True)
class Thread:
    """One thread: what it is called, and its frames in the order they are shown."""

    title: str
    frames: tuple[str, ...]


def dump_of(threads: Sequence[Thread], tooling: tuple[str, ...]) -> ThreadDump | None:
    """The dump of threads whose frames in code that `tooling` names are not the user's; None without any."""
    if not threads:
        return None
    own = [Thread(thread.title, tuple(f for f in thread.frames if not _is_tooling(f, tooling))) for thread in threads]
    return ThreadDump(_say(threads), _say([thread for thread in own if thread.frames]))


def read_python(text: str) -> tuple[Thread, ...]:
    """The threads of a dump in Python's notation: blocks parted by blank lines, two lines a frame."""
    threads = []
    for block in text.strip("\n").split("\n\n"):
        title, *lines = block.split("\n")
        frames: list[str] = []
        for line in lines:
            if frames and not _PYTHON_FRAME.match(line):
                frames[-1] += f"\n{line}"
            else:
                frames.append(line)
        if title.strip():
            threads.append(Thread(title, tuple(frames)))
    return tuple(threads)


def _is_tooling(frame: str, tooling: tuple[str, ...]) -> bool:
    if _PYTHON_FRAME.match(frame):
        return any(part in frame.split("\n", 1)[0] for part in tooling)
    return _MODULE.sub("", frame.strip().removeprefix("at ")).startswith(tooling)


def _say(threads: Sequence[Thread]) -> str:
    return "\n\n".join("\n".join([thread.title, *thread.frames]) for thread in threads)
