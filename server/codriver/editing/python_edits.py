"""Replace and insert definitions in Python code, leaving everything else unchanged.

A definition is a function, method or class with its decorators, or an assignment to one name in a module or class,
identified by its dotted name. Comments above it and after its last statement do not belong to it. New code is indented
to fit: its lines move together, while lines inside strings stay. Comparing two versions of the code yields the changed
statements, which have to run again, the functions of which only the body changed, and whether anything else changed.

All edits refer to the original source, before any of them is applied. The resulting source must parse, and all
statements except the replaced and inserted ones must be as before. Otherwise no edit is applied.
"""

from __future__ import annotations

import ast
import difflib
import io
import re
import sys
import token
import tokenize
import warnings
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, Final, Literal

from codriver.python_syntax import parse_source
from codriver_lisp.edit import Append, EditedText, EditEffect, RefusedEdits
from codriver_lisp.errors import EditError, EditFailedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["InsertDef", "PythonEdit", "ReplaceDef", "apply_python_edits"]

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
    found = source.find(edit.name, edit.line)
    if edit.side == "in":
        return _append_to_class(source, found, code, number)
    at = _comment_start(source, found) if edit.side == "before" else _comment_end(source, found.last, found.margin)
    gap = (
        found.separating_blank_lines if isinstance(found.node, _DEFINITION_NODES) or code.starts_with_definition else 0
    )
    return _insertion(source, code, at, found.margin, gap, number)


def _replacement(source: PythonSource, found: Definition, code: CodeFragment, number: int) -> _Splice:
    old = source.lines[found.last - 1]
    end = old[len(old.rstrip("\r\n")) :]
    if not isinstance(found.node, _DEFINITION_NODES) and not code.ends_in_comment:
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
        kind = "a function" if isinstance(found.node, _DEFINITION_NODES) else "an assignment"
        words = (
            f"{found.name} is {kind}, and `side: in` is only for classes. Replace the whole {kind.partition(' ')[2]}"
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


_LAYOUT_TOKENS = frozenset({token.INDENT, token.DEDENT, tokenize.NL, tokenize.COMMENT, token.NEWLINE})
"""Tokens that do not affect the meaning of code."""


class CodeFragment:
    """Python code with any indentation, as it is passed to an edit.

    Raises:
        EditFailedError: the code cannot be parsed.
    """

    def __init__(self, code: str) -> None:
        text = code.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").rstrip()
        lines = text.split("\n")
        while lines and not lines[0].strip():
            lines.pop(0)
        self._rows = lines
        self._margin = leading_whitespace(lines[0]) if lines else ""
        self._starts: set[int] = set()
        self._fixed: set[int] = set()
        self._step = ""
        self.ends_in_comment = False
        """Whether the last line is a comment."""
        if lines:
            self._find_statement_lines()
            self._check()

    @property
    def is_blank(self) -> bool:
        """Return whether the code is blank."""
        return not self._rows

    @property
    def starts_with_definition(self) -> bool:
        """Return whether the code starts with a function, a class, a decorator or a comment."""
        return self._rows[0].lstrip().startswith(("def ", "class ", "async ", "@", "#"))

    def reindent(self, margin: str, step: str, ending: str) -> str:
        """Return the code with the indentation `margin`, and with each level indented by `step`.

        The last line has no line ending.
        """
        step = step if step and self._step else ""
        formatted: list[str] = []
        before = after = ""
        for number, row in enumerate(self._rows, 1):
            if number in self._fixed:
                formatted.append(row)
                continue
            if not row.strip():
                formatted.append("")
                continue
            rest = row[len(self._margin) :] if row.startswith(self._margin) else row.lstrip()
            inner = leading_whitespace(rest)
            if number in self._starts:
                before, after = inner, self._convert_indentation(inner, step)
                inner = after
            elif inner.startswith(before):
                inner = after + inner[len(before) :]
            formatted.append(margin + inner + rest.lstrip(" \t\f"))
        return ending.join(formatted)

    def _convert_indentation(self, margin: str, step: str) -> str:
        """Convert the indentation of a line to steps of a different length."""
        if not step or step == self._step:
            return margin
        count = 0
        while margin.startswith(self._step):
            margin, count = margin[len(self._step) :], count + 1
        return step * count + margin

    def _find_statement_lines(self) -> None:
        """Find the lines where a statement starts, and the lines inside a string, which must not be changed."""
        text = "\n".join(self._rows) + "\n"
        try:
            tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
        except (tokenize.TokenError, SyntaxError):
            return  # the parser describes the error better
        opened: list[int] = []
        is_start, is_first = True, True
        for item in tokens:
            kind = token.tok_name[item.type]
            if item.type == token.INDENT:
                is_first = True
                if not self._step and item.start[0] > 1:
                    self._step = item.string.removeprefix(self._margin)
            if kind.endswith("STRING_START"):
                opened.append(item.start[0])
            elif kind.endswith("STRING_END"):
                self._fixed.update(range(opened.pop() + 1, item.end[0] + 1))
            elif item.type == token.STRING and not (is_start and is_first):
                self._fixed.update(range(item.start[0] + 1, item.end[0] + 1))
            if item.type == tokenize.COMMENT:
                self.ends_in_comment = item.start[0] == len(self._rows)
                if is_start:
                    self._starts.add(item.start[0])
            if item.type in _LAYOUT_TOKENS:
                is_start = is_start or item.type == token.NEWLINE
            elif is_start:
                self._starts.add(item.start[0])
                is_start = is_first = False

    def _check(self) -> None:
        try:
            parse_python(self.reindent("", "", "\n"), compiles=False)
        except SyntaxError as error:
            raise EditFailedError(EditError(f"the new text {describe_syntax_error(error)}")) from error


MAX_PARSED_CHARACTERS: Final = 512 * 1024
"""Maximum length of text to parse. Parsing text of this length takes about a quarter of a second."""
_LINE_PATTERN: Final = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_INDENT_PATTERN: Final = re.compile(r"[ \t\f]*")
_DEFINITION_NODES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
MAX_NAMED_DEFINITIONS: Final = 8
"""Maximum number of definitions, or of their lines, that a refusal lists."""

_Assignment = ast.Assign | ast.AnnAssign
Definer = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | _Assignment


def leading_whitespace(line: str) -> str:
    """Return the whitespace at the start of a line."""
    found = _INDENT_PATTERN.match(line)
    return found[0] if found else ""


def split_lines(text: str) -> list[str]:
    """Split a string into lines with their line endings, in the same way as Python's parser."""
    return _LINE_PATTERN.findall(text)


class TooLongError(SyntaxError):
    """Raised when source code is too long to parse. Parsing blocks all other threads, so its length is limited."""

    def __init__(self, text: str) -> None:
        super().__init__(f"the text has {len(text):,} characters, but at most {MAX_PARSED_CHARACTERS:,} are parsed")


def parse_python(text: str, *, compiles: bool = True) -> ast.Module:
    """Parse Python code. With `compiles`, it must also compile as a module.

    Raises:
        TooLongError: the text is longer than `MAX_PARSED_CHARACTERS`.
        SyntaxError: the text cannot be parsed or compiled. Other errors from the parser are converted to this one.
    """
    if len(text) > MAX_PARSED_CHARACTERS:
        raise TooLongError(text)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings are no reason to refuse code
            tree = parse_source(text)
            if compiles:
                compile(tree, "<edited>", "exec", dont_inherit=True)
    except (ValueError, RecursionError, MemoryError) as error:
        words = (
            "the text contains a null character" if isinstance(error, ValueError) else "the text is nested too deeply"
        )
        raise SyntaxError(words) from error
    return tree


def describe_syntax_error(error: SyntaxError) -> str:
    """Return a message about a syntax error, with its line and the Python version.

    The version matters because a newer Python may accept the code.
    """
    if isinstance(error, TooLongError):
        return f"is too long: {error.msg}"
    at = "" if error.lineno is None else f" at line {error.lineno}"
    excerpt = f": {error.text.strip()[:200]}" if error.text and error.text.strip() else ""
    return f"does not parse{at} (Python {sys.version_info[0]}.{sys.version_info[1]}: {error.msg}){excerpt}"


@dataclass(frozen=True, slots=True)
class Definition:
    """A function, method, class or assignment. The lines count from 1, and decorators belong to the definition."""

    name: str
    node: Definer
    first: int
    last: int
    margin: str

    @property
    def separating_blank_lines(self) -> int:
        """Return the number of blank lines that usually separate the definition from others next to it."""
        return 1 if self.margin else 2


class PythonSource:
    """Python code with its definitions.

    The constructor raises `SyntaxError` if the code cannot be parsed, or with `compiles` cannot be compiled.
    """

    def __init__(self, text: str, *, compiles: bool = True) -> None:
        self.text = text
        self.lines = split_lines(text)
        self.tree = parse_python(text, compiles=compiles)

    @cached_property
    def definitions(self) -> tuple[Definition, ...]:
        """Return all definitions in order, including those nested in other statements."""
        return tuple(self._find_definitions(self.tree, ""))

    @cached_property
    def assignments(self) -> tuple[Definition, ...]:
        """Return all assignments to a single name in the module and its classes, in order, even in branches."""
        return tuple(self._find_assignments(self.tree, ""))

    @property
    def ending(self) -> str:
        """Return the line ending of the first line."""
        first = self.lines[0] if self.lines else ""
        return first[len(first.rstrip("\r\n")) :] or "\n"

    @cached_property
    def indentation(self) -> str:
        """Return one level of indentation as used in the code, or "" if nothing is indented."""
        for node in ast.walk(self.tree):
            body = getattr(node, "body", None)
            if isinstance(node, ast.stmt) and isinstance(body, list) and body:
                outer = leading_whitespace(self.lines[node.lineno - 1])
                inner = leading_whitespace(self.lines[body[0].lineno - 1])
                if inner.startswith(outer) and inner != outer:
                    return inner[len(outer) :]
        return ""

    def find(self, name: str, line: int | None) -> Definition:
        """Return the definition with this name. If there are several, `line` selects one.

        Raises:
            EditFailedError: there is no such definition, or more than one.
        """
        found = [definition for definition in self.definitions if definition.name == name]
        found = found or [assignment for assignment in self.assignments if assignment.name == name]
        if not found:
            raise EditFailedError(EditError(self._missing_message(name)))
        matching = [candidate for candidate in found if line is None or candidate.first <= line <= candidate.last]
        if len(matching) == 1:
            return self._require_separate_lines(matching[0])
        line_numbers = ", ".join(str(candidate.node.lineno) for candidate in found[:MAX_NAMED_DEFINITIONS])
        if line is not None and not matching:
            raise EditFailedError(EditError(f"{name} is not defined at line {line}; it is at {line_numbers}"))
        raise EditFailedError(
            EditError(f"{name} is defined more than once, at lines {line_numbers}. Pass line to select one")
        )

    def _missing_message(self, name: str) -> str:
        """Return a message about a missing definition, or about how to edit a name that is bound in another way."""
        if any(name in _bound_names(node) for node in ast.walk(self.tree)):
            return f"{name} is not a function, class or simple assignment. Replace its text with oldText and newText"
        return f"there is no definition named {name}{self._similar_names(name)}"

    def _require_separate_lines(self, found: Definition) -> Definition:
        """Return a definition unchanged, after checking that no other statement is on its lines.

        Raises:
            EditFailedError: another statement is on one of the lines.
        """
        if isinstance(found.node, _DEFINITION_NODES):
            return found
        before = self.lines[found.first - 1].encode()[: found.node.col_offset].decode()
        behind = self.lines[found.last - 1].encode()[found.node.end_col_offset :].decode().strip()
        if before.strip() or (behind and not behind.startswith("#")):
            words = f"{found.name} shares line {found.first} with other code. Replace its text with oldText and newText"
            raise EditFailedError(EditError(words))
        return found

    def _similar_names(self, name: str) -> str:
        names = list(dict.fromkeys(definition.name for definition in (*self.definitions, *self.assignments)))
        last = name.rpartition(".")[2]
        near = [other for other in names if other.rpartition(".")[2] == last] or difflib.get_close_matches(name, names)
        candidates = near or names
        return (
            f"; there is {', '.join(candidates[:MAX_NAMED_DEFINITIONS])}"
            if candidates
            else "; the file has no definitions"
        )

    def _find_definitions(self, owner: ast.AST, prefix: str) -> Iterator[Definition]:
        for node in ast.iter_child_nodes(owner):
            if isinstance(node, _DEFINITION_NODES):
                name = prefix + node.name
                first, last = self.line_range(node)
                yield Definition(name, node, first, last, leading_whitespace(self.lines[first - 1]))
                yield from self._find_definitions(node, f"{name}.")
            elif not isinstance(node, ast.expr):
                yield from self._find_definitions(node, prefix)

    def _find_assignments(self, owner: ast.AST, prefix: str) -> Iterator[Definition]:
        for node in ast.iter_child_nodes(owner):
            if isinstance(node, ast.ClassDef):
                yield from self._find_assignments(node, f"{prefix}{node.name}.")
            elif isinstance(node, _Assignment):
                if name := _assigned_name(node):
                    first, last = self.line_range(node)
                    yield Definition(prefix + name, node, first, last, leading_whitespace(self.lines[first - 1]))
            elif not isinstance(node, (*_DEFINITION_NODES, ast.expr)):
                yield from self._find_assignments(node, prefix)

    def line_range(self, node: ast.stmt) -> tuple[int, int]:
        """Return the first and the last line of a statement, including its decorators."""
        first = node.lineno
        for decorator in getattr(node, "decorator_list", ()):
            first = min(first, decorator.lineno)
            while first > 1 and not self.lines[first - 1].lstrip().startswith("@"):
                first -= 1  # the `@` precedes the bracket around the decorator
        return first, node.end_lineno or node.lineno


def _assigned_name(node: _Assignment) -> str:
    """Return the name that an assignment binds, or "" if it binds anything else."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return targets[0].id if len(targets) == 1 and isinstance(targets[0], ast.Name) else ""


def _bound_names(node: ast.AST) -> tuple[str, ...]:
    """Return the names that a part of an assignment or import binds."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return (node.id,)
    return (node.asname or node.name.partition(".")[0],) if isinstance(node, ast.alias) else ()


def changed_statements(before: bytes, after: bytes) -> tuple[str, tuple[tuple[int, str], ...] | None]:
    """Return the current text of a file, and the top-level statements that are new in it.

    Each statement has its line, after any decorators, and its text. Instead of an empty tuple, None is returned if only
    comments or layout changed.

    Raises:
        SyntaxError, ValueError: the file cannot be parsed.
    """
    text = decode_python(after)
    source = PythonSource(text, compiles=False)
    now = [ast.dump(node) for node in source.tree.body]
    was = _dump_statements(before)
    if was == now:
        return text, None
    left = Counter(was)
    found = []
    for node, dumped in zip(source.tree.body, now, strict=True):
        left[dumped] -= 1
        if left[dumped] < 0:
            first, last = source.line_range(node)
            found.append((node.lineno, "".join(source.lines[first - 1 : last])))
    return text, tuple(found)


def imported_names(text: str) -> Iterator[str]:
    """Yield the last component of each module that code may import, at any position."""
    for node in ast.walk(parse_python(text, compiles=False)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from (alias.name.rpartition(".")[2] for alias in node.names)
            if isinstance(node, ast.ImportFrom) and node.module:
                yield node.module.rpartition(".")[2]


def decode_python(data: bytes) -> str:
    """Decode a Python file in its declared encoding, without the byte order mark."""
    encoding = tokenize.detect_encoding(io.BytesIO(data).readline)[0]
    return data.decode(encoding)


def _dump_statements(data: bytes) -> list[str]:
    """Return the top-level statements of a file as strings, or [] if the file cannot be parsed."""
    try:
        return [ast.dump(node) for node in PythonSource(decode_python(data), compiles=False).tree.body]
    except (SyntaxError, ValueError):
        return []
