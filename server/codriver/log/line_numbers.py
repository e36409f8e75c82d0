"""The line numbers of the log: none is given twice, by any run of a workspace's servers."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import threading
import time
from typing import TYPE_CHECKING

from codriver import files
from codriver.files import UnsafeFileError
from codriver.log import durable_files

if TYPE_CHECKING:
    from pathlib import Path

logger = logging.getLogger(__name__)

MAX_LINE_FILE_BYTES = 64

RESERVED_LINES = 2_000
"""The lines that a crash skips at most, unless the log was fast. More are reserved when half are used."""
MOST_RESERVED_LINES = 2**17
FAST_S = 1.0
"""A log that uses up its lines within this time gets twice as many the next time."""
STALL_S = 0.05
"""The longest wait for more lines, once for each time that the disk blocks."""
MOST_UNTOLD = 64
"""Lines that the log may have given beyond the last one reported."""
LOST_LINES = 200_000  # skipped when the last given line is unknown: more than a run of days is likely to give
LINE_NUMBER = re.compile(rb"[0-9]{1,18}\n")


class LineNumbers:
    """Line numbers that the log has given and may give, for the life of one server. `load` comes first.

    The file is kept ahead of the given lines: it is written once for many lines, and a crash skips some.
    """

    def __init__(self, path: Path) -> None:
        self.next_line = 1
        """The first line that was not given yet."""
        self._file = path
        self._lock = threading.Lock()
        self._low_from = 0
        """The last line of the first half of the durably reserved lines."""
        self._reserved = 0
        """The first line that is not reserved, or for which that failed."""
        self._amount = RESERVED_LINES
        self._extended_at = 0.0
        self._extension = threading.Condition()
        self.is_stalled = False
        """Whether a wait for more lines was in vain since the last extension."""
        self._is_closed = False

    def load(self, last_known: int, errors: list[str]) -> None:
        """Read the line to continue with, after `last_known` in any case, and reserve lines.

        Faults go to `problems`.
        """
        self.next_line = max(self._read(last_known, errors), last_known + 1)
        if not self._reserve(self.next_line + RESERVED_LINES):
            errors.append(f"line numbers cannot be reserved in {self._file}: they may repeat after a crash")
        self._sync()
        self._low_from = self._reserved - self._amount // 2

    def note(self, line: int) -> bool:
        """Note a line that the log has given; return whether half of the reserved lines are used."""
        if line >= self.next_line:
            self.next_line = line + 1
        return self.next_line > self._low_from

    @property
    def is_used_up(self) -> bool:
        """Return whether the log may be about to give a line that is not reserved."""
        return self.next_line + MOST_UNTOLD > self._reserved and not self._is_closed

    @property
    def needs_extension(self) -> bool:
        """Return whether half of the reserved lines are used, durable or not."""
        return self.next_line > self._reserved - self._amount // 2 and not self._is_closed

    def extend(self) -> None:
        """Reserve more lines if half are used, without waiting until that is on disk."""
        if self.needs_extension:
            now = time.monotonic()
            is_fast = now - self._extended_at < FAST_S
            self._extended_at = now
            self._amount = min(2 * self._amount, MOST_RESERVED_LINES) if is_fast else RESERVED_LINES
            self._reserve(self.next_line + self._amount)
        with self._extension:
            self.is_stalled = False
            self._extension.notify_all()

    def await_extension(self) -> None:
        """Wait until another thread has called `extend`, for `STALL_S` at most, and not again while the disk blocks."""
        if self.is_stalled:
            return
        with self._extension:
            self.is_stalled = not self._extension.wait_for(lambda: not self.is_used_up, STALL_S)

    @property
    def is_low(self) -> bool:
        """Return whether half of the reserved lines are used."""
        return self.next_line > self._low_from

    def renew(self) -> None:
        """Reserve more lines if few are left, and wait until that is on disk. `extend` does not wait for it."""
        if self.is_low and not self._is_closed:
            self.extend()
            line = self._reserved
            self._sync()
            self._low_from = max(self._low_from, line - self._amount // 2)

    def close(self) -> None:
        """Store the exact line to continue with."""
        self._is_closed = True
        self._reserve(self.next_line)
        self._sync()

    def _read(self, last_known: int, errors: list[str]) -> int:
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
        errors.append(f"{self._file} held no line number; {LOST_LINES} lines after the last known are skipped")
        return last_known + LOST_LINES + 1

    def _reserve(self, line: int) -> bool:
        """Keep in a file that lines below this one may have been given; return whether that worked.

        The record survives the process, and the machine once `_sync` has returned.
        """
        with self._lock:
            if not self._is_closed:  # two threads may reserve, and the slower one must take nothing back
                line = max(line, self._reserved)
            self._reserved = line  # if it fails, no further line is held up by a try of its own
            try:
                durable_files.replace(self._file, f"{line}\n".encode(), is_durable=False)
            except OSError as error:
                logger.debug("lines up to %d could not be reserved: %s", line, error)
                return False
            return True

    def _sync(self) -> None:
        """Put the record on disk."""
        try:
            descriptor = files.open_for_writing(self._file, links=files.Links.NEVER, root=self._file.parent)
            try:
                files.put_on_disk(descriptor)
            finally:
                os.close(descriptor)
            with files.locate(self._file, files.Links.NEVER, root=self._file.parent) as position:
                position.sync()
        except OSError as error:
            logger.debug("the reserved lines could not be put on disk: %s", error)
