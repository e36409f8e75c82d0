"""Notes that callers have received and do not need again, for the lifetime of one server."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from codriver.core.records import Recent

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from codriver.core.evaluations import Evaluation
    from codriver.core.state import Repl

COMMANDS_CALLER: Final = "codriver-cli"
"""Caller name of all commands, which count as one caller although each of them connects separately."""
MAX_RECORD_ENTRIES: Final = 1000
"""Maximum number of entries per record. The oldest are discarded."""


@dataclass(slots=True)
class DeliveredNotes:
    """Records which notes each caller has received, for the lifetime of one server."""

    delivered: Recent[tuple[Hashable, Hashable], None] = field(default_factory=partial(Recent, MAX_RECORD_ENTRIES))

    def is_new(self, caller: Hashable, note: Hashable) -> bool:
        """Return whether the caller has not received this note yet."""
        return (caller, note) not in self.delivered

    def record_received(self, caller: Hashable, notes: Iterable[Hashable]) -> None:
        """Record that the caller has received these notes."""
        for note in notes:
            self.delivered[caller, note] = None

    def claim(self, caller: Hashable, note: Hashable) -> bool:
        """Record that the caller receives a note, and return whether it is new to the caller."""
        is_new = self.is_new(caller, note)
        self.delivered[caller, note] = None
        return is_new


@dataclass(slots=True)
class ReplNotes:
    """Records which notes about REPLs each caller has received, for the lifetime of one server.

    Notes are not repeated after a restart of the REPL.
    """

    notes: Recent[tuple[str | None, str, str], str] = field(default_factory=partial(Recent, MAX_RECORD_ENTRIES))
    """The evaluation whose answer contains the note each time it is fetched, by client, `who` and note."""
    generations: Recent[tuple[str | None, str, str], int] = field(default_factory=partial(Recent, MAX_RECORD_ENTRIES))
    """Generation of the REPL in the caller's last answer about it, by client, `who` and key."""

    def record_generation(self, client: str, who: str, repl: Repl) -> bool:
        """Record the generation of a REPL in an answer to a caller.

        Returns whether it has changed since the caller's last answer.
        """
        caller = (None if who == COMMANDS_CALLER else client, who, repl.key)
        before = self.generations.get(caller)
        if before == repl.generation:
            return False
        self.generations[caller] = repl.generation
        return before is not None

    @staticmethod
    def client_or_none(evaluation: Evaluation) -> str | None:
        """Return the client of an evaluation, or None for commands, which count as one client."""
        return None if evaluation.who == COMMANDS_CALLER else evaluation.client

    def is_new(self, evaluation: Evaluation, note: str) -> bool:
        """Return whether the answer about this evaluation should include the note.

        Only the answer about the first evaluation with the note includes it, each time that answer is fetched.
        """
        client = self.client_or_none(evaluation)
        first = self.notes.setdefault((client, evaluation.who, note), evaluation.id)
        return first == evaluation.id

    def may_be_new(self, evaluation: Evaluation, note: str) -> bool:
        """Return what `is_new` would return, without recording the note."""
        return self.notes.get((self.client_or_none(evaluation), evaluation.who, note)) in (None, evaluation.id)


@dataclass(slots=True)
class NoteRecords:
    """All records of notes that callers have received, for the lifetime of one server."""

    notes: DeliveredNotes = field(default_factory=DeliveredNotes)
    """Notes about ways to proceed while code runs or waits for input, by their text."""
    repls: ReplNotes = field(default_factory=ReplNotes)
