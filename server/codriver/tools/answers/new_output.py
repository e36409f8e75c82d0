"""Track which output each caller has received, so that answers contain only new output.

A caller is identified by its connection, by its conversation if the client names one, and by `who` if it is given. Each
caller first receives output from the beginning. Content counts as delivered when the answer is sent, not when it is
created. Answers that may be fetched twice, such as those of MCP tasks, and answers to the command line contain
everything, and do not count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codriver.log.evaluation_transcripts import NO_POSITIONS
from codriver.tools.calls.client_traits import find_traits

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping

    from codriver.log.evaluation_transcripts import Part, Transcript
    from codriver.tools.calls.arguments import Arguments
    from codriver.tools.calls.call import Call

START_FIELDS: Final[dict[Part, str]] = {"stdout": "from", "stderr": "stderrFrom"}
"""Names of the fields that contain the position at which a stream starts in an answer, if that is not 0."""
FLOOD_POSITIONS: Final[dict[Part, str]] = {"stdout": "stdout flooded", "stderr": "stderr flooded"}
"""Names of the positions up to which each stream has been delivered as a flood."""
NOTHING_NEW_MESSAGE: Final = "nothing new was printed"


def receiver_key(call: Call, arguments: Arguments) -> Hashable | None:
    """Return a key for the caller that receives an answer, or None if the answer does not count as delivered."""
    if call.lasting is not None or find_traits(call.client_name).wants_detail:
        return None
    return call.client, call.conversation, arguments.who


class Delivery:
    """Tracks what an answer delivers: the output of an evaluation, and notes that a caller receives only once."""

    def __init__(
        self,
        call: Call,
        transcript: Transcript | None,
        arguments: Arguments,
        *,
        reads_input: bool = False,
        grep: str | None = None,
    ) -> None:
        self.transcript = transcript
        self.grep = grep
        """Text or regular expression of the requested lines of output. None requests all of the output."""
        self._reads_input = reads_input
        self._delivered_notes = call.services.delivered.notes
        self._caller = caller = receiver_key(call, arguments)
        self._before = NO_POSITIONS if transcript is None or caller is None else transcript.reported_positions(caller)
        self._reached: dict[str, int] = {}
        self._notes: list[str] = []

    def start_position(self, part: str) -> int:
        """Return the position in a part of the transcript at which text that is new to the caller begins.

        `part` may also be one of the `FLOOD_POSITIONS`, here and in `record_delivered`.
        """
        return self._before.get(part, 0) if self._before else 0

    def is_continued_flood(self, part: Part) -> bool:
        """Return whether an earlier answer to the caller already shortened this stream as a flood.

        Output before a request for input never counts as a flood.
        """
        return bool(self.start_position(FLOOD_POSITIONS[part])) and not self._reads_input

    def record_delivered(self, part: str, position: int) -> None:
        """Record the position up to which the answer delivers a part of the transcript."""
        self._reached[part] = position

    def new_notes(self, notes: Iterable[str]) -> list[str]:
        """Return the notes that the caller has not received yet."""
        if self._caller is None:
            return list(notes)
        new_notes = [note for note in notes if self._delivered_notes.is_new(self._caller, note)]
        self._notes += new_notes
        return new_notes

    def start_fields(self) -> dict[str, int]:
        """Return fields with the start position of each stream that the answer does not contain completely."""
        if not self._before:
            return {}
        return {
            START_FIELDS[part]: position for part, position in self._before.items() if part in START_FIELDS and position
        }

    def exclude_omitted(self, fields: Mapping[str, object], visible: Mapping[str, object]) -> None:
        """Do not count the end of stderr as delivered if `visible` omits it because the error repeats it."""
        full, remaining = fields.get("stderr"), visible.get("stderr", "")
        if "stderr" in self._reached and isinstance(full, str) and isinstance(remaining, str):
            self._reached["stderr"] -= len(full) - len(remaining)

    @property
    def on_sent(self) -> Callable[[], None] | None:
        """Return a function to call when the answer is sent, or None if there is nothing to record."""
        is_new = self._caller is not None and (self._reached or self._notes)
        return self._mark_as_delivered if is_new else None

    def _mark_as_delivered(self) -> None:
        """Record that the caller received the output and the notes of the answer."""
        if self._reached and self.transcript is not None:
            self.transcript.record_reported(self._caller, self._reached)
        if self._notes:
            self._delivered_notes.record_received(self._caller, self._notes)
