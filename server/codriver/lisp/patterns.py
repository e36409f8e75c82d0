"""Which names a pattern binds: in a binding vector, in parameters, and however deep vectors and maps are taken apart.

Source: Clojure's guide to destructuring; Schema's `:-`; Hy's parameters.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from codriver.lisp.names import Scope, Walk
    from codriver.lisp.reader import Form

KEYS = re.compile(r"::?(?:[^\s/]+/)?(?:keys|syms|strs)")
"""What asks a map for the names that follow: `:keys`, also with a namespace."""


def bound_name(key: str) -> str:
    """The local name that a word behind `:keys` gives."""
    return key.lstrip(":").rpartition("/")[2]


class Pattern:
    """The names that patterns bind, found one by one."""

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
