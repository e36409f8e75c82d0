"""Limits on printed values, and the selection of a part of a stored value."""

from __future__ import annotations

from codriver.core.records import dataclass


@dataclass(frozen=True)
class PrintLimits:
    """Limits for printing a value. None means no limit. Some REPLs do not support them."""

    max_length: int | None = None
    """Maximum number of elements to print per collection."""
    max_depth: int | None = None
    max_value_bytes: int | None = None
    is_length_explicit: bool = False
    """Whether the caller gave `max_length`, which then overrides the limit that the user configured in the REPL."""
    is_depth_explicit: bool = False


NO_PRINT_LIMITS = PrintLimits()
"""No limits: values are printed in full."""


@dataclass(frozen=True)
class ValuePart:
    """A part of a stored value to print: the path to it, the first element, and the limits.

    A step in the path is an index in a sequence, a key, or the name of a field. String keys are used as they are, and
    other keys in their printed form. If the first step is `$2`, the path starts at the evaluation's second value
    instead of its last.
    """

    path: tuple[int | str, ...] = ()
    start: int = 0
    limits: PrintLimits = NO_PRINT_LIMITS
