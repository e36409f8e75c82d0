"""The output that an answer adds to what its caller already got.

Of streams, an answer gives its caller only news. A caller is a connection, the client's own conversation if named, and
its `who` if given: each begins at 0. The content of an answer counts as delivered when the answer is handed out, not
when it is made. Answers that may be fetched twice, as those of MCP tasks are, and those to the command line have
everything, and count for nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codriver.log.transcripts import NOWHERE
from codriver.tools.calls.client_traits import traits_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping

    from codriver.log.transcripts import Part, Transcript
    from codriver.tools.calls.arguments import Arguments
    from codriver.tools.calls.call import Call

FROM: Final[dict[Part, str]] = {"stdout": "from", "stderr": "stderrFrom"}
"""The field that gives the beginning of a stream that does not begin at its first character."""
FLOODED: Final[dict[Part, str]] = {"stdout": "stdout flooded", "stderr": "stderr flooded"}
"""The name of the place up to which a stream was told as a flood."""
NOTHING_NEW: Final = "nothing new was printed"


def caller_of(call: Call, asked: Arguments) -> Hashable | None:
    """Return the key of the caller that an answer tells; None if its content does not count as told."""
    if call.lasting is not None or traits_of(call.client_name).wants_detail:
        return None
    return call.client, call.conversation, asked.who


class Telling:
    """One answer's part of the evaluation's texts told to its caller, and its notes that a caller needs once."""

    def __init__(
        self, call: Call, transcript: Transcript | None, asked: Arguments, *, reads_input: bool = False
    ) -> None:
        self.transcript = transcript
        self._reads_input = reads_input
        self._notes_told = call.services.delivered.notes
        self._caller = caller = caller_of(call, asked)
        self._before = NOWHERE if transcript is None or caller is None else transcript.reported_to(caller)
        self._reached: dict[str, int] = {}
        self._notes: list[str] = []

    def begin(self, part: str) -> int:
        """Return the place of the first character of a part that is news to the caller."""
        return self._before.get(part, 0) if self._before else 0

    def goes_on(self, part: Part) -> bool:
        """True if the caller was told a flood of this part; output before code reads input counts as any text."""
        return bool(self.begin(FLOODED[part])) and not self._reads_input

    def reach(self, part: str, place: int) -> None:
        """Note that the answer tells a part up to this place; the names of its cuts are kept."""
        self._reached[part] = place

    def news(self, notes: Iterable[str]) -> list[str]:
        """Return the notes among these that are news to the caller."""
        if self._caller is None:
            return list(notes)
        news = [note for note in notes if self._notes_told.is_new(self._caller, note)]
        self._notes += news
        return news

    def begins(self) -> dict[str, int]:
        """Return the fields with the beginning of each stream; none for a stream from its first character on."""
        if not self._before:
            return {}
        return {FROM[part]: place for part, place in self._before.items() if part in FROM and place}

    def take_back(self, fields: Mapping[str, object], shown: Mapping[str, object]) -> None:
        """Take back the end of the error output that `shown` leaves out, as the error says it: it is not told."""
        told, kept = fields.get("stderr"), shown.get("stderr", "")
        if "stderr" in self._reached and isinstance(told, str) and isinstance(kept, str):
            self._reached["stderr"] -= len(told) - len(kept)

    @property
    def handed_out(self) -> Callable[[], None] | None:
        """Return the function to call when the answer is handed out; None if that changes nothing."""
        is_new = self._caller is not None and (self._reached or self._notes)
        return self._hand_out if is_new else None

    def _hand_out(self) -> None:
        if self._reached and self.transcript is not None:
            self.transcript.report(self._caller, self._reached)
        if self._notes:
            self._notes_told.note(self._caller, self._notes)
