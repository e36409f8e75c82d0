"""Log line numbers that are never reused, not even by later servers of the same workspace."""

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

MAX_NUMBER_FILE_BYTES = 64
"""Maximum size of the file with the reserved line number."""

RESERVED_LINES = 2_000
"""Number of lines reserved at a time, most of which a crash skips. More are reserved when half are used."""
MAX_RESERVED_LINES = 2**17
"""Maximum number of lines reserved at a time while the log grows fast."""
FAST_USE_THRESHOLD_S = 1.0
"""If the reserved lines are used up within this many seconds, twice as many are reserved next time."""
MAX_RESERVATION_WAIT_S = 0.05
"""Maximum time, in seconds, to wait for reserved lines. Only one such wait is needed each time the disk blocks."""
MAX_UNREPORTED_LINES = 64
"""Maximum number of lines that are added to the log between two calls of `record_used_line`."""
SKIPPED_LINES = 200_000
"""Number of lines skipped if the last used line is unknown. A run of several days uses fewer."""
LINE_NUMBER_PATTERN = re.compile(rb"[0-9]{1,18}\n")


class LineNumbers:
    """Allocates line numbers that are unique across all runs of a workspace's servers. Call `load` first.

    A file stores a number higher than that of any used line. Many lines are reserved at a time, so a crash skips some
    numbers.
    """

    def __init__(self, path: Path) -> None:
        self.next_line = 1
        """The next line number to use."""
        self._file = path
        self._lock = threading.Lock()
        self._low_from = 0
        """The last line number of the first half of the lines whose reservation is on disk."""
        self._reserved = 0
        """The first line number that is not reserved, even if writing the reservation failed."""
        self._amount = RESERVED_LINES
        self._extended_at = 0.0
        self._extension = threading.Condition()
        self.is_stalled = False
        """Whether a wait for reserved lines has timed out since the last extension."""
        self._is_closed = False

    def load(self, last_known: int, errors: list[str]) -> None:
        """Read the next line number from the file, and reserve lines. Error messages are appended to `errors`.

        The next line number is higher than `last_known`.
        """
        self.next_line = max(self._read(last_known, errors), last_known + 1)
        if not self._reserve(self.next_line + RESERVED_LINES):
            errors.append(f"line numbers cannot be reserved in {self._file}, so they may repeat after a crash")
        self._sync()
        self._low_from = self._reserved - self._amount // 2

    def record_used_line(self, line: int) -> bool:
        """Record that the log has used a line number, and return whether more lines should be reserved."""
        if line >= self.next_line:
            self.next_line = line + 1
        return self.next_line > self._low_from

    @property
    def may_be_exhausted(self) -> bool:
        """Return whether the reserved line numbers may soon be exhausted."""
        return self.next_line + MAX_UNREPORTED_LINES > self._reserved and not self._is_closed

    @property
    def needs_extension(self) -> bool:
        """Return whether more than half of the reserved lines are used, even if their reservation is not on disk."""
        return self.next_line > self._reserved - self._amount // 2 and not self._is_closed

    def extend(self) -> None:
        """Reserve more lines if more than half are used. Does not wait until the reservation is on disk."""
        if self.needs_extension:
            now = time.monotonic()
            is_fast = now - self._extended_at < FAST_USE_THRESHOLD_S
            self._extended_at = now
            self._amount = min(2 * self._amount, MAX_RESERVED_LINES) if is_fast else RESERVED_LINES
            self._reserve(self.next_line + self._amount)
        with self._extension:
            self.is_stalled = False
            self._extension.notify_all()

    def await_extension(self) -> None:
        """Wait for another thread to call `extend`, for at most `MAX_RESERVATION_WAIT_S`.

        Returns immediately if the last wait timed out.
        """
        if self.is_stalled:
            return
        with self._extension:
            self.is_stalled = not self._extension.wait_for(lambda: not self.may_be_exhausted, MAX_RESERVATION_WAIT_S)

    @property
    def is_low(self) -> bool:
        """Return whether more than half of the lines whose reservation is on disk are used."""
        return self.next_line > self._low_from

    def reserve_on_disk(self) -> None:
        """Reserve more lines if more than half are used, and wait until the reservation is on disk."""
        if self.is_low and not self._is_closed:
            self.extend()
            line = self._reserved
            self._sync()
            self._low_from = max(self._low_from, line - self._amount // 2)

    def close(self) -> None:
        """Store the exact next line number."""
        self._is_closed = True
        self._reserve(self.next_line)
        self._sync()

    def _read(self, last_known: int, errors: list[str]) -> int:
        content = b""
        try:
            content = b"".join(durable_files.read(self._file, MAX_NUMBER_FILE_BYTES))
            if not content and not os.path.lexists(self._file):
                return 1
        except UnsafeFileError:
            with contextlib.suppress(OSError):
                durable_files.rename_broken_file(self._file)
        except OSError as error:
            logger.debug("the reserved line number in %s cannot be read: %s", self._file, error)
        if LINE_NUMBER_PATTERN.fullmatch(content):
            return int(content)
        errors.append(
            f"{self._file} contained no line number, so {SKIPPED_LINES} numbers after the last known one are skipped"
        )
        return last_known + SKIPPED_LINES + 1

    def _reserve(self, line: int) -> bool:
        """Store that line numbers below `line` may have been used, and return whether that succeeded.

        The number survives a crash of the process, and after `_sync` a crash of the machine.
        """
        with self._lock:
            if not self._is_closed:  # two threads may reserve, and the slower one must not lower the number
                line = max(line, self._reserved)
            self._reserved = line  # set even if writing fails, so that later lines do not wait for another attempt
            try:
                durable_files.replace(self._file, f"{line}\n".encode(), is_durable=False)
            except OSError as error:
                logger.debug("line numbers up to %d could not be reserved: %s", line, error)
                return False
            return True

    def _sync(self) -> None:
        """Sync the file to disk, ignoring errors."""
        try:
            descriptor = files.open_for_writing(self._file, links=files.Links.NEVER, root=self._file.parent)
            try:
                files.sync_to_disk(descriptor)
            finally:
                os.close(descriptor)
            with files.locate(self._file, files.Links.NEVER, root=self._file.parent) as position:
                position.sync()
        except OSError as error:
            logger.debug("reserved line numbers could not be flushed to disk: %s", error)
