"""Plan batches of edits: compute the new text of each file before any file is written."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from codriver.editing.editable_paths import NotEditableError, path_for_display, require_source_file
from codriver.editing.file_changes import (
    MAX_FILE_BYTES,
    MAX_SNAPSHOT_BYTES,
    Change,
    UnreadableError,
    read_snapshot,
    read_text_snapshot,
    too_many_lines_reason,
)
from codriver.editing.file_languages import (
    HY_SUFFIX,
    NO_LANGUAGES,
    ApplyText,
    FileEdit,
    ReplaceText,
    apply_file_edits,
    check_inserted_text,
    check_new_text,
)
from codriver.editing.source_encoding import (
    BOM,
    DEFAULT_ENCODING,
    NOT_TEXT_ENCODING_REASON,
    detect_encoding,
    display_name,
)
from codriver.errors import format_count, refused
from codriver_lisp.edit import EditEffect, RefusedEdits
from codriver_lisp.edit_targets import SearchLimits
from codriver_lisp.errors import EditError, EditFailedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from codriver.editing.file_changes import Snapshot
    from codriver.errors import RefusedError

__all__ = [
    "HY_SUFFIX",
    "CreateFile",
    "EditRequest",
    "FileResult",
    "SearchLimits",
    "edits_refused_error",
    "plan_file_edits",
]

_LINE_PATTERN = re.compile(r"[^\n]*\n|[^\n]+")
"""Matches a line with its line feed, or the last line without one."""

MARGIN = 20
"""Number of unchanged lines on each side of a change that are compared as well.

The number is small, so a change among repeated lines may be displayed a few lines too high.
"""
MAX_COMPARED_LINES = 20_000
"""Maximum number of lines for which the smallest difference is computed."""

BOM_CHARACTER = "\ufeff"
MAX_ERRORS_IN_MESSAGE = 5
"""Maximum number of errors in a refusal's message. The field `problems` contains all of them."""
MAX_ERRORS_WITH_CONTEXT = 20
"""Maximum number of errors displayed with surrounding lines. Further errors are listed without them."""


def unified_diff(before: str, after: str, name: str, *, is_new: bool = False, is_gone: bool = False) -> str:
    """Return the unified diff of a file with three lines of context, or "" if nothing changed."""
    old, new = _LINE_PATTERN.findall(before), _LINE_PATTERN.findall(after)
    if old == new and not is_new and not is_gone:
        return ""
    head = f"--- {'/dev/null' if is_new else f'a/{name}'}\n+++ {'/dev/null' if is_gone else f'b/{name}'}\n"
    first = _count_common_lines(old, new)
    last = _count_common_lines(old[first:][::-1], new[first:][::-1])
    begin, end = max(0, first - MARGIN), max(0, last - MARGIN)
    old, new = old[begin : len(old) - end], new[begin : len(new) - end]
    return head + "".join(_hunks(old, new, begin))


def truncate_diff(diff: str, max_chars: int) -> tuple[str, bool]:
    """Return as many whole lines of a diff as fit into `max_chars`, and whether lines were left out."""
    if len(diff) <= max_chars:
        return diff, False
    end = diff.rfind("\n", 0, max_chars) + 1
    left = diff.count("\n", end)
    return f"{diff[:end]}… {format_count(left, 'more line')}\n", True


def _count_common_lines(lines: list[str], other: list[str]) -> int:
    """Return the number of equal lines at the beginning of two lists."""
    count = 0
    for line, counterpart in zip(lines, other, strict=False):
        if line != counterpart:
            break
        count += 1
    return count


def _hunks(old: list[str], new: list[str], offset: int) -> list[str]:
    """Return the hunks of a diff. `offset` is the number of equal lines before `old` and `new`."""
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
                parts += [_diff_line(" ", line) for line in old[i:j]]
                continue
            parts += [_diff_line("-", line) for line in old[i:j]]
            parts += [_diff_line("+", line) for line in new[k:m]]
    return parts


def _range(start: int, end: int, offset: int) -> str:
    """Return a range of lines as in the header of a hunk. An empty range has the number of the line before it."""
    length = end - start
    first = start + offset + (1 if length else 0)
    return f"{first}" if length == 1 else f"{first},{length}"


def _diff_line(mark: str, line: str) -> str:
    return mark + line if line.endswith("\n") else f"{mark}{line}\n\\ No newline at end of file\n"


@dataclass(frozen=True, slots=True)
class CreateFile:
    """Creates a file with this content. An existing file is only replaced with `overwrite`."""

    content: str
    overwrite: bool = False


@dataclass(frozen=True, slots=True)
class EditRequest:
    """An edit in a batch, and the file to edit as the caller named it."""

    file: str
    edit: FileEdit | CreateFile


@dataclass(frozen=True, slots=True)
class FileResult:
    """The result of a batch for one file: the change, the effect of each edit by the edit's index, and the diff."""

    change: Change
    display_path: str
    done: Mapping[int, EditEffect]
    diff: str

    @property
    def is_new(self) -> bool:
        """Return whether the file did not exist before."""
        return self.change.before.data is None


def edits_refused_error(errors: Sequence[tuple[int, str, EditError]], count: int) -> RefusedError:
    """Return the error that refuses a batch of `count` edits, of which those in `errors` cannot be applied.

    Each error comes with the index of its edit and with the file as the caller named it.
    """
    rows: list[dict[str, object]] = []
    for index, file, error in errors:
        row: dict[str, object] = {"index": index, "filePath": file, "message": error.message}
        if error.context is not None and len(rows) < MAX_ERRORS_WITH_CONTEXT:
            row["context"] = error.context
        if error.balanced_text is not None:
            row["balancedText"] = error.balanced_text
        rows.append(row)
    wrong = len({index for index, *_ in errors})
    descriptions = "; ".join(f"edit {index}: {error.message}" for index, _, error in errors[:MAX_ERRORS_IN_MESSAGE])
    if len(errors) > MAX_ERRORS_IN_MESSAGE:
        descriptions += f"; and {len(errors) - MAX_ERRORS_IN_MESSAGE} more"
    hint = "Correct the edits listed in problems, and send the whole batch again."
    if any(error.balanced_text is not None for *_, error in errors):
        hint += " balancedText has the brackets that the indentation suggests. Check that this is what you intended."
    return refused(
        "edits-refused",
        f"{wrong} of {count} edits cannot be applied, so no file was changed: {descriptions}",
        hint=hint,
        details={"problems": rows, "count": len(rows)},
    )


class _UneditableFileError(Exception):
    """Raised when a file cannot be edited at all. All edits to the file are refused with the error's message."""


def plan_file_edits(
    workspace: Path,
    path: Path,
    edits: Mapping[int, FileEdit | CreateFile],
    limits: SearchLimits,
    languages: Mapping[str, ApplyText] = NO_LANGUAGES,
) -> FileResult | list[tuple[int, EditError]]:
    """Return the result of applying edits to a file, or their errors. The keys are the indexes of edits in the batch.

    If the file is created, the other edits apply to its new content. `languages` are the languages that features
    add, by file suffix.
    """
    creations = {index: edit for index, edit in edits.items() if isinstance(edit, CreateFile)}
    others = {index: edit for index, edit in edits.items() if not isinstance(edit, CreateFile)}
    by_words = all(isinstance(edit, ReplaceText) for edit in edits.values())
    has_parts = path.suffix in languages
    in_parts = all(isinstance(edit, ReplaceText) and edit.part is not None for edit in edits.values())
    name = path_for_display(workspace, path)
    try:
        max_bytes = MAX_SNAPSHOT_BYTES if in_parts and has_parts else MAX_FILE_BYTES
        read = partial(read_snapshot, max_bytes=max_bytes) if has_parts else read_text_snapshot
        before = _read_before(workspace, path, name, creations, read, is_any_text=by_words)
        bom, old = _decode(path, before.data or b"", name, is_replaced=bool(creations))
        present = None if before.data is None else old
        creation_errors = _creation_errors(path, name, creations, exists=present is not None)
        if creation_errors:
            first = min(creations)
            present = present if creation_errors[0][0] == first else creations[first].content
            return creation_errors + _other_errors(path, present, others, limits, languages)
        text, done = old, dict[int, EditEffect]()
        for index, creation in creations.items():
            # Content with its own byte order mark keeps it, without adding another.
            text, bom = (
                creation.content.removeprefix(BOM_CHARACTER),
                BOM if creation.content.startswith(BOM_CHARACTER) else bom,
            )
            done[index] = EditEffect(1, 1)
        if others:
            edited = apply_file_edits(path, text, others, limits, languages)
            if isinstance(edited, RefusedEdits):
                return list(edited.errors)
            text = edited.text
            done |= edited.done
        written = bom + _encode(path, text, bom)
        _check_new_length(name, written, max_bytes, has_parts=has_parts)
        change = Change(path, before, written)
    except _UneditableFileError as error:
        return [(index, EditError(str(error))) for index in edits]
    return FileResult(change, name, dict(sorted(done.items())), unified_diff(old, text, name, is_new=present is None))


def _check_new_length(name: str, written: bytes, max_bytes: int, *, has_parts: bool) -> None:
    """Check that the new content is not too long to be edited again."""
    if len(written) > max_bytes:
        raise _UneditableFileError(
            f"{name} would have {len(written):,} bytes, but only files of at most {max_bytes:,} bytes can be "
            "edited: move part of it to another file"
        )
    if not has_parts and (reason := too_many_lines_reason(written)):
        raise _UneditableFileError(f"after this change, {name} could not be edited again: {reason}")


def _read_before(
    workspace: Path,
    path: Path,
    name: str,
    creations: Mapping[int, CreateFile],
    read: Callable[[Path, Path], Snapshot],
    *,
    is_any_text: bool,
) -> Snapshot:
    """Return the current file, after checking that the edits can be applied to it.

    Raises:
        _UneditableFileError: the edits cannot be applied to the file.
    """
    try:
        before = read(path, workspace)
        if not is_any_text:
            require_source_file(path, before.data, *(creation.content for creation in creations.values()))
    except NotEditableError as error:
        raise _UneditableFileError(str(error)) from error
    except UnreadableError as error:
        words = f"{name}: {error}"
        raise _UneditableFileError(words) from error
    if not creations and before.data is None:
        words = f"{name} does not exist. Check the path, or create the file with an edit of type create"
        raise _UneditableFileError(words)
    return before


def _decode(path: Path, data: bytes, name: str, *, is_replaced: bool) -> tuple[bytes, str]:
    """Decode a file. Return its byte order mark, which may be empty, and its text."""
    bom = BOM if data.startswith(BOM) else b""
    encoding = DEFAULT_ENCODING
    try:
        encoding = detect_encoding(path, data)
        text = data[len(bom) :].decode(encoding)
        if is_replaced or encoding == DEFAULT_ENCODING or _round_trips(text, data, encoding):
            return bom, text
        words = (
            f"{name} declares {encoding}, and writing the file in this encoding would change bytes outside the "
            "edits. Save the file as UTF-8 first, or edit it as text with your client's own editing tool"
        )
    except EditFailedError as error:
        words = f"{name}: {error}"
    except UnicodeDecodeError as error:
        words = f"{name} is not valid {display_name(encoding)}: the byte at offset {len(bom) + error.start} is invalid"
    except (LookupError, UnicodeError):  # `hex` is the first, and `undefined` the second
        words = f"{name} declares {encoding}, {NOT_TEXT_ENCODING_REASON}"
    if is_replaced:
        return bom, data[len(bom) :].decode(errors="replace")
    raise _UneditableFileError(words)


def _round_trips(text: str, data: bytes, encoding: str) -> bool:
    """Return whether the text and the bytes convert to each other without loss."""
    is_same = text.encode(encoding) == data and data.decode(encoding) == text
    return is_same and data.count(b"\n") == text.count("\n")


def _encode(path: Path, text: str, bom: bytes) -> bytes:
    encoding = DEFAULT_ENCODING
    try:
        encoding = detect_encoding(path, text.encode(errors="replace"))
        data = text.encode(encoding)
        # Other encodings must be recognisable from the bytes, which those with two bytes per character are not.
        if encoding == DEFAULT_ENCODING or (
            _round_trips(text, data, encoding) and detect_encoding(path, bom + data) == encoding
        ):
            return data
        words = f"the new text would change when it is read as {encoding}, the encoding that it declares. Use UTF-8"
    except EditFailedError as error:
        words = f"the new text cannot be encoded: {error}"
    except UnicodeEncodeError:
        words = "the new text contains half of a surrogate pair, which is not a character"
        if encoding != DEFAULT_ENCODING:
            words = f"the new text contains a character that does not exist in {encoding}, which the file declares"
    except (LookupError, UnicodeError):
        words = f"the new text declares {encoding}, {NOT_TEXT_ENCODING_REASON}"
    raise _UneditableFileError(words)


def _creation_errors(
    path: Path, name: str, creations: Mapping[int, CreateFile], *, exists: bool
) -> list[tuple[int, EditError]]:
    errors = []
    first = min(creations, default=0)
    for index, creation in creations.items():
        if index != first:
            errors.append((index, EditError(f"edit {first} already creates {name}")))
        elif exists and not creation.overwrite:
            errors.append(
                (index, EditError(f"{name} already exists. Edit the file, or pass overwrite: true to replace it"))
            )
        try:
            check_new_text(path, creation.content)
        except EditFailedError as error:
            errors.append((index, error.error))
    return errors


def _other_errors(
    path: Path,
    present: str | None,
    others: Mapping[int, FileEdit],
    limits: SearchLimits,
    languages: Mapping[str, ApplyText],
) -> list[tuple[int, EditError]]:
    """Return the errors in the other edits of a file whose creation was refused.

    The edits are checked against the file's current content, or by themselves if there is no file.
    """
    if present is not None:
        edited = apply_file_edits(path, present, others, limits, languages)
        return list(edited.errors) if isinstance(edited, RefusedEdits) else []
    all_errors = []
    for index, edit in others.items():
        try:
            check_inserted_text(edit, path)
        except EditFailedError as error:
            all_errors.append((index, error.error))
    return all_errors
