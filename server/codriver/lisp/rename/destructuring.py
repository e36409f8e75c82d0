"""Destructuring: the names that a pattern binds, in binding vectors, parameters, and nested vectors and maps.

Source: Clojure's guide to destructuring; Schema's `:-`; Hy's parameters.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from typing import TYPE_CHECKING, Literal

from codriver.lisp.rename.lexical_scope import KEYS, Binding, Occurrence, Scope, bound_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from codriver.lisp.reader import Form
    from codriver.lisp.rename.lexical_scope import Walk


class Pattern:
    """A binding pattern that is taken apart, name by name."""

    def __init__(self, walk: Walk, scope: Scope, kind: Literal["local", "field"]) -> None:
        self.found: list[tuple[Form, str, Literal["local", "field", "key"]]] = []
        self.defaults: list[tuple[Form, Form]] = []
        self._walk = walk
        self._scope = scope
        self._kind = kind
        self._pending: list[tuple[Form, bool]] = []

    def names(self, patterns: Iterable[Form]) -> list[tuple[Form, str, Literal["local", "field", "key"]]]:
        """Each atom that binds a name, the name, and how. What is code in the patterns is walked."""
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
        """Patterns side by side; in Hy a parameter with its default; with Schema what follows `:-` is code."""
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
        walk = self._walk
        items = walk.items(form, self._scope)
        for key, value in zip(items[::2], items[1::2], strict=False):
            word = walk.word(key) if key.kind == "atom" else ""
            if KEYS.fullmatch(word) and value.kind == "vector":
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
    """The scope in which the names in `patterns` are bound as well."""
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
        # A default knows the other names of its pattern, and not the one that it is for.
        word = walk.word(key)
        inner = dataclasses.replace(after, old=scope.old) if word == walk.old else after
        inner = dataclasses.replace(inner, new=scope.new) if word == walk.new else inner
        walk.code([default], inner)
        walk.record(key, "binding", after)
    return after


def pairs(walk: Walk, form: Form, scope: Scope) -> Scope:
    """The scope behind the patterns and values of a binding vector, each of which knows those before it.

    A keyword in a pattern's place is a modifier, as in `for`; what `:let` has is bound in its turn. What `#?@`
    splices in are pairs too: the branches do not know one another, and what comes behind knows them all.
    """
    waiting: deque[Form | None] = deque(walk.items(form, scope))  # None: a branch ends
    begun: list[tuple[Scope, Scope, int]] = []  # the scope before the branches, behind them, and how many are left
    while waiting:
        key = waiting.popleft()
        if key is None:
            before, behind, count = begun.pop()
            behind = Scope(_inner(behind.old, scope.old), _inner(behind.new, scope.new))
            scope = before if count > 1 else behind
            if count > 1:
                begun.append((before, behind, count - 1))
            continue
        if branches := walk.branches(key, "#?@"):
            begun.append((scope, scope, len(branches)))
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


def _inner(one: Binding | None, other: Binding | None) -> Binding | None:
    """The inner one of two bindings."""
    if one is None or other is None:
        return one or other
    return max(one, other, key=lambda binding: binding.number)
