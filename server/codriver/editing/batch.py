"""Edit batches: what their edits make of each file, worked out before any of them is touched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from codriver.editing.diff import unified
from codriver.editing.editable_paths import NotEditableError, check_is_lisp, show
from codriver.editing.file_changes import Change, UnreadableError, read
from codriver.errors import RefusedError
from codriver.lisp.edit import Append, Done, Insert, Refused, Replace, TextEdit, apply
from codriver.lisp.source_text import Document
from codriver.lisp.targeting import Limits, Problem, ProblemError
from codriver.lisp.validation import check_new

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

__all__ = ["HY", "Create", "EditsRefusedError", "FileResult", "Limits", "Wanted", "plan"]

BOM = b"\xef\xbb\xbf"
HY = ".hy"
"""How the name of a file of Hy ends."""

MAX_TOLD = 5
"""Problems that a refusal's message repeats; all are among its problems."""
MAX_CONTEXTS = 20
"""Problems that are shown with the lines around: whoever is wrong so often reads the file again."""


@dataclass(frozen=True, slots=True)
class Create:
    """Make the file with this content; a file that is there is replaced only with `overwrite`."""

    content: str
    overwrite: bool = False


@dataclass(frozen=True, slots=True)
class Wanted:
    """One edit of a batch, and the file it is for as the caller names it."""

    file: str
    edit: TextEdit | Create


@dataclass(frozen=True, slots=True)
class FileResult:
    """What a batch makes of one file: the change, what each edit did by its index in the batch, and the diff."""

    change: Change
    shown: str
    done: Mapping[int, Done]
    diff: str

    @property
    def is_new(self) -> bool:
        """Whether the file was not there before."""
        return self.change.before.data is None


class EditsRefusedError(RefusedError):
    """Some edits of a batch cannot be done, so none was. `problems` are by the index of the edit."""

    reason = "edits-refused"

    def __init__(self, problems: Sequence[tuple[int, str, Problem]], count: int) -> None:
        rows: list[dict[str, object]] = []
        for index, file, problem in problems:
            row: dict[str, object] = {"index": index, "filePath": file, "message": problem.message}
            if problem.context is not None and len(rows) < MAX_CONTEXTS:
                row["context"] = problem.context
            if problem.balanced_text is not None:
                row["balancedText"] = problem.balanced_text
            rows.append(row)
        wrong = len({index for index, *_ in problems})
        told = "; ".join(f"edit {index}: {problem.message}" for index, _, problem in problems[:MAX_TOLD])
        if len(problems) > MAX_TOLD:
            told += f"; and {len(problems) - MAX_TOLD} more"
        hint = "correct what problems names, and send the whole batch again"
        if any(problem.balanced_text is not None for *_, problem in problems):
            hint += "; balancedText is what the indentation suggests: use it only if it says what you mean"
        super().__init__(
            f"{wrong} of {count} edits cannot be done, so no file was touched: {told}",
            hint=hint,
            details={"problems": rows, "count": len(rows)},
        )


def plan(
    workspace: Path, path: Path, edits: Mapping[int, TextEdit | Create], limits: Limits
) -> FileResult | list[tuple[int, Problem]]:
    """What `edits`, by their index in the batch, make of the file at `path`; or what is wrong with them.

    A file is created first, and the other edits mean what it was created with.
    """
    creations = {index: edit for index, edit in edits.items() if isinstance(edit, Create)}
    others = {index: edit for index, edit in edits.items() if not isinstance(edit, Create)}
    name = show(workspace, path)
    try:
        before = read(path, workspace)
        check_is_lisp(path, before.data, *(creation.content for creation in creations.values()))
    except (UnreadableError, NotEditableError) as error:
        words = str(error) if isinstance(error, NotEditableError) else f"{name}: {error}"
        return [(index, Problem(words)) for index in edits]
    problems = _problems_of_creation(name, creations, is_there=before.data is not None)
    if not creations and before.data is None:
        words = f"{name} is not there: look at the path, or make the file with an edit of type create"
        return [(index, Problem(words)) for index in others]
    bom, old = b"", ""
    if before.data is not None:
        bom = BOM if before.data.startswith(BOM) else b""
        try:
            old = before.data[len(bom) :].decode()
        except UnicodeDecodeError as error:
            if not creations:
                words = f"{name} is no UTF-8 text: the byte at offset {len(bom) + error.start} does not fit"
                return [(index, Problem(words)) for index in edits]
            old = before.data.decode(errors="replace")
    if problems:
        there = old if before.data is not None else None
        if problems[0][0] != min(creations):
            there = creations[min(creations)].content
        return problems + _problems_beside(there, others, limits, is_hy=path.suffix == HY)
    text = old
    done: dict[int, Done] = {}
    for index, creation in creations.items():
        # Content that brings its own mark keeps it; nobody wants two.
        text, bom = creation.content.removeprefix("\ufeff"), BOM if creation.content.startswith("\ufeff") else bom
        done[index] = Done(1, 1)
    if others:
        edited = apply(Document(text, is_hy=path.suffix == HY), others, limits)
        if isinstance(edited, Refused):
            return list(edited.problems)
        text = edited.text
        done |= edited.done
    try:
        after = bom + text.encode()
    except UnicodeEncodeError:
        words = "the new text holds half of a surrogate pair, which is no character"
        return [(index, Problem(words)) for index in edits]
    diff = unified(old, text, name, is_new=before.data is None)
    return FileResult(Change(path, before, after), name, dict(sorted(done.items())), diff)


def _problems_of_creation(name: str, creations: Mapping[int, Create], *, is_there: bool) -> list[tuple[int, Problem]]:
    problems = []
    first = min(creations, default=0)
    for index, creation in creations.items():
        if index != first:
            problems.append((index, Problem(f"edit {first} creates {name} already")))
        elif is_there and not creation.overwrite:
            problems.append((index, Problem(f"{name} is there already: edit it, or say overwrite")))
        try:
            check_new(creation.content)
        except ProblemError as error:
            problems.append((index, error.problem))
    return problems


def _problems_beside(
    there: str | None, others: Mapping[int, TextEdit], limits: Limits, *, is_hy: bool
) -> list[tuple[int, Problem]]:
    """What else is wrong in a batch whose creation is refused: its other edits can only mean what is `there`.

    Where nothing is, their new text alone can be looked at.
    """
    if there is not None:
        edited = apply(Document(there, is_hy=is_hy), others, limits)
        return list(edited.problems) if isinstance(edited, Refused) else []
    problems = []
    for index, edit in others.items():
        if isinstance(edit, Replace | Insert | Append):
            try:
                check_new(edit.new)
            except ProblemError as error:
                problems.append((index, error.problem))
    return problems
