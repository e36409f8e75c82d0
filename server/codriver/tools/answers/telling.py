"""Told once: of an evaluation's streams, an answer tells its caller what no answer before has told it.

A caller is a connection, the client's own conversation where it names one, and its `who` where it gives one: each
begins at 0. What an answer tells counts as told when the answer is handed out, not when it is made. Answers that may be
fetched twice, as those of MCP tasks are, and those to the command line tell all, and count for nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codriver.log.told_places import NOWHERE
from codriver.tools.calls.client_traits import traits_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping

    from codriver.log.transcripts import Part, Transcript
    from codriver.tools.calls.base import Arguments, Call

FROM: Final[dict[Part, str]] = {"stdout": "from", "stderr": "stderrFrom"}
"""The field that says where a stream begins that does not begin at its first character."""
NOTHING_NEW: Final = "nothing new was printed"


def caller_of(call: Call, asked: Arguments) -> Hashable | None:
    """The key of who is told by an answer; None where what it tells does not count."""
    if call.lasting is not None or traits_of(call.client_name).wants_detail:
        return None
    return call.client, call.conversation, asked.who


class Telling:
    """One answer's part of what its caller is told of an evaluation, and its notes that a caller needs once."""

    def __init__(self, call: Call, transcript: Transcript | None, asked: Arguments) -> None:
        self.transcript = transcript
        self._notes_told = call.services.told.notes
        self._caller = caller = caller_of(call, asked)
        self._before = NOWHERE if transcript is None or caller is None else transcript.told_to(caller)
        self._reached: dict[str, int] = {}
        self._notes: list[str] = []

    def begin(self, part: Part) -> int:
        """The place of the first character that the caller was not told of a part."""
        return self._before.get(part, 0) if self._before else 0

    def reach(self, part: Part, place: int) -> None:
        """The answer tells a part up to this place, with what it names as cut."""
        self._reached[part] = place

    def news(self, notes: Iterable[str]) -> list[str]:
        """The notes among these that no answer has told the caller."""
        if self._caller is None:
            return list(notes)
        news = [note for note in notes if self._notes_told.is_news(self._caller, note)]
        self._notes += news
        return news

    def begins(self) -> dict[str, int]:
        """The fields that say where each stream begins; none for a stream from its first character on."""
        if not self._before:
            return {}
        return {FROM[part]: place for part, place in self._before.items() if part in FROM and place}

    def take_back(self, fields: Mapping[str, object], shown: Mapping[str, object]) -> None:
        """Of what is told at the end of the error output, `shown` leaves out what the error says: that is not told."""
        told, kept = fields.get("stderr"), shown.get("stderr", "")
        if "stderr" in self._reached and isinstance(told, str) and isinstance(kept, str):
            self._reached["stderr"] -= len(told) - len(kept)

    def is_nothing_new(self, shown: Mapping[str, object]) -> bool:
        """True where some was told before, and the answer has nothing of any stream."""
        return bool(self.begins()) and not shown.keys() & FROM.keys()

    @property
    def handed_out(self) -> Callable[[], None] | None:
        """To be called when the answer is handed out; None where that changes nothing."""
        is_news = self._caller is not None and (self._reached or self._notes)
        return self._hand_out if is_news else None

    def _hand_out(self) -> None:
        if self._reached and self.transcript is not None:
            self.transcript.tell(self._caller, self._reached)
        if self._notes:
            self._notes_told.note(self._caller, self._notes)
