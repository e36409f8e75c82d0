"""Splices, which replace, insert and delete forms without joining tokens or leaving gaps.

A source text is rewritten by applying splices. Its tokens are then compared with the expected ones, to prove that
no tokens ran together. Tokens that would run together, as when a form is inserted between two forms that touch, get a
space between them, or a line ending after a comment.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codriver_lisp.errors import EditError, EditFailedError
from codriver_lisp.indentation import last_line, reindent
from codriver_lisp.parinfer import balance_by_indentation
from codriver_lisp.reader import LINE_END_PATTERN, check_balance, read_forms, tokens

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codriver_lisp.source_text import Document, Unit


_BLANK_LINE_AT_END_PATTERN = re.compile(r"(?:\r\n|\r|\n|\A)[ \t,]*(?:\r\n|\r|\n)[ \t,]*\Z")
_BLANK_LINE_AT_START_PATTERN = re.compile(r"[ \t,]*(?:;[^\r\n]*)?(?:\r\n|\r|\n)[ \t,]*(?:\r\n|\r|\n)")
_REST_OF_BLANK_LINE_PATTERN = re.compile(r"[ \t,]*(?:\r\n|\r|\n|\Z)")
_BLANK_CHARACTERS = " \t,"
_SPACE_CHARACTERS = " \t\r\n,"
_DELIMITERS = frozenset(' \t\r\n,()[]{}"')
"""Characters that end a token, after which text can follow without a space."""


@dataclass(frozen=True, slots=True)
class Splice:
    """Replaces the text from `start` to `end` with `new`.

    `core` is the span without the whitespace around it. If two splices are at the same position, the one that belongs
    to the form before it (`is_behind`) comes first.
    """

    start: int
    end: int
    new: str
    core: tuple[int, int]
    is_behind: bool = False


def is_blank(text: str) -> bool:
    """Return whether a source text contains neither code nor comments."""
    return all(token.lastgroup == "space" for token in tokens(text))


def replace_unit(document: Document, unit: Unit, new: str) -> Splice:
    """Return a splice that replaces a unit."""
    base = document.indentation(unit)
    text = document.text
    placed = reindent(new, base, document.ending, text[unit.start : unit.end])
    if unit.start > 0 and _may_join(text[unit.start - 1], placed[0]):
        placed = " " + placed
    placed += _separator(document, placed, unit.end, base)
    return Splice(unit.start, unit.end, placed, (unit.start, unit.end))


def _separator(document: Document, placed: str, at: int, base: str) -> str:
    """Return the whitespace needed between `placed` and the text at offset `at`, or ""."""
    text = document.text
    if at == len(text):
        return ""
    if _ends_in_comment(placed):
        return "" if _REST_OF_BLANK_LINE_PATTERN.match(text, at) else document.ending + base
    return " " if _may_join(placed[-1], text[at]) else ""


def _ends_in_comment(text: str) -> bool:
    """Return whether a source text ends in a comment, to which text added to the last line would then belong."""
    kinds = [token.lastgroup for token in tokens(text)]
    return bool(kinds) and kinds[-1] == "comment"


def _may_join(left: str, right: str) -> bool:
    """Return whether two adjacent characters may become part of the same token."""
    return left not in _DELIMITERS and right not in _DELIMITERS and right != ";"


def insert_before(document: Document, unit: Unit, new: str) -> Splice:
    """Return a splice that puts `new` on its own lines before a unit with its hints and comments."""
    unit = document.with_hints(unit)
    base = document.indentation(unit)
    at = document.start_with_comments(unit)
    lines = document.ending * (2 if _are_forms_separated(document, unit, at) else 1)
    placed = reindent(new, base, document.ending) + lines + base
    if at > 0 and _may_join(document.text[at - 1], placed[0]):
        placed = " " + placed
    return Splice(at, at, placed, (at, at))


def insert_after(document: Document, unit: Unit, new: str) -> Splice:
    """Return a splice that puts `new` on its own lines after a unit and the comment on its last line."""
    unit = document.with_hints(unit)
    base = document.indentation(unit)
    at = document.end_of_line(unit)
    lines = document.ending * (2 if _are_forms_separated(document, unit, document.start_with_comments(unit)) else 1)
    placed = lines + base + reindent(new, base, document.ending)
    is_closed_next = unit.ceiling_closes and not document.text[at : unit.ceiling].strip(_SPACE_CHARACTERS)
    is_last_on_line = _REST_OF_BLANK_LINE_PATTERN.match(document.text, at) is not None
    if not is_last_on_line and not (is_closed_next and not _ends_in_comment(placed)):
        placed += document.ending + base
    return Splice(at, at, placed, (at, at), is_behind=True)


def _are_forms_separated(document: Document, unit: Unit, begin: int) -> bool:
    """Return whether blank lines separate the forms around a unit.

    This depends on the space above the unit, or below it if it is the first form.
    """
    text = document.text
    if not document.begins_line(unit):
        return False
    if unit.has_previous_sibling:
        return _BLANK_LINE_AT_END_PATTERN.search(text, unit.floor, begin) is not None
    return not unit.is_nested or _BLANK_LINE_AT_START_PATTERN.match(text, unit.end, unit.ceiling) is not None


def delete_unit(document: Document, unit: Unit, begin: int, end: int) -> Splice:
    """Return a splice that deletes the text from `begin` to `end`, which is a unit with or without comments.

    Lines that become empty are deleted too, and two blank lines that meet are reduced to one. A closing bracket moves
    up to the previous form, unless it would end up in a comment.
    """
    text, core = document.text, (begin, end)
    before, after = text[unit.floor : begin], text[end : unit.ceiling]
    is_first = document.begins_line(unit)
    at_line_end = _REST_OF_BLANK_LINE_PATTERN.match(text, end)
    remaining = before.rstrip(_SPACE_CHARACTERS)
    start, stop = begin, end
    if (
        unit.is_nested
        and unit.ceiling_closes
        and not after.strip(_SPACE_CHARACTERS)
        and ";" not in last_line(remaining)
    ):
        start, stop = unit.floor + len(remaining), unit.ceiling
    elif is_first and at_line_end is not None:
        start, stop = document.positions.line_start(document.positions.line(begin)), at_line_end.end()
        if stop == len(text):
            return _delete_last(document, unit, start, core)
        below = _REST_OF_BLANK_LINE_PATTERN.match(text, stop)
        is_eldest = not unit.has_previous_sibling and not text[unit.floor : start].strip(_SPACE_CHARACTERS)
        if below is not None and (is_eldest or _BLANK_LINE_AT_END_PATTERN.search(text, unit.floor, start)):
            stop = below.end()
    elif is_first:
        stop += len(after) - len(after.lstrip(_BLANK_CHARACTERS))
    else:
        start = unit.floor + len(before.rstrip(_BLANK_CHARACTERS))
    joins = start > 0 and stop < len(text) and _may_join(text[start - 1], text[stop])
    return Splice(start, stop, " " if joins else "", core)


def _delete_last(document: Document, unit: Unit, start: int, core: tuple[int, int]) -> Splice:
    """Return a splice that deletes the last lines of the text but keeps a line ending at its end."""
    text = document.text
    above = text[unit.floor : start]
    end = unit.floor + len(above.rstrip(_SPACE_CHARACTERS))
    final = LINE_END_PATTERN.search(text, core[1])
    return Splice(end, len(text), final[0] if final and end > 0 else "", core)


def append_text(text: str, new: str, ending: str) -> str:
    """Append `new` to a source text after a blank line. The result ends with a line ending if the text does."""
    placed = reindent(new, "", ending)
    if not text.strip():
        return text + placed + ending
    endings = len(LINE_END_PATTERN.findall(text[len(text.rstrip(" \t\r\n")) :]))
    return text + ending * max(0, 2 - endings) + placed + (ending if endings else "")


def check_balanced(text: str) -> None:
    """Check that the brackets of new text balance.

    Raises:
        EditFailedError: the brackets do not balance. The error suggests a balanced text if the indentation implies one.
    """
    unbalanced = check_balance(text)
    if unbalanced is None:
        return
    proposal = balance_by_indentation(text)
    words = f"the brackets in the new text do not balance, counting lines within it: {unbalanced.message}"
    raise EditFailedError(EditError(words, balanced_text=proposal.text if proposal.changed else None))


def check_not_blank(text: str) -> None:
    """Check that new text is balanced and not blank.

    Raises:
        EditFailedError: the text is not balanced or is blank.
    """
    check_balanced(text)
    if is_blank(text):
        raise EditFailedError(EditError("the new text is blank, so there is nothing to insert"))


def check_branch_replacement(unit: Unit, new: str) -> None:
    """Check that a branch of a reader conditional still has exactly one form after `new` replaces the unit.

    Raises:
        EditFailedError: the branch would have no form, or several.
    """
    count = _count_forms(new)
    if not unit.is_branch or count == 1:
        return
    if count == 0:
        words = (
            f"the form at line {unit.line} cannot be removed, because it is the only form in a branch of a reader "
            "conditional. Replace it with another form, or replace the whole conditional"
        )
    else:
        words = (
            f"a branch of a reader conditional has one form, but the new text has {count}. Put the forms in a (do …)"
        )
    raise EditFailedError(EditError(words))


def check_adjacent(unit: Unit, new: str) -> None:
    """Check that adding `new` next to a unit does not give a branch of a reader conditional a second form.

    Raises:
        EditFailedError: the branch would have two forms.
    """
    if unit.is_branch and _count_forms(new):
        words = (
            f"nothing can be inserted next to the form at line {unit.line}, because a branch of a reader conditional "
            "has only one form. Replace that form with a (do …) that contains both"
        )
        raise EditFailedError(EditError(words))


def _count_forms(text: str) -> int:
    """Return the number of forms in a source text, excluding discarded ones."""
    return sum(form.kind != "discard" for form in read_forms(text).forms)


@dataclass(frozen=True, slots=True)
class AssembledText:
    """A source text after splices were applied.

    `positions` maps the number of each edit to the offset of its change in the new text. If the new text of an edit
    would run into adjacent code, `broken` is the number of that edit, and `text` must not be used.
    """

    text: str
    positions: dict[int, int]
    broken: int | None


@dataclass(frozen=True, slots=True)
class _Change:
    """A change to the text. `index` is the number of its edit."""

    start: int
    end: int
    new: str
    index: int


def apply_splices(document: Document, splices: Sequence[tuple[Splice, int]]) -> AssembledText:
    """Apply splices to the text of a document. Each comes with the number of its edit.

    They must be sorted, and their cores must not overlap. Whitespace around cores may overlap, and is removed only
    once.
    """
    text = document.text
    starts = [form.start for form in document.reading.forms]
    parts: list[str] = []
    positions: dict[int, int] = {}
    broken: int | None = None
    done = length = 0
    for low, high, changes in _affected_regions(_without_overlaps(splices), starts, len(text)):
        parts.append(text[done:low])
        length += low - done
        expected = _expected_tokens(text[low:high], low, changes)
        chunks = _chunks(text, low, high, changes)
        if _token_strings("".join(chunks)) != expected:
            chunks = _separate_chunks(chunks, document.ending)
            if broken is None and _token_strings("".join(chunks)) != expected:
                broken = changes[0].index
        for number, chunk in enumerate(chunks):
            if number % 2:
                change = changes[number // 2]
                indent = len(chunk) - len(chunk.lstrip())
                if change.index not in positions or indent < len(chunk):
                    positions[change.index] = length + (indent if indent < len(chunk) else 0)
            length += len(chunk)
        parts += chunks
        done = high
    parts.append(text[done:])
    return AssembledText("".join(parts), positions, broken)


def _without_overlaps(splices: Sequence[tuple[Splice, int]]) -> list[_Change]:
    """Convert splices to changes in text order that do not overlap."""
    changes: list[_Change] = []
    at = 0
    for splice, index in splices:
        start = max(splice.start, at)
        end = max(splice.end, start)
        changes.append(_Change(start, end, splice.new, index))
        at = end
    return changes


def _affected_regions(
    changes: Sequence[_Change], starts: Sequence[int], length: int
) -> Iterator[tuple[int, int, list[_Change]]]:
    """Yield groups of changes, each with the range of text whose tokens they can affect.

    A token does not depend on the text before it, and its end depends only on the next character. So a range extends
    from the start of the last form before a change to the start of the first form after it.
    """
    group: list[_Change] = []
    low = high = 0
    for change in changes:
        before = bisect_left(starts, change.start) - 1
        after = bisect_right(starts, change.end)
        begin = starts[before] if before >= 0 else 0
        end = starts[after] if after < len(starts) else length
        if group and begin < high:
            group.append(change)
            high = max(high, end)
            continue
        if group:
            yield low, high, group
        group, low, high = [change], begin, end
    if group:
        yield low, high, group


def _chunks(text: str, low: int, high: int, changes: Sequence[_Change]) -> list[str]:
    """Return the parts of the changed text, alternately unchanged and new. The first and last are unchanged."""
    chunks: list[str] = []
    at = low
    for change in changes:
        chunks += text[at : change.start], change.new
        at = change.end
    return [*chunks, text[at:high]]


def _separate_chunks(chunks: Sequence[str], ending: str) -> list[str]:
    """Insert a space between chunks whose tokens would run together, or a line ending after a comment."""
    apart: list[str] = []
    before = ""
    for chunk in chunks:
        put = chunk
        if chunk and _token_strings(before + chunk) != _token_strings(before) + _token_strings(chunk):
            line = last_line(before)
            is_comment = [token.lastgroup for token in tokens(before)][-1:] == ["comment"]
            put = ending + line[: len(line) - len(line.lstrip())] + chunk.lstrip(" \t") if is_comment else " " + chunk
        apart.append(put)
        before += put
    return apart


def _token_strings(text: str) -> list[str]:
    """Return the tokens of a source text, excluding whitespace."""
    return [_token_string(token) for token in tokens(text) if token.lastgroup != "space"]


def _token_string(token: re.Match[str]) -> str:
    """Return the text of a token. Trailing whitespace in a comment is removed."""
    return token[0].rstrip() if token.lastgroup == "comment" else token[0]


def _expected_tokens(text: str, offset: int, changes: Sequence[_Change]) -> list[str]:
    """Return the tokens that a part of the text, which starts at `offset`, should have after the changes."""
    expected: list[str] = []
    number = 0
    for token in tokens(text):
        start, end = token.start() + offset, token.end() + offset
        while number < len(changes) and changes[number].end <= start:
            expected += _token_strings(changes[number].new)
            number += 1
        is_changed = number < len(changes) and changes[number].start < end
        if token.lastgroup != "space" and not is_changed:
            expected.append(_token_string(token))
    for change in changes[number:]:
        expected += _token_strings(change.new)
    return expected
