"""Compute which lines an edit changed, and the previous numbers of the other lines."""

from __future__ import annotations

from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import takewhile
from operator import eq
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codriver.editing.source_encoding import decode_with_replacement
from codriver.tools.answers.source_lines import function_around, source_lines, split_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from codriver.editing.batch import FileResult

MAX_COMPARED_LINES: Final = 2000
"""Maximum number of lines, from the first to the last changed line, that are compared individually."""


@dataclass(frozen=True, slots=True)
class Replaced:
    """A range of lines and the range that replaced it. Either range may be empty.

    Lines are counted from 0, and the stop of a range is exclusive.
    """

    before: range
    after: range


@dataclass(frozen=True, slots=True)
class EditedFile:
    """The lines of a file before and after an edit. A missing file has no lines."""

    before: tuple[str, ...]
    after: tuple[str, ...]
    replaced: tuple[Replaced, ...]

    def has_edit_around(self, line: int) -> bool:
        """Return whether the edit changed the function or class that contains a line.

        Outside functions and classes, only the line itself counts.
        """
        first, last = function_around(self.after, line) or (line, line)
        return any(replacement.after.start < last and replacement.after.stop >= first for replacement in self.replaced)

    def previous_line(self, line: int) -> int:
        """Return the number that an unchanged line had before the edit."""
        above = [replacement for replacement in self.replaced if replacement.after.stop < line]
        return line + sum(len(replacement.before) - len(replacement.after) for replacement in above)


@dataclass(frozen=True, slots=True)
class Edit:
    """An edit whose tests ran. `is_put_back` is true if the files are restored afterwards."""

    files: Mapping[str, EditedFile] = field(default_factory=dict)
    """Edited files by absolute path."""
    is_put_back: bool = False

    def has_changed(self, file: str, line: int) -> bool:
        """Return whether the edit changed the function or class that contains a line.

        The line is numbered as during the test run.
        """
        return file in self.files and self.files[file].has_edit_around(line)

    def current_line(self, file: str, line: int) -> int:
        """Convert a line number from the test run to the line's number after the edit was kept or reverted.

        The edit must not have changed the line.
        """
        return self.files[file].previous_line(line) if self.is_put_back and file in self.files else line

    def current_lines(self, file: str) -> Sequence[str]:
        """Return the lines of a file as they are after the edit was kept or reverted.

        May read the file, so it blocks.
        """
        return self.files[file].before if self.is_put_back and file in self.files else self.lines_during_run(file)

    def lines_during_run(self, file: str) -> Sequence[str]:
        """Return the lines of a file as they were during the test run.

        May read the file, so it blocks.
        """
        return self.files[file].after if file in self.files else source_lines(Path(file))


def edited_files(results: Iterable[FileResult]) -> dict[str, EditedFile]:
    """Return the lines of each changed file before and after an edit, by absolute path."""
    return {
        str(result.change.path): _compare(
            _lines(result.change.path, result.change.before.data), _lines(result.change.path, result.change.after)
        )
        for result in results
    }


def _lines(path: Path, data: bytes | None) -> tuple[str, ...]:
    return tuple(split_lines(decode_with_replacement(path, data or b"")))


def _compare(before: Sequence[str], after: Sequence[str]) -> EditedFile:
    """Compare the lines of a file before and after an edit.

    If the changed part is longer than `MAX_COMPARED_LINES`, it counts as one change.
    """
    start = len([*takewhile(bool, map(eq, before, after))])
    end = len([*takewhile(bool, map(eq, reversed(before[start:]), reversed(after[start:])))])
    old, new = before[start : len(before) - end], after[start : len(after) - end]
    blocks = [("replace", 0, len(old), 0, len(new))]
    if max(len(old), len(new)) <= MAX_COMPARED_LINES:
        blocks = list(SequenceMatcher(None, old, new, autojunk=False).get_opcodes())
    replaced = [
        Replaced(range(start + replacement, start + two), range(start + three, start + four))
        for tag, replacement, two, three, four in blocks
        if tag != "equal" and (replacement < two or three < four)
    ]
    return EditedFile(tuple(before), tuple(after), tuple(replaced))
