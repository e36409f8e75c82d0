"""The security headers and content security policies of the page."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

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
