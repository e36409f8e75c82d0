"""Steps: the top-level forms or statements of evaluated code, with the names that each gives and uses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Role = Literal["import", "definition", "assignment", "statement", "expression"]
"""`definition`: of a function, class, macro or the like, which does nothing else. `assignment`: of a value."""


@dataclass(frozen=True, slots=True)
class Step:
    """One top-level form or statement.

    `gives`: names that it binds. `uses`: names that it mentions, in the bodies of its functions too. `needs`: those
    among them that have to be there when it runs itself.
    """

    text: str
    role: Role
    gives: frozenset[str] = frozenset()
    uses: frozenset[str] = frozenset()
    needs: frozenset[str] = frozenset()
    awaits: bool = False
    """Whether it awaits outside any function, as only a REPL may."""
