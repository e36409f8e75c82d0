"""Walk code by lexical scope to find the occurrences of two names and how each is bound.

The walk understands quoting. The `binding_forms` module defines which forms bind which names. Forms that contain
neither name are skipped. The walk keeps its own stack, so nesting depth is not limited by Python's.

Sources: Clojure's reference on special forms, destructuring, and the reader.
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
"""The role of a name where it occurs.

* `reference`: a use, bound as the scope says.
* `global`: a name of the namespace, regardless of local bindings.
* `binding`: the start of a local name.
* `quoted`: data.
* `method`: the implementation of a method of a protocol or class.
* `protocol`: the declaration of a method in a protocol.
* `type`: the definition of a record or type.
* `hint`: a class in metadata.
* `namespace`: part of the `ns` form.
* `referred`: a name of another namespace, in the `ns` form.
* `taken`: a key after `:keys` in a map outside known binding forms, which an unknown form may destructure.
"""

QUOTED, NAMESPACE, REFERRED = -1, -2, -3
"""Levels at which forms are not code: quoted data, the `ns` form, and names it refers. From 0, a level is the depth of
syntax quotes.
"""

KEYS_PATTERN = re.compile(r"::?(?:[^\s/]+/)?(?:keys|syms|strs)")
"""Matches keywords that bind several keys of a map at once, such as `:keys` and `:my.ns/keys`."""

_ROLE_BY_LEVEL: Mapping[int, Role] = {0: "reference", QUOTED: "quoted", NAMESPACE: "namespace", REFERRED: "referred"}
"""Roles of occurrences by level, which is how their code is quoted, or whether it is in the `ns` form."""
_REFER_KEYWORDS = frozenset({":refer", ":only", ":refer-macros", ":rename"})


@dataclass(frozen=True, slots=True)
class Binding:
    """The binding of a local name.

    An inner binding has a higher `number` than an outer one. Names bound by the same pattern or parameter list have the
    same `group`. The kind `field` is a field of a record or type; `key` means that the name is also a key of a map.
    """

    number: int
    group: int
    at: int
    kind: Literal["local", "field", "key"]


@dataclass(frozen=True, slots=True)
class Scope:
    """The local bindings of the two names at some point in the code.

    None means that a name is not local at that point.
    """

    old: Binding | None = None
    new: Binding | None = None


@dataclass(frozen=True, slots=True)
class Occurrence:
    """An occurrence of a name, with its role and scope. For a binding, the scope is the one that it opens."""

    start: int
    end: int
    word: str
    role: Role
    scope: Scope


def bound_name(key: str) -> str:
    """Return the local name that `key` binds when it is listed after `:keys`."""
    return key.lstrip(":").rpartition("/")[2]


class Walk:
    """A walk through the forms of a text that records occurrences of `words`.

    `old` and `new` are the two names whose local bindings are tracked.
    """

    def __init__(self, text: str, old: str, new: str, words: Iterable[str], *, is_hy: bool) -> None:
        self.text = text
        self.is_hy = is_hy
        self.found: list[Occurrence] = []
        self.namespace = ""
        """The namespace that the text declares, known after its `ns` form was walked."""
        self.old, self.new = old, new
        self._words = frozenset(words)
        self._at = sorted(found.start() for name in {old, new} for found in re.finditer(re.escape(name), text))
        self.numbers = itertools.count()
        """A counter that numbers the bindings in the order in which they are made."""
        self._tasks: list[tuple[Form, Scope, int]] = []
        self._discarded_near: dict[int, list[Form]] = {}
        """Discarded forms by the offset of the form next to them, whose scope they share."""

    def walk(self, forms: Iterable[Form], binders: Mapping[str, Binder]) -> list[Occurrence]:
        """Walk `forms` and return all occurrences in text order.

        `binders` maps the name of each binding form to the function that walks it.
        """
        for top in forms:
            self.code([top], Scope())
            while self._tasks or self._discarded_near:
                if not self._tasks:
                    self.code(self._discarded_near.pop(next(iter(self._discarded_near))), Scope())
                    continue
                form, scope, level = self._tasks.pop()
                match form.kind:
                    case "atom":
                        self.record(form, _ROLE_BY_LEVEL.get(level, "global"), scope)
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
        # Metadata and discarded forms may be walked twice, each time in the same scope.
        return [found for _, found in sorted({found.start: found for found in self.found[::-1]}.items())]

    def has(self, form: Form) -> bool:
        """Return whether `form` may contain one of the names."""
        at = bisect_left(self._at, form.start)
        return at < len(self._at) and self._at[at] < form.end

    def word(self, form: Form) -> str:
        """Return the source text of a form, such as the name of a symbol."""
        return self.text[form.start : form.end]

    def code(self, forms: Iterable[Form], scope: Scope, level: int = 0) -> None:
        """Schedule `forms` to be walked in `scope`, omitting those that contain neither name."""
        for form in forms:
            self._tasks += [(discarded, scope, level) for discarded in self._discarded_near.pop(form.start, ())]
            if self.has(form):
                self._tasks.append((form, scope, level))

    def record(self, form: Form, role: Role, scope: Scope) -> None:
        """Record an atom as an occurrence, if it is one of the words."""
        word = self.word(form)
        if (word.partition(".")[0] if self.is_hy else word) in self._words:
            self.found.append(Occurrence(form.start, form.end, word, role, scope))

    def name(self, form: Form, role: Role, scope: Scope) -> None:
        """Record the name in `form`, and walk its metadata. If the form is not a name, walk it as code."""
        inner = self.unwrap(form, scope)
        if inner.kind == "atom":
            self.record(inner, role, scope)
        else:
            self.code([inner], scope)

    def unwrap(self, form: Form, scope: Scope) -> Form:
        """Return the form that the metadata belongs to, and schedule the metadata to be walked."""
        while form.kind == "prefixed" and self.text.startswith(("^", "#^"), form.start) and form.children:
            *metadata, form = form.children
            self.hints(metadata, scope)
        return form

    def hints(self, metadata: Iterable[Form], scope: Scope) -> None:
        """Walk metadata, in which a single symbol names a class. In Hy, annotations are walked as code."""
        for form in metadata:
            if form.kind == "atom" and not self.is_hy:
                self.record(form, "hint", scope)
            else:
                self.code([form], scope)

    def items(self, form: Form, scope: Scope) -> list[Form]:
        """Return the forms in a bracket except discarded ones, which are scheduled to be walked in the same scope."""
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
        """Return the form of each branch of a reader conditional, or an empty list for other forms."""
        if form.kind != "prefixed" or not form.children or not self.text.startswith(prefix, form.start):
            return []
        return [child for child in form.children[-1].children if child.kind != "discard"][1::2]

    def _prefixed(self, form: Form, scope: Scope, level: int) -> None:
        """Walk a form with a prefix, such as a quote, metadata or a reader conditional."""
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
        # The list of a reader conditional is not a call.
        inner = form.children[-1] if prefix == "#?" and form.children else form
        self.code(inner.children, scope, level)

    def _call(self, form: Form, scope: Scope, binders: Mapping[str, Binder]) -> None:
        """Walk a list in code, with the function for its binding form if it is one."""
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
        """Walk a part of the `ns` form.

        Names after `:refer` belong to the required namespace, which is this one if a file requires itself.
        """
        is_referred = False
        level = 1 if form.children and self.word(form.children[0]) == self.namespace else REFERRED
        for child in form.children:
            self.code([child], scope, level if is_referred else NAMESPACE)
            is_referred = child.kind == "atom" and self.word(child) in _REFER_KEYWORDS

    def _map(self, form: Form, scope: Scope) -> None:
        """Walk a map in code, which an unknown form may use as a binding pattern."""
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
            is_key_list = child.kind == "atom" and KEYS_PATTERN.fullmatch(self.word(child)) is not None
