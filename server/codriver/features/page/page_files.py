"""Serve the static files of the page, with security headers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

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

SECURITY_HEADERS: Final = MappingProxyType(
    {
        "cache-control": "no-store",
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
        "referrer-policy": "no-referrer",
        "x-content-type-options": "nosniff",
        "x-dns-prefetch-control": "off",
    }
)
"""Headers of every response. Source: OWASP, HTTP headers cheat sheet."""

PAGE_POLICY: Final = (
    "default-src 'none'; script-src 'self'; worker-src 'none'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' blob:; frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
"""Content security policy of the page. It allows only Codriver's own scripts and connections to its server.

Source: CSP Level 3.
"""

FRAME_POLICY: Final = (
    "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'self'; form-action 'none'"
)
"""Content security policy of a table. It allows the table's own styles and images, but no scripts, forms or origin."""


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
