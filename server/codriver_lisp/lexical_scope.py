"""Find the references to a global name that no local binding shadows.

The walk understands quoting. Each dialect has a table of its binding forms, with functions that walk them. Forms that
do not contain the name are skipped. The walk keeps its own stack, so nesting depth is not limited by Python's.

Sources: Clojure's reference on special forms and the reader.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from codriver_lisp.reader import Form

    Items = Sequence[Form]
    Binder = Callable[["Walk", Items, "Scope"], None]


class Scope(Enum):
    """Whether a name refers to a global or a local variable at some position in the code."""

    GLOBAL = "global"
    LOCAL = "local"


class Walk:
    """Walks through the forms in a source text to find the references to a global name.

    `qualified` contains the spellings of the name with a namespace. Local bindings do not shadow them.
    """

    def __init__(self, text: str, name: str, qualified: Collection[str], *, is_hy: bool) -> None:
        self.text = text
        self.name = name
        self.is_hy = is_hy
        self.references: dict[int, str] = {}
        """The references found, by offset, as they are spelled."""
        self.defines_name = False
        """Whether a form may define the name."""
        self._qualified = frozenset(qualified)
        self._at = [found.start() for found in re.finditer(re.escape(name), text)]
        self._tasks: list[tuple[Form, Scope, int]] = []

    def find_occurrences(self, forms: Iterable[Form], binders: Mapping[str, Binder]) -> None:
        """Walk these forms and record the references to the name.

        `binders` maps the names of binding forms to the functions that walk them.
        """
        self.schedule(forms, Scope.GLOBAL)
        while self._tasks:
            form, scope, depth = self._tasks.pop()
            match form.kind:
                case "atom":
                    self.record_reference(form, Scope.GLOBAL if depth else scope)
                case "prefixed":
                    self._walk_prefixed(form, scope, depth)
                case "list" if not depth:
                    self._walk_call(form, scope, binders)
                case "function" if not depth and not self.is_hy:
                    self._walk_call(form, scope, binders)
                case _:
                    self.schedule(form.children, scope, depth)

    def has_name(self, form: Form) -> bool:
        """Return whether the text of a form contains the name. If it does not, the form need not be walked."""
        at = bisect_left(self._at, form.start)
        return at < len(self._at) and self._at[at] < form.end

    def source_text(self, form: Form) -> str:
        """Return the source text of a form, such as the name of a symbol."""
        return self.text[form.start : form.end]

    def head(self, items: Items) -> str:
        """Return the operator of a call without its namespace, or "" if the call has no items."""
        return self.source_text(items[0]).rpartition("/")[2] if items and items[0].kind == "atom" else ""

    def items(self, form: Form) -> list[Form]:
        """Return the forms inside a bracket, excluding discarded ones."""
        return [child for child in form.children if child.kind != "discard"]

    def schedule(self, forms: Iterable[Form], scope: Scope, depth: int = 0) -> None:
        """Schedule forms to be walked as code in `scope`. `depth` is the number of syntax quotes around them."""
        self._tasks += [(form, scope, depth) for form in forms if form.kind != "discard" and self.has_name(form)]

    def record_reference(self, form: Form, scope: Scope) -> None:
        """Record an atom if it is a reference to the name. In a local scope, an unqualified name is not a reference."""
        word = self.source_text(form)
        plain = word.partition(".")[0] if self.is_hy else word
        if word in self._qualified or (plain == self.name and scope is Scope.GLOBAL):
            self.references[form.start] = word

    def walk_global_name(self, form: Form, scope: Scope) -> None:
        """Walk a form that always names a global, such as the operand of `var`."""
        inner = self.unwrap_metadata(form)
        if inner.kind == "atom":
            self.record_reference(inner, Scope.GLOBAL)
        else:
            self.schedule([inner], scope)

    def walk_defined_name(self, form: Form, scope: Scope) -> None:
        """Walk the name of a definition, whose metadata is code."""
        inner, metadata = self._split_metadata(form)
        self.schedule(metadata, scope)
        self.defines_name |= self.source_text(self.walk_member_name(inner, scope)) == self.name

    def walk_member_name(self, form: Form, scope: Scope) -> Form:
        """Walk a name that is not a reference, such as that of a method, and return it without its metadata.

        Anything other than a name is walked as code.
        """
        inner = self.unwrap_metadata(form)
        if inner.kind != "atom":
            self.schedule([inner], scope)
        return inner

    def unwrap_metadata(self, form: Form) -> Form:
        """Return a form without its metadata, which is not evaluated on names and parameters."""
        return self._split_metadata(form)[0]

    def _split_metadata(self, form: Form) -> tuple[Form, list[Form]]:
        metadata: list[Form] = []
        while form.kind == "prefixed" and self.text.startswith(("^", "#^"), form.start) and (parts := self.items(form)):
            metadata += parts[:-1]
            form = parts[-1]
        return form, metadata

    def conditional_branches(self, form: Form, prefix: str = "#?") -> list[Form]:
        """Return the forms in the branches of a reader conditional, or [] for other forms."""
        if form.kind != "prefixed" or not form.children or not self.text.startswith(prefix, form.start):
            return []
        return self.items(form.children[-1])[1::2]

    def _walk_prefixed(self, form: Form, scope: Scope, depth: int) -> None:
        """Walk a form with a prefix, such as a quote, metadata or a reader conditional."""
        prefix = self.text[form.start : form.start + 2]
        if prefix == "#'":
            for child in form.children:
                self.walk_global_name(child, scope)
        elif prefix[0] == "^" or prefix == "#^":
            metadata = form.children[:-1]  # in Clojure, a single symbol names a class
            self.schedule((part for part in metadata if self.is_hy or part.kind != "atom"), scope)
            self.schedule(form.children[-1:], scope, depth)
        elif branches := self.conditional_branches(form):
            self.schedule(branches, scope, depth)
        elif prefix[0] == "`":
            self.schedule(form.children, scope, depth + 1)
        elif prefix[0] == "~":
            self.schedule(form.children, scope, max(0, depth - 1))
        elif prefix[0] != "'" or depth:
            self.schedule(form.children, scope, depth)

    def _walk_call(self, form: Form, scope: Scope, binders: Mapping[str, Binder]) -> None:
        """Walk a list as code. If it is a binding form, its binder walks it."""
        items = self.items(form)
        head = self.head(items)
        binder = binders.get(head)
        if binder is not None:
            self.schedule(items[:1], scope)
            binder(self, items, scope)
            return
        self.schedule(items, scope)
        if head.startswith("def"):
            for name in items[1:2]:
                self.walk_defined_name(name, scope)
