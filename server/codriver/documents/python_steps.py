"""Steps of Python code, by its syntax tree."""

from __future__ import annotations

import ast
import symtable
import warnings
from typing import TYPE_CHECKING

from codriver.documents.steps import Step

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codriver.documents.steps import Role

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_CONSTANTS = (ast.Constant, ast.Tuple, ast.UnaryOp, ast.BinOp)


def python_steps(code: str) -> tuple[Step, ...] | None:
    """The statements of `code`, comments before each among them; None for code that is no Python of ours."""
    # As Python reads it: of all characters that separate lines elsewhere, these alone end one.
    code = code.replace("\r\n", "\n").replace("\r", "\n")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            body = ast.parse(code).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    lines = code.split("\n")
    return tuple(_step(node, _text(node, lines)) for node in body)


def _text(node: ast.stmt, lines: list[str]) -> str:
    """The source of a statement, its decorators among it, and the comments right above it."""
    decorators = [decorator.lineno for decorator in getattr(node, "decorator_list", ())]
    first = min([node.lineno, *decorators])
    begin = 0 if decorators else node.col_offset
    end_line, end = node.end_lineno or node.lineno, node.end_col_offset or 0
    texts = [line.encode() for line in lines[first - 1 : end_line]]
    texts[-1] = texts[-1][:end]
    texts[0] = texts[0][begin:]
    comments: list[str] = []
    while begin == 0 and first - len(comments) > 1 and lines[first - 2 - len(comments)].startswith("#"):
        comments.insert(0, lines[first - 2 - len(comments)])
    return "\n".join([*comments, b"\n".join(texts).decode()])


def _step(node: ast.stmt, text: str) -> Step:
    return Step(
        text,
        _role(node),
        gives=frozenset(_given(node)),
        uses=frozenset(_used(node, text)),
        needs=frozenset(_needed(node)),
        awaits=_awaits(node),
    )


def _role(node: ast.stmt) -> Role:
    match node:
        case ast.Import() | ast.ImportFrom():
            return "import"
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return "definition"
        case ast.Assign() | ast.AnnAssign() if all(isinstance(target, ast.Name) for target in _targets(node)):
            return "assignment"
        case ast.Expr():
            return "expression"
        case _:
            return "statement"


def _targets(node: ast.Assign | ast.AnnAssign) -> list[ast.expr]:
    return node.targets if isinstance(node, ast.Assign) else [node.target]


def is_constant(step: Step) -> bool:
    """Whether an assignment gives a name a number or text, which nothing can change in place."""
    node = ast.parse(step.text).body[0]
    if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
        return False
    return all(
        isinstance(part, (*_CONSTANTS, ast.operator, ast.unaryop, ast.expr_context)) for part in ast.walk(node.value)
    )


def _given(node: ast.AST) -> Iterator[str]:
    """The names that a statement binds in its module."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
            return
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            yield from ((alias.asname or alias.name.partition(".")[0]) for alias in names if alias.name != "*")
            return
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            yield name
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            yield name
        case ast.Lambda() | ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            return
    for child in ast.iter_child_nodes(node):
        yield from _given(child)


def _used(node: ast.stmt, text: str) -> Iterator[str]:
    """The names of its module that a statement mentions, in functions too; more than those, where nobody can tell."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield from _globals(symtable.symtable(text, "step", "exec"))
    except (SyntaxError, ValueError):
        yield from (part.id for part in ast.walk(node) if isinstance(part, ast.Name))


def _globals(table: symtable.SymbolTable) -> Iterator[str]:
    is_module = table.get_type() == "module"
    for symbol in table.get_symbols():
        is_mentioned = symbol.is_referenced() or symbol.is_declared_global()
        if is_mentioned and (is_module or symbol.is_global()):
            yield symbol.get_name()
    for child in table.get_children():
        yield from _globals(child)


def _needed(node: ast.AST) -> Iterator[str]:
    """The names that are read when the statement runs, and not only when a function of it is called."""
    if isinstance(node, ast.Name):
        yield node.id
    if isinstance(node, _FUNCTIONS):
        arguments = node.args
        parts: list[ast.AST | None] = [*arguments.defaults, *arguments.kw_defaults]
        parts += [*getattr(node, "decorator_list", ()), getattr(node, "returns", None)]
        parts += [argument.annotation for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    else:
        parts = list(ast.iter_child_nodes(node))
    for part in parts:
        if part is not None:
            yield from _needed(part)


def _awaits(node: ast.AST) -> bool:
    if isinstance(node, ast.Await | ast.AsyncFor | ast.AsyncWith):
        return True
    if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
        return False
    return any(map(_awaits, ast.iter_child_nodes(node)))
