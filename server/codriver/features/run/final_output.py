"""Store the last error output of a process, to be read after the process has ended.

A process that was started from a broken file may end before a REPL can be requested from it. Each process therefore
retains the end of its error output. Once an agent has used the run, each process stores this output in the run's
directory when it exits.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from codriver import files
from codriver.features.run.run_directory import check_private
from codriver.files import FileRules, Links
from codriver.files.private_directories import make_private_directory

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

DIRECTORY_NAME: Final = "final-output"
"""The name of the directory in which processes store their output. If it does not exist, they store none."""
OUTPUT_RULES: Final = FileRules(Links.NEVER, 64 * 1024)
"""Limits for reading the output of a process."""
COLOR_CODE_PATTERN: Final = re.compile(r"\x1b\[[0-9;]*m")
"""Matches the escape codes with which programs color their output."""
FRAME_PATTERN: Final = re.compile(r'^\s+File ".+", line \d+', re.MULTILINE)
"""Matches a line of a traceback, whose first line may be missing. Source: Python's `traceback` module."""
MAX_LINES: Final = 12
"""Maximum number of lines to report, including the end of a traceback."""
MAX_CHARS: Final = 1000
"""Maximum number of characters to report."""


@dataclass(frozen=True, slots=True)
class FinalOutput:
    """The end of the text that a process printed to standard error before it ended."""

    pid: int
    text: str


def collect_from_now(run: Path) -> None:
    """Make a run's processes store their final output from now on, and remove the output stored so far.

    Raises:
        OSError: the directory cannot be created.
    """
    directory = run / DIRECTORY_NAME
    make_private_directory(directory)
    for path in directory.iterdir():
        with suppress(OSError):
            files.remove(path)


def read_final_output(
    run: Path, running: Collection[int], supervisors: Collection[int], *, prefers_errors: bool = False
) -> FinalOutput | None:
    """Return the stored output of the process that ended last, or None if there is none. Blocks.

    Processes in `running` are ignored, because their output is incomplete. The output of `supervisors` is used only if
    there is no other, because it rarely explains why a different process ended. With `prefers_errors`, a process that
    printed a traceback is preferred, because a server may end its other processes after one has failed.
    """
    directory = run / DIRECTORY_NAME
    found: list[tuple[bool, bool, int, FinalOutput]] = []
    try:
        check_private(directory)
        for path in directory.iterdir():
            if path.name.isdecimal() and (pid := int(path.name)) not in running:
                data, status = files.read_with_status(path, OUTPUT_RULES)
                text = COLOR_CODE_PATTERN.sub("", data.decode("utf-8", "replace")).rstrip()
                has_error = prefers_errors and FRAME_PATTERN.search(text) is not None
                output = FinalOutput(pid, "\n".join(text.splitlines()[-MAX_LINES:])[-MAX_CHARS:])
                found.append((pid not in supervisors, has_error, status.st_mtime_ns, output))
    except OSError:
        return None
    if not found:
        return None
    best = max(found, key=lambda row: row[:3])[3]
    return best if best.text else None
