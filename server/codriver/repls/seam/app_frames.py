"""Frames of an application's events in output: read from what a REPL prints under the id of the subscribing form.

A frame is a line of JSON behind a record separator, the way for all REPLs but ours, which have no field for it. Source:
RFC 7464, and the plan of `AppEvents`. Output comes in pieces that end anywhere, and other output may stand between.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MARK: Final = "\x1e"
LINE_CHARACTERS: Final = 2**20
"""The longest frame: a batch of events is a tenth of it."""


class FrameReader:
    """Tells frames from ordinary output, for the life of one subscription; no character is lost."""

    def __init__(self) -> None:
        self.subscription: str | None = None
        """The id of the one whose frames these are, once it is known: those of others are ordinary output."""
        self._begun = ""
        """A line that may become a frame, as far as it came."""

    def feed(self, text: str) -> Iterator[str | Mapping[str, Any]]:
        """The frames, and the ordinary output before, between and behind them, that a piece completes."""
        text, self._begun = self._begun + text, ""
        while text:
            plain, mark, rest = text.partition(MARK)
            if plain:
                yield plain
            line, newline, text = rest.partition("\n")
            if MARK in line:
                # A frame has none in it: the line that began was broken off.
                broken, _, begun = line.partition(MARK)
                yield MARK + broken
                text = f"{MARK}{begun}{newline}{text}"
            elif newline:
                yield self._frame(line) or f"{MARK}{line}\n"
            elif len(line) > LINE_CHARACTERS:
                yield mark + line
            else:
                self._begun = mark + line

    def _frame(self, line: str) -> Mapping[str, Any] | None:
        try:
            frame = json.loads(line) if len(line) <= LINE_CHARACTERS else None
        except (ValueError, RecursionError):
            return None
        if not isinstance(frame, dict) or not isinstance(frame.get("events"), list):
            return None
        return frame if self.subscription in (None, frame.get("sub")) else None
