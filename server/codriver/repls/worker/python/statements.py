"""The statements of a Python text, where two texts of one file differ, and the names that somebody bound anew.

Comments and layout are no difference. The guards around a statement are a part of it, and so is its order among
statements other than definitions. Texts are parsed, never run.

A name counts as bound anew if a statement of the loaded text binds it and it has another value since. Values that the
project's own functions rebind do not count. A new name counts only if its function came from an evaluation: libraries
put many names into modules as they go.
"""

from __future__ import annotations

import ast
import io
import itertools
import re
import types
import weakref

from ..basics.held_definitions import (
    ABSENT,
    function_in,
    home_of,
    is_class,
    qualname_of,
    qualname_of_class,
    space_of,
    unwrapped,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any, Dict, Tuple

    Guard = Tuple[str, ...]

    Key = Tuple[Guard, str, str, Tuple[Tuple[str, str], ...]]

    Parts = Dict[str, str]


FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
GUARDS: tuple[type, ...] = (ast.If, ast.Try, ast.With, ast.AsyncWith, ast.For, ast.AsyncFor, ast.While)
if hasattr(ast, "TryStar"):
    GUARDS = (*GUARDS, ast.TryStar)
FUNCTION, CLASS, VALUE, IMPORT, GUARD, OTHER, DOCSTRING = (
    "function", "class", "value", "import", "guard", "other", "docstring",
)  # fmt: skip
NAME, BODY, SIGNATURE, DECORATORS, BASES, AROUND = (
    "name",
    "body",
    "signature",
    "decorators",
    "bases",
    "the guard around it",
)
MOST_WORDS = 60
"""The characters of a source line in place of a statement's name."""
UNPARSABLE = (SyntaxError, ValueError, RecursionError, MemoryError)


class Statement:
    """One statement of a text. `parts`: its compared parts by name, the whole under an empty name.

    `name` is dotted, a method's with its class; for a statement without a name, its first line. `top`: the place of its
    outermost statement among the text's statements.
    """

    __slots__ = ("guard", "kind", "name", "node", "owner", "parts", "top")

    def __init__(self, kind: str, owner: str, name: str, guard: Guard, node: Any, parts: Parts, top: int) -> None:
        self.kind, self.owner, self.guard, self.node, self.parts, self.top = kind, owner, guard, node, parts, top
        self.name = owner + name

    @property
    def key(self) -> Key:
        """The key by which equal statements are equal."""
        return self.guard, self.owner, self.kind, tuple(sorted(self.parts.items()))


class Change:
    """A differing statement: `old` is None if only the new text has it, `new` if only the old one does.

    `parts`: the names of the differing parts.
    """

    __slots__ = ("new", "old", "parts")

    def __init__(self, old: Statement | None, new: Statement | None) -> None:
        self.old, self.new = old, new
        self.parts: tuple[str, ...] = () if old is None or new is None else _parts_that_differ(old, new)

    @property
    def some(self) -> Statement:
        """The statement in the newest text that has it."""
        found = self.new or self.old
        assert found is not None  # noqa: S101  # a change is of something
        return found


class SourceText:
    """A parsed text.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: the text does not parse.
    """

    def __init__(self, data: bytes | str, file: str) -> None:
        """`data`: the text itself, for one that is not its file's."""
        self.data = data
        self.tree: ast.Module = ast.parse(data, file)
        self.lines = io.StringIO(data if isinstance(data, str) else text_of(data), newline=None).readlines()

    def words(self, node: ast.AST) -> str:
        """The first line of a statement, shortened."""
        line = getattr(node, "lineno", 1)
        words = self.lines[line - 1].strip() if line <= len(self.lines) else ""
        return words if len(words) <= MOST_WORDS else words[:MOST_WORDS] + "…"

    def segments(self) -> list[str]:
        """The lines of each of the text's own statements; empty for statements that share a line."""
        spans = [span_of(node) for node in self.tree.body]
        found = []
        for number, (first, last) in enumerate(spans):
            shares = (number and spans[number - 1][1] >= first) or (
                number + 1 < len(spans) and spans[number + 1][0] <= last
            )
            found.append("" if shares else "".join(self.lines[first - 1 : last]).rstrip())
        return found

    def statements(self, shared: Iterable[str] = ()) -> list[Statement]:
        """All statements, outermost first. Those with lines `shared` by the other text stand for all in them."""
        known = frozenset(shared)
        segments = self.segments() if known else itertools.repeat("")
        found: list[Statement] = []
        for top, (node, segment) in enumerate(zip(self.tree.body, segments)):
            if segment and segment in known:
                found.append(Statement(_kind_of(node), "", "", (), node, {"lines": segment}, top))
            else:
                doc = top == 0 and is_docstring(node)
                found += self._expand([node], "", (), top, has_doc=doc)
        return found

    def _expand(
        self, body: list[ast.stmt], scope: str, guard: Guard, top: int, *, has_doc: bool = False
    ) -> Iterator[Statement]:
        for number, node in enumerate(body):
            if number == 0 and has_doc:
                yield Statement(DOCSTRING, scope, "__doc__", guard, node, {DOCSTRING: dump(node)}, top)
            elif isinstance(node, FUNCTIONS):
                yield Statement(FUNCTION, scope, node.name, guard, node, _parts_of_function(node), top)
            elif isinstance(node, ast.ClassDef):
                yield Statement(CLASS, scope, node.name, guard, node, _parts_of_class(node), top)
                yield from self._expand(_without_docstring(node), scope + node.name + ".", guard, top)
            elif isinstance(node, GUARDS):
                yield from self._expand_guard(node, scope, guard, top)
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                source = dump([getattr(node, "module", None), getattr(node, "level", None)])
                for one in node.names:
                    yield Statement(IMPORT, scope, one.asname or one.name, guard, node, {"": source + dump(one)}, top)
            else:
                name = ", ".join(targets(node)) or self.words(node)
                yield Statement(_kind_of(node), scope, name, guard, node, {"": dump(node)}, top)

    def _expand_guard(self, node: ast.stmt, scope: str, guard: Guard, top: int) -> Iterator[Statement]:
        head, branches = type(node).__name__, []
        for field, value in ast.iter_fields(node):
            if field in ("body", "orelse", "finalbody"):
                branches.append((field, value))
            elif field == "handlers":
                branches += [("except " + dump(one.type) + " " + str(one.name), one.body) for one in value]
            elif field != "type_comment":
                head += "(" + dump(value) + ")"
        yield Statement(GUARD, scope, self.words(node), guard, node, {"": head}, top)
        for branch, inner in branches:
            yield from self._expand(inner, scope, (*guard, head, branch), top)


class Comparison:
    """The differences of two texts: `changes`, in the order of the new text, then the missing statements.

    `same`: the statements that are in both. `moved`: those of the new text at another place among the others.
    """

    def __init__(self, changes: list[Change], same: list[tuple[Statement, Statement]], moved: list[Statement]) -> None:
        self.changes, self.same, self.moved = changes, same, moved


def compare(old: SourceText, new: SourceText) -> Comparison:
    """Compare two texts of one file."""
    shared = {*old.segments()} & {*new.segments()} - {""}
    before, now = old.statements(shared), new.statements(shared)
    waiting: dict[Key, list[Statement]] = {}
    for one in before:
        waiting.setdefault(one.key, []).append(one)
    same: list[tuple[Statement, Statement]] = []
    come = []
    for one in now:
        known = waiting.get(one.key)
        if known:
            same.append((known.pop(0), one))
        else:
            come.append(one)
    gone = {id(one) for ones in waiting.values() for one in ones}
    moved = _moved([one for one in before if id(one) not in gone], [one for _, one in same])
    return Comparison(_paired([one for one in before if id(one) in gone], come), same, moved)


def rows_of(comparison: Comparison) -> Iterator[tuple[str, str, str]]:
    """Name, kind and part of each difference to tell; parts of a told statement are not told again."""
    told, moved = comparison.changes, comparison.moved
    whole = {one.some.name + "." for one in told if one.some.kind == CLASS and (one.old is None or one.new is None)}
    has_guard = any(one.some.kind == GUARD for one in told)
    for one in told:
        name = one.some.name
        if any(name.startswith(owner) for owner in whole):
            continue
        if one.old is None:
            yield name, "missing", ""
        elif one.new is None:
            yield name, "gone", ""
        elif one.parts == (DOCSTRING,):
            yield name, DOCSTRING, ""
        elif one.parts != (AROUND,) or not has_guard:
            yield name, "edited", "" if one.parts in ((BODY,), ("",)) else ", ".join(filter(None, one.parts))
    if moved:
        yield moved[0].name or next(iter(targets(moved[0].node)), "a statement"), "order", ""


def _paired(gone: list[Statement], come: list[Statement]) -> list[Change]:
    by_name: dict[str, list[Statement]] = {}
    for one in gone:
        by_name.setdefault(one.name, []).append(one)
    changes = []
    for one in come:
        olds = by_name.get(one.name, [])
        old = next((other for other in olds if other.guard == one.guard), olds[0] if olds else None)
        if old is not None:
            olds.remove(old)
        changes.append(Change(old, one))
    left = {id(one) for olds in by_name.values() for one in olds}
    return [*changes, *(Change(one, None) for one in gone if id(one) in left)]


def _moved(before: list[Statement], now: list[Statement]) -> list[Statement]:
    return [other for one, other in zip(before, now) if one.key != other.key]


def _parts_that_differ(old: Statement, new: Statement) -> tuple[str, ...]:
    if old.kind != new.kind:
        return ("",)
    names = {**old.parts, **new.parts}
    return tuple(name for name in names if old.parts.get(name) != new.parts.get(name)) or (AROUND,)


def _parts_of_function(node: Any) -> Parts:
    signature = dump([node.args, node.returns, *getattr(node, "type_params", [])])
    return {
        NAME: node.name,
        BODY: type(node).__name__ + dump(_without_docstring(node)),
        SIGNATURE: signature,
        DECORATORS: dump(node.decorator_list),
        DOCSTRING: _docstring_of(node),
    }


def _parts_of_class(node: ast.ClassDef) -> Parts:
    bases = dump([*node.bases, *node.keywords, *getattr(node, "type_params", [])])
    return {NAME: node.name, BASES: bases, DECORATORS: dump(node.decorator_list), DOCSTRING: _docstring_of(node)}


def dump(node: Any) -> str:
    """A node, or nodes, as a text that differs exactly if the code differs."""
    if isinstance(node, list):
        return "[" + ", ".join(map(dump, node)) + "]"
    if not isinstance(node, ast.AST):
        return repr(node)
    try:
        return ast.dump(node, annotate_fields=False)
    except (ValueError, RecursionError):
        # A number too long to be written down, or code nested too deep: its place and size stand for it.
        return repr([getattr(node, name, None) for name in ("lineno", "col_offset", "end_lineno", "end_col_offset")])


def is_docstring(node: ast.AST) -> bool:
    """True if a statement is only a text."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _docstring_of(node: Any) -> str:
    return dump(node.body[0]) if node.body and is_docstring(node.body[0]) else ""


def _without_docstring(node: Any) -> list[ast.stmt]:
    body: list[ast.stmt] = node.body
    return body[1:] if _docstring_of(node) else body


def _kind_of(node: ast.stmt) -> str:
    if isinstance(node, FUNCTIONS):
        return FUNCTION
    if isinstance(node, ast.ClassDef):
        return CLASS
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return IMPORT
    if isinstance(node, (ast.Assign, ast.AnnAssign)) or type(node).__name__ == "TypeAlias":
        return VALUE
    return GUARD if isinstance(node, GUARDS) else OTHER


def targets(node: ast.AST) -> list[str]:
    """The names, also dotted ones, that a statement itself binds; none if it binds other things."""
    if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
        return [node.name]
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return [one.asname or one.name for one in node.names]
    wanted: Any = getattr(node, "targets", None)
    if not isinstance(node, ast.Assign):
        single = getattr(node, "target", None) or (getattr(node, "name", None) if not wanted else None)
        wanted = [single] if isinstance(single, ast.AST) and not isinstance(node, GUARDS) else []
    found = [_dotted(one) for target in wanted or () for one in _flat(target)]
    return found if all(found) else []


def _flat(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, (ast.Tuple, ast.List)):
        for one in node.elts:
            yield from _flat(one)
    elif isinstance(node, ast.Starred):
        yield from _flat(node.value)
    else:
        yield node


def _dotted(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        owner = _dotted(node.value)
        return owner + "." + node.attr if owner else ""
    return ""


def imported(tree: ast.Module, module: str, *, is_package: bool) -> Iterator[tuple[str, str, str]]:
    """The names that a module's own statements import: the module, the name there, and the name here."""
    waiting: list[Any] = list(tree.body)
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, ast.ImportFrom):
            owner = module.split(".")[: len(module.split(".")) - node.level + is_package] if node.level else []
            source = ".".join([*owner, *([node.module] if node.module else [])])
            for one in node.names:
                yield source, one.name, one.asname or one.name
        elif isinstance(node, (ast.If, ast.With, ast.For, ast.While)):
            waiting[:0] = [*node.body, *getattr(node, "orelse", [])]


def span_of(node: Any) -> tuple[int, int]:
    """The first line of a statement or of its decorators, and its last."""
    first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", []))])
    return first, node.end_lineno or node.lineno


def text_of(data: bytes) -> str:
    """The text of a Python file's bytes.

    Raises:
        SyntaxError, ValueError: the text's encoding is unknown, or not the one that it names.
    """
    import tokenize

    encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    return io.TextIOWrapper(io.BytesIO(data), encoding).read()


PLAIN = (int, float, complex, bool, str, bytes, type(None))
EVALUATED = re.compile(r"<(eval|stdin|console|ipython|repl|python-input)\b|.*[\\/](ipykernel|xpython)_\d+[\\/]")
"""Names of the seeming files of evaluated code. Source: the worker; `code`; IPython; ipykernel; xeus."""
DEFINITION, OTHER_BINDING = "definition", "other"
BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


class Kept:
    """A value remembered without keeping it alive: a plain one as it is, any other by a weak reference or id."""

    __slots__ = ("_held", "_is_weak")

    def __init__(self, value: object) -> None:
        self._is_weak = False
        self._held: Any = value
        if not is_plain(value):
            try:
                self._held, self._is_weak = weakref.ref(value), True
            except TypeError:
                self._held = _Identity(value)

    def is_still(self, value: object) -> bool:
        """True if a value is the remembered one, or an equal plain one."""
        held = self._held
        if self._is_weak:
            return held() is value
        if type(held) is _Identity:
            return bool(held.number == id(value))
        return held is value or (type(held) is type(value) and is_plain(value) and repr(held) == repr(value))

    def living(self) -> object:
        """The remembered object; None for a plain value, or an object that may be gone."""
        return self._held() if self._is_weak else None

    @property
    def was_none(self) -> bool:
        """True if the value was None: a place for a later value."""
        return self._held is None


class _Identity:
    __slots__ = ("number",)

    def __init__(self, value: object) -> None:
        self.number = id(value)


class Names:
    """The names of a module and, dotted, of its classes, at one moment."""

    def __init__(self, space: dict[str, Any]) -> None:
        self._raw: dict[str, Any] | None = dict(space)
        module = space.get("__name__")
        # `_is_own_class`, without its calls: of thousands of names few are classes, and most of those are imported.
        self._classes = [
            (name, dict(space_of(value)))
            for name, value in self._raw.items()
            if issubclass(type(value), type)
            and space_of(value).get("__module__") == module
            and qualname_of_class(value) == name
            and not _is_dunder(name)
        ]
        for owner, inner in self._classes:  # the list grows by the classes within
            self._classes += [
                (f"{owner}.{name}", dict(space_of(value)))
                for name, value in inner.items()
                if issubclass(type(value), type)
                and space_of(value).get("__module__") == module
                and qualname_of_class(value) == f"{owner}.{name}"
                and not _is_dunder(name)
            ]
        self._kept: dict[str, Kept] = {}

    def settle(self) -> dict[str, Kept]:
        """Keep no value alive from now on; the remembered values."""
        if self._raw is not None:
            raw, self._raw = self._raw, None
            # An evaluated value was made by no load, even if a load ran around the evaluation.
            self._kept = {
                name: Kept(value) for name, value in raw.items() if not _is_dunder(name) and not is_evaluated(value)
            }
            for owner, space in self._classes:
                for name, value in space.items():
                    if (not _is_dunder(name) or _is_method(value)) and not is_evaluated(value):
                        self._kept[owner + "." + name] = Kept(value)
            self._classes = []
        return self._kept

    def keep(self, name: str, value: object = ABSENT) -> None:
        """Remember that a load gave a dotted name another value, or none."""
        kept = self.settle()
        if _is_dunder(name):
            return
        if value is ABSENT:
            kept.pop(name, None)
        else:
            kept[name] = Kept(value)
        for inner in [one for one in kept if one.startswith(name + ".")]:
            del kept[inner]
        if is_class(value):
            for own, held in list(space_of(value).items()):
                if not _is_dunder(own) or _is_method(held):
                    kept[name + "." + own] = Kept(held)

    def put_back(self, name: str, kept: Kept | None) -> None:
        """Restore the remembered value of a name."""
        if kept is None:
            self.settle().pop(name, None)
        else:
            self.settle()[name] = kept


def differing(space: dict[str, Any], left: Names) -> dict[str, tuple[object, Kept | None]]:
    """The present value of each differing dotted name, ABSENT for none, and the loaded one, None for a new name."""
    kept, found = left.settle(), {}
    live = {name: value for name, value in list(space.items()) if not _is_dunder(name)}
    waiting = list(live.items())
    for name, value in waiting:  # the list grows by the classes within
        known = kept.get(name)
        if "." not in name and (known is None or not known.is_still(value)):
            found[name] = value, known
        if _is_own_class(space, name, value) and known is not None and known.is_still(value):
            for own, held in list(space_of(value).items()):
                if not _is_dunder(own) or _is_method(held):
                    live[name + "." + own] = held
                    before = kept.get(name + "." + own)
                    if before is None or not before.is_still(held):
                        found[name + "." + own] = held, before
                    waiting.append((name + "." + own, held))
    for name, known in kept.items():
        if name not in live and name.rpartition(".")[0] not in found:
            found[name] = ABSENT, known
    return found


class BoundNames:
    """The names that the statements of a text bind, by dotted name, and those that its functions rebind as they run."""

    def __init__(self, tree: ast.Module) -> None:
        self.kinds: dict[str, str] = {}
        self.rebound: set[str] = set()
        self._read(tree.body, "")
        for node in ast.walk(tree):
            if isinstance(node, ast.Global):
                self.rebound.update(node.names)
            elif isinstance(node, FUNCTIONS):
                self._read_stores(node)

    def _read(self, body: Iterable[Any], scope: str) -> None:
        for node in body:
            is_definition = isinstance(node, (*FUNCTIONS, ast.ClassDef))
            for name in targets(node) if not isinstance(node, ast.excepthandler) else ():
                own = name.partition(".")[0] if isinstance(node, ast.Import) and not _has_alias(node, name) else name
                self.kinds[scope + own] = DEFINITION if is_definition else OTHER_BINDING
            for place in _places_in(node):
                self.kinds.update(
                    (scope + one.id, OTHER_BINDING) for one in ast.walk(place) if isinstance(one, ast.Name)
                )
            if isinstance(node, ast.ClassDef):
                self._read(node.body, scope + node.name + ".")
            elif not is_definition:
                for field in BLOCKS:
                    self._read(getattr(node, field, None) or (), scope)

    def _read_stores(self, function: ast.AST) -> None:
        for node in ast.walk(function):
            if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
                self.rebound.add(node.attr)
            elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("setattr", "delattr"):
                named = node.args[1] if len(node.args) > 1 else None
                if isinstance(named, ast.Constant) and isinstance(named.value, str):
                    self.rebound.add(named.value)


def stores(name: str) -> re.Pattern[str]:
    """The pattern of code that assigns to an attribute or global of a name; it may find too much."""
    own = re.escape(name)
    assigned = rf"\.{own}\s*(?:[-+*/|&^%@<>]{{0,2}}=)(?!=)"
    return re.compile(rf"{assigned}|attr\([^\n]*[\"']{own}[\"']|\bdel\b[^\n]*\.{own}\b|\bglobal\b[^\n]*\b{own}\b")


def code_file(value: object) -> str:
    """The seeming file of a function, a wrapper, or a class' first function; empty if unknown."""
    if type(value) is types.FunctionType:
        return value.__code__.co_filename
    found = [function_in(one) for one in list(space_of(value).values())] if is_class(value) else [function_in(value)]
    for one in found:
        for function in unwrapped(one):
            return function.__code__.co_filename
    return ""


def is_evaluated(value: object) -> bool:
    """True if evaluated code made a function or class."""
    return EVALUATED.match(code_file(value)) is not None


def is_plain(value: object) -> bool:
    """True if a value is a number, a text, a flag, None, or a tuple of such."""
    return type(value) in PLAIN or (type(value) is tuple and all(map(is_plain, value)))


def _places_in(node: Any) -> list[ast.AST]:
    """The places to which a loop or a `with` gives its values."""
    if isinstance(node, (ast.For, ast.AsyncFor)):
        return [node.target]
    items = node.items if isinstance(node, (ast.With, ast.AsyncWith)) else ()
    return [one.optional_vars for one in items if one.optional_vars is not None]


def _is_own_class(space: dict[str, Any], name: str, value: object) -> bool:
    return is_class(value) and (home_of(value), qualname_of(value)) == (space.get("__name__"), name)


def _is_dunder(name: object) -> bool:
    return not isinstance(name, str) or name[:2] == name[-2:] == "__"


def _is_method(value: object) -> bool:
    return type(value) in (types.FunctionType, staticmethod, classmethod, property)


def _has_alias(node: ast.Import, name: str) -> bool:
    return any(one.asname == name for one in node.names)
