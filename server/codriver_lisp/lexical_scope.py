"""Lexical scope: a walk that finds the positions of two names in code, and the binding of each.

The walk understands quoting; `binding_forms` determines which forms bind which names. Only forms that contain one of
the names are entered. The walk has its own stack, so nesting depth has no limit.

Source: Clojure's reference on special forms, destructuring, and the reader.
"""

from __future__ import annotations

import itertools
import re
from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from codriver_lisp.reader import Form

    Binder = Callable[["Walk", Sequence[Form], "Scope"], None]

Role = Literal[
    "reference", "global", "binding", "quoted", "method", "protocol", "type", "hint", "namespace", "referred", "taken"
]
"""The role of a name at one place.

`reference`: whatever the scope says. `global`: the namespace's, whatever is bound around. `binding`: the beginning of a
local name. `quoted`: data. `method`: a method's implementation for a protocol or class. `protocol`: a method's
declaration in a protocol. `type`: the definition of a record or type. `hint`: of a class, in metadata. `namespace`: in
the `ns` form. `referred`: in the `ns` form, as another namespace's name. `taken`: after `:keys` in a map that no known
form destructures; an unknown form may.
"""

QUOTED, NAMESPACE, REFERRED = -1, -2, -3
"""Levels without code: in data, in the `ns` form, in its referred names. Other levels are depths of syntax quotes."""

KEYS = re.compile(r"::?(?:[^\s/]+/)?(?:keys|syms|strs)")
"""The keys that ask a map for the names that follow: `:keys`, also with a namespace."""

_ROLES: Mapping[int, Role] = {0: "reference", QUOTED: "quoted", NAMESPACE: "namespace", REFERRED: "referred"}
_REFERS = frozenset({":refer", ":only", ":refer-macros", ":rename"})


@dataclass(frozen=True, slots=True)
class Binding:
    """A binding: the place at which a local name begins.

    Of two in one scope the inner has the higher `number`; names bound together, in one pattern or parameter list, have
    the same `group`. A `field` is a record's or type's field, a `key` is a key of a map too.
    """

    number: int
    group: int
    at: int
    kind: Literal["local", "field", "key"]


@dataclass(frozen=True, slots=True)
class Scope:
    """A scope: the bindings of the two names, as far as they are names of locals."""

    old: Binding | None = None
    new: Binding | None = None


@dataclass(frozen=True, slots=True)
class Occurrence:
    """An occurrence of a name: its place, its role there, and the scope; a binding has the scope that it opens."""

    start: int
    end: int
    word: str
    role: Role
    scope: Scope


def bound_name(key: str) -> str:
    """Return the local name that a word after `:keys` binds."""
    return key.lstrip(":").rpartition("/")[2]


class Walk:
    """A walk through a text's forms. `words` are searched for; `old` and `new` are those that locals may be named."""

    def __init__(self, text: str, old: str, new: str, words: Iterable[str], *, is_hy: bool) -> None:
        self.text = text
        self.is_hy = is_hy
        self.found: list[Occurrence] = []
        self.namespace = ""
        """The namespace that the text declares, once its `ns` form has been walked."""
        self.old, self.new = old, new
        self._words = frozenset(words)
        self._at = sorted(found.start() for name in {old, new} for found in re.finditer(re.escape(name), text))
        self.numbers = itertools.count()
        """The numbers for bindings, in the order in which names are bound."""
        self._tasks: list[tuple[Form, Scope, int]] = []
        self._discarded_near: dict[int, list[Form]] = {}
        """Discarded forms, by the beginning of the form next to them, whose scope they share."""

    def walk(self, forms: Iterable[Form], binders: Mapping[str, Binder]) -> list[Occurrence]:
        """Walk `forms` with the binders of calls, by the called name, and return all occurrences in order."""
        for top in forms:
            self.code([top], Scope())
            while self._tasks or self._discarded_near:
                if not self._tasks:
                    self.code(self._discarded_near.pop(next(iter(self._discarded_near))), Scope())
                    continue
                form, scope, level = self._tasks.pop()
                match form.kind:
                    case "atom":
                        self.record(form, _ROLES.get(level, "global"), scope)
                    case "prefixed":
                        self._prefixed(form, scope, level)
                    case "list" if level == 0:
                        self._call(form, scope, binders)
                    case "vector" | "list" if level == NAMESPACE:
                        self._required(form, scope)
                    case "map" if level == 0:
                        self._map(form, scope)
                    case _:
                        self.code(form.children, scope, level)
        # Metadata and discarded forms may have been walked twice, in the same scope.
        return [found for _, found in sorted({found.start: found for found in self.found[::-1]}.items())]

    def has(self, form: Form) -> bool:
        """Return whether one of the names may occur in `form`."""
        at = bisect_left(self._at, form.start)
        return at < len(self._at) and self._at[at] < form.end

    def word(self, form: Form) -> str:
        """Return the text of a form."""
        return self.text[form.start : form.end]

    def code(self, forms: Iterable[Form], scope: Scope, level: int = 0) -> None:
        """Walk `forms` later, in this scope."""
        for form in forms:
            self._tasks += [(discarded, scope, level) for discarded in self._discarded_near.pop(form.start, ())]
            if self.has(form):
                self._tasks.append((form, scope, level))

    def record(self, form: Form, role: Role, scope: Scope) -> None:
        """Record an atom if its text is one of the words."""
        word = self.word(form)
        if (word.partition(".")[0] if self.is_hy else word) in self._words:
            self.found.append(Occurrence(form.start, form.end, word, role, scope))

    def name(self, form: Form, role: Role, scope: Scope) -> None:
        """Record a name, also one after metadata."""
        inner = self.unwrap(form, scope)
        if inner.kind == "atom":
            self.record(inner, role, scope)
        else:
            self.code([inner], scope)

    def unwrap(self, form: Form, scope: Scope) -> Form:
        """Return the form after its metadata, which is walked."""
        while form.kind == "prefixed" and self.text.startswith(("^", "#^"), form.start) and form.children:
            *metadata, form = form.children
            self.hints(metadata, scope)
        return form

    def hints(self, metadata: Iterable[Form], scope: Scope) -> None:
        """Walk metadata, in which a single name is a class. In Hy, walk any annotation."""
        for form in metadata:
            if form.kind == "atom" and not self.is_hy:
                self.record(form, "hint", scope)
            else:
                self.code([form], scope)

    def items(self, form: Form, scope: Scope) -> list[Form]:
        """Return the forms in a bracket without discarded ones, which are walked too."""
        found: list[Form] = []
        discarded: list[Form] = []
        for child in form.children:
            if child.kind == "discard":
                discarded += [child] if self.has(child) else []
                continue
            found.append(child)
            if discarded:
                self._discarded_near[child.start] = discarded
                discarded = []
        if found and discarded:
            self._discarded_near.setdefault(found[-1].start, []).extend(discarded)
        else:
            self.code(discarded, scope)
        return found

    def branches(self, form: Form, prefix: str = "#?") -> list[Form]:
        """Return the forms of the branches of a reader conditional, or none for another form."""
        if form.kind != "prefixed" or not form.children or not self.text.startswith(prefix, form.start):
            return []
        return [child for child in form.children[-1].children if child.kind != "discard"][1::2]

    def _prefixed(self, form: Form, scope: Scope, level: int) -> None:
        prefix = self.text[form.start : form.start + 2]
        if level >= 0:
            if prefix == "#'":
                for child in form.children:
                    self.name(child, "global", scope)
                return
            if prefix[0] == "^" or prefix == "#^":
                self.hints(form.children[:-1], scope)
                self.code(form.children[-1:], scope, level)
                return
            if prefix[0] == "`":
                level += 1
            elif prefix[0] == "~":
                level = max(0, level - 1)
            elif prefix[0] == "'" and level == 0:
                level = QUOTED
        # A reader conditional's list is no call.
        inner = form.children[-1] if prefix == "#?" and form.children else form
        self.code(inner.children, scope, level)

    def _call(self, form: Form, scope: Scope, binders: Mapping[str, Binder]) -> None:
        items = self.items(form, scope)
        head = items[0] if items else None
        if head is None or head.kind != "atom":
            self.code(items, scope)
            return
        word = self.word(head)
        self.code([head], scope)
        is_local = (word == self.old and scope.old is not None) or (word == self.new and scope.new is not None)
        binder = None if is_local else binders.get(word.rpartition("/")[2])
        if binder is None:
            self.code(items[1:], scope)
        else:
            binder(self, items, scope)

    def _required(self, form: Form, scope: Scope) -> None:
        """A part of the `ns` form: names after `:refer` are another namespace's, or its own if it refers to itself."""
        is_referred = False
        level = 1 if form.children and self.word(form.children[0]) == self.namespace else REFERRED
        for child in form.children:
            self.code([child], scope, level if is_referred else NAMESPACE)
            is_referred = child.kind == "atom" and self.word(child) in _REFERS

    def _map(self, form: Form, scope: Scope) -> None:
        """A map in code, which an unknown form may take for a pattern."""
        is_key_list = False
        for child in form.children:
            if is_key_list and child.kind == "vector":
                for name in child.children:
                    word = bound_name(self.word(name)) if name.kind == "atom" else ""
                    if word in (self.old, self.new):
                        self.found.append(Occurrence(name.start, name.end, word, "taken", scope))
                    elif not word:
                        self.code([name], scope)
            else:
                self.code([child], scope)
            is_key_list = child.kind == "atom" and KEYS.fullmatch(self.word(child)) is not None
