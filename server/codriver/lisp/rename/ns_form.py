"""The `ns` form of a text: the namespace that it declares, and what it requires."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codriver.lisp.reader import Form
    from codriver.lisp.source_text import Document


def ns_form(document: Document) -> Form | None:
    """The first `(ns name …)` of the text."""
    text = document.text
    for form in document.reading.forms:
        names = [child for child in form.children if child.kind != "discard"]
        if form.kind == "list" and len(names) > 1 and text[names[0].start : names[0].end] == "ns":
            return form
    return None


def namespace_of(document: Document) -> str | None:
    """The namespace that the text declares with `(ns …)`."""
    form = ns_form(document)
    if form is None:
        return None
    name = [child for child in form.children if child.kind != "discard"][1]
    while name.kind == "prefixed" and name.children:
        name = name.children[-1]
    return document.text[name.start : name.end]
