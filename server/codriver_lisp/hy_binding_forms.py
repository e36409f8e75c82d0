"""Binding forms in Hy, and the scopes of their names.

As in Python, a name that a function assigns anywhere is local throughout the function, unless it declares the name
global or nonlocal. The captures of `match` and the binding forms of Hyrule are not understood.

Sources: Hy's API reference; Python's reference on naming and binding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver_lisp.binding_forms import binders_by_name, skip_form
from codriver_lisp.lexical_scope import Scope

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from codriver_lisp.lexical_scope import Binder, Items, Walk
    from codriver_lisp.reader import Form

_COMPREHENSION_RESULTS = {"lfor": 1, "sfor": 1, "gfor": 1, "dfor": 2}
"""The number of forms at the end of a comprehension that make up its result, by the comprehension's head."""
_FUNCTION_HEADS = frozenset({"fn", "fn/a", "defn", "defn/a", "defmacro", "defclass"})
"""Heads of forms with a scope of their own."""


def _is_keyword(walk: Walk, form: Form) -> bool:
    return form.kind == "atom" and walk.text.startswith(":", form.start)


def _is_tuple(walk: Walk, form: Form) -> bool:
    return form.kind == "function" or (form.kind == "list" and walk.head(walk.items(form)) == ",")


def _split_targets(walk: Walk, targets: Iterable[Form]) -> tuple[bool, list[Form]]:
    """Return whether assigning to `targets` binds the name, and the code inside the targets, such as annotations."""
    is_bound = False
    code: list[Form] = []
    pending = [*targets]
    while pending:
        form = pending.pop()
        if form.kind == "atom" and walk.source_text(form) == walk.name:
            is_bound = True
        elif form.kind == "vector" or _is_tuple(walk, form):
            pending += walk.items(form)
        elif form.kind == "prefixed":
            parts = walk.items(form)
            code += parts[:-1]
            pending += parts[-1:]
        else:
            code.append(form)  # `name.price` as a target is an attribute of the object
    return is_bound, code


def _walk_targets(walk: Walk, targets: Iterable[Form], scope: Scope) -> bool:
    """Walk the code inside assignment targets, and return whether they bind the name."""
    is_bound, code = _split_targets(walk, targets)
    walk.schedule(code, scope)
    return is_bound


def _walk_pairs(walk: Walk, items: Items, scope: Scope) -> Scope:
    """Walk pairs of targets and values, each in the scope of the previous pairs, and return the scope after them.

    A value without a target is walked as code.
    """
    pairs = [item for item in items if not _is_keyword(walk, item)]
    if len(pairs) % 2:
        walk.schedule(pairs[-1:], scope)
    for target, value in zip(pairs[::2], pairs[1::2], strict=False):
        walk.schedule([value], scope)
        if _walk_targets(walk, [target], scope):
            scope = Scope.LOCAL
    return scope


def _walk_bound_pairs(walk: Walk, items: Items, scope: Scope) -> None:
    """Walk `let`, `with` or `except`: pairs of targets and values, and a body in their scope."""
    vector = items[1:2]
    if vector and vector[0].kind == "vector":
        walk.schedule(items[2:], _walk_pairs(walk, walk.items(vector[0]), scope))
    else:
        walk.schedule(items[1:], scope)


def _walk_setv(walk: Walk, items: Items, scope: Scope) -> None:
    pairs = items[1:]
    walk.schedule(pairs[1::2], scope)
    walk.defines_name |= _walk_targets(walk, pairs[::2], scope)


def _split_clauses(walk: Walk, items: Items) -> tuple[list[Form], list[Form]]:
    """Split the clauses of a loop or comprehension into its targets and the other forms."""
    targets: list[Form] = []
    values: list[Form] = []
    is_target = True
    for item in items:
        if _is_keyword(walk, item):
            is_target = walk.source_text(item) not in (":if", ":do")
        elif is_target:
            targets.append(item)
            is_target = False
        else:
            values.append(item)
            is_target = True
    return targets, values


def _walk_clauses(walk: Walk, items: Items, scope: Scope) -> Scope:
    """Walk the clauses of a loop or comprehension, and return the scope with all their targets bound.

    As in Python, only the first iterable is evaluated outside this scope.
    """
    targets, values = _split_clauses(walk, items)
    inner = Scope.LOCAL if _walk_targets(walk, targets, scope) else scope
    walk.schedule(values[:1], scope)
    walk.schedule(values[1:], inner)
    return inner


def _walk_comprehension(walk: Walk, items: Items, scope: Scope) -> None:
    end = len(items) - _COMPREHENSION_RESULTS[walk.head(items)]
    walk.schedule(items[end:], _walk_clauses(walk, items[1:end], scope))


def _walk_for(walk: Walk, items: Items, scope: Scope) -> None:
    clauses = walk.items(items[1]) if len(items) > 1 else []
    walk.schedule(items[2:], _walk_clauses(walk, clauses, scope))


def _walk_fn(walk: Walk, items: Items, scope: Scope) -> None:
    rest = items[1:]
    while rest and _is_keyword(walk, rest[0]):
        rest = rest[1:]
    _walk_function(walk, rest, scope)


def _walk_defn(walk: Walk, items: Items, scope: Scope) -> None:
    """Walk `(defn :async [decorators] name [parameters] …)`."""
    items = _walk_decorators(walk, items[1:], scope)
    for name in items[:1]:
        walk.walk_defined_name(name, scope)
    _walk_function(walk, items[1:], scope)


def _walk_decorators(walk: Walk, items: Items, scope: Scope) -> Items:
    """Walk the decorators and type parameters of a definition, and return the items from its name on."""
    for number, item in enumerate(items):
        if item.kind == "vector":
            walk.schedule([item], scope)
        elif not _is_keyword(walk, item):
            return items[number:]
    return ()


def _walk_function(walk: Walk, items: Items, scope: Scope) -> None:
    """Walk the parameters and the body of a function."""
    params, body = items[:1], items[1:]
    inner = scope
    for param in walk.items(params[0]) if params else ():
        plain = param
        if param.kind == "vector":  # a parameter with a default value
            plain, *defaults = walk.items(param) or [param]
            walk.schedule(defaults, scope)
        if _walk_targets(walk, [plain], scope):
            inner = Scope.LOCAL
    walk.schedule(body, _body_scope(walk, body, inner, scope))


def _walk_class(walk: Walk, items: Items, scope: Scope) -> None:
    """Walk `(defclass [decorators] Name [bases] …)`. Methods do not see the names assigned in the class."""
    items = _walk_decorators(walk, items[1:], scope)
    for name in items[:1]:
        walk.walk_defined_name(name, scope)
    walk.schedule(items[1:2], scope)
    inner = scope
    for item in items[2:]:
        is_function = item.kind == "list" and walk.head(walk.items(item)) in _FUNCTION_HEADS
        walk.schedule([item], scope if is_function else inner)
        inner = _body_scope(walk, [item], inner, scope)


def _body_scope(walk: Walk, body: Items, inner: Scope, outer: Scope) -> Scope:
    """Return the scope of a body, which is local if the body assigns the name.

    If the body declares the name global or nonlocal, its scope is that of the surrounding code.
    """
    pending = [*body]
    while pending:
        form = pending.pop()
        if form.kind in ("atom", "discard") or not walk.has_name(form):
            continue
        items = walk.items(form)
        head = walk.head(items) if form.kind == "list" else ""
        if head in ("global", "nonlocal") and walk.name in map(walk.source_text, items[1:]):
            return Scope.GLOBAL if head == "global" else outer
        is_bound, _ = _split_targets(walk, _targets(walk, head, items))
        if head == "let":
            pending += () if is_bound else items  # assignments in `let` change its own name
            continue
        if is_bound:
            inner = Scope.LOCAL
        is_quoted = head == "quote" or (form.kind == "prefixed" and walk.text.startswith(("'", "`"), form.start))
        if not (is_quoted or head in _FUNCTION_HEADS or head in _COMPREHENSION_RESULTS):
            pending += items
    return inner


def _targets(walk: Walk, head: str, items: Items) -> Items:
    """Return the targets of a form that assigns names."""
    vector = walk.items(items[1]) if len(items) > 1 and items[1].kind == "vector" else []
    if head in ("setv", "setx"):
        return items[1::2]
    if head in ("let", "with"):
        pairs = [item for item in vector if not _is_keyword(walk, item)]
        return pairs[: len(pairs) // 2 * 2 : 2]
    if head == "for":
        return _split_clauses(walk, vector)[0]
    if head in ("import", "require"):
        flat = [part for item in items[1:] for part in (walk.items(item) if item.kind == "vector" else [item])]
        return [
            part
            for part, after in zip(flat, [*flat[1:], None], strict=True)
            if not after or walk.source_text(after) != ":as"
        ]
    if head in _FUNCTION_HEADS - {"fn", "fn/a"}:
        return [item for item in items[1:] if item.kind == "atom" and not _is_keyword(walk, item)][:1]
    return ()


def _walk_attributes(walk: Walk, items: Items, scope: Scope) -> None:
    """Walk `(. object attribute [index] (method argument …) …)`."""
    walk.schedule(items[1:2], scope)
    for item in items[2:]:
        if item.kind != "atom":
            walk.schedule(walk.items(item)[item.kind == "list" :], scope)


HY_BINDERS: Mapping[str, Binder] = binders_by_name(
    ("let with with/a except except*", _walk_bound_pairs),
    ("setv setx", _walk_setv),
    ("for for/a", _walk_for),
    ("lfor sfor gfor dfor", _walk_comprehension),
    ("fn fn/a", _walk_fn),
    ("defn defn/a defmacro", _walk_defn),
    ("defclass", _walk_class),
    (".", _walk_attributes),
    ("quote import require global nonlocal", skip_form),
)
"""Functions that walk Hy's binding forms, by the names of the forms."""
