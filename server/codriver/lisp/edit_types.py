"""Edit types: replace, insert, append, move, rename; and the outcome of each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codriver.lisp.targeting import Problem, Target


@dataclass(frozen=True, slots=True)
class Replace:
    """A replacement: `new` in the target's place; blank, it takes the target away."""

    target: Target
    new: str


@dataclass(frozen=True, slots=True)
class Insert:
    """An insertion: `new` before the target and the comments attached to it."""

    target: Target
    new: str


@dataclass(frozen=True, slots=True)
class Append:
    """An appended text: `new` behind all else."""

    new: str


@dataclass(frozen=True, slots=True)
class Move:
    """A move of the target, with the comments attached to it and behind it, before or after the form `to`."""

    target: Target
    to: Target
    side: Literal["before", "after"]


@dataclass(frozen=True, slots=True)
class Rename:
    """A renaming of `old` to `new` in the code of the target, or in all code. Text of other edits is left as it is.

    In all code it is the namespace's name that changes; in a target that binds it, the local one.
    """

    old: str
    new: str
    target: Target | None = None


TextEdit = Replace | Insert | Append | Move | Rename


@dataclass(frozen=True, slots=True)
class Done:
    """The effect of one edit: the line it was made at in the text before and after, and how many places it changed.

    `left` are the lines, in the text before, of the places that a renaming left as they were, by why.
    """

    line: int
    new_line: int
    changes: int = 1
    left: Mapping[str, Sequence[int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Edited:
    """The text after all edits, and the effect of each, by its number."""

    text: str
    done: Mapping[int, Done]


@dataclass(frozen=True, slots=True)
class Refused:
    """A refused batch: its problems by the number of the edit, in order. The text stays as it was."""

    problems: tuple[tuple[int, Problem], ...]
