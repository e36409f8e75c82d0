"""Find the namespace that a source text declares, and the namespaces that it requires."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from codriver_lisp.reader import Form
    from codriver_lisp.source_text import Document

    Items = Sequence[Form]


def ns_form(document: Document) -> Form | None:
    """Return the first `(ns name …)` form in a source text, an `(in-ns 'name)` with which the text starts, or None."""
    text = document.text
    forms = [form for form in document.reading.forms if form.kind != "discard"]
    for form in forms:
        names = [child for child in form.children if child.kind != "discard"]
        head = ""
        if form.kind == "list" and len(names) > 1:
            head = text[names[0].start : names[0].end].rpartition("/")[2]
        if head == "ns" or (head == "in-ns" and form is forms[0]):
            return form
    return None


def declared_namespace(document: Document) -> str | None:
    """Return the namespace that a source text declares with `ns` or enters with `in-ns`, or None."""
    form = ns_form(document)
    if form is None:
        return None
    name = [child for child in form.children if child.kind != "discard"][1]
    while name.kind in ("prefixed", "list") and name.children:
        name = name.children[-1]  # the name after a quote or metadata, or in `(quote name)`
    return document.text[name.start : name.end]


@dataclass(frozen=True, slots=True)
class Requirements:
    """The ways in which a source text refers to a namespace: aliases for it, and names referred to directly.

    `referred` maps each name that the text refers to explicitly to the offsets at which it does so. With `refers_all`,
    the text refers to all public names of the namespace except those in `excluded`, which it may define itself.
    """

    aliases: frozenset[str]
    referred: Mapping[str, Sequence[int]]
    excluded: frozenset[str]
    refers_all: bool

    def refers(self, name: str) -> bool:
        """Return whether an unqualified `name` refers to the name in the required namespace."""
        return name not in self.excluded and (self.refers_all or name in self.referred)


def find_requirements(document: Document, namespace: str) -> Requirements:
    """Find the ways in which a source text requires `namespace`, in its `ns` form or by `require` or `use`."""
    text, aliases, excluded = document.text, set[str](), set[str]()
    referred: defaultdict[str, list[int]] = defaultdict(list)
    refers_all = False
    for items, is_use in _libspecs(document, namespace):
        options = {text[key.start : key.end]: value for key, value in zip(items[1::2], items[2::2], strict=False)}
        for key, value in options.items():
            names = [child for child in value.children if child.kind != "discard"]
            match key:
                case ":as" | ":as-alias":
                    aliases.add(text[value.start : value.end])
                case ":refer" | ":only" | ":refer-macros":
                    refers_all |= text[value.start : value.end] == ":all"
                    _add_names(referred, text, names)
                case ":rename":
                    _add_names(referred, text, names[::2])
                    excluded.update(text[name.start : name.end] for name in names[::2])
                case ":exclude":
                    excluded.update(text[name.start : name.end] for name in names)
        refers_all |= is_use and ":only" not in options and ":refer" not in options
    return Requirements(frozenset(aliases), referred, frozenset(excluded), refers_all)


def _add_names(referred: defaultdict[str, list[int]], text: str, names: Items) -> None:
    for name in names:
        referred[text[name.start : name.end]].append(name.start)


def _libspecs(document: Document, namespace: str) -> Iterator[tuple[Sequence[Form], bool]]:
    """Yield the items of each libspec of `namespace`, and whether it is in a `use` rather than a `require`."""
    text = document.text
    header = ns_form(document)
    waiting: list[tuple[Form, str, bool]] = []
    for form in document.reading.forms:
        parts = [child for child in form.children if child.kind != "discard"]
        head = text[parts[0].start : parts[0].end] if parts else ""
        if form is header or (header is not None and form.start == header.start):
            waiting += [(part, "", False) for part in parts[2:]]
        elif form.kind == "list" and head in ("require", "use", "require-macros"):
            waiting += [(part, "", head == "use") for part in parts[1:]]
    while waiting:
        form, prefix, is_use = waiting.pop()
        items = [child for child in form.children if child.kind != "discard"]
        first = text[items[0].start : items[0].end] if items else ""
        second = text[items[1].start : items[1].end] if len(items) > 1 else ":"
        if form.kind == "prefixed" or first.startswith(":") or (items and items[0].kind != "atom"):
            is_use |= first in (":use", ":use-macros")
            waiting += [(item, prefix, is_use) for item in items]
        elif form.kind == "atom" and is_use and text[form.start : form.end] == namespace:
            yield [form], True
        elif form.kind in ("vector", "list") and second.startswith(":"):
            if prefix + first == namespace:
                yield items, is_use
        elif form.kind in ("vector", "list"):
            waiting += [(item, f"{first}.", is_use) for item in items[1:]]
