"""Walk code by lexical scope to find the references to a name that no local binding shadows.

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
    """What a name refers to at a position in the code."""

    GLOBAL = "global"
    LOCAL = "local"


class Walk:
    """A walk through the forms of a text that finds the references to `name`.

    `qualified` has the spellings of the name with a namespace, which no local binding shadows.
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
        """Walk `forms`. `binders` maps the name of each binding form to the function that walks it."""
        self.code(forms, Scope.GLOBAL)
        while self._tasks:
            form, scope, depth = self._tasks.pop()
            match form.kind:
                case "atom":
                    self.reference(form, Scope.GLOBAL if depth else scope)
                case "prefixed":
                    self._prefixed(form, scope, depth)
                case "list" if not depth:
                    self._call(form, scope, binders)
                case "function" if not depth and not self.is_hy:
                    self._call(form, scope, binders)
                case _:
                    self.code(form.children, scope, depth)

    def has_name(self, form: Form) -> bool:
        """Return whether `form` contains the characters of the name."""
        at = bisect_left(self._at, form.start)
        return at < len(self._at) and self._at[at] < form.end

    def source_text(self, form: Form) -> str:
        """Return the source text of a form, such as the name of a symbol."""
        return self.text[form.start : form.end]

    def head(self, items: Items) -> str:
        """Return the name of the operator in the items of a call, without its namespace, or an empty string."""
        return self.source_text(items[0]).rpartition("/")[2] if items and items[0].kind == "atom" else ""

    def items(self, form: Form) -> list[Form]:
        """Return the forms in a bracket that are not discarded."""
        return [child for child in form.children if child.kind != "discard"]

    def code(self, forms: Iterable[Form], scope: Scope, depth: int = 0) -> None:
        """Schedule `forms` to be walked in `scope`, at a depth of syntax quotes."""
        self._tasks += [(form, scope, depth) for form in forms if form.kind != "discard" and self.has_name(form)]

    def reference(self, form: Form, scope: Scope) -> None:
        """Record an atom as a reference, if it is the name and not local, or the name with a namespace."""
        word = self.source_text(form)
        plain = word.partition(".")[0] if self.is_hy else word
        if word in self._qualified or (plain == self.name and scope is Scope.GLOBAL):
            self.references[form.start] = word

    def global_name(self, form: Form, scope: Scope) -> None:
        """Walk a form that names a global regardless of local bindings, such as the operand of `var`."""
        inner = self.unwrap_metadata(form)
        if inner.kind == "atom":
            self.reference(inner, Scope.GLOBAL)
        else:
            self.code([inner], scope)

    def defined_name(self, form: Form, scope: Scope) -> None:
        """Walk a name that the code defines, whose metadata is evaluated."""
        inner, metadata = self._split_metadata(form)
        self.code(metadata, scope)
        self.defines_name |= self.source_text(self.member_name(inner, scope)) == self.name

    def member_name(self, form: Form, scope: Scope) -> Form:
        """Walk a name that is not looked up, such as that of a method, and return the name.

        A form that is not a name is walked as code.
        """
        inner = self.unwrap_metadata(form)
        if inner.kind != "atom":
            self.code([inner], scope)
        return inner

    def unwrap_metadata(self, form: Form) -> Form:
        """Return the form that the metadata belongs to. On names and parameters, metadata is not evaluated."""
        return self._split_metadata(form)[0]

    def _split_metadata(self, form: Form) -> tuple[Form, list[Form]]:
        metadata: list[Form] = []
        while form.kind == "prefixed" and self.text.startswith(("^", "#^"), form.start) and (parts := self.items(form)):
            metadata += parts[:-1]
            form = parts[-1]
        return form, metadata

    def conditional_branches(self, form: Form, prefix: str = "#?") -> list[Form]:
        """Return the form of each branch of a reader conditional, or an empty list for other forms."""
        if form.kind != "prefixed" or not form.children or not self.text.startswith(prefix, form.start):
            return []
        return self.items(form.children[-1])[1::2]

    def _prefixed(self, form: Form, scope: Scope, depth: int) -> None:
        """Walk a form with a prefix, such as a quote, metadata or a reader conditional."""
        prefix = self.text[form.start : form.start + 2]
        if prefix == "#'":
            for child in form.children:
                self.global_name(child, scope)
        elif prefix[0] == "^" or prefix == "#^":
            metadata = form.children[:-1]  # in Clojure, a single symbol names a class
            self.code((part for part in metadata if self.is_hy or part.kind != "atom"), scope)
            self.code(form.children[-1:], scope, depth)
        elif branches := self.conditional_branches(form):
            self.code(branches, scope, depth)
        elif prefix[0] == "`":
            self.code(form.children, scope, depth + 1)
        elif prefix[0] == "~":
            self.code(form.children, scope, max(0, depth - 1))
        elif prefix[0] != "'" or depth:
            self.code(form.children, scope, depth)

    def _call(self, form: Form, scope: Scope, binders: Mapping[str, Binder]) -> None:
        """Walk a list in code, with the function for its binding form if it is one."""
        items = self.items(form)
        head = self.head(items)
        binder = binders.get(head)
        if binder is not None:
            self.code(items[:1], scope)
            binder(self, items, scope)
            return
        self.code(items, scope)
        if head.startswith("def"):
            for name in items[1:2]:
                self.defined_name(name, scope)
