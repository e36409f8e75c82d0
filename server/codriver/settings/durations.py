"""Time limits and intervals of a server, which reads them once when it starts.

For tests, `CODRIVER_DURATIONS` overrides them by name, as in `progress_s=0.2 drain_s=0.1`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from codriver.errors import StartError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


DURATIONS_VARIABLE: Final = "CODRIVER_DURATIONS"


class WrongDurationError(StartError):
    """Raised when `CODRIVER_DURATIONS` has an unknown name or an invalid number."""

    def __init__(self, word: str, names: Iterable[str]) -> None:
        known = ", ".join(names)
        super().__init__(
            f"{DURATIONS_VARIABLE} contains the unknown duration {word!r}. Write, for example, settle_s=0.5. The "
            f"durations are {known}"
        )


@dataclass(frozen=True, slots=True)
class Durations:
    """The time limits and intervals of a server, in seconds."""

    progress_s: float = 5.0
    """The interval between progress notifications of a call, for a client that requested them."""
    settle_s: float = 2.0
    """How long to wait for an interrupted evaluation to stop."""
    behind_input_s: float = 0.5
    """How long a call waits for an evaluation that is queued behind one waiting for input.

    The prompt of a disconnected client is cancelled immediately.
    """
    task_s: float = 2.0
    """How long a call may run before it becomes a task, if the client supports tasks."""
    tests_s: float = 25.0
    """Time limit of one test run after an edit."""
    drain_s: float = 5.0
    """How long a client that has closed its input stays connected, to receive the remaining answers."""
    stop_s: float = 2.0
    """How long a stopping server waits for evaluations to finish and for answers to be sent."""
    settling_s: float = 1.5
    """How long a new server delays the list of tools until its REPLs are connected.

    Some clients request the list once, immediately after starting the server, and never again. The embedded REPLs need
    half a second. A JVM may need more, but a longer delay would leave an agent without any tools when it starts its
    task.
    """
    found_s: float = 1.0
    """How long a call waits for the session that it names, if that session does not exist yet.

    Its REPL may just have been started. A port file is found within this time.
    """
    question_s: float = 30.0
    """How long a question to the user stays open while no call depends on the answer."""
    stacks_s: float = 1.5
    """How long to wait for a REPL's stacks before interrupting it. A stuck REPL may never send them."""
    skills_s: float = 30.0
    """The interval between checks of the skill files."""
    others: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    """The durations of features, by name."""


def durations_from_environment(
    environ: Mapping[str, str], others: Mapping[str, float] = MappingProxyType({})
) -> Durations:
    """Return the durations of a server, some of which `CODRIVER_DURATIONS` may override.

    `others` are the default durations of features, by name.

    Raises:
        WrongDurationError: the variable has an unknown name or an invalid number.
    """
    names = [*(declaration.name for declaration in fields(Durations) if declaration.name != "others"), *others]
    given: dict[str, float] = {}
    for word in environ.get(DURATIONS_VARIABLE, "").split():
        name, _, value = word.partition("=")
        try:
            given[name] = float(value)
        except ValueError:
            raise WrongDurationError(word, names) from None
        if name not in names or not given[name] >= 0:
            raise WrongDurationError(word, names)
    of_features = {name: given.pop(name, seconds) for name, seconds in others.items()}
    return Durations(**given, others=MappingProxyType(of_features))
