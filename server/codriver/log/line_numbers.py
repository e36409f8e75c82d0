"""The numbers of the log's lines, reserved in a small file, so that no two runs give one."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import threading
from typing import TYPE_CHECKING

from codriver.files import UnsafeFileError
from codriver.log import durable_files

if TYPE_CHECKING:
    from pathlib import Path

logger = logging.getLogger(__name__)

MAX_LINE_FILE_BYTES = 64

# At most that many line numbers are skipped by a crash. They are renewed when half are used; a log that is faster than
# that renews them itself, which takes 0.2 ms, so 0.1 µs a line.
RESERVED_LINES = 2_000
MOST_UNTOLD = 64
"""Lines that the log may have given beyond the last that it told of."""
LOST_LINES = 200_000  # skipped when nobody knows any more which were given: more than a run of days is likely to give
LINE_NUMBER = re.compile(rb"[0-9]{1,18}\n")


class LineNumbers:
    """Line numbers that the log has given and may give, for the life of one server. `load` comes first.

    The file is kept ahead of what is given, so that it is written once for many lines, and a crash skips some.
    """

    def __init__(self, path: Path) -> None:
        self.next_line = 1
        """The first line that was not given yet."""
        self._file = path
        self._lock = threading.Lock()
        self._reserved = 0
        self._renew_at = 0
        """The line that is not given before more are reserved, or before that was tried."""
        self._is_closed = False

    def load(self, last_known: int, problems: list[str]) -> None:
        """Read from where to count, behind `last_known` in any case, and reserve lines. What is wrong is a problem."""
        self.next_line = max(self._read(last_known, problems), last_known + 1)
        if not self._reserve(self.next_line + RESERVED_LINES):
            problems.append(f"line numbers cannot be reserved in {self._file}: they may repeat after a crash")

    def saw(self, line: int) -> None:
        """The log has given this line. Any thread may say so; the disk is waited for once in `RESERVED_LINES`."""
        if line >= self.next_line:
            self.next_line = line + 1
            if line + MOST_UNTOLD >= self._renew_at and not self._is_closed:
                self._reserve(line + RESERVED_LINES, is_durable=False)

    @property
    def is_low(self) -> bool:
        """Whether half of the lines that were reserved are used."""
        return self.next_line > self._reserved - RESERVED_LINES // 2

    def renew(self) -> None:
        """Reserve more lines where few are left, and wait until that is on disk."""
        if self.is_low and not self._is_closed:
            self._reserve(self.next_line + RESERVED_LINES)

    def close(self) -> None:
        """Keep the exact line to go on with."""
        self._is_closed = True
        self._reserve(self.next_line)

    def _read(self, last_known: int, problems: list[str]) -> int:
        content = b""
        try:
            content = b"".join(durable_files.read(self._file, MAX_LINE_FILE_BYTES))
            if not content and not os.path.lexists(self._file):
                return 1
        except UnsafeFileError:
            with contextlib.suppress(OSError):
                durable_files.set_aside(self._file)
        except OSError as error:
            logger.debug("%s cannot be read: %s", self._file, error)
        if LINE_NUMBER.fullmatch(content):
            return int(content)
        problems.append(f"{self._file} held no line number; {LOST_LINES} lines after the last known are skipped")
        return last_known + LOST_LINES + 1

    def _reserve(self, line: int, *, is_durable: bool = True) -> bool:
        """Keep in a file that lines below this one may have been given. Whether that worked.

        What is not durable outlives the process, and the machine only when the system has written it meanwhile.
        """
        with self._lock:
            if not self._is_closed:  # two threads may reserve, and the one that is behind takes nothing back
                line = max(line, self._renew_at)
            # Where the disk cannot be written, the next lines are not held up by trying again for each.
            self._renew_at = line
            try:
                durable_files.replace(self._file, f"{line}\n".encode(), is_durable=is_durable)
            except OSError as error:
                logger.debug("lines up to %d could not be reserved: %s", line, error)
                return False
            self._reserved = line if is_durable else self._reserved
            return True
