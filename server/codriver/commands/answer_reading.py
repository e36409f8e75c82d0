"""Reading of a server's answers, which may be another program's, or another version's, and say anything."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from codriver.errors import CodriverError

if TYPE_CHECKING:
    from collections.abc import Iterator

NOT_ENDED = frozenset({"queued", "running", "needs-input"})
"""The statuses of an evaluation that is not over."""


class UnreadableAnswerError(CodriverError):
    """The answer has not the shape that a Codriver server gives it."""

    def __init__(self, tool: str, cause: Exception) -> None:
        what = f"{cause} is missing" if isinstance(cause, KeyError) else str(cause)
        super().__init__(
            f"the server answered {tool} as no Codriver of this version does ({what}): it is of another version, or "
            "another program; `codriver doctor` looks into it"
        )


@contextmanager
def reading(tool: str) -> Iterator[None]:
    """Read the answer of `tool` within this context, and do nothing else there.

    Raises:
        UnreadableAnswerError: something is missing in it, or is not of its kind.
    """
    try:
        yield
    except (LookupError, TypeError, AttributeError, ValueError, OverflowError) as error:
        raise UnreadableAnswerError(tool, error) from error
