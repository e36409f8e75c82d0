"""Edit batches: the new text of each file, worked out before any file is touched."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codriver.editing.editable_paths import NotEditableError, check_is_source, show
from codriver.editing.file_changes import MAX_FILE_BYTES, Change, UnreadableError, fault_of_lines, read
from codriver.editing.file_languages import HY, UTF_8, FileEdit, ReplaceText, apply, check_new, check_whole, encoding_of
from codriver.errors import refused
from codriver_lisp.edit import Done, Refused
from codriver_lisp.errors import EditError, EditFailedError
from codriver_lisp.source_text import Limits

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from codriver.editing.file_changes import Snapshot
    from codriver.errors import RefusedError

__all__ = ["HY", "Create", "FileResult", "Limits", "Wanted", "edits_refused", "plan"]

_LINE = re.compile(r"[^\n]*\n|[^\n]+")

MARGIN = 20
"""Equal lines that are compared too: a change among repeated lines may be shown some lines too high."""
MAX_COMPARED_LINES = 20_000
"""Beyond this, finding the least difference takes too long, and nobody reads it."""

BOM = b"\xef\xbb\xbf"
MARK = "\ufeff"
NO_TEXT = "which is no encoding of text: declare the one that it is in, as UTF-8"
"""The end of a sentence about an encoding that Python knows and cannot read a file in."""
MAX_TOLD = 5
"""Problems that a refusal's message repeats; all are among its problems."""
MAX_CONTEXTS = 20
"""Problems that are shown with the lines around: after so many errors a caller reads the file again."""


def unified(before: str, after: str, name: str, *, is_new: bool = False, is_gone: bool = False) -> str:
    """The unified diff of a file called `name`, with three lines around; empty when nothing changed."""
    old, new = _LINE.findall(before), _LINE.findall(after)
    if old == new and not is_new and not is_gone:
        return ""
    head = f"--- {'/dev/null' if is_new else f'a/{name}'}\n+++ {'/dev/null' if is_gone else f'b/{name}'}\n"
    first = _common(old, new)
    last = _common(old[first:][::-1], new[first:][::-1])
    begin, end = max(0, first - MARGIN), max(0, last - MARGIN)
    old, new = old[begin : len(old) - end], new[begin : len(new) - end]
    return head + "".join(_hunks(old, new, begin))


def cut(diff: str, max_chars: int) -> tuple[str, bool]:
    """Return the first whole lines of `diff` that `max_chars` hold, and whether that is less than all."""
    if len(diff) <= max_chars:
        return diff, False
    end = diff.rfind("\n", 0, max_chars) + 1
    left = diff.count("\n", end)
    return f"{diff[:end]}… {left} more lines\n", True


def _common(one: list[str], other: list[str]) -> int:
    """Return the number of lines with which both begin."""
    count = 0
    for line, counterpart in zip(one, other, strict=False):
        if line != counterpart:
            break
        count += 1
    return count


def _hunks(old: list[str], new: list[str], offset: int) -> list[str]:
    """Return the hunks for the lines `old` that became `new`, behind `offset` equal lines."""
    if len(old) + len(new) > MAX_COMPARED_LINES:
        codes = [("replace", 0, len(old), 0, len(new))]
        groups = [codes]
    else:
        groups = [list(group) for group in difflib.SequenceMatcher(None, old, new).get_grouped_opcodes(3)]
    parts = []
    for group in groups:
        _, old_start, _, new_start, _ = group[0]
        _, _, old_end, _, new_end = group[-1]
        ranges = _range(old_start, old_end, offset), _range(new_start, new_end, offset)
        parts.append(f"@@ -{ranges[0]} +{ranges[1]} @@\n")
        for kind, i, j, k, m in group:
            if kind == "equal":
                parts += [_shown(" ", line) for line in old[i:j]]
                continue
            parts += [_shown("-", line) for line in old[i:j]]
            parts += [_shown("+", line) for line in new[k:m]]
    return parts


def _range(start: int, end: int, offset: int) -> str:
    """Return lines as a hunk's head names them; an empty range is named by the line before it."""
    length = end - start
    first = start + offset + (1 if length else 0)
    return f"{first}" if length == 1 else f"{first},{length}"


def _shown(mark: str, line: str) -> str:
    return mark + line if line.endswith("\n") else f"{mark}{line}\n\\ No newline at end of file\n"


@dataclass(frozen=True, slots=True)
class Create:
    """Make the file with this content; an existing file is replaced only with `overwrite`."""

    content: str
    overwrite: bool = False


@dataclass(frozen=True, slots=True)
class Wanted:
    """One edit of a batch, and the file it is for as the caller names it."""

    file: str
    edit: FileEdit | Create
    is_everywhere: bool = False
    """For a renaming: whether it changes the other files of the workspace too."""


@dataclass(frozen=True, slots=True)
class FileResult:
    """One file's result of a batch: the change, what each edit did by its index in the batch, and the diff."""

    change: Change
    display_path: str
    done: Mapping[int, Done]
    diff: str

    @property
    def is_new(self) -> bool:
        """Return true if the file did not exist before."""
        return self.change.before.data is None


def edits_refused(problems: Sequence[tuple[int, str, EditError]], count: int) -> RefusedError:
    """The refusal of a batch of which some edits cannot be done, so that none was. `problems` are by the edit's index.

    `count`: of all edits in the batch.
    """
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
    return refused(
        "edits-refused",
        f"{wrong} of {count} edits cannot be done, so no file was touched: {told}",
        hint=hint,
        details={"problems": rows, "count": len(rows)},
    )


class _FileProblemError(Exception):
    """The file itself is the problem: all edits of it are refused with these words."""


def plan(
    workspace: Path, path: Path, edits: Mapping[int, FileEdit | Create], limits: Limits
) -> FileResult | list[tuple[int, EditError]]:
    """The result of `edits`, by their index in the batch, for the file at `path`; or their problems.

    A file is created first, and the other edits mean its new content.
    """
    creations = {index: edit for index, edit in edits.items() if isinstance(edit, Create)}
    others = {index: edit for index, edit in edits.items() if not isinstance(edit, Create)}
    by_words = all(isinstance(edit, ReplaceText) for edit in edits.values())
    by_cells = all(isinstance(edit, ReplaceText) and edit.cell is not None for edit in edits.values())
    name = show(workspace, path)
    try:
        most_bytes = None if by_cells else MAX_FILE_BYTES
        before = _read_before(workspace, path, name, creations, is_any_text=by_words, most_bytes=most_bytes)
        bom, old = _decoded(path, before.data or b"", name, is_replaced=bool(creations))
        there = None if before.data is None else old
        problems = _problems_of_creation(path, name, creations, is_there=there is not None)
        if problems:
            first = min(creations)
            there = there if problems[0][0] == first else creations[first].content
            return problems + _problems_beside(path, there, others, limits)
        text, done = old, dict[int, Done]()
        for index, creation in creations.items():
            # Content that brings its own mark keeps it; nobody wants two.
            text, bom = creation.content.removeprefix(MARK), BOM if creation.content.startswith(MARK) else bom
            done[index] = Done(1, 1)
        if others:
            edited = apply(path, text, others, limits)
            if isinstance(edited, Refused):
                return list(edited.errors)
            text = edited.text
            done |= edited.done
        written = bom + _encoded(path, text, bom)
        _check_length(name, written, most_bytes)
        change = Change(path, before, written)
    except _FileProblemError as error:
        return [(index, EditError(str(error))) for index in edits]
    return FileResult(change, name, dict(sorted(done.items())), unified(old, text, name, is_new=there is None))


def _check_length(name: str, written: bytes, most_bytes: int | None) -> None:
    """Refuse to write a file that could not be edited again, or restored by `undo_edit`."""
    if most_bytes is not None and len(written) > most_bytes:
        raise _FileProblemError(
            f"{name} would have {len(written):,} bytes, and a file of more than {most_bytes:,} could not be edited "
            "again: put part of it into another file"
        )
    if not name.endswith(".ipynb") and (fault := fault_of_lines(written)):
        raise _FileProblemError(f"{name} would be a file that cannot be edited again: {fault}")


def _read_before(
    workspace: Path,
    path: Path,
    name: str,
    creations: Mapping[int, Create],
    *,
    is_any_text: bool,
    most_bytes: int | None,
) -> Snapshot:
    """Return the file as it is now, if the edits can apply to it."""
    try:
        before = read(path, workspace, most_bytes=most_bytes)
        if not is_any_text:
            check_is_source(path, before.data, *(creation.content for creation in creations.values()))
    except NotEditableError as error:
        raise _FileProblemError(str(error)) from error
    except UnreadableError as error:
        words = f"{name}: {error}"
        raise _FileProblemError(words) from error
    if not creations and before.data is None:
        words = f"{name} is not there: look at the path, or make the file with an edit of type create"
        raise _FileProblemError(words)
    return before


def _decoded(path: Path, data: bytes, name: str, *, is_replaced: bool) -> tuple[bytes, str]:
    """Return the byte order mark of a file, which may be empty, and its text."""
    bom = BOM if data.startswith(BOM) else b""
    encoding = UTF_8
    try:
        encoding = encoding_of(path, data)
        text = data[len(bom) :].decode(encoding)
        if is_replaced or encoding == UTF_8 or _is_kept(text, data, encoding):
            return bom, text
        words = (
            f"{name} declares {encoding}, and writing it so would change bytes outside of the edits: save it as UTF-8 "
            "first, or change it as text, with your client's own editing tool"
        )
    except EditFailedError as error:
        words = f"{name}: {error}"
    except UnicodeDecodeError as error:
        shown = "UTF-8" if encoding == UTF_8 else encoding
        words = f"{name} is no {shown} text: the byte at offset {len(bom) + error.start} does not fit"
    except (LookupError, UnicodeError):  # `hex` is the first, and `undefined` the second
        words = f"{name} declares {encoding}, {NO_TEXT}"
    if is_replaced:
        return bom, data[len(bom) :].decode(errors="replace")
    raise _FileProblemError(words)


def _is_kept(text: str, data: bytes, encoding: str) -> bool:
    """True if an encoding turns a text, with its lines, into exactly these bytes, and the bytes into this text."""
    is_same = text.encode(encoding) == data and data.decode(encoding) == text
    return is_same and data.count(b"\n") == text.count("\n")


def _encoded(path: Path, text: str, bom: bytes) -> bytes:
    encoding = UTF_8
    try:
        encoding = encoding_of(path, text.encode(errors="replace"))
        data = text.encode(encoding)
        # Another encoding must be recognised from the bytes too, which an encoding of two bytes a character is not.
        if encoding == UTF_8 or (_is_kept(text, data, encoding) and encoding_of(path, bom + data) == encoding):
            return data
        words = f"the new text would not be the same again when it is read as {encoding}, which it declares: use UTF-8"
    except EditFailedError as error:
        words = f"the new text: {error}"
    except UnicodeEncodeError:
        words = "the new text holds half of a surrogate pair, which is no character"
        if encoding != UTF_8:
            words = f"the new text holds a character that {encoding}, which the file declares, has not"
    except (LookupError, UnicodeError):
        words = f"the new text declares {encoding}, {NO_TEXT}"
    raise _FileProblemError(words)


def _problems_of_creation(
    path: Path, name: str, creations: Mapping[int, Create], *, is_there: bool
) -> list[tuple[int, EditError]]:
    problems = []
    first = min(creations, default=0)
    for index, creation in creations.items():
        if index != first:
            problems.append((index, EditError(f"edit {first} creates {name} already")))
        elif is_there and not creation.overwrite:
            problems.append((index, EditError(f"{name} is there already: edit it, or say overwrite")))
        try:
            check_whole(path, creation.content)
        except EditFailedError as error:
            problems.append((index, error.error))
    return problems


def _problems_beside(
    path: Path, there: str | None, others: Mapping[int, FileEdit], limits: Limits
) -> list[tuple[int, EditError]]:
    """Further problems of a batch whose creation is refused: its other edits can only mean the content `there`.

    Without a file, only their new text can be checked.
    """
    if there is not None:
        edited = apply(path, there, others, limits)
        return list(edited.errors) if isinstance(edited, Refused) else []
    problems = []
    for index, edit in others.items():
        try:
            check_new(edit, path)
        except EditFailedError as error:
            problems.append((index, error.error))
    return problems
