"""Events that adapters report during an evaluation and at its end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import TYPE_CHECKING, Final, Literal

from codriver.core.records import dataclass
from codriver.repls.contract.display_data import Bundle, Display

if TYPE_CHECKING:
    from codriver.core.evaluations import Failure


NAMESPACE_MISSING_TYPE = "namespace-not-found"
"""The type of failure of an evaluation in a missing namespace. Nothing was evaluated."""

READING_PHASES = frozenset({"read", "read-source"})
"""Phases of failures in which no part of the failed form has run."""


@dataclass(frozen=True, slots=True)
class Output:
    """Text that the program printed, as it was received. A chunk may end in the middle of a line."""

    stream: Literal["out", "err"]
    text: str


@dataclass(frozen=True, slots=True)
class Value:
    """The printed value of a form. The text is not interpreted."""

    text: str
    namespace: str | None = None
    truncated: bool = False
    """Whether the server truncated the text."""
    is_late: bool = False
    """Whether the form had already finished."""
    cut: str = ""
    """A description of the part that print limits omitted, if the REPL reports it."""
    is_stored: bool = False
    """Whether the REPL retains the value."""
    bundle: Bundle | None = None
    """The value in all its media types, if there is more than text."""


@dataclass(frozen=True, slots=True)
class ValueStored:
    """Reports that the REPL retains the last value, which was truncated when printed. `cut` says what is missing."""

    cut: str


@dataclass(frozen=True, slots=True)
class SensitiveValues:
    """Values at sensitive paths of the application's state, sent before any output that may contain them.

    Each element is a pair of a replacement name and the value. Only the redactor may use the values.
    """

    values: tuple[tuple[str, str], ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class InputNeeded:
    """Reports that the evaluation is waiting for input on stdin, which `Adapter.send_input` provides."""


@dataclass(frozen=True, slots=True)
class ForeignCodeStarted:
    """The start of an evaluation by another client of the same REPL, such as a person using an editor.

    The adapter creates the id of this event and of all events that follow it, up to `ForeignCodeFinished`.
    """

    code: str


@dataclass(frozen=True, slots=True)
class ForeignCodeFinished:
    """The end of an evaluation by another client."""

    status: Literal["done", "failed", "interrupted"]
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class FeatureReport:
    """A report from the REPL for a feature, usually about something that the feature added to an evaluation.

    See `server_hooks.Report`.
    """

    name: str
    text: str = field(repr=False)


Event = (
    Output
    | Value
    | ValueStored
    | Display
    | InputNeeded
    | ForeignCodeStarted
    | ForeignCodeFinished
    | SensitiveValues
    | FeatureReport
)

Listener = Callable[[str | None, Event], None]
"""Called on the event loop with the id of an evaluation and an event. It must return quickly and not raise.

The id is None for output that belongs to no known evaluation. Evaluations by other clients have the id of their
`ForeignCodeStarted`.
"""


LOAD_IT_SUFFIX: Final = ": load_file it"
"""The end of a note on a module whose file was edited after it was loaded."""


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of an evaluation: its status, its failure if any, and the resulting namespace."""

    status: Literal["done", "failed", "interrupted"]
    namespace: str | None = None
    failure: Failure | None = None
    notes: tuple[str, ...] = ()
    log_line: str | None = None
    """The line that describes the end in the log."""
    data: str | None = None
    """The data that `log_line` describes, as a JSON object."""


OnEnd = Callable[[Ending | Exception], None]
"""Called on the event loop once, with the ending of an evaluation or an error. It must return quickly and not raise."""


@dataclass(frozen=True, slots=True)
class Interruption:
    """The outcome of an interrupt.

    - `interrupted`: the server confirmed that the code was interrupted.
    - `requested`: the code may still be running. A JVM takes seconds to stop a busy thread.
    - `idle`: nothing was running.
    """

    outcome: Literal["interrupted", "requested", "idle"]
    note: str | None = None
