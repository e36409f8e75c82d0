"""Parse Python source, find its definitions, and find the statements that differ between two versions of a file.

A definition is a function, method or class with its decorators, or an assignment to one name in a module or class.
"""

from __future__ import annotations

import ast
import difflib
import io
import re
import sys
import tokenize
import warnings
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from codriver.python_syntax import parse_source
from codriver_lisp.errors import EditError, EditFailedError

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_PARSED_CHARACTERS: Final = 512 * 1024
"""Maximum length of text to parse. Parsing text of this length takes about a quarter of a second."""
_LINE_PATTERN: Final = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_INDENT_PATTERN: Final = re.compile(r"[ \t\f]*")
DEFINITION_NODES: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
"""Types of syntax nodes that define a function or class."""
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
    """A function, method, class or assignment. Lines are counted from 1, and decorators belong to the definition."""

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

    def find(self, name: str, line: int | None, *, missing: str = "") -> Definition:
        """Return the definition with this name. If there are several, `line` selects one.

        `missing` is added to the message if there is none.

        Raises:
            EditFailedError: there is no such definition, or more than one.
        """
        found = [definition for definition in self.definitions if definition.name == name]
        found = found or [assignment for assignment in self.assignments if assignment.name == name]
        if not found:
            raise EditFailedError(EditError(self._missing_message(name) + missing))
        matching = [candidate for candidate in found if line is None or candidate.first <= line <= candidate.last]
        if len(matching) == 1:
            return self._require_separate_lines(matching[0])
        line_numbers = ", ".join(str(candidate.node.lineno) for candidate in found[:MAX_NAMED_DEFINITIONS])
        if line is not None and not matching:
            raise EditFailedError(EditError(f"{name} is not defined at line {line}, but at {line_numbers}"))
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
        if isinstance(found.node, DEFINITION_NODES):
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
            if isinstance(node, DEFINITION_NODES):
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
            elif not isinstance(node, (*DEFINITION_NODES, ast.expr)):
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

    A statement is a pair of its line, not counting decorators, and its text. If only comments or layout have changed,
    None is returned instead of the statements.

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
