"""Extract frames of application events from the output of a REPL.

Each frame is a line of JSON after a record separator. Chunks of output may end anywhere, and may contain other output
between frames. Codriver's worker sends frames in a separate message field and does not need this module. Source: RFC
7464, and `codriver_seam.streams`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from codriver.repls.contract.events import FeatureReport

if TYPE_CHECKING:
    from collections.abc import Iterator

EVENTS_REPORT: Final = "app-events"
"""Name of the reports that contain a frame of events."""
RECORD_SEPARATOR: Final = "\x1e"
MAX_FRAME_CHARACTERS: Final = 2**20
"""Maximum length of a frame. A batch of events takes about a tenth of that."""


class FrameReader:
    """Separates the frames of one subscription from the ordinary output of a REPL."""

    def __init__(self) -> None:
        self.subscription: str | None = None
        """The id of the reader's subscription, once known. Frames of other subscriptions are ordinary output."""
        self._partial = ""
        """The received part of a line that may become a frame."""

    def feed(self, text: str) -> Iterator[str | FeatureReport]:
        """Yield the frames that a chunk of output completes as reports, and the ordinary output around them as text."""
        text, self._partial = self._partial + text, ""
        while text:
            plain, mark, rest = text.partition(RECORD_SEPARATOR)
            if plain:
                yield plain
            line, newline, text = rest.partition("\n")
            if RECORD_SEPARATOR in line:
                # A frame contains no separator, so the first part of the line is an incomplete frame.
                incomplete, _, partial = line.partition(RECORD_SEPARATOR)
                yield RECORD_SEPARATOR + incomplete
                text = f"{RECORD_SEPARATOR}{partial}{newline}{text}"
            elif newline:
                yield self._frame(line) or f"{RECORD_SEPARATOR}{line}\n"
            elif len(line) > MAX_FRAME_CHARACTERS:
                yield mark + line
            else:
                self._partial = mark + line

    def _frame(self, line: str) -> FeatureReport | None:
        try:
            frame = json.loads(line) if len(line) <= MAX_FRAME_CHARACTERS else None
        except (ValueError, RecursionError):
            return None
        if not isinstance(frame, dict) or not isinstance(frame.get("events"), list):
            return None
        return FeatureReport(EVENTS_REPORT, line) if self.subscription in (None, frame.get("sub")) else None
