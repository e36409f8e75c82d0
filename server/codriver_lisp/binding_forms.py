"""Binding forms such as `let` and `fn` in Clojure and related dialects, and the scopes of their names.

A form that is not in the table is assumed to bind nothing, so the names that it does bind are treated as names in the
namespace.

Sources: Clojure's reference on special forms, and `clojure.core`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver_lisp.destructuring import bind, bind_pairs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codriver_lisp.lexical_scope import Binder, Items, Scope, Walk
    from codriver_lisp.reader import Form


def _walk_let(walk: Walk, items: Items, scope: Scope) -> None:
    """Walk a binding vector, and then the body in the scope of its names."""
    walk.schedule(items[2:], _bind_vector(walk, items, scope))


def _walk_if_let(walk: Walk, items: Items, scope: Scope) -> None:
    """Walk a binding vector, then one form in the scope of its names, and then the other forms outside that scope."""
    walk.schedule(items[2:3], _bind_vector(walk, items, scope))
    walk.schedule(items[3:], scope)


def _bind_vector(walk: Walk, items: Items, scope: Scope) -> Scope:
    """Walk a binding vector, and return the scope with its names bound."""
    if len(items) < 2 or items[1].kind != "vector":
        walk.schedule(items[1:2], scope)
        return scope
    return bind_pairs(walk, items[1], scope)


def _walk_fn(walk: Walk, items: Items, scope: Scope) -> None:
    _walk_function(walk, *_bind_function_name(walk, items[1:], scope))


def _bind_function_name(walk: Walk, items: Items, scope: Scope) -> tuple[Items, Scope]:
    """Bind the optional name of a function inside the function itself.

    Return the items after the name, and the scope in which the name is bound.
    """
    if items and (name := walk.unwrap_metadata(items[0])).kind == "atom":
        return items[1:], bind(walk, [name], scope)
    return items, scope


def _walk_function(walk: Walk, items: Items, scope: Scope) -> None:
    """Walk the parameters and body of a function, or of each of its arities."""
    is_schema = False
    for number, item in enumerate(items):
        inner = item if is_schema else walk.unwrap_metadata(item)
        if inner.kind == "vector" and not is_schema:
            walk.schedule(items[number + 1 :], bind(walk, [inner], scope))
            return
        parts = walk.items(inner) if inner.kind == "list" else []
        params = walk.unwrap_metadata(parts[0]) if parts else None
        if params is not None and params.kind == "vector":
            walk.schedule(parts[1:], bind(walk, [params], scope))
        else:
            walk.schedule([inner], scope)
        is_schema = inner.kind == "atom" and walk.source_text(inner) == ":-"


def _walk_defn(walk: Walk, items: Items, scope: Scope) -> None:
    for name in items[1:2]:
        walk.walk_defined_name(name, scope)
    _walk_function(walk, items[2:], scope)


def _walk_def(walk: Walk, items: Items, scope: Scope) -> None:
    for name in items[1:2]:
        walk.walk_defined_name(name, scope)
    walk.schedule(items[2:], scope)


def _walk_declare(walk: Walk, items: Items, scope: Scope) -> None:
    for name in items[1:]:
        walk.walk_defined_name(name, scope)


def _walk_var(walk: Walk, items: Items, scope: Scope) -> None:
    for name in items[1:]:
        walk.walk_global_name(name, scope)


def _walk_rebinding(walk: Walk, items: Items, scope: Scope) -> None:
    """Walk `binding` or `with-redefs`, which rebind global names and do not shadow them."""
    parts = walk.items(items[1]) if len(items) > 1 else []
    for name in parts[::2]:
        walk.walk_global_name(name, scope)
    walk.schedule(parts[1::2], scope)
    walk.schedule(items[2:], scope)


def _walk_defmethod(walk: Walk, items: Items, scope: Scope) -> None:
    walk.schedule(items[1:3], scope)
    _walk_function(walk, *_bind_function_name(walk, items[3:], scope))


def _walk_letfn(walk: Walk, items: Items, scope: Scope) -> None:
    """Walk `letfn`, whose functions can all call each other."""
    functions = [walk.items(form) for form in walk.items(items[1])] if len(items) > 1 else []
    scope = bind(walk, [function[0] for function in functions if function], scope)
    for function in functions:
        _walk_function(walk, function[1:], scope)
    walk.schedule(items[2:], scope)


def _walk_third_bound(walk: Walk, items: Items, scope: Scope) -> None:
    """Walk a form such as `catch` or `as->`, whose third item is a name bound in the items after it."""
    walk.schedule(items[1:2], scope)
    walk.schedule(items[3:], bind(walk, items[2:3], scope))


def _walk_second_bound(walk: Walk, items: Items, scope: Scope) -> None:
    """Walk a form whose second item is a pattern bound in the items after it."""
    walk.schedule(items[2:], bind(walk, items[1:2], scope))


def _walk_are(walk: Walk, items: Items, scope: Scope) -> None:
    """Walk `are`. Its names are bound in the expression, but not in the values after it."""
    walk.schedule(items[2:3], bind(walk, items[1:2], scope))
    walk.schedule(items[3:], scope)


def _walk_amap(walk: Walk, items: Items, scope: Scope) -> None:
    """Walk `(amap array index result expression)`. The index and result are bound in the expression."""
    walk.schedule(items[1:2], scope)
    walk.schedule(items[4:], bind(walk, items[2:4], scope))


def _walk_areduce(walk: Walk, items: Items, scope: Scope) -> None:
    """Walk `(areduce array index result start expression)`. The index is also bound in the start value."""
    walk.schedule(items[1:2], scope)
    scope = bind(walk, items[2:3], scope)
    walk.schedule(items[4:5], scope)
    walk.schedule(items[5:], bind(walk, items[3:4], scope))


def _walk_thread(walk: Walk, items: Items, scope: Scope) -> None:
    """Walk `->`, which inserts a value into each form, so the name in a nested `as->` is not the third item."""
    walk.schedule(items[1:2], scope)
    for item in items[2:]:
        parts = walk.items(item) if item.kind == "list" else []
        if walk.head(parts) == "as->":
            _walk_second_bound(walk, parts, scope)
        else:
            walk.schedule([item], scope)


def _walk_type(walk: Walk, items: Items, scope: Scope) -> None:
    """Walk a record or type. Its fields are bound in its methods."""
    for name in items[1:2]:
        walk.walk_defined_name(name, scope)
    _walk_methods(walk, items[3:], scope, bind(walk, items[2:3], scope))


def _walk_methods(walk: Walk, items: Items, scope: Scope, inner: Scope) -> None:
    """Walk methods in the scope `inner`, and the names of protocols between them in `scope`."""
    for item in _with_branches(walk, items):
        parts = walk.items(item) if item.kind == "list" else []
        if parts:
            walk.walk_member_name(parts[0], inner)
            _walk_function(walk, parts[1:], inner)
        else:
            walk.schedule([item], scope)


def _with_branches(walk: Walk, items: Items) -> list[Form]:
    """Return the items, replacing each reader conditional with the forms of all its branches."""
    found: list[Form] = []
    for item in items:
        branches = walk.conditional_branches(item)
        if branches and walk.text.startswith("#?@", item.start):
            found += [part for branch in branches for part in walk.items(branch)]
        else:
            found += branches or [item]
    return found


def _walk_reify(walk: Walk, items: Items, scope: Scope) -> None:
    _walk_methods(walk, items[1:], scope, scope)


def _walk_proxy(walk: Walk, items: Items, scope: Scope) -> None:
    walk.schedule(items[1:3], scope)
    _walk_methods(walk, items[3:], scope, scope)


def _walk_protocol(walk: Walk, items: Items, scope: Scope) -> None:
    """Walk a protocol or interface, which defines its own name and the names of its methods."""
    for name in items[1:2]:
        walk.walk_defined_name(name, scope)
    for item in _with_branches(walk, items[2:]):
        for name in walk.items(item)[:1] if item.kind == "list" else ():
            walk.walk_defined_name(name, scope)


def _walk_case(walk: Walk, items: Items, scope: Scope) -> None:
    """Walk `case`, in which constants and values alternate. A single last form is the default."""
    walk.schedule([*items[1:2], *items[3::2]], scope)
    if len(items) % 2:
        walk.schedule(items[-1:], scope)


def _walk_member(walk: Walk, items: Items, scope: Scope) -> None:
    """Walk `(. object member …)` or `(. object (member …))`."""
    _walk_members(walk, items[:3], scope)
    walk.schedule(items[3:], scope)


def _walk_members(walk: Walk, items: Items, scope: Scope) -> None:
    """Walk a chain of member accesses, `(.. object member (member …) …)`."""
    walk.schedule(items[1:2], scope)
    for item in items[2:]:
        parts = walk.items(item) if item.kind == "list" else [item]
        for part in parts[:1]:
            walk.walk_member_name(part, scope)
        walk.schedule(parts[1:], scope)


def skip_form(_walk: Walk, _items: Items, _scope: Scope) -> None:
    """Ignore a form that contains no code, such as a quote or an import."""


def binders_by_name(*groups: tuple[str, Binder]) -> dict[str, Binder]:
    """Return a dict from the names of binding forms to the functions that walk them.

    Each group is a string of names separated by spaces, and the function for these names.
    """
    return {name: binder for names, binder in groups for name in names.split()}


CLOJURE_BINDERS: Mapping[str, Binder] = binders_by_name(
    ("let let* loop loop* for doseq dotimes go-loop for-all", _walk_let),
    ("when-let when-some when-first with with-open with-local-vars", _walk_let),
    ("if-let if-some", _walk_if_let),
    ("fn fn* bound-fn", _walk_fn),
    ("defn defn- defmacro definline", _walk_defn),
    ("def defonce defmulti deftest", _walk_def),
    ("declare", _walk_declare),
    ("var", _walk_var),
    ("binding with-redefs", _walk_rebinding),
    ("defmethod", _walk_defmethod),
    ("letfn", _walk_letfn),
    ("catch as->", _walk_third_bound),
    ("this-as", _walk_second_bound),
    ("are", _walk_are),
    ("amap", _walk_amap),
    ("areduce", _walk_areduce),
    ("-> some-> cond->", _walk_thread),
    ("deftype defrecord", _walk_type),
    ("reify extend-type extend-protocol specify specify!", _walk_reify),
    ("proxy", _walk_proxy),
    ("defprotocol definterface", _walk_protocol),
    ("case", _walk_case),
    (".", _walk_member),
    ("..", _walk_members),
    ("quote ns import", skip_form),
)
"""Functions that walk the binding forms of Clojure's dialects, by the names of the forms."""
