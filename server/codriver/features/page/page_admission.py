"""Admission of requests to the page, by host, origin and token, before anything is done. Pure.

A request that another site makes a browser send fails more than one of these checks and gets no byte: another host than
the page's random name (a rebound DNS name, the address of an earlier page), another origin, a request that the browser
itself marks as coming from elsewhere, or the script of a service worker. The port in the host is free, as the page may
be reached by a forwarded one; the origin has to have the same.

Source: Fetch Metadata, `Sec-Fetch-Site`, which no page can set; Fetch, `Origin`; RFC 9110, `Host`; Service Workers,
`Service-Worker: script`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal

from codriver.net.admission import token_matches

if TYPE_CHECKING:
    from codriver.features.page.http_connection import Request
    from codriver.features.page.page_access import Access

Kind = Literal["file", "frame", "enter", "prove", "call", "refuse"]
"""`file`: a part of the bare page, which holds nothing of the log. `frame`: a table, at an address that is used once.
`enter`: a code to be exchanged for the token. `prove`: a nonce to be answered with a proof of the token. `call`: a
request that reads the log or acts."""

TOKEN_HEADER: Final = "codriver-token"  # noqa: S105  # its name
FRAMES: Final = "/frame/"
CALLS: Final = "/do/"
ENTER: Final = "/enter"
PROVE: Final = "/prove"
JSON: Final = "application/json"
FORBIDDEN: Final = ("upgrade", "service-worker")
"""Headers of requests that are refused: WebSockets, and the scripts of service workers."""
PARTS: Final = frozenset({"script", "style", "image"})
"""The destinations for which the page loads its own files. A worker is not among them."""
OPENINGS: Final = frozenset({"none", "same-origin"})
"""From where the page may be opened under any host: an address that was typed or clicked in a program, and itself."""
HOST: Final = re.compile(r"([a-z0-9.-]{1,80})(?::[0-9]{1,5})?")


def host_of(request: Request) -> str:
    """Return the name in the request's `Host` without the port; empty for none that is well-formed."""
    found = HOST.fullmatch(request.headers.get("host", ""))
    return found[1] if found else ""


def kind_of(request: Request, access: Access) -> Kind:
    """Return the kind of an admitted request, `refuse` for any other: that gets no answer."""
    given = request.headers
    host = host_of(request)
    if not access.serves(host) or any(name in given for name in FORBIDDEN):
        return "refuse"
    if request.target in (ENTER, PROVE):
        kind: Kind = "enter" if request.target == ENTER else "prove"
        return kind if _is_own_post(request) else "refuse"
    if request.target.startswith(CALLS):
        is_ours = _is_own_post(request) and token_matches(access.token, given.get(TOKEN_HEADER, ""))
        return "call" if is_ours else "refuse"
    if request.method != "GET" or given.get("origin", _origin_of(request)) != _origin_of(request):
        return "refuse"
    if request.target.startswith(FRAMES):
        is_own_frame = (given.get("sec-fetch-site"), given.get("sec-fetch-dest")) == ("same-origin", "iframe")
        return "frame" if is_own_frame else "refuse"
    return "file" if _is_opened(request, by_link=host == access.life_host) or _is_own_part(request) else "refuse"


def _origin_of(request: Request) -> str:
    return f"http://{request.headers.get('host')}"


def _is_own_post(request: Request) -> bool:
    given = request.headers
    return (
        request.method == "POST"
        and given.get("sec-fetch-site") == "same-origin"
        and given.get("origin") == _origin_of(request)
        and given.get("content-type") == JSON
    )


def _is_own_part(request: Request) -> bool:
    given = request.headers
    return given.get("sec-fetch-site") == "same-origin" and given.get("sec-fetch-dest") in PARTS


def _is_opened(request: Request, *, by_link: bool) -> bool:
    """Return whether a browser opens the page in a tab.

    `by_link`: also from elsewhere, as by the file that redirects. No one who was not given the page's random name can
    make a browser do that.
    """
    given = request.headers
    is_tab = (given.get("sec-fetch-mode"), given.get("sec-fetch-dest")) == ("navigate", "document")
    site = given.get("sec-fetch-site")
    return is_tab and request.target == "/" and (site in OPENINGS or (by_link and site == "cross-site"))
