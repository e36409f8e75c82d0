"""Rename a symbol or keyword by lexical scope, in its own file and in the files that use it.

The rename does not change the meaning of the code: it is refused if names would clash. Other files use a name through
an alias, by referring to it, or with its full namespace.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from codriver_lisp.binding_forms import find_occurrences, find_requirements, namespace_of
from codriver_lisp.errors import EditError, EditFailedError
from codriver_lisp.lexical_scope import KEYS
from codriver_lisp.reader import TOKEN

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from codriver_lisp.binding_forms import Requirements
    from codriver_lisp.lexical_scope import Occurrence
    from codriver_lisp.reader import Form
    from codriver_lisp.source_text import Document

_NUMBER = re.compile(r"[+-]?\d")
_LITERAL_WORDS = frozenset({"nil", "true", "false", "None", "True", "False"})
"""Literals that look like symbols."""

SHADOWED_REASON = "a local name hides it there"
OUTER = "it is not the local name there"
"""Reason for not renaming an occurrence of a namespace's name when the local name is renamed."""
OUTSIDE = "it is outside of the form"
"""Reason for not renaming an occurrence outside of the target."""
UNCHANGED_REASONS = {
    "quoted": "it is quoted, so data",
    "method": "it is the name of a method there",
    "hint": "it is a hint there, so a class",
    "namespace": "it is in the ns form",
}
"""Reasons for not renaming an occurrence, by its role."""


NameKind = Literal["symbol", "type", "protocol"]
_DEFINING = re.compile(r"\(\s*\S*def\S*\s+(?:\^\S+\s+)*$")
"""Matches the start of a defining form, up to the name."""


@dataclass(frozen=True, slots=True)
class Found:
    """The occurrences to rename, each as its start, end and new text, and the offsets of the others by reason."""

    positions: Sequence[tuple[int, int, str]]
    left: Mapping[str, Sequence[int]]
    kind: NameKind = "symbol"
    """The kind of name. For a type or protocol method, other files have more names to change, such as constructors."""


def find_names(document: Document, old: str, new: str, span: tuple[int, int] | None = None) -> Found:
    """Find the uses of `old` in the code of `document`, or in its form at `span`, each with its new text.

    A symbol, with or without its namespace, means the name in the namespace, unless a local name shadows it. Within a
    form that binds the symbol, it means the local name. A keyword means the same everywhere. Strings and comments are
    not searched.

    Raises:
        EditFailedError: `old` or `new` is not a name, `old` does not occur, or the meaning would change because `new`
            is in use, a local name would shadow the namespace's name, or `old` is also the key of a map.
    """
    for name in (old, new):
        if not _is_name(name):
            raise EditFailedError(EditError(f"{name!r} is neither a symbol nor a keyword"))
    if old.startswith(":") != new.startswith(":"):
        raise EditFailedError(EditError(f"{old!r} and {new!r} must both be symbols, or both be keywords"))
    start, end = span or (0, len(document.text))
    if old.startswith(":"):
        if found := keywords(document, old, new, start, end):
            return Found(found, {})
        raise EditFailedError(EditError(f"{old!r} does not occur in the code there"))
    namespace = namespace_of(document)
    if namespace:
        old, new = old.removeprefix(f"{namespace}/"), new.removeprefix(f"{namespace}/")
    if span is not None:
        around = [form for form in document.reading.forms if form.start < end and start < form.end]
        symbol = _SymbolRenaming(document, around, (old, new), namespace)
        if symbol.has_local(start, end):  # the name is local to the form
            return symbol.found(start, end, is_whole=False)
    symbol = _SymbolRenaming(document, document.reading.forms, (old, new), namespace)
    return symbol.found(start, end, is_whole=span is None)


def _is_name(name: str) -> bool:
    """Return whether `name` is a symbol or keyword."""
    found = TOKEN.fullmatch(name)
    is_atom = found is not None and found.lastgroup == "atom"
    return is_atom and not _NUMBER.match(name) and not name.startswith("#") and name not in _LITERAL_WORDS


def _within(namespace: str, changes: Mapping[str, str]) -> dict[str, str]:
    """Return the changes with all names qualified by `namespace`."""
    return {f"{namespace}/{old}": f"{namespace}/{new}" for old, new in changes.items()}


class _SymbolRenaming:
    """The renaming of a symbol in top-level `forms`. `names` is its old and its new name."""

    def __init__(
        self, document: Document, forms: Sequence[Form], names: tuple[str, str], namespace: str | None
    ) -> None:
        self._document = document
        self._old, self._new = old, new = names
        pairs = {old: new}
        types = {f"->{old}": f"->{new}", f"map->{old}": f"map->{new}", f"{old}.": f"{new}."}
        if namespace and "/" not in old:
            pairs, types = ({**some, **_within(namespace, some)} for some in (pairs, types))
        words = {**pairs, **types}
        all_found = find_occurrences(document, forms, names, [*words, *words.values()])
        self._is_type = any(occurrence.role == "type" and occurrence.word == old for occurrence in all_found)
        self._changes = words if self._is_type else pairs
        self._new_names = set(self._changes.values())
        self._is_protocols = any(occurrence.role == "protocol" and occurrence.word == old for occurrence in all_found)
        self._all = all_found

    def has_local(self, start: int, end: int) -> bool:
        """Return whether the name is local anywhere between the offsets `start` and `end`."""
        return any(
            self._is_local(occurrence)
            for occurrence in self._all
            if start <= occurrence.start < end and occurrence.word == self._old
        )

    def found(self, start: int, end: int, *, is_whole: bool) -> Found:
        """Return the occurrences between `start` and `end` to rename.

        If a form has occurrences that are local, these are renamed. Otherwise, and in a whole file, the occurrences of
        the namespace's name are renamed.

        Raises:
            EditFailedError: there are none, or the meaning of the code would change.
        """
        within = [occurrence for occurrence in self._all if start <= occurrence.start and occurrence.end <= end]
        named = [occurrence for occurrence in within if self._stem(occurrence) in self._changes]
        local = [occurrence for occurrence in named if self._is_local(occurrence)]
        outer = [occurrence for occurrence in named if self._is_outer(occurrence)]
        left: dict[str, list[int]] = defaultdict(list)
        for occurrence in named:
            if occurrence.role in UNCHANGED_REASONS and not self._is_outer(occurrence):
                left[UNCHANGED_REASONS[occurrence.role]].append(occurrence.start)
        is_local = bool(local) and not is_whole
        chosen, others = (local, outer) if is_local else (outer, local)
        if others:
            left[OUTER if is_local else SHADOWED_REASON] = [occurrence.start for occurrence in others]
        if not chosen:
            self._refuse_none(local, left)
        if not is_whole and not is_local:
            named_all = [
                occurrence
                for occurrence in self._all
                if self._stem(occurrence) in self._changes and self._is_outer(occurrence)
            ]
            if beyond := [occurrence.start for occurrence in named_all if not start <= occurrence.start < end]:
                left[OUTSIDE] = beyond
        if is_local:
            self._check_local(local, within)
        else:
            self._check_outer(outer, within)
        kind: NameKind = "type" if self._is_type else "protocol" if self._is_protocols else "symbol"
        return Found(
            [(occurrence.start, occurrence.end, self._renamed(occurrence)) for occurrence in chosen], left, kind
        )

    def _stem(self, occurrence: Occurrence) -> str:
        """Return the word or, in Hy, the part of it before the first dot."""
        return occurrence.word.partition(".")[0] if self._document.is_hy else occurrence.word

    def _renamed(self, occurrence: Occurrence) -> str:
        """Return the new text of an occurrence."""
        stem = self._stem(occurrence)
        return self._changes[stem] + occurrence.word[len(stem) :]

    def _is_local(self, occurrence: Occurrence) -> bool:
        """Return whether an occurrence refers to the local name."""
        if occurrence.role == "binding":
            return True
        return (
            occurrence.role in ("reference", "taken")
            and occurrence.scope.old is not None
            and self._stem(occurrence) == self._old
        )

    def _is_outer(self, occurrence: Occurrence) -> bool:
        """Return whether an occurrence refers to the namespace's name."""
        if occurrence.role in ("reference", "taken"):
            return not self._is_local(occurrence)
        if occurrence.role in ("method", "hint"):
            return self._is_protocols if occurrence.role == "method" else self._is_type
        return occurrence.role in ("global", "type", "protocol", "referred")

    def _line(self, offset: int) -> int:
        return self._document.positions.line(offset)

    def _refuse_none(self, local: Sequence[Occurrence], left: Mapping[str, Sequence[int]]) -> None:
        """Raise the error for a name that does not occur or whose occurrences cannot be renamed."""
        if local:
            words = f"{self._old!r} is only a local name here, as at line {self._line(local[0].start)}: give line and "
            words += "targetLineText of the form that it is local to"
        elif left:
            why, positions = next(iter(left.items()))
            words = f"{self._old!r} is nowhere to be renamed; at line {self._line(positions[0])} {why}"
        else:
            words = f"{self._old!r} does not occur in the code there"
        raise EditFailedError(EditError(words))

    def _check_outer(self, outer: Sequence[Occurrence], within: Sequence[Occurrence]) -> None:
        """Check that the name still refers to the namespace's definition, and does not clash with another name."""
        for occurrence in outer:
            if occurrence.role == "referred":
                words = f"{self._old!r} is another namespace's, referred to at line {self._line(occurrence.start)}: "
                words += "rename it there, where it is defined"
                raise EditFailedError(EditError(words))
            if occurrence.role == "taken":
                self._refuse_key(occurrence.start, "key")
            if (
                occurrence.role == "reference"
                and self._stem(occurrence) == self._old
                and occurrence.scope.new is not None
            ):
                self._refuse_hidden(occurrence.start, occurrence.scope.new.at)
        for occurrence in within:
            word = self._stem(occurrence)
            is_bound = occurrence.role == "binding" or (
                occurrence.role == "reference" and occurrence.scope.new and word == self._new
            )
            if word in self._new_names and occurrence.role not in UNCHANGED_REASONS and not is_bound:
                words = f"{word!r} is in use at line {self._line(occurrence.start)}: both would become one"
                raise EditFailedError(EditError(words))

    def _check_local(self, local: Sequence[Occurrence], within: Sequence[Occurrence]) -> None:
        """Check that each occurrence still refers to the same local name."""
        if "/" in self._new:
            raise EditFailedError(EditError(f"{self._new!r} has a namespace, and a local name has none"))
        for occurrence in local:
            old, new = occurrence.scope.old, occurrence.scope.new
            if occurrence.role == "taken":
                self._refuse_key(occurrence.start, "key")
            if old is not None and old.kind != "local":
                self._refuse_key(old.at, old.kind)
            if old is None or new is None:
                continue
            if old.group == new.group:
                words = f"{self._old!r} and {self._new!r} are bound together at line {self._line(occurrence.start)}: "
                raise EditFailedError(EditError(words + "both would become one"))
            if occurrence.role == "reference" and new.number > old.number:
                self._refuse_hidden(occurrence.start, new.at)
        for occurrence in within:
            old, new = occurrence.scope.old, occurrence.scope.new
            if self._stem(occurrence) != self._new or occurrence.role != "reference" or old is None:
                continue
            if new is None or new.number < old.number:
                words = f"{self._new!r} at line {self._line(occurrence.start)} "
                words += f"would become the local name that is bound at line {self._line(old.at)}"
                raise EditFailedError(EditError(words))

    def _refuse_hidden(self, at: int, by: int) -> None:
        """Raise the error for a new name that a local name would shadow."""
        words = f"{self._new!r} is a local name at line {self._line(at)}, bound at line {self._line(by)}: "
        words += f"it would hide what {self._old!r} names there; choose another name"
        raise EditFailedError(EditError(words))

    def _refuse_key(self, at: int, kind: str) -> None:
        """Raise the error for a name that is also the key of a map."""
        if kind == "key":
            raise EditFailedError(EditError(map_key_message(self._document, at, self._old)))
        words = f"{self._old!r} at line {self._line(at)} is a field: its name is known outside, as a key or as a member"
        raise EditFailedError(EditError(f"{words}; change it by hand, with all that use it"))


def map_key_message(document: Document, at: int, word: str) -> str:
    """Return the message for refusing to rename `word` because it is also the key of a map."""
    words = f"{word!r} at line {document.positions.line(at)} names the key that is taken from a map; "
    return words + "replace that form by one that binds the key in another way, and rename then"


def keywords(
    document: Document, old: str, new: str, start: int, end: int, *, checks: bool = True
) -> list[tuple[int, int, str]]:
    """Find the keyword `old` between two offsets.

    Raises:
        EditFailedError: with `checks`, the new name is in use, or the keyword is implied by a name after `:keys`.
    """
    text = document.text
    found: list[tuple[int, int, str]] = []
    bare = {name.lstrip(":").rpartition("/")[2] for name in (old, new)}
    at = sorted(match.start() for name in bare for match in re.finditer(re.escape(name), text))
    for form, is_map_key in _atoms(document, at[bisect_left(at, start) : bisect_left(at, end)]):
        word = text[form.start : form.end]
        if checks and word == new:
            words = f"{new!r} is in use at line {document.positions.line(form.start)}: both would become one"
            raise EditFailedError(EditError(words))
        if checks and is_map_key and _implies_key(word, old):
            raise EditFailedError(EditError(map_key_message(document, form.start, word)))
        if word == old:
            found.append((form.start, form.end, new))
    return found


def _implies_key(word: str, old: str) -> bool:
    """Return whether `word`, listed after `:keys`, implies the keyword `old`."""
    return word.lstrip(":").rpartition("/")[2] == old.lstrip(":").rpartition("/")[2]


def _atoms(document: Document, at: Sequence[int]) -> Iterator[tuple[Form, bool]]:
    """Yield the atoms at the sorted offsets `at` in text order, and whether each is in a list such as for `:keys`."""
    text = document.text
    pending = [(form, False, False) for form in reversed(document.reading.forms)]
    while pending:
        form, is_key_list, is_map_key = pending.pop()
        next_at = bisect_left(at, form.start)
        if next_at == len(at) or at[next_at] >= form.end:
            continue
        if form.kind == "atom":
            yield form, is_map_key
            continue
        is_map_key = is_map_key or (is_key_list and form.kind == "vector")
        children = []
        is_key_list = False
        for child in form.children:
            children.append((child, is_key_list, is_map_key))
            is_key_list = child.kind == "atom" and KEYS.fullmatch(text, child.start, child.end) is not None
        pending.extend(reversed(children))


NONE = Found((), {})
"""The result if nothing was found."""


@dataclass(frozen=True, slots=True)
class DefinitionRenaming:
    """The renaming of a definition in `namespace`, or of a keyword if that is None."""

    namespace: str | None
    old: str
    new: str
    kind: NameKind = "symbol"

    @property
    def changes(self) -> dict[str, str]:
        """Return the new name for each old one. For a type, this includes its constructor functions."""
        old, new = self.old, self.new
        constructors = {f"->{old}": f"->{new}", f"map->{old}": f"map->{new}"} if self.kind == "type" else {}
        return {old: new, **constructors}

    def may_occur_in(self, text: str) -> bool:
        """Return whether `text` may use the name. This is a cheap test without false negatives."""
        return self.old in text and (self.namespace is None or self.namespace.rpartition(".")[2] in text)


def find_references(document: Document, name: DefinitionRenaming, *, checks: bool = True) -> Found:
    """Find the uses of the renamed name in `document`, the text of another file, each with its new text.

    Raises:
        EditFailedError: with `checks`, the meaning of the code would change.
    """
    if name.namespace is None:
        return Found(keywords(document, name.old, name.new, 0, len(document.text), checks=checks), {})
    if namespace_of(document) != name.namespace:
        return _References(document, name, name.namespace).found(checks=checks)
    occurs = find_occurrences(document, document.reading.forms, (name.old, name.new), [name.old])
    return find_names(document, name.old, name.new) if occurs else NONE


class _References:
    """The uses in one file of a name from another namespace, `namespace`."""

    def __init__(self, document: Document, name: DefinitionRenaming, namespace: str) -> None:
        self._document = document
        self._name = name
        self._required: Requirements = find_requirements(document, namespace)
        owners = {namespace, *self._required.aliases}
        changes = name.changes
        self._qualified = {f"{owner}/{old}": f"{owner}/{new}" for owner in owners for old, new in changes.items()}
        words = [*self._qualified, *self._qualified.values(), *changes, *changes.values()]
        names = (name.old, name.new)
        self._all = find_occurrences(document, document.reading.forms, names, words)
        self._bare = {old: new for old, new in changes.items() if self._refers(old)}
        self._changes: Mapping[str, str] = {**self._qualified, **self._bare}

    def found(self, *, checks: bool) -> Found:
        """Return the occurrences to rename, and those that are left unchanged, by reason.

        Raises:
            EditFailedError: with `checks`, the meaning of the code would change.
        """
        chosen: list[Occurrence] = []
        left: dict[str, list[int]] = defaultdict(list)
        for occurrence in self._all:
            if self._is_named(occurrence):
                chosen.append(occurrence)
            elif occurrence.role in UNCHANGED_REASONS and occurrence.word in self._changes:
                left[UNCHANGED_REASONS[occurrence.role]].append(occurrence.start)
        if checks:
            self._check(chosen)
        changes = {**self._name.changes, **self._qualified}
        return Found([(occurrence.start, occurrence.end, changes[occurrence.word]) for occurrence in chosen], left)

    def _refers(self, name: str) -> bool:
        """Return whether `name`, written without a namespace, means the name in the other namespace.

        A definition in this file shadows a name from `:refer :all`.
        """
        if not self._required.refers(name):
            return False
        return name in self._required.referred or not any(
            occurrence.word == name
            and _DEFINING.search(self._document.text[max(0, occurrence.start - 200) : occurrence.start])
            for occurrence in self._all
        )

    def _is_named(self, occurrence: Occurrence) -> bool:
        """Return whether an occurrence refers to the other namespace's name."""
        if occurrence.role == "referred":
            is_within = any(start <= occurrence.start < end for start, end in self._required.spans)
            return is_within and occurrence.word in self._name.changes
        if occurrence.word in self._qualified:
            return occurrence.role in ("reference", "global", "type", "protocol", "taken")
        if occurrence.role == "method":
            return self._name.kind == "protocol" and bool(self._required.spans) and occurrence.word == self._name.old
        is_local = occurrence.scope.old is not None and occurrence.word == self._name.old
        return occurrence.word in self._bare and occurrence.role in ("reference", "global", "taken") and not is_local

    def _check(self, chosen: Sequence[Occurrence]) -> None:
        """Check that each occurrence keeps its meaning, and that no other name takes on the new meaning."""
        line, new = self._document.positions.line, self._name.new
        for occurrence in chosen:
            if occurrence.role == "taken":
                raise EditFailedError(EditError(map_key_message(self._document, occurrence.start, occurrence.word)))
            if occurrence.role == "reference" and occurrence.word in self._bare and occurrence.scope.new is not None:
                words = f"{new!r} is a local name at line {line(occurrence.start)}: it would hide the new name there"
                raise EditFailedError(EditError(words))
        used = {*self._qualified.values(), *(self._bare.values())}
        for occurrence in self._all:
            is_bound = occurrence.role == "binding" or (
                occurrence.role == "reference" and occurrence.scope.new and occurrence.word == new
            )
            if chosen and occurrence.word in used and occurrence.role not in UNCHANGED_REASONS and not is_bound:
                raise EditFailedError(
                    EditError(f"{occurrence.word!r} is in use at line {line(occurrence.start)}: both would become one")
                )
