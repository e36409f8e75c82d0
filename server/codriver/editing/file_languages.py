"""Edit files by language: change their text, and check the result.

In any file, a string that occurs once can be replaced, leaving every other byte unchanged. The edits to a file are
applied in order, each to the result of the previous one. Line endings in the string match any line endings in the file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from codriver.editing import python_edits
from codriver.editing.code_fragment import CodeFragment
from codriver.editing.editable_paths import LISP_SUFFIXES
from codriver.editing.python_edits import InsertDef, PythonEdit, ReplaceDef
from codriver.editing.python_source import PythonSource, TooLongError, describe_syntax_error, parse_python
from codriver.editing.source_encoding import is_python
from codriver.errors import truncate
from codriver_lisp import edit as lisp_edits
from codriver_lisp.edit import Append, EditedText, EditEffect, RefusedEdits, TextEdit
from codriver_lisp.errors import EditError, EditFailedError
from codriver_lisp.source_text import Document
from codriver_lisp.splices import check_balanced as check_lisp

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from codriver_lisp.edit_targets import SearchLimits


MAX_DISPLAYED_LOCATIONS: Final = 3
"""Maximum number of locations that a refusal displays, each with its surrounding lines."""
MAX_COMPARED_LINES: Final = 20_000
"""Maximum number of lines that are searched for similar ones."""
MAX_EXACT_COMPARISONS: Final = 20
"""Maximum number of lines that are compared exactly, which takes time at least quadratic in a line's length."""
MAX_COMPARED_CHARACTERS: Final = 160
"""Maximum number of characters in a line that are compared, and that a refusal displays."""
MIN_LINE_SIMILARITY: Final = 0.5
"""Minimum similarity, from 0 to 1, of the lines that a refusal displays."""
_ENDING: Final = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class FilePart:
    """A part of a file, such as a cell of a notebook, to which a replacement can be limited."""

    argument: str
    """The name of the edit's argument that selects the part."""
    name: str
    refusal: str
    """The reason why files in other languages refuse the argument."""


@dataclass(frozen=True, slots=True)
class ReplaceText:
    """Replaces the string `old` with `new`.

    `old` must occur exactly once in the text or in its scope. The scope is the definition `name` in Python, the
    occurrence nearest to `line`, or a `part` of the file.
    """

    old: str
    new: str
    name: str | None = None
    line: int | None = None
    part: FilePart | None = None


@dataclass(frozen=True, slots=True)
class _Occurrence:
    """An occurrence of a string. Lines are counted from 1."""

    start: int
    line: int


def apply_string_edits(
    text: str, edits: Mapping[int, ReplaceText], *, is_python: bool = False
) -> EditedText | RefusedEdits:
    """Apply string replacements to a string. Return the new text, or the errors.

    The keys of `edits` are numbers that identify the edits in the result.
    """
    errors: list[tuple[int, EditError]] = []
    done: dict[int, EditEffect] = {}
    for number, edit in edits.items():
        plain, old = _normalize_line_endings(text), _normalize_line_endings(edit.old)
        try:
            occurrence = _find(plain, old, edit, is_python=is_python)
        except EditFailedError as error:
            errors.append((number, error.error))
            continue
        start, end = _original_index(text, occurrence.start), _original_index(text, occurrence.start + len(old))
        text = (
            text[:start] + _line_ending_at(text, start).join(_normalize_line_endings(edit.new).split("\n")) + text[end:]
        )
        done[number] = EditEffect(occurrence.line, occurrence.line)
    return RefusedEdits(tuple(errors)) if errors else EditedText(text, done)


def check_string_edit(edit: ReplaceText) -> None:
    """Check an edit without the text that it applies to.

    Raises:
        EditFailedError: the string to replace is empty, or the edit changes nothing.
    """
    if not edit.old:
        raise EditFailedError(
            EditError("oldText is empty. Pass the text to replace, or create a file with type create")
        )
    if edit.old == edit.new:
        raise EditFailedError(EditError("oldText and newText are equal, so nothing would change"))
    if edit.part is not None:
        raise EditFailedError(EditError(edit.part.refusal))


def _normalize_line_endings(text: str) -> str:
    """Return a string with LF as its only line ending."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _original_index(text: str, plain_index: int) -> int:
    """Convert an index in the text with LF line endings to an index in the original text."""
    index = plain_index
    while (moved := plain_index + text.count("\r\n", 0, index)) != index:
        index = moved
    return index + 1 if text[:index].endswith("\r") and text.startswith("\n", index) else index


def _find(plain: str, old: str, edit: ReplaceText, *, is_python: bool) -> _Occurrence:
    check_string_edit(edit)
    start, end = _search_range(plain, edit, is_python=is_python)
    count = plain.count(old, start, end)
    if not count:
        raise EditFailedError(_missing_string_error(plain, edit, start, end))
    occurrences = _occurrences(plain, old, start, end)
    if count > 1 and edit.line is not None and edit.name is None:
        found = _nearest_occurrences(occurrences, edit.line)
    else:
        found = list(islice(occurrences, MAX_DISPLAYED_LOCATIONS))
    if len(found) > 1:
        words = f"oldText occurs {count} times. Include more of the surrounding text, or pass name or line"
        raise EditFailedError(EditError(words, _surrounding_lines(plain, [occurrence.line for occurrence in found])))
    return found[0]


def _occurrences(plain: str, old: str, start: int, end: int) -> Iterator[_Occurrence]:
    line, counted = 1, 0
    while (start := plain.find(old, start, end)) >= 0:
        line += plain.count("\n", counted, start)
        yield _Occurrence(start, line)
        counted, start = start, start + len(old)


def _search_range(plain: str, edit: ReplaceText, *, is_python: bool) -> tuple[int, int]:
    """Return the range of characters in which to search for the string."""
    if edit.name is None:
        return 0, len(plain)
    if not is_python:
        raise EditFailedError(EditError("name can select only Python definitions. Pass line, or a longer oldText"))
    try:
        source = PythonSource(plain, compiles=False)
    except SyntaxError as error:
        words = f"name cannot be used, because the file {describe_syntax_error(error)}. Omit name"
        raise EditFailedError(EditError(words)) from error
    found = source.find(edit.name, edit.line)
    before = "".join(source.lines[: found.first - 1])
    return len(before), len(before) + len("".join(source.lines[found.first - 1 : found.last]))


def _nearest_occurrences(occurrences: Iterable[_Occurrence], line: int) -> list[_Occurrence]:
    """Return the occurrence nearest to a line. If several are equally near, return those, up to a limit."""
    nearest: list[_Occurrence] = []
    for occurrence in occurrences:
        nearer = abs(nearest[0].line - line) - abs(occurrence.line - line) if nearest else 1
        if nearer > 0:
            nearest = [occurrence]
        elif nearer == 0 and len(nearest) < MAX_DISPLAYED_LOCATIONS:
            nearest.append(occurrence)
        elif nearer < 0:
            break  # later occurrences are even farther away
    return nearest


def _line_ending_at(text: str, at: int) -> str:
    """Return the line ending used at an index in the text."""
    found = _ENDING.search(text, at) or _ENDING.search(text)
    return found[0] if found else "\n"


def _missing_string_error(plain: str, edit: ReplaceText, start: int, end: int) -> EditError:
    """Return the error for a string that does not occur, with the most similar lines."""
    where = f" in {edit.name}" if edit.name else ""
    target = _shorten(next((line for line in _ENDING.split(edit.old) if line.strip()), ""))
    first = plain.count("\n", 0, start) + 1
    candidates = [_shorten(line) for line in plain[start:end].split("\n", MAX_COMPARED_LINES)[:MAX_COMPARED_LINES]]
    rough = sorted(
        ((_similarity(line, target, is_rough=True), -number) for number, line in enumerate(candidates)), reverse=True
    )
    ranked = sorted(
        ((_similarity(candidates[-number], target), number) for _, number in rough[:MAX_EXACT_COMPARISONS]),
        reverse=True,
    )
    near = [first - number for likeness, number in ranked[:MAX_DISPLAYED_LOCATIONS] if likeness >= MIN_LINE_SIMILARITY]
    words = f"oldText does not occur{where} in the current file"
    words += ", even with different white space. Read the file again" if not near else ". The most similar lines are"
    return EditError(words, _surrounding_lines(plain, sorted(near)) if near else None)


def _shorten(line: str) -> str:
    return line.lstrip()[:MAX_COMPARED_CHARACTERS].rstrip()


def _similarity(line: str, target: str, *, is_rough: bool = False) -> float:
    """Return the similarity of two lines from 0 to 1. With `is_rough`, it is a fast upper bound."""
    if line == target:
        return 1.0
    if not line or not target or abs(len(line) - len(target)) > max(len(line), len(target)) / 2:
        return 0.0
    matcher = SequenceMatcher(None, line, target, autojunk=False)
    return matcher.quick_ratio() if is_rough else matcher.ratio()


def _surrounding_lines(plain: str, numbers: Sequence[int]) -> str:
    """Return the given lines, and one before and after each, with line numbers. Long lines are truncated."""
    lines = plain.split("\n", max(numbers) + 1)
    parts = []
    for number in numbers:
        around = range(max(1, number - 1), min(len(lines), number + 1) + 1)
        parts.append(
            "\n".join(
                f"{'→' if line_number == number else ' '} {line_number}  "
                f"{truncate(lines[line_number - 1], MAX_COMPARED_CHARACTERS)}"
                for line_number in around
            )
        )
    return "\n\n".join(parts)


FileEdit = TextEdit | PythonEdit | ReplaceText
"""An edit to an existing file."""

HY_SUFFIX: Final = ".hy"
"""Suffix of a Hy file."""
ApplyText = Callable[[Path, str, Mapping[int, ReplaceText]], EditedText | RefusedEdits]
"""A function that returns the text of a file after string edits, or the errors, as `apply_string_edits` does."""
NO_LANGUAGES: Final[Mapping[str, ApplyText]] = MappingProxyType({})
"""An empty mapping, for a server whose features add no languages."""


def apply_file_edits(
    path: Path,
    text: str,
    edits: Mapping[int, FileEdit],
    limits: SearchLimits,
    languages: Mapping[str, ApplyText] = NO_LANGUAGES,
) -> EditedText | RefusedEdits:
    """Apply edits to the text of a file. Return the new text, or the errors.

    The keys of `edits` are numbers that identify the edits in the result. Edits to forms and definitions are applied
    before string edits. `languages` are the languages that features add, by file suffix.
    """
    by_words = {number: edit for number, edit in edits.items() if isinstance(edit, ReplaceText)}
    by_parts = {number: edit for number, edit in edits.items() if number not in by_words}
    first = _apply_part_edits(path, text, by_parts, limits) if by_parts else EditedText(text, {})
    if isinstance(first, RefusedEdits) or not by_words:
        return first
    if (apply_text := languages.get(path.suffix)) is not None:
        return apply_text(path, text, by_words)
    found = apply_string_edits(first.text, by_words, is_python=is_python(path))
    if isinstance(found, RefusedEdits):
        return found
    words = _syntax_error_by_edit(path, first.text, found.text)
    if words:
        return RefusedEdits(tuple((number, EditError(words)) for number in by_words))
    return EditedText(found.text, {**first.done, **found.done})


def _syntax_error_by_edit(path: Path, before: str, after: str) -> str:
    """Return the syntax error that an edit caused, or "". An error that was there before does not count."""
    try:
        check_new_text(path, after)
    except EditFailedError as error:
        reason = str(error)
    else:
        return ""
    try:
        check_new_text(path, before)
    except EditFailedError:
        return ""
    return f"with this edit {reason}"


def _apply_part_edits(
    path: Path, text: str, edits: Mapping[int, FileEdit], limits: SearchLimits
) -> EditedText | RefusedEdits:
    of_python = {number: edit for number, edit in edits.items() if isinstance(edit, PythonEdit)}
    of_lisp = {number: edit for number, edit in edits.items() if isinstance(edit, TextEdit)}
    of_language, other = (of_python, of_lisp) if is_python(path) else (of_lisp, of_python)
    strange = [number for number, edit in other.items() if number not in of_language]
    if strange:
        words = "this type of edit is for Lisp. Use replace_def, insert_def"
        if not is_python(path):
            words = "this type of edit is for Python. Use replace, insert"
        return RefusedEdits(tuple((number, EditError(f"{words} or append")) for number in strange))
    if is_python(path):
        return python_edits.apply_python_edits(text, of_python)
    return lisp_edits.apply_edits(Document(text, is_hy=path.suffix == HY_SUFFIX), of_lisp, limits)


def check_new_text(path: Path, text: str) -> None:
    """Check that the whole new text of a file can be parsed. Python that is too long to parse is not checked.

    Raises:
        EditFailedError: the text cannot be parsed.
    """
    if path.suffix.lower() in LISP_SUFFIXES or not path.suffix:
        check_lisp(text)
    if not is_python(path):
        return
    try:
        parse_python(text)
    except TooLongError:
        return
    except SyntaxError as error:
        raise EditFailedError(EditError(f"the content {describe_syntax_error(error)}")) from error


def check_inserted_text(edit: FileEdit, path: Path) -> None:
    """Check that the new text of an edit can be parsed by itself.

    Raises:
        EditFailedError: the text cannot be parsed.
    """
    if isinstance(edit, ReplaceDef | InsertDef) or (is_python(path) and isinstance(edit, Append)):
        CodeFragment(edit.new)
    elif isinstance(edit, lisp_edits.Replace | lisp_edits.Insert | Append):
        check_lisp(edit.new)
