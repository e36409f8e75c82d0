"""Serve the static files of the page, with security headers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from codriver.features.page.security_headers import PAGE_POLICY, SECURITY_HEADERS

if TYPE_CHECKING:
    from collections.abc import Mapping

ASSETS_DIRECTORY: Final = Path(__file__).with_name("assets")
CONTENT_TYPES: Final = MappingProxyType(
    {
        ".html": "text/html; charset=utf-8",
        ".css": "text/css; charset=utf-8",
        ".js": "text/javascript; charset=utf-8",
        ".svg": "image/svg+xml",
    }
)
"""Content types of the page's files, by suffix."""
START_FILE: Final = "index.html"
"""The file served at the path `/`."""


@dataclass(frozen=True, slots=True)
class PageFile:
    """A file of the page with its response headers."""

    headers: Mapping[str, str]
    body: bytes


def page_files() -> Mapping[str, PageFile]:
    """Read the page's files, and return them by the path at which they are served."""
    found = {}
    for path in sorted(ASSETS_DIRECTORY.iterdir()):
        if path.suffix in CONTENT_TYPES:
            headers = {
                **SECURITY_HEADERS,
                "content-type": CONTENT_TYPES[path.suffix],
                "content-security-policy": PAGE_POLICY,
            }
            served_at = "/" if path.name == START_FILE else f"/{path.name}"
            found[served_at] = PageFile(MappingProxyType(headers), path.read_bytes())
    return MappingProxyType(found)
