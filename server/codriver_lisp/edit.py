"""Structural edits that replace, insert, append and move forms, without changing any other text.

Edits work on top-level forms. The forms directly inside a top-level `(comment …)` or `(do …)`, or in the branches of a
reader conditional, also count as top-level forms. A branch has exactly one form, which can only be replaced by another
single form.

All edits use the line numbers of the original text. The order of edits matters only for insertions at the same
position, which appear in the order of the edits. Appended text comes last.

Every change is verified: the tokens around it must be exactly the old ones that remain and the new ones. Forms outside
the edits are therefore read as before, no matter what the new text contains.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Literal

from codriver_lisp.edit_targets import SearchLimits, Target, find_target
from codriver_lisp.errors import EditError, EditFailedError
from codriver_lisp.reader import Positions
from codriver_lisp.splices import (
    Splice,
    append_text,
    apply_splices,
    check_adjacent,
    check_balanced,
    check_branch_replacement,
    check_not_blank,
    delete_unit,
    insert_after,
    insert_before,
    is_blank,
    replace_unit,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codriver_lisp.source_text import Document, Unit

__all__ = [
    "Append",
    "EditEffect",
    "EditedText",
    "Insert",
    "Move",
    "RefusedEdits",
    "Replace",
    "TextEdit",
    "apply_edits",
]


@dataclass(frozen=True, slots=True)
class Replace:
    """Replaces the target form with `new`. If `new` is blank, the target is deleted."""

    target: Target
    new: str


@dataclass(frozen=True, slots=True)
class Insert:
    """Inserts `new` before the target form and its comments."""

    target: Target
    new: str


@dataclass(frozen=True, slots=True)
class Append:
    """Adds `new` at the end of the text."""

    new: str


@dataclass(frozen=True, slots=True)
class Move:
    """Moves the target form and its comments to before or after the form `to`."""

    target: Target
    to: Target
    side: Literal["before", "after"]


TextEdit = Replace | Insert | Append | Move
"""An edit of one text."""


@dataclass(frozen=True, slots=True)
class EditEffect:
    """The result of an edit: the line of the edited form before and after all edits."""

    line: int
    new_line: int


@dataclass(frozen=True, slots=True)
class EditedText:
    """The text after all edits, and the effect of each edit by the edit's number."""

    text: str
    done: Mapping[int, EditEffect]


@dataclass(frozen=True, slots=True)
class RefusedEdits:
    """The errors that prevented the edits, each with the number of its edit. No edit was applied."""

    errors: tuple[tuple[int, EditError], ...]


def apply_edits(
    document: Document, edits: Mapping[int, TextEdit], limits: SearchLimits | None = None
) -> EditedText | RefusedEdits:
    """Apply all `edits` to `document`, or none of them if any fails.

    The keys of `edits` are numbers that identify the edits in the result.
    """
    plan = _EditPlan(document, limits or SearchLimits())
    for number, edit in edits.items():
        plan.attempt(number, edit)
    plan.finish()
    if plan.errors:
        return RefusedEdits(tuple(sorted(plan.errors, key=itemgetter(0))))
    assembly = apply_splices(document, plan.splices)
    if assembly.broken is not None:
        return RefusedEdits(((assembly.broken, EditError("the new text would merge with the adjacent code")),))
    text, found = assembly.text, dict(assembly.positions)
    for new, number in plan.appends:
        end = len(text.rstrip())
        text = append_text(text, new, document.ending)
        found[number] = end + len(text[end:]) - len(text[end:].lstrip())
    positions = Positions(text)
    done: dict[int, EditEffect] = {}
    for number, line in plan.lines.items():
        at = found.get(number, found.get(plan.merged.get(number, number), 0))
        done[number] = EditEffect(line, positions.line(at))
    return EditedText(text, done)


@dataclass(frozen=True, slots=True)
class _Deletion:
    """A span of text to delete, and the unit that it belongs to."""

    unit: Unit
    begin: int
    end: int
    number: int


class _EditPlan:
    """Collects the changes for several edits of a source text. Call `attempt` for each edit, and then `finish`."""

    def __init__(self, document: Document, limits: SearchLimits) -> None:
        self.errors: list[tuple[int, EditError]] = []
        self.splices: list[tuple[Splice, int]] = []
        self.appends: list[tuple[str, int]] = []
        self.lines: dict[int, int] = {}
        """The line of each edit in the text before the edits."""
        self.merged: dict[int, int] = {}
        """The deletions that were merged into another one, by number."""
        self._document = document
        self._limits = limits
        self._deletions: list[_Deletion] = []
        self._moves: list[tuple[Unit, Unit, Move, int]] = []

    def attempt(self, number: int, edit: TextEdit) -> None:
        """Plan the changes for an edit, or record the error that prevents it."""
        try:
            match edit:
                case Replace():
                    self._replace(number, edit)
                case Insert(target, new):
                    unit = self._find(number, target)
                    check_not_blank(new)
                    check_adjacent(unit, new)
                    self.splices.append((insert_before(self._document, unit, new), number))
                case Append(new):
                    check_not_blank(new)
                    self._check_balanced()
                    self.lines[number] = self._document.positions.count
                    self.appends.append((new, number))
                case Move():
                    self._move(number, edit)
        except EditFailedError as error:
            self.errors.append((number, error.error))

    def _find(self, number: int, target: Target) -> Unit:
        """Find the target of an edit, and record its line."""
        unit = find_target(self._document, target, self._limits)
        self.lines[number] = unit.line
        return unit

    def _check_balanced(self) -> None:
        """Check that the text is balanced, so that text can be appended.

        Raises:
            EditFailedError: the text is not balanced.
        """
        if self._document.bracket_error is not None:
            words = "the file cannot be appended to, because its brackets do not balance"
            raise EditFailedError(EditError(f"{words}: {self._document.bracket_error}"))

    def _replace(self, number: int, edit: Replace) -> None:
        """Plan to replace or delete a target."""
        unit = self._find(number, edit.target)
        check_balanced(edit.new)
        check_branch_replacement(unit, edit.new)
        if is_blank(edit.new):
            unit = self._document.with_hints(unit)
            self._deletions.append(_Deletion(unit, unit.start, unit.end, number))
        else:
            self.splices.append((replace_unit(self._document, unit, edit.new), number))

    def _move(self, number: int, edit: Move) -> None:
        to = self._document.with_hints(find_target(self._document, edit.to, self._limits))
        unit = self._document.with_hints(self._find(number, edit.target))
        if unit.start <= to.start < unit.end:
            words = f"the form at line {unit.line} cannot be moved next to itself or into itself"
            raise EditFailedError(
                EditError(words, context=self._document.numbered_lines(unit.line, self._limits.context))
            )
        check_branch_replacement(unit, "")
        check_adjacent(to, self._document.text[unit.start : unit.end])
        self._moves.append((unit, to, edit, number))
        begin, end = self._document.start_with_comments(unit), self._document.end_of_line(unit)
        self._deletions.append(_Deletion(unit, begin, end, number))

    def finish(self) -> None:
        """Plan moves and deletions, which depend on the other edits, and record conflicts."""
        document = self._document
        for unit, to, edit, number in self._moves:
            begin, end = document.start_with_comments(unit), document.end_of_line(unit)
            indentation = document.indentation(unit)
            if document.begins_line(unit):
                indentation, begin = "", document.positions.line_start(document.positions.line(begin))
            moved = indentation + document.text[begin:end]
            put = insert_before if edit.side == "before" else insert_after
            self.splices.append((put(document, to, moved), number))
        for deletion in self._merged_deletions():
            unit, begin, end = deletion.unit, deletion.begin, deletion.end
            self.splices.append((delete_unit(document, unit, begin, end), deletion.number))
        self._find_conflicts()

    def _find_conflicts(self) -> None:
        """Record an error for each pair of edits that change the same code."""
        self.splices.sort(key=lambda splice: (*splice[0].core, not splice[0].is_behind, splice[1]))
        reached, owner = 0, -1
        for splice, number in self.splices:
            start, end = splice.core
            if start < reached:
                self._conflict(owner, number, start)
            if end > reached:
                reached, owner = end, number

    def _conflict(self, number: int, other: int, at: int) -> None:
        """Record a conflict between two edits at an offset in the text."""
        line = self._document.positions.line(at)
        for first, another in ((number, other), (other, number)):
            self.errors.append((first, EditError(f"this edit and edit {another} change the same code, at line {line}")))

    def _merged_deletions(self) -> list[_Deletion]:
        """Return the deletions in order, merging those that are separated only by whitespace."""
        merged: list[_Deletion] = []
        insertions = [splice.start for splice, _ in self.splices]
        for deletion in sorted(self._deletions, key=lambda deletion: (deletion.begin, -deletion.end)):
            if merged and self._are_adjacent(merged[-1], deletion, insertions):
                last, unit = merged[-1], deletion.unit
                whole = dataclasses.replace(
                    last.unit, end=unit.end, ceiling=unit.ceiling, ceiling_closes=unit.ceiling_closes
                )
                merged[-1] = _Deletion(whole, last.begin, deletion.end, last.number)
                self.merged[deletion.number] = last.number
            else:
                merged.append(deletion)
        return merged

    def _are_adjacent(self, last: _Deletion, deletion: _Deletion, insertions: list[int]) -> bool:
        """Return whether there is only whitespace, and no insertion, between two deletions."""
        stop, begin = last.end, deletion.begin
        is_sibling = stop <= begin and last.unit.ceiling == deletion.unit.start
        return (
            is_sibling
            and not self._document.text[stop:begin].strip()
            and not any(stop <= at <= begin for at in insertions)
        )
