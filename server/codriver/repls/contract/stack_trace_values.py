"""Represent stack traces and thread dumps as values."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Final

from codriver.core.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class StackFrame:
    """A frame in a stack trace. `tooling` means that the code belongs to the language or its tools, not to the user."""

    text: str
    file: str | None = None
    line: int | None = None
    function: str | None = None
    tooling: bool = False
    repeated: str = ""
    """The number of times that the frame repeats in a row, as text. The repetitions themselves are left out."""
    number: int | None = None
    """The number of the frame if code can be evaluated in it. The innermost frame is 0."""
    locals: Mapping[str, str] = field(default_factory=dict)
    """The printed values of local variables by name, if they were requested and are available."""


WRAPPER_RELATION = "wrapped by"
"""The relation of an error that wraps the reported error."""


@dataclass(frozen=True, slots=True)
class StackTrace:
    """An error and its stack frames, innermost first.

    On the JVM, the reported error is the root cause. `chain` contains the other errors, each with its own frames. See
    `Failure`.
    """

    type: str
    message: str
    frames: tuple[StackFrame, ...]
    data: str | None = None
    """The printed value of `ex-data`."""
    notes: tuple[str, ...] = ()
    relation: str = ""
    chain: tuple[StackTrace, ...] = ()


@dataclass(frozen=True, slots=True)
class ThreadDump:
    """The stacks of a REPL's threads at one moment. `user` contains only the frames of user code."""

    whole: str
    user: str


NO_MESSAGE_TEXT: Final = "null"
"""The text that the JVM prints for an error without a message, such as a stack overflow."""
