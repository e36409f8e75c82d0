"""Renaming a symbol or a keyword in the code of one text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from codriver.lisp.targeting import Problem, ProblemError
from codriver.lisp.tokens import TOKEN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codriver.lisp.document import Document
    from codriver.lisp.reader import Form

_KEYS = re.compile(r"::?(?:[^\s/]+/)?(?:keys|syms|strs)")
"""What asks a map for the names that follow: `:keys`, also with a namespace."""

_NUMBER = re.compile(r"[+-]?\d")


def occurrences(document: Document, old: str, new: str, start: int, end: int) -> list[tuple[int, int, str]]:
    """Where `old` is named in the code between `start` and `end`, and what each place becomes: offsets and text.

    Named is `old` itself, and with the namespace that the text declares. Strings and comments are left alone.

    Raises:
        ProblemError: a name is none, `old` does not occur, `new` is in use there already, or `old` names a key that is
            taken from a map, which would then be another key.
    """
    for name in (old, new):
        if not _is_name(name):
            raise ProblemError(Problem(f"{name!r} is neither a symbol nor a keyword"))
    if old.startswith(":") != new.startswith(":"):
        raise ProblemError(Problem(f"{old!r} and {new!r} must both be symbols, or both be keywords"))
    namespace = _namespace(document)
    changes = {old: new}
    if namespace and "/" not in old and not old.startswith(":"):
        changes[f"{namespace}/{old}"] = f"{namespace}/{new}"
    text = document.text
    found: list[tuple[int, int, str]] = []
    for form, is_taken in _atoms(document, start, end):
        word = text[form.start : form.end]
        if word == new:
            words = f"{new!r} is in use at line {document.places.line(form.start)}: both would become one"
            raise ProblemError(Problem(words))
        if is_taken and _takes(word, old):
            words = f"{word!r} at line {document.places.line(form.start)} names the key that is taken from a map; "
            words += "replace that form by one that binds the key in another way, and rename then"
            raise ProblemError(Problem(words))
        if word in changes:
            found.append((form.start, form.end, changes[word]))
    if not found:
        raise ProblemError(Problem(f"{old!r} does not occur in the code there"))
    return found


def _is_name(name: str) -> bool:
    """Whether `name` is a symbol or a keyword."""
    found = TOKEN.fullmatch(name)
    return found is not None and found.lastgroup == "atom" and not _NUMBER.match(name) and not name.startswith("#")


def _takes(word: str, old: str) -> bool:
    """Whether `word`, among names to take from a map, binds the symbol `old` or means the keyword `old`."""
    bound = word.lstrip(":").rpartition("/")[2]
    return bound == old.lstrip(":").rpartition("/")[2] and (old.startswith(":") or "/" not in old)


def _atoms(document: Document, start: int, end: int) -> Iterator[tuple[Form, bool]]:
    """Each atom between `start` and `end` in the text's order, and whether it names a key to take from a map."""
    text = document.text
    pending = [(form, False, False) for form in reversed(document.reading.forms)]
    while pending:
        form, asks, is_taken = pending.pop()
        if form.end <= start or form.start >= end:
            continue
        if form.kind == "atom":
            yield form, is_taken
            continue
        is_taken = is_taken or (asks and form.kind == "vector")
        children = []
        asks = False
        for child in form.children:
            children.append((child, asks, is_taken))
            asks = child.kind == "atom" and _KEYS.fullmatch(text, child.start, child.end) is not None
        pending.extend(reversed(children))


def _namespace(document: Document) -> str | None:
    """The namespace that the text declares with `(ns …)`."""
    text = document.text
    for form in document.reading.forms:
        names = [child for child in form.children if child.kind != "discard"]
        if form.kind == "list" and len(names) > 1 and text[names[0].start : names[0].end] == "ns":
            name = names[1]
            while name.kind == "prefixed" and name.children:
                name = name.children[-1]
            return text[name.start : name.end]
    return None
