"""The durations that a server waits: one record, read at its start and handed to each part that waits.

`CODRIVER_DURATIONS` gives others by name, such as `progress_s=0.2 drain_s=0.1`, for tests of the server.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Final

from codriver.errors import StartError

if TYPE_CHECKING:
    from collections.abc import Mapping

GIVEN: Final = "CODRIVER_DURATIONS"


class WrongDurationError(StartError):
    """The variable names no duration, or gives no number."""

    def __init__(self, word: str) -> None:
        known = ", ".join(field.name for field in fields(Durations))
        super().__init__(f"{GIVEN} gives no duration by {word!r}: it takes words such as settle_s=0.5, of {known}")


@dataclass(frozen=True, slots=True)
class Durations:
    """The waits of one server, in seconds."""

    progress_s: float = 5.0
    """Between two words on how far a call is, for a client that asked for them."""
    settle_s: float = 2.0
    """How long an interrupted evaluation is given to end."""
    behind_input_s: float = 0.5
    """How long an input prompt ahead is waited out: of a client that has just left it is ended at once."""
    task_s: float = 2.0
    """How long a call may take until it becomes a task, where its client knows of tasks."""
    repl_start_s: float = 10.0
    """How long a tool waits for REPLs that start. The embedded ones take a second or two, most on the JVM ten."""
    tests_s: float = 25.0
    """How long one run of the tests of an edit may take."""
    drain_s: float = 5.0
    """How long a client that has said all it will is kept to hear the answers that are still to come."""
    stop_s: float = 2.0
    """How long a stopping server waits for evaluations to end and for answers to leave."""
    question_s: float = 30.0
    """How long a question to a human is open that nothing waits for."""
    page_s: float = 600.0
    """How long the page can be opened when nobody looks at it any more."""


def from_environment(environ: Mapping[str, str]) -> Durations:
    """The durations that the variables of a server give.

    Raises:
        WrongDurationError: they name another one, or give no number.
    """
    names = {field.name for field in fields(Durations)}
    given: dict[str, float] = {}
    for word in environ.get(GIVEN, "").split():
        name, _, value = word.partition("=")
        try:
            given[name] = float(value)
        except ValueError:
            raise WrongDurationError(word) from None
        if name not in names or not given[name] >= 0:
            raise WrongDurationError(word)
    return Durations(**given)
