"""Names of callers: slugs given as `who`, or made from a client's name."""

from __future__ import annotations

import re
from functools import lru_cache

from codriver.tools.calls.client_traits import traits_of

RESERVED = frozenset({"", "ui", "api", "human", "jupyter"})
"""Names that would hide who acted."""


_BETWEEN_WORDS = re.compile(r"[^a-z0-9]+")


def slug(text: str) -> str:
    """Convert text to kebab-case: lower-case letters and digits, separated by single hyphens."""
    return _BETWEEN_WORDS.sub("-", text.lower()).strip("-")[:60].strip("-")


@lru_cache(maxsize=64)
def client_slug(client_name: str) -> str:
    """Return the default name for a client's callers: a short one, or the client's name in kebab-case."""
    return traits_of(client_name).who or slug(client_name)
