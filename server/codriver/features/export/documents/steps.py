"""Split evaluated code into steps: top-level forms or statements, with the names that each defines and uses.

For Lisp code, only forms and symbols are considered, because their meaning is not known. For Python code, the syntax
tree is analyzed.
"""

from __future__ import annotations

import ast
import re
import symtable
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from codriver.python_syntax import parse_source
from codriver_lisp.reader import read_forms

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codriver_lisp.reader import Form


Role = Literal["import", "definition", "assignment", "statement", "expression", "magic"]
"""The role of a step. A `definition` only defines a function, class, macro or the like. An `assignment` binds a value.
`magic` is a line that only IPython understands.
"""


@dataclass(frozen=True, slots=True)
class Step:
    """A top-level form or statement of evaluated code."""

    text: str
    role: Role
    gives: frozenset[str] = frozenset()
    """The names that the step binds."""
    uses: frozenset[str] = frozenset()
    """The names that the step mentions, including in function bodies."""
    needs: frozenset[str] = frozenset()
    """The names that must be defined when the step runs."""
    awaits: bool = False
    """Whether the step uses `await` outside a function, which only a REPL allows."""


_IMPORT_SYMBOLS: Final = frozenset({"ns", "require", "use", "import", "in-ns", "require-macros", "refer"})
"""First symbols of Lisp forms that import names."""
_DEFINING_SYMBOLS: Final = frozenset(
    {"defn", "defn-", "defmacro", "defrecord", "deftype", "defprotocol", "definterface", "defclass", "defasync"}
)
"""First symbols of Lisp forms that define a function, type or protocol."""
_METHOD_SYMBOLS: Final = frozenset({"defmethod", "extend-type", "extend-protocol", "extend", "defmulti"})
"""First symbols of Lisp forms that define a multimethod, or add methods to a multimethod, type or protocol."""
_ASSIGNMENT_SYMBOLS: Final = frozenset({"def", "defonce", "setv", "declare"})
"""First symbols of Lisp forms that assign a value to a name."""
LAST_VALUE_SYMBOLS: Final = frozenset({"*1", "*2", "*3", "*e"})
"""Names that exist only in a Lisp REPL, for its last values and its last error."""


def split_lisp(code: str) -> tuple[Step, ...]:
    """Split code into its top-level forms. Return an empty tuple if its brackets are unbalanced."""
    reading = read_forms(code)
    if reading.imbalance is not None:
        return ()
    return tuple(_lisp_step(form, code) for form in reading.forms if form.kind != "discard")


def _lisp_step(form: Form, code: str) -> Step:
    """Create a step from a top-level form."""
    text = code[form.start : form.end]
    symbols = frozenset(_iter_symbols(form, code))
    role, given = _lisp_role(form, code)
    # A function may mention names that it does not need yet, and a macro may need names during its expansion.
    needs = frozenset[str]() if role == "definition" else symbols
    return Step(text, role, gives=frozenset(given), uses=symbols - set(given), needs=needs)


def _lisp_role(form: Form, code: str) -> tuple[Role, tuple[str, ...]]:
    """Return the role of a form and the names that it binds."""
    words = [code[child.start : child.end] for child in form.children[:1]]
    if form.kind != "list" or not words:
        return "expression", ()
    head = words[0].rpartition("/")[2] or words[0]
    if head in _IMPORT_SYMBOLS:
        return "import", ()
    named = (_defined_name(form.children[1], code),) if len(form.children) > 1 else ()
    if head in _DEFINING_SYMBOLS:
        extra = tuple(f"{before}{name}" for name in named for before in ("->", "map->"))
        return "definition", (*named, *extra) if head in {"defrecord", "deftype"} else named
    if head in _METHOD_SYMBOLS:
        return "statement", named
    if head in _ASSIGNMENT_SYMBOLS:
        return "assignment", named
    return "expression", ()


def _defined_name(form: Form, code: str) -> str:
    """Return the name in a definition, without its metadata."""
    while form.kind == "prefixed" and form.children:
        form = form.children[-1]
    return code[form.start : form.end]


def _iter_symbols(form: Form, code: str) -> Iterator[str]:
    """Yield the symbols in a form. A qualified symbol also yields its namespace."""
    if form.kind == "atom":
        yield code[form.start : form.end].lstrip("@'`~#").partition("/")[0] or "/"
        yield code[form.start : form.end].rstrip(".")
    for child in form.children:
        yield from _iter_symbols(child, code)


def declared_namespace(code: str) -> str:
    """Return the namespace in the first `ns` form of a source text, or an empty string."""
    for form in read_forms(code).forms:
        children = form.children
        if form.kind == "list" and len(children) > 1 and code[children[0].start : children[0].end] == "ns":
            return _defined_name(children[1], code)
    return ""


_FUNCTION_NODES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_CONSTANT_NODES = (ast.Constant, ast.Tuple, ast.UnaryOp, ast.BinOp)


def split_python(code: str) -> tuple[Step, ...] | None:
    """Split code into statements, each with the comments above it. Return None if this Python cannot parse the code."""
    # Split only at characters that end a line in Python.
    code = code.replace("\r\n", "\n").replace("\r", "\n")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            body = parse_source(code).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    lines = code.split("\n")
    return tuple(_python_step(node, _statement_source(node, lines)) for node in body)


_MAGIC_LINE: Final = re.compile(r"^[%!].*$", re.MULTILINE)
"""Matches a line of IPython magic."""


def split_cell(code: str) -> tuple[Step, ...]:
    """Split the code of a notebook cell into statements and magic lines.

    Return the whole cell as one step if it cannot be parsed.
    """
    if (steps := split_python(code)) is not None:
        return steps
    whole = (Step(code.strip(), "magic"),) if code.strip() else ()
    found, at = list[Step](), 0
    for magic in (*_MAGIC_LINE.finditer(code), None):
        part = split_python(code[at : magic.start() if magic else len(code)])
        if part is None or code.startswith("%%"):  # a cell magic applies to the whole cell, in any language
            return whole
        found += [*part, *([Step(magic[0], "magic")] if magic else ())]
        at = magic.end() if magic else at
    return tuple(found)


def _statement_source(node: ast.stmt, lines: list[str]) -> str:
    """Return the source of a statement, including its decorators and the comments directly above it."""
    decorators = [decorator.lineno for decorator in getattr(node, "decorator_list", ())]
    first = min([node.lineno, *decorators])
    begin = 0 if decorators else node.col_offset
    end_line, end = node.end_lineno or node.lineno, node.end_col_offset or 0
    source_lines = [line.encode() for line in lines[first - 1 : end_line]]
    source_lines[-1] = source_lines[-1][:end]
    source_lines[0] = source_lines[0][begin:]
    comments: list[str] = []
    while begin == 0 and first - len(comments) > 1 and lines[first - 2 - len(comments)].startswith("#"):
        comments.insert(0, lines[first - 2 - len(comments)])
    return "\n".join([*comments, b"\n".join(source_lines).decode()])


def _python_step(node: ast.stmt, text: str) -> Step:
    return Step(
        text,
        _python_role(node),
        gives=frozenset(_bound_names(node)),
        uses=frozenset(_used_names(node, text)),
        needs=frozenset(_needed_names(node)),
        awaits=_contains_await(node),
    )


def _python_role(node: ast.stmt) -> Role:
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
    """Return whether a step assigns an immutable constant, such as a number or a string."""
    node = parse_source(step.text).body[0]
    if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
        return False
    return all(
        isinstance(part, (*_CONSTANT_NODES, ast.operator, ast.unaryop, ast.expr_context))
        for part in ast.walk(node.value)
    )


def _bound_names(node: ast.AST) -> Iterator[str]:
    """Yield the names that a statement binds in the module."""
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
        yield from _bound_names(child)


def _used_names(node: ast.stmt, text: str) -> Iterator[str]:
    """Yield the global names that a statement mentions, including in function bodies.

    Yield all names if the statement's symbol table cannot be created.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield from _global_symbols(symtable.symtable(text, "step", "exec"))
    except (SyntaxError, ValueError):
        yield from (part.id for part in ast.walk(node) if isinstance(part, ast.Name))


def _global_symbols(table: symtable.SymbolTable) -> Iterator[str]:
    is_module = table.get_type() == "module"
    for symbol in table.get_symbols():
        is_mentioned = symbol.is_referenced() or symbol.is_declared_global()
        if is_mentioned and (is_module or symbol.is_global()):
            yield symbol.get_name()
    for child in table.get_children():
        yield from _global_symbols(child)


def _needed_names(node: ast.AST) -> Iterator[str]:
    """Yield the names that a statement reads when it runs, except in function bodies."""
    if isinstance(node, ast.Name):
        yield node.id
    if isinstance(node, _FUNCTION_NODES):
        arguments = node.args
        parts: list[ast.AST | None] = [*arguments.defaults, *arguments.kw_defaults]
        parts += [*getattr(node, "decorator_list", ()), getattr(node, "returns", None)]
        parts += [argument.annotation for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    else:
        parts = list(ast.iter_child_nodes(node))
    for part in parts:
        if part is not None:
            yield from _needed_names(part)


def _contains_await(node: ast.AST) -> bool:
    if isinstance(node, ast.Await | ast.AsyncFor | ast.AsyncWith):
        return True
    if isinstance(node, (*_FUNCTION_NODES, ast.ClassDef)):
        return False
    return any(map(_contains_await, ast.iter_child_nodes(node)))
