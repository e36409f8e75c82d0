"""Notes that callers had and need not have again: on applications, and on the places where they evaluate."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from codriver.core.recent import Recent

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from codriver.core.state import Repl
    from codriver.core.values import Evaluation

COMMANDS: Final = "codriver-cli"
"""Who the commands are for a server: one caller, though each makes a connection of its own."""
MOST_TOLD: Final = 1000
"""Of more, what was told first is forgotten."""


@dataclass(slots=True)
class AppsTold:
    """The applications that each client had its last answers of, for the life of one server."""

    sessions: Recent[tuple[str, str], str] = field(default_factory=partial(Recent, MOST_TOLD))
    """By client and REPL: the session id of the application's seam. Those asked last."""

    def is_another(self, client: str, repl: str, seam: str | None) -> bool:
        """Whether it is another one than this client's last answer was of; from now on that is told."""
        if seam is None:
            return False
        before = self.sessions.pop((client, repl), seam)
        self.sessions[client, repl] = seam
        return before != seam


@dataclass(slots=True)
class NotesTold:
    """Notes of which each caller needs one, for the life of one server: what to do while code runs or reads."""

    told: Recent[tuple[Hashable, str], None] = field(default_factory=partial(Recent, MOST_TOLD))

    def is_news(self, caller: Hashable, note: str) -> bool:
        """True where no answer with this note was handed out to the caller."""
        return (caller, note) not in self.told

    def note(self, caller: Hashable, notes: Iterable[str]) -> None:
        """An answer with these notes was handed out to the caller."""
        for note in notes:
            self.told[caller, note] = None


@dataclass(slots=True)
class PlacesTold:
    """The notes on REPLs that each caller had, for the life of one server: a restart makes them no news."""

    notes: Recent[tuple[str | None, str, str], str] = field(default_factory=partial(Recent, MOST_TOLD))
    """By client, who and note: the evaluation whose answer has it, however often that is fetched."""
    generations: Recent[tuple[str | None, str, str], int] = field(default_factory=partial(Recent, MOST_TOLD))
    """By client, who and REPL: the generation that the REPL was in when the caller had its last answer about it."""

    def is_renewed(self, client: str, who: str, repl: Repl) -> bool:
        """Note that a caller has an answer from this generation of a REPL; True where its last was from another."""
        caller = (None if who == COMMANDS else client, who, repl.id)
        before = self.generations.get(caller)
        if before == repl.generation:
            return False
        self.generations[caller] = repl.generation
        return before is not None

    @staticmethod
    def client_of(evaluation: Evaluation) -> str | None:
        """The client that an evaluation is of; None of the commands, which are one, though each connects anew."""
        return None if evaluation.who == COMMANDS else evaluation.client

    def is_news(self, evaluation: Evaluation, note: str) -> bool:
        """Whether the answer of this evaluation is to have the note; from now on its caller is told."""
        client = self.client_of(evaluation)
        told = self.notes.setdefault((client, evaluation.who, note), evaluation.id)
        return told == evaluation.id


@dataclass(slots=True)
class Told:
    """Everything that callers were told and need not hear again, for the life of one server."""

    apps: AppsTold = field(default_factory=AppsTold)
    notes: NotesTold = field(default_factory=NotesTold)
    places: PlacesTold = field(default_factory=PlacesTold)
