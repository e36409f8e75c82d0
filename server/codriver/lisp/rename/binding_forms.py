"""Binding forms: `let`, `fn` and the like, and where their names hold, in Clojure and its family.

A form that is not known binds nothing here. What it does bind is then taken for the namespace's, and a renaming changes
all of it alike, which keeps its meaning.

Source: Clojure's reference on special forms, `clojure.core`, and the documentation of Hy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver.lisp.rename.destructuring import bind, pairs
from codriver.lisp.rename.lexical_scope import NAMESPACE, QUOTED, REFERRED, Scope, Walk

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from codriver.lisp.reader import Form
    from codriver.lisp.rename.lexical_scope import Binder, Occurrence
    from codriver.lisp.source_text import Document

    Items = Sequence[Form]


def occurrences(
    document: Document, forms: Sequence[Form], names: tuple[str, str], words: Iterable[str]
) -> list[Occurrence]:
    """The places of `words` in the code of top-level `forms`, in order, each with what both `names` are there."""
    walk = Walk(document.text, *names, words, is_hy=document.is_hy)
    return walk.walk(forms, HY_BINDERS if document.is_hy else BINDERS)


def _let(walk: Walk, items: Items, scope: Scope) -> None:
    """A binding vector, and a body that knows its names."""
    walk.code(items[2:], _bound(walk, items, scope))


def _if_let(walk: Walk, items: Items, scope: Scope) -> None:
    """A binding vector, one form that knows its names, and others that do not."""
    walk.code(items[2:3], _bound(walk, items, scope))
    walk.code(items[3:], scope)


def _bound(walk: Walk, items: Items, scope: Scope) -> Scope:
    if len(items) < 2 or items[1].kind != "vector":
        walk.code(items[1:2], scope)
        return scope
    return pairs(walk, items[1], scope)


def _fn(walk: Walk, items: Items, scope: Scope) -> None:
    _tail(walk, _self_named(walk, items, scope, 1))


def _self_named(walk: Walk, items: Items, scope: Scope, at: int) -> tuple[Items, Scope]:
    """The items of a function from `at` on, without the name it may have for itself; and the scope with that."""
    if len(items) > at and (name := walk.unwrap(items[at], scope)).kind == "atom":
        return items[at + 1 :], bind(walk, [name], scope)
    return items[at:], scope


def _tail(walk: Walk, tail: tuple[Items, Scope]) -> None:
    """Walk the part behind a function's name: parameters and body, or a list of both for each arity."""
    items, scope = tail
    is_schema = False
    for number, item in enumerate(items):
        inner = item if is_schema else walk.unwrap(item, scope)
        if inner.kind == "vector" and not is_schema:
            walk.code(items[number + 1 :], bind(walk, [inner], scope))
            return
        parts = walk.items(inner, scope) if inner.kind == "list" else []
        params = walk.unwrap(parts[0], scope) if parts else None
        if params is not None and params.kind == "vector":
            walk.code(parts[1:], bind(walk, [params], scope))
        else:
            walk.code([inner], scope)
        is_schema = inner.kind == "atom" and walk.word(inner) == ":-"


def _defn(walk: Walk, items: Items, scope: Scope) -> None:
    at = 1
    while at < len(items) and items[at].kind == "atom" and walk.word(items[at]).startswith(":"):
        at += 1  # as in Hy's (defn :async f [])
    for name in items[at : at + 1]:
        walk.name(name, "global", scope)
    _tail(walk, (items[at + 1 :], scope))


def _def(walk: Walk, items: Items, scope: Scope) -> None:
    for name in items[1:2]:
        walk.name(name, "global", scope)
    walk.code(items[2:], scope)


def _binding(walk: Walk, items: Items, scope: Scope) -> None:
    """Walk `binding` and `with-redefs`, whose names are the namespace's and hide nothing."""
    parts = walk.items(items[1], scope) if len(items) > 1 else []
    for name in parts[::2]:
        walk.name(name, "global", scope)
    walk.code(parts[1::2], scope)
    walk.code(items[2:], scope)


def _declare(walk: Walk, items: Items, scope: Scope) -> None:
    for name in items[1:]:
        walk.name(name, "global", scope)


def _defmethod(walk: Walk, items: Items, scope: Scope) -> None:
    walk.code(items[1:3], scope)
    _tail(walk, _self_named(walk, items, scope, 3))


def _letfn(walk: Walk, items: Items, scope: Scope) -> None:
    """Functions that know one another."""
    functions = [walk.items(form, scope) for form in items[1].children] if len(items) > 1 else []
    scope = bind(walk, [function[0] for function in functions if function], scope)
    for function in functions:
        _tail(walk, (function[1:], scope))
    walk.code(items[2:], scope)


def _third(walk: Walk, items: Items, scope: Scope) -> None:
    """`catch` and `as->`: the third names what the others behind it know."""
    walk.code(items[1:2], scope)
    walk.code(items[3:], bind(walk, items[2:3], scope))


def _second(walk: Walk, items: Items, scope: Scope) -> None:
    walk.code(items[2:], bind(walk, items[1:2], scope))


def _are(walk: Walk, items: Items, scope: Scope) -> None:
    """Names that the expression knows, and not the values behind it."""
    walk.code(items[2:3], bind(walk, items[1:2], scope))
    walk.code(items[3:], scope)


def _array(walk: Walk, items: Items, scope: Scope) -> None:
    """An array, the names of index and result, and last an expression that knows them."""
    walk.code([*items[1:2], *items[4:-1]], scope)
    walk.code(items[4:][-1:], bind(walk, items[2:4], scope))


def _thread(walk: Walk, items: Items, scope: Scope) -> None:
    """`->` puts a form into each that follows, so that the name of `as->` comes second there."""
    walk.code(items[1:2], scope)
    for item in items[2:]:
        parts = walk.items(item, scope) if item.kind == "list" else []
        if parts and parts[0].kind == "atom" and walk.word(parts[0]).rpartition("/")[2] == "as->":
            _second(walk, parts, scope)
        else:
            walk.code([item], scope)


def _type(walk: Walk, items: Items, scope: Scope) -> None:
    """A record's or type's methods know its fields; what they implement does not."""
    for name in items[1:2]:
        walk.name(name, "type", scope)
    fields = walk.items(items[2], scope) if len(items) > 2 else []
    _methods(walk, items[3:], scope, bind(walk, fields, scope, "field"))


def _methods(walk: Walk, items: Items, scope: Scope, inner: Scope) -> None:
    """Methods, in the scope `inner`, among the names of what they implement."""
    for item in _all(walk, items, scope):
        parts = walk.items(item, scope) if item.kind == "list" else []
        if parts:
            walk.name(parts[0], "method", inner)
            _tail(walk, (parts[1:], inner))
        else:
            walk.code([item], scope)


def _all(walk: Walk, items: Items, scope: Scope) -> list[Form]:
    """The items with those that reader conditionals put among them, for whatever platform."""
    found: list[Form] = []
    for item in items:
        branches = walk.branches(item)
        if branches and walk.text.startswith("#?@", item.start):
            found += [part for branch in branches for part in walk.items(branch, scope)]
        else:
            found += branches or [item]
    return found


def _reify(walk: Walk, items: Items, scope: Scope) -> None:
    _methods(walk, items[1:], scope, scope)


def _proxy(walk: Walk, items: Items, scope: Scope) -> None:
    walk.code(items[1:3], scope)
    _methods(walk, items[3:], scope, scope)


def _protocol(walk: Walk, items: Items, scope: Scope) -> None:
    for name in items[1:2]:
        walk.name(name, "type" if walk.word(items[0]) == "definterface" else "global", scope)
    for item in _all(walk, items[2:], scope):
        parts = walk.items(item, scope) if item.kind == "list" else []
        if not parts:
            walk.code([item], scope)
            continue
        walk.name(parts[0], "protocol", scope)
        for part in parts[1:]:
            if part.kind == "vector":
                bind(walk, [part], scope)
            else:
                walk.code([part], scope)


def _quote(walk: Walk, items: Items, scope: Scope) -> None:
    walk.code(items[1:], scope, QUOTED)


def _ns(walk: Walk, items: Items, scope: Scope) -> None:
    for name in items[1:2]:
        walk.own = walk.word(walk.unwrap(name, scope))
    walk.code(items[1:], scope, NAMESPACE)


def _require(walk: Walk, items: Items, scope: Scope) -> None:
    """Walk a call of `require` or `use`, whose quoted arguments mean the same as in the `ns` form."""
    for item in items[1:]:
        is_quoted = item.kind == "prefixed" and walk.text.startswith("'", item.start)
        walk.code(item.children if is_quoted else [item], scope, NAMESPACE if is_quoted else 0)


def _case(walk: Walk, items: Items, scope: Scope) -> None:
    """Every second form behind the value is a constant; one that is left over is what is else."""
    walk.code(items[1:2], scope)
    for constant, value in zip(items[2::2], items[3::2], strict=False):
        walk.code([constant], scope, QUOTED)
        walk.code([value], scope)
    if len(items) % 2:
        walk.code(items[-1:], scope)


def _member(walk: Walk, items: Items, scope: Scope) -> None:
    """`(. object member …)` and `(. object (member …))`."""
    _members(walk, items[:3], scope)
    walk.code(items[3:], scope)


def _members(walk: Walk, items: Items, scope: Scope) -> None:
    """`(.. object member (member …) …)`."""
    walk.code(items[1:2], scope)
    for item in items[2:]:
        parts = walk.items(item, scope) if item.kind == "list" else [item]
        for part in parts[:1]:
            walk.name(part, "method", scope)
        walk.code(parts[1:], scope)


def _class(walk: Walk, items: Items, scope: Scope) -> None:
    """Hy's `(defclass Name [bases] …)`: what is defined in it is the class's."""
    for name in items[1:2]:
        walk.name(name, "global", scope)
    for item in items[2:]:
        parts = walk.items(item, scope) if item.kind == "list" else []
        if len(parts) > 1 and walk.word(parts[0]) == "defn":
            walk.name(parts[1], "method", scope)
            _tail(walk, (parts[2:], scope))
        else:
            walk.code([item], scope)


def _import(walk: Walk, items: Items, scope: Scope) -> None:
    """Hy's `(import module [name …])`: the names are the module's."""
    for item in items[1:]:
        walk.code([item], scope, REFERRED if item.kind == "vector" else NAMESPACE)


def _named(*groups: tuple[str, Binder]) -> dict[str, Binder]:
    return {name: binder for names, binder in groups for name in names.split()}


_BOTH = _named(
    ("let", _let),
    ("fn", _fn),
    ("defn defmacro", _defn),
    ("quote", _quote),
    (".", _member),
)
BINDERS: Mapping[str, Binder] = _BOTH | _named(
    ("let* loop loop* for doseq dotimes go-loop for-all", _let),
    ("when-let when-some when-first with with-open with-local-vars", _let),
    ("if-let if-some", _if_let),
    ("fn* bound-fn", _fn),
    ("defn- definline", _defn),
    ("def defonce defmulti deftest", _def),
    ("declare var", _declare),
    ("binding with-redefs", _binding),
    ("defmethod", _defmethod),
    ("letfn", _letfn),
    ("catch as->", _third),
    ("this-as", _second),
    ("are", _are),
    ("amap areduce", _array),
    ("-> some-> cond->", _thread),
    ("deftype defrecord", _type),
    ("reify extend-type extend-protocol specify specify!", _reify),
    ("proxy", _proxy),
    ("defprotocol definterface", _protocol),
    ("case", _case),
    ("..", _members),
    ("ns", _ns),
    ("require use", _require),
)
HY_BINDERS: Mapping[str, Binder] = _BOTH | _named(
    ("fn/a", _fn), ("defn/a", _defn), ("defclass", _class), ("import require", _import)
)
