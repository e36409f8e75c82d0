"""References: where a text names what another file defines, by alias, by reference, or with the namespace in front."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codriver.lisp.rename.binding_forms import namespace_of, occurrences, required
from codriver.lisp.rename.symbol_rename import WHYS, Found, find_names, keywords, taken
from codriver.lisp.source_text import Problem, ProblemError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codriver.lisp.rename.binding_forms import Required
    from codriver.lisp.rename.lexical_scope import Occurrence
    from codriver.lisp.rename.symbol_rename import NameKind
    from codriver.lisp.source_text import Document

_DEFINING = re.compile(r"\(\s*\S*def\S*\s+(?:\^\S+\s+)*$")
"""The heads before a name that is defined there."""
NONE = Found((), {})


@dataclass(frozen=True, slots=True)
class Renamed:
    """A name that changes where it is defined: of `namespace`, None for a keyword, which is the same one everywhere."""

    namespace: str | None
    old: str
    new: str
    kind: NameKind = "symbol"

    @property
    def changes(self) -> dict[str, str]:
        """The new names by the old ones: its own and, of a type, those of its constructors."""
        old, new = self.old, self.new
        constructors = {f"->{old}": f"->{new}", f"map->{old}": f"map->{new}"} if self.kind == "type" else {}
        return {old: new, **constructors}

    def may_stand_in(self, text: str) -> bool:
        """Whether `text` may name it: cheap, and true of all texts that do."""
        return self.old in text and (self.namespace is None or self.namespace.rpartition(".")[2] in text)


def find_references(document: Document, name: Renamed, *, checks: bool = True) -> Found:
    """The places where `document`, of another file, names what is renamed, and what each becomes.

    Raises:
        ProblemError: with `checks`, something would mean something else.
    """
    if name.namespace is None:
        return Found(keywords(document, name.old, name.new, 0, len(document.text), checks=checks), {})
    if namespace_of(document) != name.namespace:
        return _References(document, name, name.namespace).found(checks=checks)
    is_there = occurrences(document, document.reading.forms, (name.old, name.new), [name.old])
    return find_names(document, name.old, name.new) if is_there else NONE


class _References:
    """The references of one text to a name of `namespace`, which is not its own."""

    def __init__(self, document: Document, name: Renamed, namespace: str) -> None:
        self._document = document
        self._name = name
        self._required: Required = required(document, namespace)
        owners = {namespace, *self._required.aliases}
        changes = name.changes
        self._qualified = {f"{owner}/{old}": f"{owner}/{new}" for owner in owners for old, new in changes.items()}
        words = [*self._qualified, *self._qualified.values(), *changes, *changes.values()]
        names = (name.old, name.new)
        self._all = occurrences(document, document.reading.forms, names, words)
        self._bare = {old: new for old, new in changes.items() if self._refers(old)}
        self._changes: Mapping[str, str] = {**self._qualified, **self._bare}

    def found(self, *, checks: bool) -> Found:
        """The places, and those left by why."""
        chosen: list[Occurrence] = []
        left: dict[str, list[int]] = defaultdict(list)
        for one in self._all:
            if self._is_named(one):
                chosen.append(one)
            elif one.role in WHYS and one.word in self._changes:
                left[WHYS[one.role]].append(one.start)
        if checks:
            self._check(chosen)
        changes = {**self._name.changes, **self._qualified}
        return Found([(one.start, one.end, changes[one.word]) for one in chosen], left)

    def _refers(self, name: str) -> bool:
        """Whether the name alone is the other namespace's: a definition here hides what comes by `:refer :all`."""
        if not self._required.refers(name):
            return False
        return name in self._required.referred or not any(
            one.word == name and _DEFINING.search(self._document.text[max(0, one.start - 200) : one.start])
            for one in self._all
        )

    def _is_named(self, one: Occurrence) -> bool:
        if one.role == "referred":
            is_within = any(start <= one.start < end for start, end in self._required.spans)
            return is_within and one.word in self._name.changes
        if one.word in self._qualified:
            return one.role in ("reference", "global", "type", "protocol", "taken")
        if one.role == "method":
            return self._name.kind == "protocol" and bool(self._required.spans) and one.word == self._name.old
        is_local = one.scope.old is not None and one.word == self._name.old
        return one.word in self._bare and one.role in ("reference", "global", "taken") and not is_local

    def _check(self, chosen: Sequence[Occurrence]) -> None:
        """Check that each place names the same as before, and no other place comes to name it."""
        line, new = self._document.places.line, self._name.new
        for one in chosen:
            if one.role == "taken":
                raise ProblemError(Problem(taken(self._document, one.start, one.word)))
            if one.role == "reference" and one.word in self._bare and one.scope.new is not None:
                words = f"{new!r} is a local name at line {line(one.start)}: it would hide the new name there"
                raise ProblemError(Problem(words))
        used = {*self._qualified.values(), *(self._bare.values())}
        for one in self._all:
            is_bound = one.role == "binding" or (one.role == "reference" and one.scope.new and one.word == new)
            if chosen and one.word in used and one.role not in WHYS and not is_bound:
                raise ProblemError(Problem(f"{one.word!r} is in use at line {line(one.start)}: both would become one"))
