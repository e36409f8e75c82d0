"""Determine the names of callers, which are given as `who` or derived from the client's name."""

from __future__ import annotations

import re
from functools import lru_cache

from codriver.tools.calls.client_traits import find_traits

RESERVED_SLUGS = frozenset({"", "ui", "api", "human", "jupyter"})
"""Slugs that callers must not use, because they would hide who acted."""


_WORD_SEPARATOR_PATTERN = re.compile(r"[^a-z0-9]+")
"""Matches characters that do not belong to words."""


def to_slug(text: str) -> str:
    """Convert text to kebab-case: lower-case letters and digits, with single hyphens between words."""
    return _WORD_SEPARATOR_PATTERN.sub("-", text.lower()).strip("-")[:60].strip("-")


@lru_cache(maxsize=64)
def client_slug(client_name: str) -> str:
    """Return the default name of a client's callers.

    This is the name in the client's traits, or else the client's name in kebab-case.
    """
    return find_traits(client_name).who or to_slug(client_name)
