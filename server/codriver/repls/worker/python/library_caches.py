"""Clear library caches that depend on changed names, using the libraries' public functions."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any


def clear_url_caches(modules: Iterable[str], has_changed: Callable[[str, str], bool]) -> None:
    """Make Django resolve URLs again if the `urlpatterns` of one of these modules have changed."""
    urls: Any = sys.modules.get("django.urls")
    if urls is not None and any(has_changed(name, "urlpatterns") for name in modules):
        urls.clear_url_caches()
