"""Find the uses of a global name in a source text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver_lisp.binding_forms import CLOJURE_BINDERS
from codriver_lisp.hy_binding_forms import HY_BINDERS
from codriver_lisp.lexical_scope import Walk
from codriver_lisp.requirements import find_requirements

if TYPE_CHECKING:
    from collections.abc import Collection

    from codriver_lisp.source_text import Document


def find_references_within(document: Document, namespace: str, name: str) -> list[int]:
    """Return the offsets at which a text of `namespace` itself uses `name`.

    Definitions, strings, comments, discarded or quoted forms, and local variables of the same name are not uses.
    """
    return sorted(_walk(document, name, [f"{namespace}/{name}"]).references)


def find_references(document: Document, namespace: str, name: str) -> list[int]:
    """Return the offsets at which a text of another namespace uses `name` from `namespace`.

    The text may qualify the name with an alias or the full namespace, or refer it and use it unqualified. Names changed
    by `:rename` are not found.
    """
    required = find_requirements(document, namespace)
    walk = _walk(document, name, [f"{owner}/{name}" for owner in (namespace, *required.aliases)])
    is_referred = required.refers(name) and (name in required.referred or not walk.defines_name)
    uses = [start for start, word in walk.references.items() if word != name or is_referred]
    return sorted({*uses, *required.referred.get(name, ())})


def _walk(document: Document, name: str, qualified: Collection[str]) -> Walk:
    walk = Walk(document.text, name, qualified, is_hy=document.is_hy)
    walk.find_occurrences(document.reading.forms, HY_BINDERS if document.is_hy else CLOJURE_BINDERS)
    return walk
