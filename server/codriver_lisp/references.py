"""Find the uses of another namespace's name in a text: through an alias, by referring to it, or fully qualified."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from codriver_lisp.binding_forms import find_occurrences
from codriver_lisp.requirements import find_requirements

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codriver_lisp.lexical_scope import Occurrence
    from codriver_lisp.requirements import Requirements
    from codriver_lisp.source_text import Document

_DEFINITION_START_PATTERN = re.compile(r"\(\s*\S*def\S*\s+(?:\^\S+\s+)*$")
"""Matches the start of a defining form, up to the name."""


def find_references(document: Document, namespace: str, name: str) -> list[int]:
    """Return the offsets at which `document`, a text of another namespace, uses `name` of `namespace`.

    Strings, comments, quoted forms and local names of the same spelling are not uses.
    """
    required = find_requirements(document, namespace)
    qualified = {f"{owner}/{name}" for owner in (namespace, *required.aliases)}
    occurrences = find_occurrences(document, document.reading.forms, (name, ""), [name, *qualified])
    is_referred = _refers(document, required, occurrences, name)
    return [
        occurrence.start for occurrence in occurrences if _is_use(occurrence, required, qualified, is_bare=is_referred)
    ]


def _refers(document: Document, required: Requirements, occurrences: Sequence[Occurrence], name: str) -> bool:
    """Return whether `name`, written without a namespace, means the name in the other namespace.

    A definition in this text shadows a name from `:refer :all`.
    """
    if not required.refers(name):
        return False
    return name in required.referred or not any(
        occurrence.word == name
        and _DEFINITION_START_PATTERN.search(document.text[max(0, occurrence.start - 200) : occurrence.start])
        for occurrence in occurrences
    )


def _is_use(occurrence: Occurrence, required: Requirements, qualified: set[str], *, is_bare: bool) -> bool:
    """Return whether an occurrence refers to the other namespace's name."""
    if occurrence.word in qualified:
        return occurrence.role in ("reference", "global", "type", "protocol", "taken")
    if occurrence.role == "referred":
        return any(start <= occurrence.start < end for start, end in required.spans)
    return is_bare and occurrence.role in ("reference", "global", "taken") and occurrence.scope.old is None
