"""Destructuring patterns in Clojure and related dialects, which bind names in binding vectors and parameter lists.

Patterns may be nested vectors and maps.

Sources: Clojure's guide to destructuring; the `:-` annotations of Schema.
"""

from __future__ import annotations

import re
from collections import deque
from typing import TYPE_CHECKING

from codriver_lisp.lexical_scope import Scope

if TYPE_CHECKING:
    from collections.abc import Iterable

    from codriver_lisp.lexical_scope import Items, Walk
    from codriver_lisp.reader import Form

_KEYS_PATTERN = re.compile(r"::?(?:[^\s/]+/)?(?:keys|syms|strs)")
"""Matches keywords that bind several keys of a map at once, such as `:keys` and `:my.ns/keys`."""


def bind(walk: Walk, patterns: Iterable[Form], scope: Scope) -> Scope:
    """Return the scope after binding the names in `patterns`. Code inside the patterns is walked in `scope`."""
    pattern = _Pattern(walk, scope)
    inner = Scope.LOCAL if pattern.binds_name(patterns) else scope
    for key, default in pattern.defaults:
        # A default value can use the other names of its pattern, but not the name that it is for.
        walk.schedule([default], scope if walk.source_text(key) == walk.name else inner)
    return inner


class _Pattern:
    """Determines which names a destructuring pattern binds."""

    def __init__(self, walk: Walk, scope: Scope) -> None:
        self.defaults: list[tuple[Form, Form]] = []
        self._walk = walk
        self._scope = scope
        self._pending: list[Form] = []

    def binds_name(self, patterns: Iterable[Form]) -> bool:
        """Return whether the patterns bind the name that the walk looks for.

        Code inside the patterns, except default values, is scheduled to be walked.
        """
        walk = self._walk
        is_bound = False
        self._pending = [*patterns]
        while self._pending:
            form = self._pending.pop()
            if not walk.has_name(form):
                continue
            match form.kind:
                case "atom":
                    is_bound |= walk.source_text(form) == walk.name
                case "prefixed" if branches := walk.conditional_branches(form):
                    self._pending += branches
                case "prefixed":
                    self._pending += walk.items(form)[-1:]
                case "vector":
                    self._queue_vector(walk.items(form))
                case "map":
                    is_bound |= self._keys_bind_name(walk.items(form))
                case _:
                    walk.schedule([form], self._scope)
        return is_bound

    def _queue_vector(self, items: Items) -> None:
        """Queue the patterns in a vector. After `:-`, there is a schema, which is code."""
        is_schema = False
        for item in items:
            if is_schema:
                self._walk.schedule([item], self._scope)
            else:
                self._pending.append(item)
            is_schema = item.kind == "atom" and self._walk.source_text(item) == ":-"

    def _keys_bind_name(self, items: Items) -> bool:
        """Return whether `:keys` or a similar entry of a map binds the name. Queue the other patterns in the map."""
        walk = self._walk
        is_bound = False
        for key, value in zip(items[::2], items[1::2], strict=False):
            word = walk.source_text(key) if key.kind == "atom" else ""
            if _KEYS_PATTERN.fullmatch(word) and value.kind == "vector":
                names = (walk.source_text(walk.unwrap_metadata(name)) for name in walk.items(value))
                is_bound |= any(name.lstrip(":").rpartition("/")[2] == walk.name for name in names)
            elif word == ":as":
                self._pending.append(value)
            elif word == ":or" and value.kind == "map":
                pairs = walk.items(value)
                self.defaults += zip(pairs[::2], pairs[1::2], strict=False)
            else:
                walk.schedule([value], self._scope)
                if not word.startswith(":"):
                    self._pending.append(key)
        return is_bound


def bind_pairs(walk: Walk, form: Form, scope: Scope) -> Scope:
    """Walk a binding vector, and return the scope with its names bound.

    Each value is in the scope of the pairs before it. A keyword in place of a pattern is a modifier, as in `for`. The
    names of `:let` are bound one after the other. Pairs that `#?@` splices in are bound after the conditional, but not
    in its other branches.
    """
    waiting: deque[Form | None] = deque(walk.items(form))  # None marks the end of a branch
    open_branches: list[tuple[Scope, Scope, int]] = []  # scopes before the branches and after them; how many are left
    while waiting:
        key = waiting.popleft()
        if key is None:
            before, after, count = open_branches.pop()
            after = Scope.LOCAL if Scope.LOCAL in (after, scope) else Scope.GLOBAL
            scope = before if count > 1 else after
            if count > 1:
                open_branches.append((before, after, count - 1))
            continue
        if branches := walk.conditional_branches(key, "#?@"):
            open_branches.append((scope, scope, len(branches)))
            for branch in branches:
                waiting.extendleft([None, *reversed(walk.items(branch))])
            continue
        value = waiting.popleft() if waiting and waiting[0] is not None else None
        if value is None:
            walk.schedule([key], scope)
        elif key.kind == "atom" and walk.source_text(key) == ":let" and value.kind == "vector":
            waiting.extendleft(reversed(walk.items(value)))
        elif key.kind == "atom" and walk.text[key.start] == ":":
            walk.schedule([value], scope)
        else:
            walk.schedule([value], scope)
            scope = bind(walk, [key], scope)
    return scope
