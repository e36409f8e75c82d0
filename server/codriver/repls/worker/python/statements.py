"""Split Python source into statements, and compare two versions of a file.

Comments and layout are ignored. A statement also counts as changed if a compound statement around it has changed, or if
it has moved relative to other statements that are not definitions. The source is parsed but never run.
"""

from __future__ import annotations

import ast
import io
import itertools

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any, Dict, Tuple

    Guard = Tuple[str, ...]

    Key = Tuple[Guard, str, str, Tuple[Tuple[str, str], ...]]

    Parts = Dict[str, str]

FUNCTION_NODES = (ast.FunctionDef, ast.AsyncFunctionDef)
BLOCK_STATEMENTS: tuple[type, ...] = (ast.If, ast.Try, ast.With, ast.AsyncWith, ast.For, ast.AsyncFor, ast.While)
"""Compound statements, whose inner statements run under some condition or in some context."""
if hasattr(ast, "TryStar"):
    BLOCK_STATEMENTS = (*BLOCK_STATEMENTS, ast.TryStar)
FUNCTION, CLASS, VALUE, IMPORT, GUARD, OTHER, DOCSTRING = (
    "function", "class", "value", "import", "guard", "other", "docstring",
)  # fmt: skip
"""Kinds of statements. A `GUARD` is a compound statement, such as `if` or `try`, without its inner statements."""
NAME, BODY, SIGNATURE, DECORATORS, BASES, AROUND = (
    "name",
    "body",
    "signature",
    "decorators",
    "bases",
    "the guard around it",
)
"""The parts in which two versions of a statement may differ."""
MAX_LINE_CHARACTERS = 60
"""Maximum number of characters in a source line that is displayed instead of a name."""
PARSE_ERRORS = (SyntaxError, ValueError, RecursionError, MemoryError)
"""Errors raised for a source that cannot be parsed."""


class Statement:
    """A statement in a source, divided into the parts that are compared.

    - `parts` contains the text of each part by its name, or the text of the whole statement under an empty name.
    - `name` is dotted for methods and nested definitions. It is the first line of a statement without a name.
    - `top` is the index of the top-level statement that contains the statement.
    """

    __slots__ = ("guard", "kind", "name", "node", "owner", "parts", "top")

    def __init__(self, kind: str, owner: str, name: str, guard: Guard, node: Any, parts: Parts, top: int) -> None:
        self.kind, self.owner, self.guard, self.node, self.parts, self.top = kind, owner, guard, node, parts, top
        self.name = owner + name

    @property
    def key(self) -> Key:
        """Return a key that is the same for equal statements."""
        return self.guard, self.owner, self.kind, tuple(sorted(self.parts.items()))


class Change:
    """A statement that differs between two sources. `old` or `new` is None if only the other source has the statement.

    `parts` are the names of the parts that differ.
    """

    __slots__ = ("new", "old", "parts")

    def __init__(self, old: Statement | None, new: Statement | None) -> None:
        self.old, self.new = old, new
        self.parts: tuple[str, ...] = () if old is None or new is None else _parts_that_differ(old, new)

    @property
    def current_statement(self) -> Statement:
        """Return the statement in the new source, or the statement in the old source if it was removed."""
        found = self.new or self.old
        assert found is not None  # noqa: S101  # a change always has a statement
        return found


class SourceText:
    """A parsed source file.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: the source cannot be parsed.
    """

    def __init__(self, data: bytes | str, file: str) -> None:
        """Parse a source. `file` is only used in error messages and need not have this content."""
        self.data = data
        self.tree: ast.Module = ast.parse(data, file)
        self.lines = io.StringIO(data if isinstance(data, str) else decode_source(data), newline=None).readlines()

    def summary(self, node: ast.AST) -> str:
        """Return the first line of a statement, truncated if it is long."""
        line = getattr(node, "lineno", 1)
        words = self.lines[line - 1].strip() if line <= len(self.lines) else ""
        return words if len(words) <= MAX_LINE_CHARACTERS else words[:MAX_LINE_CHARACTERS] + "…"

    def statement_sources(self) -> list[str]:
        """Return the text of each top-level statement, or "" for a statement that shares a line with another one."""
        spans = [line_range(node) for node in self.tree.body]
        found = []
        for number, (first, last) in enumerate(spans):
            shares = (number and spans[number - 1][1] >= first) or (
                number + 1 < len(spans) and spans[number + 1][0] <= last
            )
            found.append("" if shares else "".join(self.lines[first - 1 : last]).rstrip())
        return found

    def statements(self, shared: Iterable[str] = ()) -> list[Statement]:
        """Return all statements, outermost first.

        A top-level statement whose lines are in `shared` is not divided into parts, because it is also in the other
        source.
        """
        known = frozenset(shared)
        segments = self.statement_sources() if known else itertools.repeat("")
        found: list[Statement] = []
        for top, (node, segment) in enumerate(zip(self.tree.body, segments)):
            if segment and segment in known:
                found.append(Statement(_statement_kind(node), "", "", (), node, {"lines": segment}, top))
            else:
                doc = top == 0 and is_docstring(node)
                found += self._expand([node], "", (), top, has_doc=doc)
        return found

    def _expand(
        self, body: list[ast.stmt], scope: str, guard: Guard, top: int, *, has_doc: bool = False
    ) -> Iterator[Statement]:
        """Yield the statements in a body and those nested in them. `scope` is the dotted prefix of their names."""
        for number, node in enumerate(body):
            if number == 0 and has_doc:
                yield Statement(DOCSTRING, scope, "__doc__", guard, node, {DOCSTRING: comparable_dump(node)}, top)
            elif isinstance(node, FUNCTION_NODES):
                yield Statement(FUNCTION, scope, node.name, guard, node, _parts_of_function(node), top)
            elif isinstance(node, ast.ClassDef):
                yield Statement(CLASS, scope, node.name, guard, node, _parts_of_class(node), top)
                yield from self._expand(_without_docstring(node), scope + node.name + ".", guard, top)
            elif isinstance(node, BLOCK_STATEMENTS):
                yield from self._expand_guard(node, scope, guard, top)
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                source = comparable_dump([getattr(node, "module", None), getattr(node, "level", None)])
                for alias in node.names:
                    yield Statement(
                        IMPORT,
                        scope,
                        alias.asname or alias.name,
                        guard,
                        node,
                        {"": source + comparable_dump(alias)},
                        top,
                    )
            else:
                name = ", ".join(assigned_names(node)) or self.summary(node)
                yield Statement(_statement_kind(node), scope, name, guard, node, {"": comparable_dump(node)}, top)

    def _expand_guard(self, node: ast.stmt, scope: str, guard: Guard, top: int) -> Iterator[Statement]:
        """Yield a compound statement, such as `if` or `try`, followed by the statements inside it."""
        head, branches = type(node).__name__, []
        for field, value in ast.iter_fields(node):
            if field in ("body", "orelse", "finalbody"):
                branches.append((field, value))
            elif field == "handlers":
                branches += [
                    ("except " + comparable_dump(statement.type) + " " + str(statement.name), statement.body)
                    for statement in value
                ]
            elif field != "type_comment":
                head += "(" + comparable_dump(value) + ")"
        yield Statement(GUARD, scope, self.summary(node), guard, node, {"": head}, top)
        for branch, inner in branches:
            yield from self._expand(inner, scope, (*guard, head, branch), top)


class Comparison:
    """The differences between two sources.

    - `changes` are in the order of the new source, followed by removed statements.
    - `same` contains pairs of equal statements.
    - `moved` contains the statements in the new source whose order among the other statements has changed.
    """

    def __init__(self, changes: list[Change], same: list[tuple[Statement, Statement]], moved: list[Statement]) -> None:
        self.changes, self.same, self.moved = changes, same, moved


def compare(old: SourceText, new: SourceText) -> Comparison:
    """Compare two versions of a file."""
    shared = {*old.statement_sources()} & {*new.statement_sources()} - {""}
    before, now = old.statements(shared), new.statements(shared)
    waiting: dict[Key, list[Statement]] = {}
    for statement in before:
        waiting.setdefault(statement.key, []).append(statement)
    same: list[tuple[Statement, Statement]] = []
    added = []
    for statement in now:
        known = waiting.get(statement.key)
        if known:
            same.append((known.pop(0), statement))
        else:
            added.append(statement)
    gone = {id(statement) for ones in waiting.values() for statement in ones}
    moved = _moved_statements(
        [statement for statement in before if id(statement) not in gone], [statement for _, statement in same]
    )
    return Comparison(_pair_changes([statement for statement in before if id(statement) in gone], added), same, moved)


def difference_rows(comparison: Comparison) -> Iterator[tuple[str, str, str]]:
    """Yield the name, kind and part of each difference.

    Parts of a statement that is reported as a whole are omitted.
    """
    changes, moved = comparison.changes, comparison.moved
    whole = {
        change.current_statement.name + "."
        for change in changes
        if change.current_statement.kind == CLASS and (change.old is None or change.new is None)
    }
    has_guard = any(change.current_statement.kind == GUARD for change in changes)
    for change in changes:
        name = change.current_statement.name
        if any(name.startswith(owner) for owner in whole):
            continue
        if change.old is None:
            yield name, "missing", ""
        elif change.new is None:
            yield name, "gone", ""
        elif change.parts == (DOCSTRING,):
            yield name, DOCSTRING, ""
        elif change.parts != (AROUND,) or not has_guard:
            yield name, "edited", "" if change.parts in ((BODY,), ("",)) else ", ".join(filter(None, change.parts))
    if moved:
        yield moved[0].name or next(iter(assigned_names(moved[0].node)), "a statement"), "order", ""


def _pair_changes(gone: list[Statement], added: list[Statement]) -> list[Change]:
    """Create changes from removed and added statements. Statements with equal names are paired."""
    by_name: dict[str, list[Statement]] = {}
    for statement in gone:
        by_name.setdefault(statement.name, []).append(statement)
    changes = []
    for statement in added:
        olds = by_name.get(statement.name, [])
        old = next((other for other in olds if other.guard == statement.guard), olds[0] if olds else None)
        if old is not None:
            olds.remove(old)
        changes.append(Change(old, statement))
    left = {id(statement) for olds in by_name.values() for statement in olds}
    return [*changes, *(Change(statement, None) for statement in gone if id(statement) in left)]


def _moved_statements(before: list[Statement], now: list[Statement]) -> list[Statement]:
    """Return the statements whose position among the others has changed."""
    return [other for statement, other in zip(before, now) if statement.key != other.key]


def _parts_that_differ(old: Statement, new: Statement) -> tuple[str, ...]:
    if old.kind != new.kind:
        return ("",)
    names = {**old.parts, **new.parts}
    return tuple(name for name in names if old.parts.get(name) != new.parts.get(name)) or (AROUND,)


def _parts_of_function(node: Any) -> Parts:
    signature = comparable_dump([node.args, node.returns, *getattr(node, "type_params", [])])
    return {
        NAME: node.name,
        BODY: type(node).__name__ + comparable_dump(_without_docstring(node)),
        SIGNATURE: signature,
        DECORATORS: comparable_dump(node.decorator_list),
        DOCSTRING: _docstring_dump(node),
    }


def _parts_of_class(node: ast.ClassDef) -> Parts:
    bases = comparable_dump([*node.bases, *node.keywords, *getattr(node, "type_params", [])])
    return {
        NAME: node.name,
        BASES: bases,
        DECORATORS: comparable_dump(node.decorator_list),
        DOCSTRING: _docstring_dump(node),
    }


def comparable_dump(node: Any) -> str:
    """Convert syntax nodes to a string that is equal for equal code, ignoring positions."""
    if isinstance(node, list):
        return "[" + ", ".join(map(comparable_dump, node)) + "]"
    if not isinstance(node, ast.AST):
        return repr(node)
    try:
        return ast.dump(node, annotate_fields=False)
    except (ValueError, RecursionError):
        # The number is too large or the code is nested too deeply, so use its position instead.
        return repr([getattr(node, name, None) for name in ("lineno", "col_offset", "end_lineno", "end_col_offset")])


def is_docstring(node: ast.AST) -> bool:
    """Return whether a statement consists only of a string."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _docstring_dump(node: Any) -> str:
    return comparable_dump(node.body[0]) if node.body and is_docstring(node.body[0]) else ""


def _without_docstring(node: Any) -> list[ast.stmt]:
    body: list[ast.stmt] = node.body
    return body[1:] if _docstring_dump(node) else body


def _statement_kind(node: ast.stmt) -> str:
    if isinstance(node, FUNCTION_NODES):
        return FUNCTION
    if isinstance(node, ast.ClassDef):
        return CLASS
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return IMPORT
    if isinstance(node, (ast.Assign, ast.AnnAssign)) or type(node).__name__ == "TypeAlias":
        return VALUE
    return GUARD if isinstance(node, BLOCK_STATEMENTS) else OTHER


def assigned_names(node: ast.AST) -> list[str]:
    """Return the names, possibly dotted, that a statement itself binds. Return [] if a target is not a name."""
    if isinstance(node, (*FUNCTION_NODES, ast.ClassDef)):
        return [node.name]
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return [alias.asname or alias.name for alias in node.names]
    target_nodes: Any = getattr(node, "targets", None)
    if not isinstance(node, ast.Assign):
        single = getattr(node, "target", None) or (getattr(node, "name", None) if not target_nodes else None)
        target_nodes = [single] if isinstance(single, ast.AST) and not isinstance(node, BLOCK_STATEMENTS) else []
    found = [_dotted(statement) for target in target_nodes or () for statement in _flatten_targets(target)]
    return found if all(found) else []


def names_bound_by(node: Any) -> list[str]:
    """Return the names that a statement binds in its module, including those bound in its blocks and expressions."""
    if isinstance(node, (*FUNCTION_NODES, ast.ClassDef)):
        return [node.name]
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return [alias.asname or alias.name.partition(".")[0] for alias in node.names]
    found: dict[str, None] = {}
    waiting: list[Any] = [node]
    while waiting:
        statement = waiting.pop(0)
        if isinstance(statement, (*FUNCTION_NODES, ast.ClassDef)):
            found[statement.name] = None
        elif isinstance(statement, (ast.Import, ast.ImportFrom)):
            found.update(dict.fromkeys(names_bound_by(statement)))
        elif isinstance(statement, ast.Name) and isinstance(statement.ctx, ast.Store):
            found[statement.id] = None
        elif isinstance(statement, ast.NamedExpr):
            found[statement.target.id] = None
            waiting.append(statement.value)
        elif isinstance(statement, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            # Only the names of assignment expressions belong to the scope around a comprehension.
            named = (each for each in ast.walk(statement) if isinstance(each, ast.NamedExpr))
            found.update(dict.fromkeys(each.target.id for each in named))
        elif not isinstance(statement, ast.Lambda):
            waiting += ast.iter_child_nodes(statement)
    return list(found)


def makes_new_object(node: Any) -> bool:
    """Return whether the value of an assignment is always a new object."""
    value = getattr(node, "value", None)
    if isinstance(value, (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp, ast.BinOp)):
        return True
    return (
        isinstance(value, ast.Call)
        and isinstance(value.func, ast.Name)
        and value.func.id in ("list", "dict", "set", "sorted")
    )


def _flatten_targets(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the individual targets in an assignment target, which may be a tuple or list."""
    if isinstance(node, (ast.Tuple, ast.List)):
        for elt in node.elts:
            yield from _flatten_targets(elt)
    elif isinstance(node, ast.Starred):
        yield from _flatten_targets(node.value)
    else:
        yield node


def _dotted(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        owner = _dotted(node.value)
        return owner + "." + node.attr if owner else ""
    return ""


def imported_names(tree: ast.Module, module: str, *, is_package: bool) -> Iterator[tuple[str, str, str]]:
    """Yield the names that a module's statements import.

    Each item has the source module, the name in that module, and the local name.
    """
    waiting: list[Any] = list(tree.body)
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, ast.ImportFrom):
            owner = module.split(".")[: len(module.split(".")) - node.level + is_package] if node.level else []
            source = ".".join([*owner, *([node.module] if node.module else [])])
            for alias in node.names:
                yield source, alias.name, alias.asname or alias.name
        elif isinstance(node, (ast.If, ast.With, ast.For, ast.While)):
            waiting[:0] = [*node.body, *getattr(node, "orelse", [])]


def line_range(node: Any) -> tuple[int, int]:
    """Return the numbers of a statement's first and last lines, including decorators."""
    first = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", []))])
    return first, node.end_lineno or node.lineno


def decode_source(data: bytes) -> str:
    """Decode the content of a Python file.

    Raises:
        SyntaxError, ValueError: the encoding is unknown, or the content does not match it.
    """
    import tokenize

    encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    return io.TextIOWrapper(io.BytesIO(data), encoding).read()
