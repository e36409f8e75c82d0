"""Decide which requests to the page are admitted, by their host, origin and token.

If another site makes a browser send a request, the request fails several of these checks and is not answered: its host
is not the page's random name (for example, with a rebound DNS name or the address of an earlier page), its origin
differs, the browser marks it as cross-site, or it requests a service worker script. The port in the host may differ,
because the page can be forwarded, but the origin must have the same port.

Source: Fetch Metadata, `Sec-Fetch-Site`, which no page can set; Fetch, `Origin`; RFC 9110, `Host`; Service Workers,
`Service-Worker: script`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal

from codriver.net.admission import token_matches

if TYPE_CHECKING:
    from codriver.features.page.http_connection import Request
    from codriver.features.page.page_credentials import PageAccess

Kind = Literal["file", "frame", "enter", "prove", "call", "refuse"]
"""The kind of a request. `file`: a file of the empty page, without data from the log. `frame`: a table, at an address
that works once. `enter`: a code to exchange for the token. `prove`: a nonce to prove knowledge of the token. `call`: a
request that reads the log or acts.
"""

TOKEN_HEADER: Final = "codriver-token"  # noqa: S105  # the name of a header, not a secret
"""The request header that contains the token."""
FRAME_PATH_PREFIX: Final = "/frame/"
"""Path prefix of tables."""
CALL_PATH_PREFIX: Final = "/do/"
"""Path prefix of calls."""
ENTER_PATH: Final = "/enter"
"""Path where the page exchanges a one-time code for the token."""
PROVE_PATH: Final = "/prove"
"""Path where the server proves to the page that it knows the token."""
JSON_TYPE: Final = "application/json"
FORBIDDEN_HEADERS: Final = ("upgrade", "service-worker")
"""Requests with these headers are refused: requests for WebSockets and for service worker scripts."""
PAGE_FILE_DESTINATIONS: Final = frozenset({"script", "style", "image"})
"""Values of `Sec-Fetch-Dest` in requests for the page's own files. Workers are not among them."""
OPENING_SITES: Final = frozenset({"none", "same-origin"})
"""Values of `Sec-Fetch-Site` with which the page can be opened at any host: a typed address, a bookmark or a reload."""
HOST_HEADER: Final = re.compile(r"([a-z0-9.-]{1,80})(?::[0-9]{1,5})?")
"""Matches a `Host` header, with the host name as its first group."""


def request_host(request: Request) -> str:
    """Return the host name in the `Host` header, without the port. Return an empty string for a malformed header."""
    found = HOST_HEADER.fullmatch(request.headers.get("host", ""))
    return found[1] if found else ""


def classify_request(request: Request, access: PageAccess) -> Kind:
    """Return the kind of a request. Requests of the kind `refuse` must not be answered."""
    headers = request.headers
    host = request_host(request)
    if not access.serves(host) or any(name in headers for name in FORBIDDEN_HEADERS):
        return "refuse"
    if request.target in (ENTER_PATH, PROVE_PATH):
        kind: Kind = "enter" if request.target == ENTER_PATH else "prove"
        return kind if _is_same_origin_post(request) else "refuse"
    if request.target.startswith(CALL_PATH_PREFIX):
        is_authorized = _is_same_origin_post(request) and token_matches(access.token, headers.get(TOKEN_HEADER, ""))
        return "call" if is_authorized else "refuse"
    if request.method != "GET" or headers.get("origin", _page_origin(request)) != _page_origin(request):
        return "refuse"
    if request.target.startswith(FRAME_PATH_PREFIX):
        is_page_frame = (headers.get("sec-fetch-site"), headers.get("sec-fetch-dest")) == ("same-origin", "iframe")
        return "frame" if is_page_frame else "refuse"
    return (
        "file"
        if _is_opened_in_tab(request, by_link=host == access.random_host) or _is_page_resource(request)
        else "refuse"
    )


def _page_origin(request: Request) -> str:
    """Return the `Origin` header of requests that the page itself makes."""
    return f"http://{request.headers.get('host')}"


def _is_same_origin_post(request: Request) -> bool:
    headers = request.headers
    return (
        request.method == "POST"
        and headers.get("sec-fetch-site") == "same-origin"
        and headers.get("origin") == _page_origin(request)
        and headers.get("content-type") == JSON_TYPE
    )


def _is_page_resource(request: Request) -> bool:
    """Return whether the page is requesting one of its files, such as a script."""
    headers = request.headers
    return headers.get("sec-fetch-site") == "same-origin" and headers.get("sec-fetch-dest") in PAGE_FILE_DESTINATIONS


def _is_opened_in_tab(request: Request, *, by_link: bool) -> bool:
    """Return whether a browser is opening the page in a tab.

    With `by_link`, a link from another site may open the page, such as the one in the redirect file. Only someone who
    knows the page's random host name can create such a link.
    """
    headers = request.headers
    is_tab = (headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")) == ("navigate", "document")
    site = headers.get("sec-fetch-site")
    return is_tab and request.target == "/" and (site in OPENING_SITES or (by_link and site == "cross-site"))
