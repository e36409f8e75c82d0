"""Lines that an edit changed in files, and the previous numbers of the other lines."""

from __future__ import annotations

from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import takewhile
from operator import eq
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codriver.tools.answers.source_lines import function_around, source_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from codriver.editing.batch import FileResult

MAX_COMPARED_LINES: Final = 2000
"""Maximum number of lines, from the first to the last changed one, that are compared individually."""


@dataclass(frozen=True, slots=True)
class Replaced:
    """Lines of a file before and after an edit, counted from 0, without the last ones. Either range may be empty."""

    before: range
    after: range


@dataclass(frozen=True, slots=True)
class EditedFile:
    """A file before and after an edit. A missing file has no lines."""

    before: tuple[str, ...]
    after: tuple[str, ...]
    replaced: tuple[Replaced, ...]

    def has_edit_around(self, line: int) -> bool:
        """Return whether the edit changed the function or class around a line, or else the line."""
        first, last = function_around(self.after, line) or (line, line)
        return any(replacement.after.start < last and replacement.after.stop >= first for replacement in self.replaced)

    def line_before(self, line: int) -> int:
        """Return the previous number of a line that the edit did not change."""
        above = [replacement for replacement in self.replaced if replacement.after.stop < line]
        return line + sum(len(replacement.before) - len(replacement.after) for replacement in above)


@dataclass(frozen=True, slots=True)
class Edit:
    """An edit that a test run tested. `is_put_back` tells whether the files will have their previous content again."""

    files: Mapping[str, EditedFile] = field(default_factory=dict)
    """Edited files by absolute path."""
    is_put_back: bool = False

    def has_changed(self, file: str, line: int) -> bool:
        """Return whether the edit changed the function or class around a line, as it was during the run."""
        return file in self.files and self.files[file].has_edit_around(line)

    def line_now(self, file: str, line: int) -> int:
        """Return the number that an unchanged line of the run has after the edit was kept or put back."""
        return self.files[file].line_before(line) if self.is_put_back and file in self.files else line

    def lines_now(self, file: str) -> Sequence[str]:
        """Return the lines of a file after the edit was kept or put back. Blocks."""
        return self.files[file].before if self.is_put_back and file in self.files else self.lines_of_run(file)

    def lines_of_run(self, file: str) -> Sequence[str]:
        """Return the lines of a file during the run. Blocks."""
        return self.files[file].after if file in self.files else source_lines(Path(file))


def edited_files(results: Iterable[FileResult]) -> dict[str, EditedFile]:
    """Return the changed files of an edit by absolute path."""
    return {
        str(result.change.path): _compared(_lines(result.change.before.data), _lines(result.change.after))
        for result in results
    }


def _lines(data: bytes | None) -> tuple[str, ...]:
    return tuple((data or b"").decode("utf-8", "replace").splitlines())


def _compared(before: Sequence[str], after: Sequence[str]) -> EditedFile:
    """Compare the lines of a file. A long part with several changes counts as one change."""
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
