"""Edits of one Python text by its definitions, without any other change, and the statements that edits changed.

A definition is a function, method or class with its decorators, or an assignment to one name in a module or class,
known by its dotted name. The comments above a definition and behind its last statement are no part of it. New code is
indented for its place: its lines move together, while lines within its strings stay. Two states of a text are compared
by their code: the changed statements, which have to run again, the functions that changed in their bodies alone, and
whether more changed.

All edits of a text mean the text as it is before any of them. The resulting text must parse, and all statements but the
replaced and the inserted ones must be as before; else no edit is done.
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

from codriver_lisp.edit import Append, Done, Edited, Refused
from codriver_lisp.errors import EditError, EditFailedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["InsertDef", "PythonEdit", "ReplaceDef", "apply"]

TOP_GAP = 2
"""Empty lines between definitions of a module."""


@dataclass(frozen=True, slots=True)
class ReplaceDef:
    """A replacement of the definition `name` by `new`; blank, it takes the definition away.

    `line`, any line of the definition, tells it from others of the same name.
    """

    name: str
    new: str
    line: int | None = None


@dataclass(frozen=True, slots=True)
class InsertDef:
    """An insertion of `new` before or after the definition `name`, or at the end of that class; of the file if None."""

    name: str | None
    new: str
    side: Literal["before", "after", "in"] = "after"
    line: int | None = None


PythonEdit = ReplaceDef | InsertDef | Append


@dataclass(frozen=True, slots=True)
class _Splice:
    """Lines `start` to `end`, from 0 and the last excluded, that become `lines`, behind `gap` empty ones.

    `behind` is the number of empty lines added after. `wide_end` is the end of existing empty lines that may be removed
    too.
    """

    start: int
    end: int
    lines: tuple[str, ...]
    number: int
    gap: int = 0
    behind: int = 0
    wide_end: int = 0
    depth: int = 0
    """The indentation of the new lines: of several insertions at one place, the innermost is first."""


def apply(text: str, edits: Mapping[int, PythonEdit]) -> Edited | Refused:
    """Return `text` after `edits`, all of them or none. The keys are the numbers under which the caller knows them."""
    try:
        source = PythonSource(text, compiles=False)
    except SyntaxError as error:
        problem = EditError(f"the file {words_of(error)}; correct that first, as text")
        return Refused(tuple((number, problem) for number in edits))
    splices, problems = list[_Splice](), list[tuple[int, EditError]]()
    for number, edit in edits.items():
        try:
            splices.append(_splice(source, number, edit))
        except EditFailedError as error:
            problems.append((number, error.error))
    splices.sort(key=lambda one: (one.start, one.end, -one.depth))
    problems += _conflicts(splices)
    if problems:
        return Refused(tuple(sorted(problems, key=itemgetter(0))))
    return _assembled(source, splices)


def _splice(source: PythonSource, number: int, edit: PythonEdit) -> _Splice:
    piece = Piece(edit.new)
    if isinstance(edit, ReplaceDef):
        found = source.find(edit.name, edit.line)
        return _removal(source, found, number) if piece.is_blank else _replacement(source, found, piece, number)
    if piece.is_blank:
        raise EditFailedError(EditError("the new text is blank"))
    if isinstance(edit, Append) or edit.name is None:
        return _insertion(source, piece, len(source.lines), "", TOP_GAP, number)
    found = source.find(edit.name, edit.line)
    if edit.side == "in":
        return _into(source, found, piece, number)
    at = _before(source, found) if edit.side == "before" else _behind(source, found.last, found.margin)
    gap = found.gap if isinstance(found.node, _DEFINES) or piece.begins_definition else 0
    return _insertion(source, piece, at, found.margin, gap, number)


def _replacement(source: PythonSource, found: Definition, piece: Piece, number: int) -> _Splice:
    old = source.lines[found.last - 1]
    end = old[len(old.rstrip("\r\n")) :]
    if not isinstance(found.node, _DEFINES) and not piece.ends_in_comment:
        end = _comment_behind(source, found) + end
    new = lines_of(piece.at(found.margin, source.step, source.ending) + end)
    return _Splice(found.first - 1, found.last, tuple(new), number)


def _comment_behind(source: PythonSource, found: Definition) -> str:
    """The comment on the last line of an assignment, with the spaces before it; empty without one."""
    line = source.lines[found.last - 1].encode()[found.node.end_col_offset :].decode().rstrip("\r\n")
    return line if line.lstrip().startswith("#") else ""


def _removal(source: PythonSource, found: Definition, number: int) -> _Splice:
    """The splice that takes a definition away, with the empty lines behind it if empty lines stand before it."""
    end = found.last
    while end < len(source.lines) and not source.lines[end].strip():
        end += 1
    has_gap = found.first == 1 or not source.lines[found.first - 2].strip()
    return _Splice(found.first - 1, found.last, (), number, wide_end=end if has_gap else found.last)


def _into(source: PythonSource, found: Definition, piece: Piece, number: int) -> _Splice:
    if not isinstance(found.node, ast.ClassDef):
        kind = "a function" if isinstance(found.node, _DEFINES) else "an assignment"
        words = f"{found.name} is {kind}: side in is for a class; replace the {kind.partition(' ')[2]} whole"
        raise EditFailedError(EditError(words))
    body = found.node.body
    margin = margin_of(source.lines[source.span(body[0])[0] - 1])
    if body[0].lineno == found.node.lineno or len(margin) <= len(found.margin):
        raise EditFailedError(EditError(f"the body of {found.name} stands on the line of its head: replace the class"))
    at = _behind(source, found.last, margin)
    return _insertion(source, piece, at, margin, 1, number)


def _before(source: PythonSource, found: Definition) -> int:
    """Return the beginning of the comments that stand directly above a definition."""
    at = found.first - 1
    while at and source.lines[at - 1].startswith(f"{found.margin}#"):
        at -= 1
    return at


def _behind(source: PythonSource, last: int, margin: str) -> int:
    """Return the end of the comments that follow a definition and are indented as its body is."""
    at = last
    while at < len(source.lines) and (line := source.lines[at]).lstrip().startswith("#"):
        if len(margin_of(line)) <= len(margin):
            break
        at += 1
    return at


def _insertion(source: PythonSource, piece: Piece, at: int, margin: str, gap: int, number: int) -> _Splice:
    """The splice that puts a piece between lines, with empty lines added on both sides as far as they are missing."""
    lines = source.lines
    text = lines_of(piece.at(margin, source.step, source.ending) + source.ending)
    above = next((line for line in reversed(lines[:at]) if line.strip()), None)
    is_opened = above is None or len(margin_of(above)) < len(margin)  # opened by the head of the block around it
    behind = gap if at < len(lines) and lines[at].strip() else 0
    return _Splice(at, at, tuple(text), number, 0 if is_opened else gap, behind, at, len(margin))


def _conflicts(splices: Sequence[_Splice]) -> list[tuple[int, EditError]]:
    problems = list[tuple[int, EditError]]()
    last: _Splice | None = None
    for one in splices:
        if last is not None and one.start < last.end:
            for number, other in ((last.number, one.number), (one.number, last.number)):
                problems.append(
                    (number, EditError(f"it changes the same code as edit {other}, at line {one.start + 1}"))
                )
        if last is None or one.end > last.end:
            last = one
    return problems


def _assembled(source: PythonSource, splices: Sequence[_Splice]) -> Edited | Refused:
    """Return the text with all splices, if it parses and holds the intended code."""
    parts: list[str] = []
    done, came, went = dict[int, Done](), set[int](), set[int]()
    at = 0
    for place, one in enumerate(splices):
        parts += source.lines[at : one.start]
        if one.gap and parts:
            _part(parts, one.gap, source.ending)
        first = len(parts) + 1
        came.update(range(first, first + len(one.lines)))
        went.update(range(one.start + 1, one.end + 1))
        done[one.number] = Done(one.start + 1, first)
        parts += [*one.lines, *[source.ending] * one.behind]
        following = splices[place + 1].start if place + 1 < len(splices) else len(source.lines)
        at = max(at, one.end, min(one.wide_end, following))
    parts += source.lines[at:]
    if at == len(source.lines) and splices and not splices[-1].lines:  # the last statement is gone, and its gap with it
        while parts and not parts[-1].strip():
            parts.pop()
    text = "".join(parts)
    words = _fault(source, text, went, came)
    return Refused(tuple((number, EditError(words)) for number in done)) if words else Edited(text, done)


def _part(parts: list[str], gap: int, ending: str) -> None:
    """Make the lines end with so many empty ones."""
    if not parts[-1].endswith(("\n", "\r")):
        parts[-1] += ending
    has = 0
    while has < gap and has < len(parts) and not parts[-1 - has].strip():
        has += 1
    if has < len(parts):
        parts += [ending] * (gap - has)


def _fault(source: PythonSource, text: str, went: set[int], came: set[int]) -> str:
    """Return the reason why a text is not the one that the edits mean; empty if it is."""
    try:
        after = PythonSource(text)
    except SyntaxError as error:
        return f"with these edits the file {words_of(error)}"
    kept, new = _rest(source, went), _rest(after, came)
    return "" if kept == new else "the new text would run into the code beside it"


def _rest(source: PythonSource, lines: set[int]) -> str:
    """Return the tree of a text without the statements in these lines, written out. The tree is changed."""
    waiting: list[ast.AST] = [source.tree]
    while waiting:
        node = waiting.pop()
        for _, held in ast.iter_fields(node):
            if isinstance(held, list) and held and isinstance(held[0], ast.stmt):
                held[:] = [one for one in held if not lines.issuperset(range(source.span(one)[0], _last(one) + 1))]
        waiting += [one for one in ast.iter_child_nodes(node) if not isinstance(one, ast.expr)]
    return ast.dump(source.tree)


def _last(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno


_SILENT = frozenset({token.INDENT, token.DEDENT, tokenize.NL, tokenize.COMMENT, token.NEWLINE})


class Piece:
    """A piece of Python, given with any margin.

    Raises:
        ProblemError: the piece does not parse.
    """

    def __init__(self, code: str) -> None:
        text = code.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").rstrip()
        lines = text.split("\n")
        while lines and not lines[0].strip():
            lines.pop(0)
        self._rows = lines
        self._margin = margin_of(lines[0]) if lines else ""
        self._starts: set[int] = set()
        self._fixed: set[int] = set()
        self._step = ""
        self.ends_in_comment = False
        """Whether a comment stands on the last row."""
        if lines:
            self._look()
            self._check()

    @property
    def is_blank(self) -> bool:
        """Return whether the chunk is empty."""
        return not self._rows

    @property
    def begins_definition(self) -> bool:
        """Whether the piece begins with a function or class, or with a comment or decorator of one."""
        return self._rows[0].lstrip().startswith(("def ", "class ", "async ", "@", "#"))

    def at(self, margin: str, step: str, ending: str) -> str:
        """The piece with its first line at `margin`, its levels by `step` apart, without an end to its last line."""
        step = step if step and self._step else ""
        shown: list[str] = []
        before = after = ""
        for number, row in enumerate(self._rows, 1):
            if number in self._fixed:
                shown.append(row)
                continue
            if not row.strip():
                shown.append("")
                continue
            rest = row[len(self._margin) :] if row.startswith(self._margin) else row.lstrip()
            inner = margin_of(rest)
            if number in self._starts:
                before, after = inner, self._levels(inner, step)
                inner = after
            elif inner.startswith(before):
                inner = after + inner[len(before) :]
            shown.append(margin + inner + rest.lstrip(" \t\f"))
        return ending.join(shown)

    def _levels(self, margin: str, step: str) -> str:
        """Return a margin in steps of another length."""
        if not step or step == self._step:
            return margin
        count = 0
        while margin.startswith(self._step):
            margin, count = margin[len(self._step) :], count + 1
        return step * count + margin

    def _look(self) -> None:
        """Find the rows that begin a statement, and the rows within a string, which must stay as they are."""
        text = "\n".join(self._rows) + "\n"
        try:
            tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
        except (tokenize.TokenError, SyntaxError):
            return  # the parser describes the error better
        opened: list[int] = []
        is_start, is_first = True, True
        for one in tokens:
            kind = token.tok_name[one.type]
            if one.type == token.INDENT:
                is_first = True
                if not self._step and one.start[0] > 1:
                    self._step = one.string.removeprefix(self._margin)
            if kind.endswith("STRING_START"):
                opened.append(one.start[0])
            elif kind.endswith("STRING_END"):
                self._fixed.update(range(opened.pop() + 1, one.end[0] + 1))
            elif one.type == token.STRING and not (is_start and is_first):
                self._fixed.update(range(one.start[0] + 1, one.end[0] + 1))
            if one.type == tokenize.COMMENT:
                self.ends_in_comment = one.start[0] == len(self._rows)
                if is_start:
                    self._starts.add(one.start[0])
            if one.type in _SILENT:
                is_start = is_start or one.type == token.NEWLINE
            elif is_start:
                self._starts.add(one.start[0])
                is_start = is_first = False

    def _check(self) -> None:
        try:
            parsed(self.at("", "", "\n"), compiles=False)
        except SyntaxError as error:
            raise EditFailedError(EditError(f"the new text {words_of(error)}")) from error


_LINE: Final = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_MARGIN: Final = re.compile(r"[ \t\f]*")
_DEFINES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
MAX_NAMED: Final = 8
"""Definitions or lines that a refusal names."""

_Assignment = ast.Assign | ast.AnnAssign
Definer = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | _Assignment


def margin_of(line: str) -> str:
    """Return the white space that a line begins with."""
    found = _MARGIN.match(line)
    return found[0] if found else ""


def lines_of(text: str) -> list[str]:
    """Return the lines of a text with their ends, as Python counts them: no other character ends one."""
    return _LINE.findall(text)


def parsed(text: str, *, compiles: bool = True) -> ast.Module:
    """Return the syntax tree of a text that, unless it is a chunk of one, compiles as a module.

    Raises:
        SyntaxError: the text does not compile; a parser's error of another type is raised as this one.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings concern the user's code, and are no reason to refuse it
            tree = ast.parse(text)
            if compiles:
                compile(tree, "<edited>", "exec", dont_inherit=True)
    except (ValueError, RecursionError, MemoryError) as error:
        words = "it holds a null character" if isinstance(error, ValueError) else "it is nested too deep to be read"
        raise SyntaxError(words) from error
    return tree


def words_of(error: SyntaxError) -> str:
    """The reason why a text does not parse, with the line and the Python version, as a newer one may know more."""
    at = "" if error.lineno is None else f" at line {error.lineno}"
    shown = f": {error.text.strip()[:200]}" if error.text and error.text.strip() else ""
    return f"does not parse{at} (Python {sys.version_info[0]}.{sys.version_info[1]}: {error.msg}){shown}"


@dataclass(frozen=True, slots=True)
class Definition:
    """A function, method, class or assignment: its first line or first decorator's, and its last, counted from 1."""

    name: str
    node: Definer
    first: int
    last: int
    margin: str

    @property
    def gap(self) -> int:
        """Return the empty lines between the definition and another next to it."""
        return 1 if self.margin else 2


class PythonSource:
    """A Python text that parses and, unless told otherwise, compiles; else `SyntaxError` is raised."""

    def __init__(self, text: str, *, compiles: bool = True) -> None:
        self.text = text
        self.lines = lines_of(text)
        self.tree = parsed(text, compiles=compiles)

    @cached_property
    def definitions(self) -> tuple[Definition, ...]:
        """Return all definitions in order, also those in branches and within other definitions."""
        return tuple(self._within(self.tree, ""))

    @cached_property
    def assignments(self) -> tuple[Definition, ...]:
        """All assignments to one name in the module and its classes, in order, also those in branches."""
        return tuple(self._assignments_within(self.tree, ""))

    @property
    def ending(self) -> str:
        """Return the line ending of the text: that of its first line."""
        first = self.lines[0] if self.lines else ""
        return first[len(first.rstrip("\r\n")) :] or "\n"

    @cached_property
    def step(self) -> str:
        """One level of indentation, as in the first body deeper than its statement; empty without such a body."""
        for node in ast.walk(self.tree):
            body = getattr(node, "body", None)
            if isinstance(node, ast.stmt) and isinstance(body, list) and body:
                outer = margin_of(self.lines[node.lineno - 1])
                inner = margin_of(self.lines[body[0].lineno - 1])
                if inner.startswith(outer) and inner != outer:
                    return inner[len(outer) :]
        return ""

    def find(self, name: str, line: int | None) -> Definition:
        """Return the definition of that name; `line` tells which of several is meant.

        Raises:
            ProblemError: the text has no such definition, or several.
        """
        found = [one for one in self.definitions if one.name == name]
        found = found or [one for one in self.assignments if one.name == name]
        if not found:
            raise EditFailedError(EditError(self._none(name)))
        meant = [one for one in found if line is None or one.first <= line <= one.last]
        if len(meant) == 1:
            return self._alone(meant[0])
        places = ", ".join(str(one.node.lineno) for one in found[:MAX_NAMED])
        if line is not None and not meant:
            raise EditFailedError(EditError(f"{name} is not defined at line {line}; it is at {places}"))
        raise EditFailedError(EditError(f"{name} is defined more than once, at lines {places}: say which by line"))

    def _none(self, name: str) -> str:
        """Return the message that the definition is missing; for a name bound otherwise, the way to edit it."""
        if any(name in _names_bound(node) for node in ast.walk(self.tree)):
            return f"{name} is no function, class or simple assignment: replace its text, by oldText and newText"
        return f"there is no definition {name}{self._near(name)}"

    def _alone(self, found: Definition) -> Definition:
        """The definition, if no other statement shares its lines.

        Raises:
            EditFailedError: another statement does.
        """
        if isinstance(found.node, _DEFINES):
            return found
        before = self.lines[found.first - 1].encode()[: found.node.col_offset].decode()
        behind = self.lines[found.last - 1].encode()[found.node.end_col_offset :].decode().strip()
        if before.strip() or (behind and not behind.startswith("#")):
            words = f"{found.name} shares line {found.first} with other code: replace its text, by oldText and newText"
            raise EditFailedError(EditError(words))
        return found

    def _near(self, name: str) -> str:
        names = list(dict.fromkeys(one.name for one in (*self.definitions, *self.assignments)))
        last = name.rpartition(".")[2]
        near = [one for one in names if one.rpartition(".")[2] == last] or difflib.get_close_matches(name, names)
        shown = near or names
        return f"; there is {', '.join(shown[:MAX_NAMED])}" if shown else "; the file defines none"

    def _within(self, owner: ast.AST, prefix: str) -> Iterator[Definition]:
        for node in ast.iter_child_nodes(owner):
            if isinstance(node, _DEFINES):
                name = prefix + node.name
                first, last = self.span(node)
                yield Definition(name, node, first, last, margin_of(self.lines[first - 1]))
                yield from self._within(node, f"{name}.")
            elif not isinstance(node, ast.expr):
                yield from self._within(node, prefix)

    def _assignments_within(self, owner: ast.AST, prefix: str) -> Iterator[Definition]:
        for node in ast.iter_child_nodes(owner):
            if isinstance(node, ast.ClassDef):
                yield from self._assignments_within(node, f"{prefix}{node.name}.")
            elif isinstance(node, _Assignment):
                if name := _only_name(node):
                    first, last = self.span(node)
                    yield Definition(prefix + name, node, first, last, margin_of(self.lines[first - 1]))
            elif not isinstance(node, (*_DEFINES, ast.expr)):
                yield from self._assignments_within(node, prefix)

    def span(self, node: ast.stmt) -> tuple[int, int]:
        """Return the first line of a statement with its decorators, and its last one."""
        first = node.lineno
        for decorator in getattr(node, "decorator_list", ()):
            first = min(first, decorator.lineno)
            while first > 1 and not self.lines[first - 1].lstrip().startswith("@"):
                first -= 1  # the `@` stands before the bracket around the decorator
        return first, node.end_lineno or node.lineno


def _only_name(node: _Assignment) -> str:
    """The name that an assignment binds, if it binds one name and nothing else."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return targets[0].id if len(targets) == 1 and isinstance(targets[0], ast.Name) else ""


def _names_bound(node: ast.AST) -> tuple[str, ...]:
    """Return the name that a node of an assignment or import binds."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return (node.id,)
    return (node.asname or node.name.partition(".")[0],) if isinstance(node, ast.alias) else ()


def changed_statements(before: bytes, after: bytes) -> tuple[str, tuple[tuple[int, str], ...] | None]:
    """Return the present text of a file, and its top-level statements that are new.

    Each statement has its line, behind any decorators, and its text. Comments and layout do not count; None if nothing
    else changed.

    Raises:
        SyntaxError, ValueError: the file cannot be read.
    """
    text = decoded(after)
    source = PythonSource(text, compiles=False)
    now = [ast.dump(node) for node in source.tree.body]
    was = _dumped(before)
    if was == now:
        return text, None
    left = Counter(was)
    found = []
    for node, dumped in zip(source.tree.body, now, strict=True):
        left[dumped] -= 1
        if left[dumped] < 0:
            first, last = source.span(node)
            found.append((node.lineno, "".join(source.lines[first - 1 : last])))
    return text, tuple(found)


def imported_names(text: str) -> Iterator[str]:
    """Yield the last parts of the modules that a text may import, at any place."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from (alias.name.rpartition(".")[2] for alias in node.names)
            if isinstance(node, ast.ImportFrom) and node.module:
                yield node.module.rpartition(".")[2]


def decoded(data: bytes) -> str:
    """Return the text of a Python file in its declared encoding, without the byte order mark."""
    encoding = tokenize.detect_encoding(io.BytesIO(data).readline)[0]
    return data.decode(encoding)


def _dumped(data: bytes) -> list[str]:
    """Return the statements that a file had; none for an unreadable file."""
    try:
        return [ast.dump(node) for node in PythonSource(decoded(data), compiles=False).tree.body]
    except (SyntaxError, ValueError):
        return []


Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class ChangedFunctions:
    """The functions, by qualified name, whose code changed. `is_more`: code outside of functions changed too."""

    names: tuple[str, ...]
    is_more: bool


def changed_functions(before: bytes, after: bytes) -> ChangedFunctions:
    """The functions that differ between two texts of a file; a text that cannot be read differs in all."""
    try:
        old, new = ast.parse(decoded(before)), ast.parse(decoded(after))
    except (SyntaxError, ValueError):
        return ChangedFunctions((), is_more=True)
    was, now = dict(_bodies(old.body, "")), dict(_bodies(new.body, ""))
    names = tuple(name for name, body in was.items() if name in now and now[name] != body)
    return ChangedFunctions(names, _around(old) != _around(new))


def _bodies(statements: Sequence[ast.stmt], owner: str) -> Iterator[tuple[str, str]]:
    """The qualified name and the body of each function, outside of functions; the last of those with one name."""
    for node in statements:
        if isinstance(node, Function):
            yield owner + node.name, "".join(map(ast.dump, node.body))
        elif isinstance(node, ast.ClassDef):
            yield from _bodies(node.body, f"{owner}{node.name}.")
        else:
            for inner in ("body", "orelse", "finalbody"):
                yield from _bodies(getattr(node, inner, []), owner)


def _around(tree: ast.Module) -> str:
    """Return the code that runs when a file is loaded: the text without the bodies of functions."""

    class Emptied(ast.NodeTransformer):
        def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:  # the name that `NodeTransformer` calls
            return self._emptied(node)

        def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:  # as above
            return self._emptied(node)

        @staticmethod
        def _emptied(node: Function) -> Function:
            node.body = [ast.Pass()]
            return node

    return ast.dump(Emptied().visit(tree))
