"""A minimal load: the changes in a file of known former text take effect, and nothing else runs.

New code goes into the living functions. If that is not enough, the smallest statement runs: a default, an attribute of
a class, a definition with its decorators, a statement of the module, a class. Parts that could not be renewed are
named.
"""

from __future__ import annotations
import __future__

import ast
import types

from ..basics.held_definitions import home_of, is_class, qualname_of, space_of
from .living_code import FileCodes, LivingCode, is_enum, keeping, successors, take_members
from .statements import (
    ABSENT,
    BODY,
    CLASS,
    DECORATORS,
    DOCSTRING,
    FUNCTION,
    GUARD,
    SIGNATURE,
    VALUE,
    BoundNames,
    SourceText,
    compare,
    dump,
    span_of,
    targets,
)  # fmt: skip

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator
    from typing import Any

    from ..basics.held_definitions import Held
    from .statements import Change, Statement

FUTURE = 0
for _name in __future__.all_feature_names:
    FUTURE |= getattr(__future__, _name).compiler_flag
TRANSPARENT = ("property", "staticmethod", "classmethod", "setter", "getter", "deleter", "abstractmethod", "override",
               "overload", "final", "cached_property", "cache", "lru_cache", "wraps", "contextmanager")  # fmt: skip
"""Decorators that do not look at their function's signature."""
CONSUMED = ("__slots__", "__init_subclass__", "__class_getitem__", "_fields", "__match_args__")
"""Names of a class body that count when the class is made."""


class Step:
    """One thing to run, by the place of its statement: `act` gives a value if it has one, else ABSENT."""

    def __init__(self, node: Any, act: Callable[[], object]) -> None:
        self.node, self.line, self.act = node, span_of(node)[0], act


class MinimalLoad:
    """The load of one text in place of another, in a module that lives.

    `anew`: the dotted names of definitions that somebody bound anew, and that get the file's definition. `kept`: the
    names left as somebody bound them.
    """

    def __init__(
        self,
        module: types.ModuleType,
        texts: tuple[SourceText, SourceText],
        file: str,
        held: Held,
        anew: Iterable[str] = (),
        kept: Container[str] = (),
    ) -> None:
        self._module, self._space, self._file, self._held = module, module.__dict__, file, held
        self._old, self._new = texts
        self._kept = kept
        self.comparison = compare(*texts)
        self._codes = FileCodes(self._old, file), FileCodes(self._new, file)
        self._bound = BoundNames(self._new.tree)
        self._all = self._new.statements()
        self._living: LivingCode | None = None
        self._tops: set[int] = set()
        self._defined: dict[int, Statement] = {}
        self._former: dict[int, Statement] = {}
        self._members: dict[str, set[str]] = {}
        self._attributes: dict[int, tuple[str, Statement]] = {}
        self.stays: list[tuple[str, str]] = []
        """Names, each with its parts that were not renewed, in words."""
        self.left: list[tuple[str, types.FunctionType]] = []
        """Functions that enclose other variables than the new code, by the name of their maker."""
        self.emptied: list[tuple[str, int]] = []
        """Cached functions, and the number of values in their caches."""
        self._touched: list[types.FunctionType] = []
        self._removed: list[str] = []
        self._anew = list(anew)

    @property
    def is_possible(self) -> bool:
        """True if both texts are compiled in one way."""
        old, new = self._codes
        return old.code.co_flags & FUTURE == new.code.co_flags & FUTURE

    @property
    def names(self) -> set[str]:
        """The dotted names of the statements that differ."""
        changed = [one.some for one in self.comparison.changes]
        return {one.owner + name for one in changed for name in targets(one.node)}

    @property
    def is_idle(self) -> bool:
        """True if there is nothing to do."""
        return not (self.comparison.changes or self.comparison.moved or self._anew)

    # Without a run of the user's code

    def renew(self) -> list[Step]:
        """Give living functions their new code; the steps left to run, in the order of the text."""
        functions = [(one.old, one.new) for one in self.comparison.changes if one.old and one.new]
        functions = [pair for pair in functions if pair[0].kind == pair[1].kind == FUNCTION]
        self._former = {id(new.node): old for old, new in functions}
        codes = successors(*self._codes, self.comparison.same, functions)
        self._living = living = LivingCode(self._file, self._codes[0], self._space)
        left = {id(one): one for one in living.renew(codes, self._held.note)}
        for change in self.comparison.changes:
            if change.some.name in self._kept:
                self.stays.append((change.some.name, "it was bound anew in the REPL"))
            else:
                self._plan(change, left)
        for name in self._anew:
            self._plan_anew(name)
        self._follow_decorators()
        self.emptied += living.empty_caches(self._touched)
        if self.comparison.moved:
            self.stays.append((self.comparison.moved, "statements stand in another order, and none was run for that"))
        return self._steps()

    def _plan(self, change: Change, left: dict[int, types.FunctionType]) -> None:
        one, old, new = change.some, change.old, change.new
        is_function = old is not None and new is not None and old.kind == new.kind == FUNCTION
        has_code = is_function and old is not None and self._has_code(old, left)
        if one.guard or one.kind == GUARD:
            self._plan_guarded(change, has_code=has_code)
        elif new is None:
            self._take_away(one)
            if not targets(one.node) and not _says_nothing(one.node):
                self.stays.append((one.name, "what it did is not undone"))
        elif one.owner:
            self._plan_in_class(change, new, has_code=has_code)
        elif one.kind == FUNCTION:
            if not (has_code and self._is_done(change)):
                self._defined[id(new.node)] = new
        elif one.kind == DOCSTRING:
            self._document(self._space, None, new.node)
        elif one.kind == CLASS and change.parts == (DOCSTRING,):
            self._document(self._space, self._space.get(one.name), new.node.body[0] if new.parts[DOCSTRING] else None)
        elif not _says_nothing(one.node):
            self._tops.add(new.top)

    def _take_away(self, one: Statement) -> None:
        if one.owner and is_enum(self._class(one.owner)) and one.kind == VALUE:
            self._members.setdefault(one.owner, set())
        else:
            self._removed += [one.owner + name for name in _names_bound(one.node)]

    def _plan_guarded(self, change: Change, *, has_code: bool) -> None:
        one, new = change.some, change.new
        if new is None:
            self._take_away(one)
        elif not (has_code and set(change.parts) <= {BODY, DOCSTRING}):
            is_elsewhere = one.kind == FUNCTION and change.old is not None and self._value(one.name) is ABSENT
            if not is_elsewhere:
                self._tops.add(new.top)

    def _plan_in_class(self, change: Change, new: Statement, *, has_code: bool) -> None:
        kind = self._class(new.owner)
        is_made = change.old is None and any(
            one.kind == CLASS and one.name + "." == new.owner for one in _come(self.comparison.changes)
        )
        if _says_nothing(new.node) or is_made:
            return
        if kind is None or new.kind == CLASS:
            self._tops.add(new.top)
        elif new.kind == FUNCTION:
            if has_code and self._is_done(change):
                return
            if _is_open(kind, new.node):
                self._defined[id(new.node)] = new
            else:
                self._tops.add(new.top)
        elif is_enum(kind) and new.kind == VALUE:
            self._members.setdefault(new.owner, set()).update(targets(new.node))
        elif self._takes_attributes(kind, new):
            self._attributes[id(new.node)] = new.owner, new
        else:
            self._tops.add(new.top)

    def _plan_anew(self, name: str) -> None:
        """Give a name that somebody bound anew the file's definition again."""
        found = [one for one in self._all if name in [one.owner + own for own in targets(one.node)] or one.name == name]
        for one in found[-1:]:
            if one.guard or (one.kind == CLASS and one.owner):
                self._tops.add(one.top)
            elif one.kind == FUNCTION:
                self._defined[id(one.node)] = one
            elif one.owner:
                self._attributes[id(one.node)] = one.owner, one
            else:
                self._tops.add(one.top)

    def _has_code(self, old: Statement, left: dict[int, types.FunctionType]) -> bool:
        """True if living functions had the code of a statement, and all got the new one."""
        living = self._living
        code = self._codes[0].of(old.node)
        if living is None or code is None:
            return False
        functions = living.functions(code)
        inner = [one for nested in _codes_in(code) for one in living.functions(nested)]
        stale = [one for one in (*functions, *inner) if id(one) in left]
        self._touched += [one for one in (*functions, *inner) if id(one) not in left]
        self.left += [(old.name, one) for one in stale]
        for word in [word for one in (code, *_codes_in(code)) for word in living.running(one)]:
            self.stays.append((old.name, f"a {word} of it runs on with the former code"))
        return bool(functions) and not any(one in stale for one in functions)

    def _is_done(self, change: Change) -> bool:
        """True if a function needs only its new code, and the defaults that it gets here.

        Defaults are evaluated: this runs them.
        """
        new = change.new
        if new is None or DECORATORS in change.parts:
            return False
        if SIGNATURE in change.parts:
            self._attributes[id(new.node)] = new.owner, new
            if any(_name_of(one) not in TRANSPARENT for one in new.node.decorator_list):
                self.stays.append((new.name, "its decorators have seen the former signature"))
        self._tell_cached(new)
        return True

    def _tell_cached(self, new: Statement) -> None:
        kind = self._class(new.owner) if new.owner else None
        own = new.name.rpartition(".")[2]
        held = space_of(kind).get(own) if kind is not None else None
        if kind is not None and type(held).__name__ == "cached_property":
            count = keeping(kind, own)
            if count:
                self.stays.append((new.name, f"{count} instances keep the value that they have cached"))

    def _follow_decorators(self) -> None:
        """Also define functions again whose decorators come from a redefined one, as a property's setter."""
        names = {one.name for one in self._defined.values()}
        for one in self._all if names else ():
            if one.kind == FUNCTION and not one.guard and one.name in names:
                read = (node for place in one.node.decorator_list for node in ast.walk(place))
                if any(isinstance(node, ast.Name) and node.id == one.node.name for node in read):
                    self._defined[id(one.node)] = one

    def _takes_attributes(self, kind: Any, one: Statement) -> bool:
        """True if an existing class takes an attribute just as a new one."""
        names = targets(one.node)
        if not names or any(name in CONSUMED or name[:2] == name[-2:] == "__" for name in names):
            return False
        return _is_plain_class(kind) or (type(kind) is not type and _has_setter(type(kind)))

    def _class(self, owner: str) -> Any:
        """The class of the module that a scope, `C.` or `C.Inner.`, is; None without one."""
        found: Any = self._value(owner[:-1])
        is_own = is_class(found) and (home_of(found), qualname_of(found)) == (self._module.__name__, owner[:-1])
        return found if is_own else None

    def _value(self, name: str) -> Any:
        space: Any = self._space
        value: Any = ABSENT
        for part in name.split("."):
            value = space.get(part, ABSENT)
            space = space_of(value) if is_class(value) else {}
        return value

    def _document(self, space: dict[str, Any], kind: Any, node: Any) -> None:
        text = node.value.value if node is not None else None
        if kind is None:
            self._held.note_key("", space, "__doc__", space.get("__doc__"))
            space["__doc__"] = text
        elif is_class(kind):
            before = space_of(kind).get("__doc__")
            type.__setattr__(kind, "__doc__", text)
            self._held.note_attribute("", kind, "__doc__", before)

    # Steps that run user code

    def _steps(self) -> list[Step]:
        body = self._new.tree.body
        steps = [Step(body[top], self._of_top(body[top])) for top in self._tops]
        spans = [span_of(body[top]) for top in self._tops]

        def add(node: Any, act: Callable[[], object]) -> None:
            if not any(first <= span_of(node)[0] <= last for first, last in spans):
                steps.append(Step(node, act))

        for one in self._defined.values():
            add(one.node, self._of_definition(one))
        for owner, one in self._attributes.values():
            add(one.node, self._of_attribute(owner, one))
        for owner, names in self._members.items():
            node = next(one.node for one in self._all if one.kind == CLASS and one.name + "." == owner)
            add(node, self._of_members(owner, names, node))
        steps.sort(key=lambda step: step.line)
        return steps

    def remove(self) -> Iterator[str]:
        """Remove names that the text no longer binds, unless somebody bound them anew; the module's removed ones."""
        for name in self._removed:
            owner, _, last = name.rpartition(".")
            if name in self._bound.kinds or last in self._bound.rebound or name in self._kept:
                continue
            kind = self._class(owner + ".") if owner else None
            if kind is not None and last in space_of(kind):
                type.__delattr__(kind, last)
                yield name
            elif not owner and name in self._space:
                del self._space[name]
                yield name

    def _of_top(self, node: ast.stmt) -> Callable[[], object]:
        if isinstance(node, ast.Expr):
            code = self._compile(ast.Expression(node.value), "eval")
            is_last = node is self._new.tree.body[-1]

            def value() -> object:
                found: object = eval(code, self._space)
                return found if is_last else ABSENT

            return value
        return self._runner(self._compile(ast.Module([node], []), "exec"), self._space)

    def _of_definition(self, one: Statement) -> Callable[[], object]:
        code = self._codes[1].of(one.node)
        if not one.owner:
            return self._of_top(one.node)
        kind = self._class(one.owner)
        if code is None or set(code.co_freevars) - {"__class__"}:
            return self._of_top(self._new.tree.body[one.top])

        def define() -> object:
            space = dict(space_of(kind))
            value: Any = self._function(one.node, code, kind, space)
            made = [
                eval(self._compile(ast.Expression(place), "eval"), self._space, space) for place in _decorators(one)
            ]
            for decorate in reversed(made):
                value = decorate(value)
            type.__setattr__(kind, one.node.name, value)
            name_it = getattr(type(value), "__set_name__", None)
            if name_it is not None:
                name_it(value, kind, one.node.name)
            return ABSENT

        return define

    def _function(self, node: Any, code: types.CodeType, kind: Any, space: dict[str, Any]) -> types.FunctionType:
        """The function of a statement in a class body, which may use `super()`."""
        closure = tuple(types.CellType(kind) for _ in code.co_freevars)
        made = types.FunctionType(code, self._space, node.name, None, closure)
        made.__qualname__ = qualname_of(kind) + "." + node.name
        self._give_signature([made], node, space)
        return made

    def _of_attribute(self, owner: str, one: Statement) -> Callable[[], object]:
        kind = self._class(owner) if owner else None
        if one.kind == FUNCTION:
            code = self._codes[1].of(one.node)
            space = dict(space_of(kind)) if kind is not None else {}

            def sign() -> object:
                functions = [function for function in self._touched if function.__code__ is code]
                self._give_signature(functions, one.node, space)
                return ABSENT

            return sign
        code = self._compile(ast.Module([one.node], []), "exec")

        def assign() -> object:
            before = dict(space_of(kind))
            space = {**before, "__annotations__": dict(before.get("__annotations__") or {})}
            exec(code, self._space, space)
            for name in _assigned(space, before):
                setattr(kind, name, space[name])
                name_it = getattr(type(space[name]), "__set_name__", None)
                if name_it is not None and _is_plain_class(kind):
                    name_it(space[name], kind, name)
            return ABSENT

        return assign

    def _give_signature(self, functions: list[types.FunctionType], node: Any, space: dict[str, Any]) -> None:
        """Give functions the defaults and annotations of a statement; a default that is written as before stays."""
        stub = type(node)(**{name: getattr(node, name, None) for name in node._fields})
        stub.decorator_list, stub.body = [], [ast.Pass()]
        ast.copy_location(stub, node)
        stub.lineno, stub.end_lineno = node.lineno, node.end_lineno
        ast.copy_location(stub.body[0], node)
        locals_ = dict(space)
        exec(self._compile(ast.Module([stub], []), "exec"), self._space, locals_)
        made = locals_[node.name]
        old = self._former.get(id(node))
        for function in functions:
            self._note_signature(function)
            written = _defaults(old.node.args, function) if old is not None else {}
            fresh = _defaults(node.args, made)
            values = {
                name: written[name][1] if name in written and written[name][0] == text else value
                for name, (text, value) in fresh.items()
            }
            plain = [one.arg for one in (*getattr(node.args, "posonlyargs", []), *node.args.args)]
            function.__defaults__ = tuple(values[name] for name in plain if name in values) or None
            function.__kwdefaults__ = {
                one.arg: values[one.arg] for one in node.args.kwonlyargs if one.arg in values
            } or None
            function.__annotations__ = made.__annotations__

    def _note_signature(self, function: types.FunctionType) -> None:
        before = function.__defaults__, function.__kwdefaults__, function.__annotations__

        def undo() -> None:
            function.__defaults__, function.__kwdefaults__, function.__annotations__ = before

        self._held.note("", lambda: True, undo)

    def _of_members(self, owner: str, names: set[str], node: ast.stmt) -> Callable[[], object]:
        kind, code = self._class(owner), self._compile(ast.Module([node], []), "exec")

        def graft() -> object:
            space: dict[str, Any] = {}
            exec(code, self._space, space)
            changed = take_members(kind, space[owner[:-1].rpartition(".")[2]], names, self._held.note)
            for name in changed:
                self.stays.append((owner + name, "who holds the former member has another object"))
            return ABSENT

        return graft

    def _compile(self, node: Any, mode: str) -> types.CodeType:
        flags = self._codes[1].code.co_flags & FUTURE
        code: types.CodeType = compile(node, self._file, mode, flags, dont_inherit=True)
        return code

    @staticmethod
    def _runner(code: types.CodeType, space: dict[str, Any]) -> Callable[[], object]:
        def run() -> object:
            exec(code, space)
            return ABSENT

        return run

    def derived(self, changed: Container[str]) -> Iterator[str]:
        """The names of statements that did not run although they were computed from names with new objects."""
        ran = {*self._tops}
        for one in self._all:
            if one.kind == VALUE and not one.guard and one.top not in ran and id(one.node) not in self._attributes:
                value = getattr(one.node, "value", None)
                if value is not None and any(name in changed for name in _evaluated(value)):
                    yield one.name


def _come(changes: Iterable[Change]) -> Iterator[Statement]:
    return (one.new for one in changes if one.old is None and one.new is not None)


def _codes_in(code: types.CodeType) -> Iterator[types.CodeType]:
    for one in code.co_consts:
        if type(one) is types.CodeType:
            yield one
            yield from _codes_in(one)


def _says_nothing(node: Any) -> bool:
    return isinstance(node, ast.Pass) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))


def _names_bound(node: Any) -> list[str]:
    """The plain names that a statement binds in its scope."""
    if isinstance(node, ast.Import):
        return [one.asname or one.name.partition(".")[0] for one in node.names]
    return [name for name in targets(node) if "." not in name]


def _decorators(one: Statement) -> list[ast.expr]:
    found: list[ast.expr] = one.node.decorator_list
    return found


def _name_of(node: ast.expr) -> str:
    inner = node.func if isinstance(node, ast.Call) else node
    return str(getattr(inner, "attr", None) or getattr(inner, "id", ""))


def _is_open(kind: Any, node: Any) -> bool:
    """True if an existing class takes a method just as a new one."""
    if node.name in CONSUMED:
        return False
    return _is_plain_class(kind) or all(_name_of(one) in TRANSPARENT for one in node.decorator_list)


def _is_plain_class(kind: Any) -> bool:
    """True if only Python looked at the names of a class when it was made."""
    if type(kind).__name__ not in ("type", "ABCMeta") or type(kind).__module__ not in ("builtins", "abc"):
        return False
    space = space_of(kind)
    if "__dataclass_fields__" in space or "__attrs_attrs__" in space or "_fields" in space:
        return False
    return not any("__init_subclass__" in space_of(base) for base in kind.__mro__[1:-1])


def _has_setter(kind: type) -> bool:
    return any(
        "__setattr__" in space_of(one) for one in type.__dict__["__mro__"].__get__(kind) if one not in (type, object)
    )


def _assigned(space: dict[str, Any], before: dict[str, Any]) -> list[str]:
    found = [
        name for name, value in space.items() if name != "__annotations__" and before.get(name, ABSENT) is not value
    ]
    return [*found, *(["__annotations__"] if space["__annotations__"] != (before.get("__annotations__") or {}) else [])]


def _defaults(arguments: Any, function: types.FunctionType) -> dict[str, tuple[str, Any]]:
    """The default of each parameter by name: its source and its value."""
    plain = [one.arg for one in (*getattr(arguments, "posonlyargs", []), *arguments.args)]
    given = function.__defaults__ or ()
    texts = [dump(one) for one in arguments.defaults]
    found: dict[str, tuple[str, Any]] = {}
    if len(given) == len(texts):
        found.update(zip(plain[len(plain) - len(texts) :], zip(texts, given)))
    for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults):
        if default is not None and one.arg in (function.__kwdefaults__ or {}):
            found[one.arg] = dump(default), (function.__kwdefaults__ or {})[one.arg]
    return found


def _evaluated(node: ast.AST) -> Iterator[str]:
    """The names that an expression itself reads, not those within its lambdas."""
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if isinstance(one, ast.Name):
            yield one.id
        elif not isinstance(one, ast.Lambda):
            waiting += ast.iter_child_nodes(one)
