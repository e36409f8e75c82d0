"""Signature of a function that queries may call: its arguments, and whether it heeds the time limit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class Function:
    """A function and the number of its arguments; `most` None is any number. A timed one is given the clock first."""

    call: Callable[..., Any]
    least: int
    most: int | None
    is_timed: bool = False

    def takes(self, count: int) -> bool:
        """Whether it can be called with so many arguments."""
        return self.least <= count and (self.most is None or count <= self.most)

    def arity_text(self) -> str:
        """What it takes, in words."""
        if self.most is None:
            return f"{self.least} or more arguments"
        return f"{self.least} arguments" if self.least == self.most else f"{self.least} to {self.most} arguments"
