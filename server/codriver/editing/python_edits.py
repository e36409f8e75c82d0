"""Replace and insert definitions in Python code, leaving everything else unchanged.

A definition is a function, method or class with its decorators, or an assignment to one name in a module or class,
identified by its dotted name. Comments above it and after its last statement do not belong to it.

All edits refer to the original source, before any of them is applied. The resulting source must parse, and all
statements except the replaced and inserted ones must be as before. Otherwise no edit is applied.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Literal

from codriver.editing.code_fragment import CodeFragment
from codriver.editing.python_source import (
    DEFINITION_NODES,
    Definition,
    PythonSource,
    TooLongError,
    describe_syntax_error,
    leading_whitespace,
    split_lines,
)
from codriver_lisp.edit import Append, EditedText, EditEffect, RefusedEdits
from codriver_lisp.errors import EditError, EditFailedError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["InsertDef", "PythonEdit", "ReplaceDef", "apply_python_edits"]

NO_ANCHOR_HINT = ". For insert_def, name is an existing definition. Without name, code is added to the end of the file"
"""End of the message about an insertion next to a definition that does not exist."""
MODULE_LEVEL_BLANK_LINES = 2
"""Number of blank lines between the definitions in a module."""


@dataclass(frozen=True, slots=True)
class ReplaceDef:
    """Replaces the definition `name` with `new`, or removes it if `new` is blank.

    If several definitions have this name, `line`, which may be any line of the definition, selects one.
    """

    name: str
    new: str
    line: int | None = None


@dataclass(frozen=True, slots=True)
class InsertDef:
    """Inserts `new` before or after the definition `name`, or at the end of that class.

    If `name` is None, `new` is inserted at the end of the file.
    """

    name: str | None
    new: str
    side: Literal["before", "after", "in"] = "after"
    line: int | None = None


PythonEdit = ReplaceDef | InsertDef | Append


@dataclass(frozen=True, slots=True)
class _Splice:
    """Replaces the lines from `start` up to but not including `end`, counting from 0, with `lines`."""

    start: int
    end: int
    lines: tuple[str, ...]
    number: int
    gap: int = 0
    """The number of blank lines before the new lines."""
    behind: int = 0
    """The number of blank lines after the new lines."""
    wide_end: int = 0
    """Blank lines up to this line may be removed as well."""
    depth: int = 0
    """Indentation of the new lines. Of several insertions at one line, the innermost comes first."""


def apply_python_edits(text: str, edits: Mapping[int, PythonEdit]) -> EditedText | RefusedEdits:
    """Apply edits to Python code. Return the new text, or the errors.

    The keys of `edits` are numbers that identify the edits in the result.
    """
    try:
        source = PythonSource(text, compiles=False)
    except TooLongError as error:
        length_error = EditError(f"the file {describe_syntax_error(error)}. Edit it with oldText and newText")
        return RefusedEdits(tuple((number, length_error) for number in edits))
    except SyntaxError as error:
        parse_error = EditError(
            f"the file {describe_syntax_error(error)}. Correct that error first, with oldText and newText"
        )
        return RefusedEdits(tuple((number, parse_error) for number in edits))
    splices, errors = list[_Splice](), list[tuple[int, EditError]]()
    for number, edit in edits.items():
        try:
            splices.append(_splice(source, number, edit))
        except EditFailedError as error:
            errors.append((number, error.error))
    splices.sort(key=lambda splice: (splice.start, splice.end, -splice.depth))
    errors += _conflicts(splices)
    if errors:
        return RefusedEdits(tuple(sorted(errors, key=itemgetter(0))))
    return _apply_splices(source, splices)


def _splice(source: PythonSource, number: int, edit: PythonEdit) -> _Splice:
    code = CodeFragment(edit.new)
    if isinstance(edit, ReplaceDef):
        found = source.find(edit.name, edit.line)
        return _removal(source, found, number) if code.is_blank else _replacement(source, found, code, number)
    if code.is_blank:
        raise EditFailedError(EditError("the new text is blank. Pass the code to insert"))
    if isinstance(edit, Append) or edit.name is None:
        return _insertion(source, code, len(source.lines), "", MODULE_LEVEL_BLANK_LINES, number)
    found = source.find(edit.name, edit.line, missing=NO_ANCHOR_HINT)
    if edit.side == "in":
        return _append_to_class(source, found, code, number)
    at = _comment_start(source, found) if edit.side == "before" else _comment_end(source, found.last, found.margin)
    gap = found.separating_blank_lines if isinstance(found.node, DEFINITION_NODES) or code.starts_with_definition else 0
    return _insertion(source, code, at, found.margin, gap, number)


def _replacement(source: PythonSource, found: Definition, code: CodeFragment, number: int) -> _Splice:
    old = source.lines[found.last - 1]
    end = old[len(old.rstrip("\r\n")) :]
    if not isinstance(found.node, DEFINITION_NODES) and not code.ends_in_comment:
        end = _trailing_comment(source, found) + end
    new = split_lines(code.reindent(found.margin, source.indentation, source.ending) + end)
    return _Splice(found.first - 1, found.last, tuple(new), number)


def _trailing_comment(source: PythonSource, found: Definition) -> str:
    """Return the comment after an assignment on its last line, with the spaces before it, or ""."""
    line = source.lines[found.last - 1].encode()[found.node.end_col_offset :].decode().rstrip("\r\n")
    return line if line.lstrip().startswith("#") else ""


def _removal(source: PythonSource, found: Definition, number: int) -> _Splice:
    """Return the splice that removes a definition. If blank lines precede it, those after it are removed, too."""
    end = found.last
    while end < len(source.lines) and not source.lines[end].strip():
        end += 1
    has_gap = found.first == 1 or not source.lines[found.first - 2].strip()
    return _Splice(found.first - 1, found.last, (), number, wide_end=end if has_gap else found.last)


def _append_to_class(source: PythonSource, found: Definition, code: CodeFragment, number: int) -> _Splice:
    if not isinstance(found.node, ast.ClassDef):
        kind = "a function" if isinstance(found.node, DEFINITION_NODES) else "an assignment"
        words = (
            f"{found.name} is {kind}, and `side: in` works only for classes. Replace the whole {kind.partition(' ')[2]}"
        )
        raise EditFailedError(EditError(words))
    body = found.node.body
    margin = leading_whitespace(source.lines[source.line_range(body[0])[0] - 1])
    if body[0].lineno == found.node.lineno or len(margin) <= len(found.margin):
        raise EditFailedError(
            EditError(f"the body of {found.name} is on the same line as its head. Replace the whole class")
        )
    at = _comment_end(source, found.last, margin)
    return _insertion(source, code, at, margin, 1, number)


def _comment_start(source: PythonSource, found: Definition) -> int:
    """Return the index of the first comment line directly above a definition."""
    at = found.first - 1
    while at and source.lines[at - 1].startswith(f"{found.margin}#"):
        at -= 1
    return at


def _comment_end(source: PythonSource, last: int, margin: str) -> int:
    """Return the index after the comments that follow a definition and are indented like its body."""
    at = last
    while at < len(source.lines) and (line := source.lines[at]).lstrip().startswith("#"):
        if len(leading_whitespace(line)) <= len(margin):
            break
        at += 1
    return at


def _insertion(source: PythonSource, code: CodeFragment, at: int, margin: str, gap: int, number: int) -> _Splice:
    """Return the splice that inserts code between lines, with the usual blank lines before and after it."""
    lines = source.lines
    text = split_lines(code.reindent(margin, source.indentation, source.ending) + source.ending)
    above = next((line for line in reversed(lines[:at]) if line.strip()), None)
    is_opened = above is None or len(leading_whitespace(above)) < len(
        margin
    )  # directly after the head of the surrounding block
    behind = gap if at < len(lines) and lines[at].strip() else 0
    return _Splice(at, at, tuple(text), number, 0 if is_opened else gap, behind, at, len(margin))


def _conflicts(splices: Sequence[_Splice]) -> list[tuple[int, EditError]]:
    errors = list[tuple[int, EditError]]()
    last: _Splice | None = None
    for splice in splices:
        if last is not None and splice.start < last.end:
            for number, other in ((last.number, splice.number), (splice.number, last.number)):
                errors.append(
                    (number, EditError(f"this edit and edit {other} change the same code, at line {splice.start + 1}"))
                )
        if last is None or splice.end > last.end:
            last = splice
    return errors


def _apply_splices(source: PythonSource, splices: Sequence[_Splice]) -> EditedText | RefusedEdits:
    """Apply the splices. Return the new text if it parses and has only the intended changes, or the errors."""
    parts: list[str] = []
    done, inserted_lines, went = dict[int, EditEffect](), set[int](), set[int]()
    at = 0
    for splice_index, splice in enumerate(splices):
        parts += source.lines[at : splice.start]
        if splice.gap and parts:
            _pad_blank_lines(parts, splice.gap, source.ending)
        first = len(parts) + 1
        inserted_lines.update(range(first, first + len(splice.lines)))
        went.update(range(splice.start + 1, splice.end + 1))
        done[splice.number] = EditEffect(splice.start + 1, first)
        parts += [*splice.lines, *[source.ending] * splice.behind]
        following = splices[splice_index + 1].start if splice_index + 1 < len(splices) else len(source.lines)
        at = max(at, splice.end, min(splice.wide_end, following))
    parts += source.lines[at:]
    if (
        at == len(source.lines) and splices and not splices[-1].lines
    ):  # the last statement was removed together with its gap
        while parts and not parts[-1].strip():
            parts.pop()
    text = "".join(parts)
    words = _unintended_change(source, text, went, inserted_lines)
    return RefusedEdits(tuple((number, EditError(words)) for number in done)) if words else EditedText(text, done)


def _pad_blank_lines(parts: list[str], gap: int, ending: str) -> None:
    """Add line endings to `parts` until it ends with `gap` blank lines."""
    if not parts[-1].endswith(("\n", "\r")):
        parts[-1] += ending
    has = 0
    while has < gap and has < len(parts) and not parts[-1 - has].strip():
        has += 1
    if has < len(parts):
        parts += [ending] * (gap - has)


def _unintended_change(source: PythonSource, text: str, went: set[int], inserted_lines: set[int]) -> str:
    """Return the reason why the new text is not what the edits intended, or ""."""
    try:
        after = PythonSource(text)
    except SyntaxError as error:
        return f"with these edits the file {describe_syntax_error(error)}"
    remaining, new = _dump_rest(source, went), _dump_rest(after, inserted_lines)
    return "" if remaining == new else "the new text would merge with the code next to it"


def _dump_rest(source: PythonSource, lines: set[int]) -> str:
    """Return the syntax tree of the source as a string, without the statements in these lines. The tree is modified."""
    waiting: list[ast.AST] = [source.tree]
    while waiting:
        node = waiting.pop()
        for _, value in ast.iter_fields(node):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                value[:] = [
                    statement
                    for statement in value
                    if not lines.issuperset(range(source.line_range(statement)[0], _last_line(statement) + 1))
                ]
        waiting += [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.expr)]
    return ast.dump(source.tree)


def _last_line(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno
