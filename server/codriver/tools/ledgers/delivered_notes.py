"""The notes that callers already have and do not need again, for the life of one server."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from codriver.core.records import Recent

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from codriver.core.state import Repl
    from codriver.core.values import Evaluation

COMMANDS: Final = "codriver-cli"
"""The caller's name of all commands: one caller for a server, though each command makes a connection of its own."""
MOST_TOLD: Final = 1000
"""The entries of one register; beyond them the oldest is forgotten."""


@dataclass(slots=True)
class AppsTold:
    """The applications of each client's last answers, for the life of one server."""

    sessions: Recent[tuple[str, str], str] = field(default_factory=partial(Recent, MOST_TOLD))
    """By client and REPL: the session id of the application's seam. The last ones asked about."""

    def is_another(self, client: str, repl: str, seam: str | None) -> bool:
        """Whether the application differs from that of this client's last answer; from now on it counts as told."""
        if seam is None:
            return False
        before = self.sessions.pop((client, repl), seam)
        self.sessions[client, repl] = seam
        return before != seam


@dataclass(slots=True)
class NotesTold:
    """Notes that each caller needs once, for the life of one server: known by their words, or by their subjects."""

    told: Recent[tuple[Hashable, Hashable], None] = field(default_factory=partial(Recent, MOST_TOLD))

    def is_news(self, caller: Hashable, note: Hashable) -> bool:
        """Return true if no answer with this note was handed out to the caller."""
        return (caller, note) not in self.told

    def note(self, caller: Hashable, notes: Iterable[Hashable]) -> None:
        """Note that an answer with these notes was handed out to the caller."""
        for note in notes:
            self.told[caller, note] = None

    def take(self, caller: Hashable, note: Hashable) -> bool:
        """Return whether the caller is to have the note; from now on the note counts as handed out."""
        is_news = self.is_news(caller, note)
        self.told[caller, note] = None
        return is_news


@dataclass(slots=True)
class PlacesTold:
    """The notes on REPLs that each caller had, for the life of one server: a restart does not make them news."""

    notes: Recent[tuple[str | None, str, str], str] = field(default_factory=partial(Recent, MOST_TOLD))
    """By client, who and note: the evaluation whose answer has the note, however often that is fetched."""
    generations: Recent[tuple[str | None, str, str], int] = field(default_factory=partial(Recent, MOST_TOLD))
    """By client, who and REPL: the generation of the REPL in the caller's last answer about it."""

    def is_renewed(self, client: str, who: str, repl: Repl) -> bool:
        """Note that a caller has an answer from this generation of a REPL; True if its last was from another."""
        caller = (None if who == COMMANDS else client, who, repl.id)
        before = self.generations.get(caller)
        if before == repl.generation:
            return False
        self.generations[caller] = repl.generation
        return before is not None

    @staticmethod
    def client_of(evaluation: Evaluation) -> str | None:
        """The client of an evaluation; None for the commands, which are one, though each connects anew."""
        return None if evaluation.who == COMMANDS else evaluation.client

    def is_news(self, evaluation: Evaluation, note: str) -> bool:
        """Whether the answer of this evaluation is to have the note; from now on its caller counts as told."""
        client = self.client_of(evaluation)
        told = self.notes.setdefault((client, evaluation.who, note), evaluation.id)
        return told == evaluation.id


@dataclass(slots=True)
class Told:
    """Everything that callers were told and need not hear again, for the life of one server."""

    apps: AppsTold = field(default_factory=AppsTold)
    notes: NotesTold = field(default_factory=NotesTold)
    """Notes on the ways on while code runs or reads, by their words."""
    places: PlacesTold = field(default_factory=PlacesTold)
