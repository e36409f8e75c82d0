"""Binding forms such as `let` and `fn` in Clojure and related dialects, and the scopes of their names.

A form that is not in the tables is assumed to bind nothing, so the names that it does bind are treated as names of the
namespace. Patterns in binding vectors and parameter lists may be nested vectors and maps.

Sources: Clojure's reference on special forms, `clojure.core`, and the guide to destructuring; the `:-` annotations of
Schema; the documentation of Hy.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from typing import TYPE_CHECKING, Literal

from codriver_lisp.lexical_scope import (
    KEYS_PATTERN,
    NAMESPACE,
    QUOTED,
    REFERRED,
    Binding,
    Occurrence,
    Scope,
    Walk,
    bound_name,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from codriver_lisp.lexical_scope import Binder
    from codriver_lisp.reader import Form
    from codriver_lisp.source_text import Document

    Items = Sequence[Form]


def find_occurrences(
    document: Document, forms: Sequence[Form], names: tuple[str, str], words: Iterable[str]
) -> list[Occurrence]:
    """Find the `words` in the code of the top-level `forms`, in order.

    `names` is the pair of names, old and new, whose bindings are tracked. Each occurrence has the scope at its
    position.
    """
    walk = Walk(document.text, *names, words, is_hy=document.is_hy)
    return walk.walk(forms, HY_BINDERS if document.is_hy else CLOJURE_BINDERS)


def _walk_let(walk: Walk, items: Items, scope: Scope) -> None:
    """Walk a binding vector and then the body, in which its names are bound."""
    walk.code(items[2:], _bound(walk, items, scope))


def _walk_if_let(walk: Walk, items: Items, scope: Scope) -> None:
    """Walk a binding vector, then one form in which its names are bound, then forms in which they are not."""
    walk.code(items[2:3], _bound(walk, items, scope))
    walk.code(items[3:], scope)


def _bound(walk: Walk, items: Items, scope: Scope) -> Scope:
    """Walk a binding vector, and return the scope in which its names are bound."""
    if len(items) < 2 or items[1].kind != "vector":
        walk.code(items[1:2], scope)
        return scope
    return bind_pairs(walk, items[1], scope)


def _walk_fn(walk: Walk, items: Items, scope: Scope) -> None:
    _tail(walk, _bind_function_name(walk, items, scope, 1))


def _bind_function_name(walk: Walk, items: Items, scope: Scope, at: int) -> tuple[Items, Scope]:
    """Bind the optional name of a function, which is at item `at`, in the function itself.

    Return the remaining items and the scope that includes the name.
    """
    if len(items) > at and (name := walk.unwrap(items[at], scope)).kind == "atom":
        return items[at + 1 :], bind(walk, [name], scope)
    return items[at:], scope


def _tail(walk: Walk, tail: tuple[Items, Scope]) -> None:
    """Walk the parameters and body of a function, or the list of both for each arity."""
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


def _walk_defn(walk: Walk, items: Items, scope: Scope) -> None:
    at = 1
    while at < len(items) and items[at].kind == "atom" and walk.word(items[at]).startswith(":"):
        at += 1  # Hy: (defn :async f [])
    for name in items[at : at + 1]:
        walk.name(name, "global", scope)
    _tail(walk, (items[at + 1 :], scope))


def _walk_def(walk: Walk, items: Items, scope: Scope) -> None:
    for name in items[1:2]:
        walk.name(name, "global", scope)
    walk.code(items[2:], scope)


def _walk_rebinding(walk: Walk, items: Items, scope: Scope) -> None:
    """Walk `binding` or `with-redefs`, which rebind names of the namespace and shadow nothing."""
    parts = walk.items(items[1], scope) if len(items) > 1 else []
    for name in parts[::2]:
        walk.name(name, "global", scope)
    walk.code(parts[1::2], scope)
    walk.code(items[2:], scope)


def _walk_declare(walk: Walk, items: Items, scope: Scope) -> None:
    for name in items[1:]:
        walk.name(name, "global", scope)


def _walk_defmethod(walk: Walk, items: Items, scope: Scope) -> None:
    walk.code(items[1:3], scope)
    _tail(walk, _bind_function_name(walk, items, scope, 3))


def _walk_letfn(walk: Walk, items: Items, scope: Scope) -> None:
    """Walk functions that can all call one another."""
    functions = [walk.items(form, scope) for form in items[1].children] if len(items) > 1 else []
    scope = bind(walk, [function[0] for function in functions if function], scope)
    for function in functions:
        _tail(walk, (function[1:], scope))
    walk.code(items[2:], scope)


def _walk_third_bound(walk: Walk, items: Items, scope: Scope) -> None:
    """Walk `catch` or `as->`, in which the third item is a name bound in all the items that follow."""
    walk.code(items[1:2], scope)
    walk.code(items[3:], bind(walk, items[2:3], scope))


def _walk_second_bound(walk: Walk, items: Items, scope: Scope) -> None:
    """Walk a form whose second item is a pattern that is bound in all the items that follow."""
    walk.code(items[2:], bind(walk, items[1:2], scope))


def _walk_are(walk: Walk, items: Items, scope: Scope) -> None:
    """Walk `are`, whose names are bound in the expression but not in the values that follow."""
    walk.code(items[2:3], bind(walk, items[1:2], scope))
    walk.code(items[3:], scope)


def _array(walk: Walk, items: Items, scope: Scope) -> None:
    """Walk an array, the names of the index and the result, and an expression in which these names are bound."""
    walk.code([*items[1:2], *items[4:-1]], scope)
    walk.code(items[4:][-1:], bind(walk, items[2:4], scope))


def _thread(walk: Walk, items: Items, scope: Scope) -> None:
    """Walk `->`, which inserts a form into each one that follows, so the name bound by an inner `as->` is second."""
    walk.code(items[1:2], scope)
    for item in items[2:]:
        parts = walk.items(item, scope) if item.kind == "list" else []
        if parts and parts[0].kind == "atom" and walk.word(parts[0]).rpartition("/")[2] == "as->":
            _walk_second_bound(walk, parts, scope)
        else:
            walk.code([item], scope)


def _walk_type(walk: Walk, items: Items, scope: Scope) -> None:
    """Walk a record or type, whose fields are bound in its methods but not in the names of its protocols."""
    for name in items[1:2]:
        walk.name(name, "type", scope)
    fields = walk.items(items[2], scope) if len(items) > 2 else []
    _methods(walk, items[3:], scope, bind(walk, fields, scope, "field"))


def _methods(walk: Walk, items: Items, scope: Scope, inner: Scope) -> None:
    """Walk methods in the scope `inner`, and the protocol names between them in `scope`."""
    for item in _all(walk, items, scope):
        parts = walk.items(item, scope) if item.kind == "list" else []
        if parts:
            walk.name(parts[0], "method", inner)
            _tail(walk, (parts[1:], inner))
        else:
            walk.code([item], scope)


def _all(walk: Walk, items: Items, scope: Scope) -> list[Form]:
    """Return the items, with each reader conditional replaced by the forms of all its branches."""
    found: list[Form] = []
    for item in items:
        branches = walk.branches(item)
        if branches and walk.text.startswith("#?@", item.start):
            found += [part for branch in branches for part in walk.items(branch, scope)]
        else:
            found += branches or [item]
    return found


def _walk_reify(walk: Walk, items: Items, scope: Scope) -> None:
    _methods(walk, items[1:], scope, scope)


def _proxy(walk: Walk, items: Items, scope: Scope) -> None:
    walk.code(items[1:3], scope)
    _methods(walk, items[3:], scope, scope)


def _protocol(walk: Walk, items: Items, scope: Scope) -> None:
    """Walk a protocol or interface: its name, and the names, parameters and docstrings of its methods."""
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


def _walk_quote(walk: Walk, items: Items, scope: Scope) -> None:
    walk.code(items[1:], scope, QUOTED)


def _walk_ns(walk: Walk, items: Items, scope: Scope) -> None:
    for name in items[1:2]:
        walk.namespace = walk.word(walk.unwrap(name, scope))
    walk.code(items[1:], scope, NAMESPACE)


def _require(walk: Walk, items: Items, scope: Scope) -> None:
    """Walk a call of `require` or `use`, whose quoted arguments mean the same as in an `ns` form."""
    for item in items[1:]:
        is_quoted = item.kind == "prefixed" and walk.text.startswith("'", item.start)
        walk.code(item.children if is_quoted else [item], scope, NAMESPACE if is_quoted else 0)


def _case(walk: Walk, items: Items, scope: Scope) -> None:
    """Walk `case`: constants and values alternate after the first argument, and a last unpaired form is the default."""
    walk.code(items[1:2], scope)
    for constant, value in zip(items[2::2], items[3::2], strict=False):
        walk.code([constant], scope, QUOTED)
        walk.code([value], scope)
    if len(items) % 2:
        walk.code(items[-1:], scope)


def _member(walk: Walk, items: Items, scope: Scope) -> None:
    """Walk `(. object member …)` or `(. object (member …))`."""
    _members(walk, items[:3], scope)
    walk.code(items[3:], scope)


def _members(walk: Walk, items: Items, scope: Scope) -> None:
    """Walk `(.. object member (member …) …)`."""
    walk.code(items[1:2], scope)
    for item in items[2:]:
        parts = walk.items(item, scope) if item.kind == "list" else [item]
        for part in parts[:1]:
            walk.name(part, "method", scope)
        walk.code(parts[1:], scope)


def _class(walk: Walk, items: Items, scope: Scope) -> None:
    """Walk Hy's `(defclass Name [bases] …)`, whose functions are methods of the class."""
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
    """Walk Hy's `(import module [name …])`, in which the names belong to the module."""
    for item in items[1:]:
        walk.code([item], scope, REFERRED if item.kind == "vector" else NAMESPACE)


def _named(*groups: tuple[str, Binder]) -> dict[str, Binder]:
    """Return the functions that walk forms by the forms' names, each group of which is separated by spaces."""
    return {name: binder for names, binder in groups for name in names.split()}


_COMMON_BINDERS = _named(
    ("let", _walk_let),
    ("fn", _walk_fn),
    ("defn defmacro", _walk_defn),
    ("quote", _walk_quote),
    (".", _member),
)
CLOJURE_BINDERS: Mapping[str, Binder] = _COMMON_BINDERS | _named(
    ("let* loop loop* for doseq dotimes go-loop for-all", _walk_let),
    ("when-let when-some when-first with with-open with-local-vars", _walk_let),
    ("if-let if-some", _walk_if_let),
    ("fn* bound-fn", _walk_fn),
    ("defn- definline", _walk_defn),
    ("def defonce defmulti deftest", _walk_def),
    ("declare var", _walk_declare),
    ("binding with-redefs", _walk_rebinding),
    ("defmethod", _walk_defmethod),
    ("letfn", _walk_letfn),
    ("catch as->", _walk_third_bound),
    ("this-as", _walk_second_bound),
    ("are", _walk_are),
    ("amap areduce", _array),
    ("-> some-> cond->", _thread),
    ("deftype defrecord", _walk_type),
    ("reify extend-type extend-protocol specify specify!", _walk_reify),
    ("proxy", _proxy),
    ("defprotocol definterface", _protocol),
    ("case", _case),
    ("..", _members),
    ("ns", _walk_ns),
    ("require use", _require),
)
"""Functions that walk the binding forms of Clojure's dialects, by the names of the forms."""
HY_BINDERS: Mapping[str, Binder] = _COMMON_BINDERS | _named(
    ("fn/a", _walk_fn), ("defn/a", _walk_defn), ("defclass", _class), ("import require", _import)
)
"""Functions that walk Hy's binding forms, by the names of the forms."""


class Pattern:
    """A binding pattern, which is destructured into the names that it binds."""

    def __init__(self, walk: Walk, scope: Scope, kind: Literal["local", "field"]) -> None:
        self.found: list[tuple[Form, str, Literal["local", "field", "key"]]] = []
        self.defaults: list[tuple[Form, Form]] = []
        self._walk = walk
        self._scope = scope
        self._kind = kind
        self._pending: list[tuple[Form, bool]] = []

    def names(self, patterns: Iterable[Form]) -> list[tuple[Form, str, Literal["local", "field", "key"]]]:
        """Return a tuple for each bound name: its form, the name, and the kind of binding.

        Code inside the patterns, such as default values, is walked on the way.
        """
        walk, scope = self._walk, self._scope
        self._pending = [(form, True) for form in patterns][::-1]
        while self._pending:
            form, is_outermost = self._pending.pop()
            if not walk.has(form):
                continue
            match form.kind:
                case "atom":
                    self.found.append((form, walk.word(form), self._kind))
                case "prefixed" if form.children:
                    if walk.text.startswith("#?", form.start):
                        self._pending += [(child, False) for child in walk.branches(form)[::-1]]
                    else:
                        walk.hints(form.children[:-1], scope)
                        self._pending.append((form.children[-1], is_outermost))
                case "vector":
                    self._vector(form, is_default=walk.is_hy and not is_outermost)
                case "map":
                    self._map(form)
                case _:
                    walk.code([form], scope)
        return self.found

    def _vector(self, form: Form, *, is_default: bool) -> None:
        """Queue the patterns in a vector, and walk the code in it.

        In Hy, a nested vector is a parameter followed by its default value. The form after Schema's `:-` is code.
        """
        items = self._walk.items(form, self._scope)
        names, codes = items, items[:0]
        if is_default:
            names, codes = items[:1], items[1:]
        patterns: list[tuple[Form, bool]] = []
        is_schema = False
        for item in names:
            if is_schema:
                codes = [*codes, item]
            else:
                patterns.append((item, False))
            is_schema = item.kind == "atom" and self._walk.word(item) == ":-"
        self._pending += reversed(patterns)
        self._walk.code(codes, self._scope)

    def _map(self, form: Form) -> None:
        """Queue the patterns in a map, and walk the code in it."""
        walk = self._walk
        items = walk.items(form, self._scope)
        for key, value in zip(items[::2], items[1::2], strict=False):
            word = walk.word(key) if key.kind == "atom" else ""
            if KEYS_PATTERN.fullmatch(word) and value.kind == "vector":
                self.found += [(name, bound_name(walk.word(name)), "key") for name in walk.items(value, self._scope)]
            elif word == ":as":
                self._pending.append((value, False))
            elif word == ":or" and value.kind == "map":
                pairs = walk.items(value, self._scope)
                self.defaults += zip(pairs[::2], pairs[1::2], strict=False)
            else:
                walk.code([value], self._scope)
                if not word.startswith(":"):
                    self._pending.append((key, False))


def bind(walk: Walk, patterns: Iterable[Form], scope: Scope, kind: Literal["local", "field"] = "local") -> Scope:
    """Record the names that `patterns` bind, and return the scope in which they are bound."""
    pattern = Pattern(walk, scope, kind)
    after = scope
    names = pattern.names(patterns)
    group = next(walk.numbers)
    for form, bound, how in names:
        if bound == walk.old:
            after = dataclasses.replace(after, old=Binding(next(walk.numbers), group, form.start, how))
        elif bound == walk.new:
            after = dataclasses.replace(after, new=Binding(next(walk.numbers), group, form.start, how))
    for form, bound, how in names:
        if bound in (walk.old, walk.new):
            word = bound if how == "key" else walk.word(form)
            walk.found.append(Occurrence(form.start, form.end, word, "binding", after))
    for key, default in pattern.defaults:
        # A default value can use the other names of its pattern, but not the name that it is for.
        word = walk.word(key)
        inner = dataclasses.replace(after, old=scope.old) if word == walk.old else after
        inner = dataclasses.replace(inner, new=scope.new) if word == walk.new else inner
        walk.code([default], inner)
        walk.record(key, "binding", after)
    return after


def bind_pairs(walk: Walk, form: Form, scope: Scope) -> Scope:
    """Walk a binding vector, in which each value sees the names before it, and return the resulting scope.

    A keyword instead of a pattern is a modifier, as in `for`. The names of `:let` are bound one after the other. `#?@`
    can also splice in pairs. The names of one branch are bound after the conditional, but not in its other branches.
    """
    waiting: deque[Form | None] = deque(walk.items(form, scope))  # None marks the end of a branch
    open_branches: list[
        tuple[Scope, Scope, int]
    ] = []  # the scope before the branches, after them, and how many are left
    while waiting:
        key = waiting.popleft()
        if key is None:
            before, behind, count = open_branches.pop()
            behind = Scope(_inner(behind.old, scope.old), _inner(behind.new, scope.new))
            scope = before if count > 1 else behind
            if count > 1:
                open_branches.append((before, behind, count - 1))
            continue
        if branches := walk.branches(key, "#?@"):
            open_branches.append((scope, scope, len(branches)))
            for branch in reversed(branches):
                waiting.extendleft([None, *reversed(walk.items(branch, scope))])
            continue
        value = waiting.popleft() if waiting and waiting[0] is not None else None
        if value is None:
            walk.code([key], scope)
        elif key.kind == "atom" and walk.word(key) == ":let" and value.kind == "vector":
            waiting.extendleft(reversed(walk.items(value, scope)))
        elif key.kind == "atom" and walk.text[key.start] == ":":
            walk.code([key, value], scope)
        else:
            walk.code([value], scope)
            scope = bind(walk, [key], scope)
    return scope


def _inner(first: Binding | None, other: Binding | None) -> Binding | None:
    """Return the innermost of two bindings, either of which may be missing."""
    if first is None or other is None:
        return first or other
    return max(first, other, key=lambda binding: binding.number)
