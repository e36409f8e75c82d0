"""The language of a file that is edited: how its bytes are read, its text is changed, and new text is checked.

Lisp is UTF-8. A Python file is in the encoding that its first lines declare. In any text, words that occur once can be
replaced, and every other byte stays. The edits of one text are done in order, each on the result of the edit before. An
end of line in the words matches any end of line in the file. Source: PEP 263.
"""

from __future__ import annotations

import io
import re
import tokenize
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import islice
from typing import TYPE_CHECKING, Final

from codriver.editing import python_edits
from codriver.editing.editable_paths import PYTHON_SUFFIXES, SUFFIXES
from codriver.editing.notebooks import notebook_in, with_source
from codriver.editing.python_edits import InsertDef, Piece, PythonEdit, PythonSource, ReplaceDef, parsed, words_of
from codriver.errors import RefusedError, cut
from codriver_lisp import edit as lisp_edits
from codriver_lisp.edit import Append, Done, Edited, Refused, TextEdit
from codriver_lisp.errors import EditError, EditFailedError
from codriver_lisp.source_text import Document, Limits
from codriver_lisp.splices import check_new as check_lisp

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path


MOST_SHOWN: Final = 3
"""Places that a refusal shows, with a line around each."""
MOST_COMPARED: Final = 20_000
"""The number of most similar lines that are looked for."""
MOST_WEIGHED: Final = 20
"""Lines that are compared letter by letter, in a time of at least the square of their length."""
MOST_CHARS: Final = 160
"""Characters of a line that are compared, and shown in a refusal."""
MIN_ALIKE: Final = 0.5
_ENDING: Final = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class ReplaceText:
    """A replacement of the words `old`, which occur once in the text, or once in its scope, by `new`.

    The scope is the definition `name`, in Python, or the place nearest to `line`; in a notebook the source of `cell`.
    """

    old: str
    new: str
    name: str | None = None
    line: int | None = None
    cell: str | None = None


@dataclass(frozen=True, slots=True)
class _Place:
    """The place of words in a plain text; `line` counts from 1."""

    start: int
    line: int


def apply_words(text: str, edits: Mapping[int, ReplaceText], *, is_python: bool = False) -> Edited | Refused:
    """Return `text` after `edits`, all of them or none. The keys are the numbers under which the caller knows them."""
    problems: list[tuple[int, EditError]] = []
    done: dict[int, Done] = {}
    for number, edit in edits.items():
        plain, old = _plain(text), _plain(edit.old)
        try:
            place = _find(plain, old, edit, is_python=is_python)
        except EditFailedError as error:
            problems.append((number, error.error))
            continue
        start, end = _index_in(text, place.start), _index_in(text, place.start + len(old))
        text = text[:start] + _ending_of(text, start).join(_plain(edit.new).split("\n")) + text[end:]
        done[number] = Done(place.line, place.line)
    return Refused(tuple(problems)) if problems else Edited(text, done)


def check(edit: ReplaceText) -> None:
    """Check an edit by itself.

    Raises:
        ProblemError: the edit names no words, or changes nothing.
    """
    if not edit.old:
        raise EditFailedError(EditError("oldText is empty: give the words to replace, or make a file with type create"))
    if edit.old == edit.new:
        raise EditFailedError(EditError("oldText and newText are equal: nothing would change"))
    if edit.cell is not None:
        raise EditFailedError(EditError("cell is one of a notebook (.ipynb), which this file is not: leave it out"))


def _plain(text: str) -> str:
    """Return the text with each end of line as LF. A search for a string is quick for any words."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _index_in(text: str, plain_index: int) -> int:
    """The index of a character in a text, by its index in the plain text, where CR LF is one character."""
    index = plain_index
    while (moved := plain_index + text.count("\r\n", 0, index)) != index:
        index = moved
    return index + 1 if text[:index].endswith("\r") and text.startswith("\n", index) else index


def _find(plain: str, old: str, edit: ReplaceText, *, is_python: bool) -> _Place:
    check(edit)
    start, end = _scope(plain, edit, is_python=is_python)
    count = plain.count(old, start, end)
    if not count:
        raise EditFailedError(_absent(plain, edit, start, end))
    places = _places(plain, old, start, end)
    if count > 1 and edit.line is not None and edit.name is None:
        found = _nearest(places, edit.line)
    else:
        found = list(islice(places, MOST_SHOWN))
    if len(found) > 1:
        words = f"oldText stands {count} times: take more of it, or say name or line"
        raise EditFailedError(EditError(words, _shown(plain, [place.line for place in found])))
    return found[0]


def _places(plain: str, old: str, start: int, end: int) -> Iterator[_Place]:
    line, counted = 1, 0
    while (start := plain.find(old, start, end)) >= 0:
        line += plain.count("\n", counted, start)
        yield _Place(start, line)
        counted, start = start, start + len(old)


def _scope(plain: str, edit: ReplaceText, *, is_python: bool) -> tuple[int, int]:
    """Return the characters within which the words are searched for."""
    if edit.name is None:
        return 0, len(plain)
    if not is_python:
        raise EditFailedError(EditError("name is that of a definition of Python: here say line, or more of oldText"))
    try:
        source = PythonSource(plain, compiles=False)
    except SyntaxError as error:
        raise EditFailedError(EditError("the file does not parse, so name means nothing: leave it out")) from error
    found = source.find(edit.name, edit.line)
    before = "".join(source.lines[: found.first - 1])
    return len(before), len(before) + len("".join(source.lines[found.first - 1 : found.last]))


def _nearest(places: Iterable[_Place], line: int) -> list[_Place]:
    """Return the places nearest to a line: several only if equally near, and at most are shown."""
    nearest: list[_Place] = []
    for place in places:
        nearer = abs(nearest[0].line - line) - abs(place.line - line) if nearest else 1
        if nearer > 0:
            nearest = [place]
        elif nearer == 0 and len(nearest) < MOST_SHOWN:
            nearest.append(place)
        elif nearer < 0:
            break  # the places behind it are farther still
    return nearest


def _ending_of(text: str, at: int) -> str:
    """Return the end of line used at that place of the text."""
    found = _ENDING.search(text, at) or _ENDING.search(text)
    return found[0] if found else "\n"


def _absent(plain: str, edit: ReplaceText, start: int, end: int) -> EditError:
    """Return the problem that the words do not occur, with the most similar places."""
    where = f" in {edit.name}" if edit.name else ""
    wanted = _begin(next((line for line in _ENDING.split(edit.old) if line.strip()), ""))
    first = plain.count("\n", 0, start) + 1
    there = [_begin(line) for line in plain[start:end].split("\n", MOST_COMPARED)[:MOST_COMPARED]]
    rough = sorted(
        ((_likeness(line, wanted, is_rough=True), -number) for number, line in enumerate(there)), reverse=True
    )
    weighed = sorted(((_likeness(there[-number], wanted), number) for _, number in rough[:MOST_WEIGHED]), reverse=True)
    near = [first - number for likeness, number in weighed[:MOST_SHOWN] if likeness >= MIN_ALIKE]
    words = f"oldText does not stand{where} in the file as it is now"
    words += ", not even in other spaces: read the file again" if not near else ": these lines are most like it"
    return EditError(words, _shown(plain, sorted(near)) if near else None)


def _begin(line: str) -> str:
    return line.lstrip()[:MOST_CHARS].rstrip()


def _likeness(line: str, wanted: str, *, is_rough: bool = False) -> float:
    """The likeness of two lines, from 0 to 1; the rough one is quick, and never below the exact one."""
    if line == wanted:
        return 1.0
    if not line or not wanted or abs(len(line) - len(wanted)) > max(len(line), len(wanted)) / 2:
        return 0.0
    matcher = SequenceMatcher(None, line, wanted, autojunk=False)
    return matcher.quick_ratio() if is_rough else matcher.ratio()


def _shown(plain: str, numbers: Sequence[int]) -> str:
    """Three lines around each of these places, numbered from 1; of a long line its beginning."""
    lines = plain.split("\n", max(numbers) + 1)
    parts = []
    for number in numbers:
        around = range(max(1, number - 1), min(len(lines), number + 1) + 1)
        parts.append(
            "\n".join(f"{'→' if one == number else ' '} {one}  {cut(lines[one - 1], MOST_CHARS)}" for one in around)
        )
    return "\n\n".join(parts)


FileEdit = TextEdit | PythonEdit | ReplaceText
"""An edit of an existing file."""

HY: Final = ".hy"
"""The ending of a Hy file's name."""
NOTEBOOK: Final = ".ipynb"
UTF_8: Final = "utf-8"
LISPS: Final = frozenset({"clojure", "clojurescript", "basilisp", "hy"})
"""Languages of notebooks whose brackets have to balance."""


def is_python(path: Path) -> bool:
    """Return whether a file holds Python, by its name."""
    return path.suffix.lower() in PYTHON_SUFFIXES


def encoding_of(path: Path, data: bytes) -> str:
    """Return the encoding of a file without its byte order mark.

    Raises:
        ProblemError: the file declares an unknown encoding, or two encodings.
    """
    if not is_python(path):
        return UTF_8
    try:
        found = tokenize.detect_encoding(io.BytesIO(data).readline)[0]
    except SyntaxError as error:
        raise EditFailedError(EditError(f"its encoding cannot be told: {error.msg}")) from error
    return UTF_8 if found == "utf-8-sig" else found


def apply(path: Path, text: str, edits: Mapping[int, FileEdit], limits: Limits) -> Edited | Refused:
    """The text of a file after `edits`, all of them or none: edits by forms and definitions, then edits by words."""
    by_words = {number: edit for number, edit in edits.items() if isinstance(edit, ReplaceText)}
    by_parts = {number: edit for number, edit in edits.items() if number not in by_words}
    first = _by_parts(path, text, by_parts, limits) if by_parts else Edited(text, {})
    if isinstance(first, Refused) or not by_words:
        return first
    if path.suffix == NOTEBOOK:
        return _in_notebook(path, text, by_words)
    found = apply_words(first.text, by_words, is_python=is_python(path))
    if isinstance(found, Refused):
        return found
    words = _broken_by(path, first.text, found.text)
    if words:
        return Refused(tuple((number, EditError(words)) for number in by_words))
    return Edited(found.text, {**first.done, **found.done})


def _in_notebook(path: Path, text: str, edits: Mapping[int, ReplaceText]) -> Edited | Refused:
    """The text of a notebook after edits by words, each of the whole file or of the source of one cell."""
    problems: list[tuple[int, EditError]] = []
    done: dict[int, Done] = {}
    for number, edit in edits.items():
        try:
            found = _edited_notebook(path, text, number, edit)
        except RefusedError as error:
            problems.append((number, EditError(str(error))))
            continue
        if isinstance(found, Refused):
            problems += found.errors
        else:
            text, done = found.text, {**done, **found.done}
    return Refused(tuple(problems)) if problems else Edited(text, done)


def _edited_notebook(path: Path, text: str, number: int, edit: ReplaceText) -> Edited | Refused:
    """Return the text of a notebook after one edit, whose lines count within its cell.

    Raises:
        RefusedError: the text is no notebook, or has no such cell.
    """
    if edit.cell is None:
        return apply_words(text, {number: edit})
    notebook = notebook_in(text.encode("utf-8", "surrogatepass"), path.name)
    cell = notebook.cell(edit.cell)
    language = notebook.language if cell.type == "code" else ""
    found = apply_words(cell.source, {number: replace(edit, cell=None)}, is_python=language == "python")
    if isinstance(found, Refused):
        return found
    if words := _broken_cell(language, cell.source, found.text):
        return Refused(((number, EditError(words)),))
    return Edited(with_source(text, path.name, cell.index, found.text), found.done)


def _broken_cell(language: str, before: str, after: str) -> str:
    """The reason why an edit made a cell's code unreadable; empty for a readable cell, or one unreadable before."""
    faults = []
    for source in (before, after):
        try:
            if language == "python":
                parsed(source, compiles=False)
            elif language in LISPS:
                check_lisp(source)
        except (SyntaxError, EditFailedError) as error:
            faults.append(words_of(error) if isinstance(error, SyntaxError) else str(error))
        else:
            faults.append("")
    return f"with this edit the cell {faults[1]}" if faults[1] and not faults[0] else ""


def _broken_by(path: Path, before: str, after: str) -> str:
    """The reason why an edit made code unreadable; empty for readable code, and for code unreadable before."""
    try:
        check_whole(path, after)
    except EditFailedError as error:
        fault = str(error)
    else:
        return ""
    try:
        check_whole(path, before)
    except EditFailedError:
        return ""
    return f"with this edit {fault}"


def _by_parts(path: Path, text: str, edits: Mapping[int, FileEdit], limits: Limits) -> Edited | Refused:
    of_python = {number: edit for number, edit in edits.items() if isinstance(edit, PythonEdit)}
    of_lisp = {number: edit for number, edit in edits.items() if isinstance(edit, TextEdit)}
    own, other = (of_python, of_lisp) if is_python(path) else (of_lisp, of_python)
    strange = [number for number, edit in other.items() if number not in own]
    if strange:
        words = "in Python use replace_def, insert_def" if is_python(path) else "it is for Python: use replace, insert"
        return Refused(tuple((number, EditError(f"{words} or append")) for number in strange))
    if is_python(path):
        return python_edits.apply(text, of_python)
    return lisp_edits.apply(Document(text, is_hy=path.suffix == HY), of_lisp, limits)


def check_whole(path: Path, text: str) -> None:
    """Check the whole new text of a file.

    Raises:
        ProblemError: the text cannot be read as code.
    """
    if path.suffix.lower() in SUFFIXES or not path.suffix:
        check_lisp(text)
    if not is_python(path):
        return
    try:
        parsed(text)
    except SyntaxError as error:
        raise EditFailedError(EditError(f"the content {words_of(error)}")) from error


def check_new(edit: FileEdit, path: Path) -> None:
    """Check the new text of an edit alone, without a file around it.

    Raises:
        ProblemError: the text cannot be read as code.
    """
    if isinstance(edit, ReplaceDef | InsertDef) or (is_python(path) and isinstance(edit, Append)):
        Piece(edit.new)
    elif isinstance(edit, lisp_edits.Replace | lisp_edits.Insert | Append):
        check_lisp(edit.new)
