"""Admission of requests to the page: by address, origin, and the token, before anything is done for them. Pure.

Whatever a site of somebody else makes a browser send is refused by more than one of these, and gets no byte: another
name than our address (DNS that was rebound), another origin, a request that the browser itself says comes from
elsewhere. Source: Fetch Metadata, `Sec-Fetch-Site`, which no page can set; RFC 9110, `Host`; Fetch, `Origin`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from codriver.net.admission import token_matches

if TYPE_CHECKING:
    from codriver.page.http_connection import Request

Kind = Literal["file", "frame", "call", "refuse"]
"""`file`: a part of the bare page, which holds nothing of the log. `frame`: one table, by an address that was given out
once. `call`: whatever tells something or does something."""

LOOPBACK: Final = "127.0.0.1"
TOKEN_HEADER: Final = "codriver-token"  # noqa: S105  # its name
FRAMES: Final = "/frame/"
CALLS: Final = "/do/"
JSON: Final = "application/json"


def address_of(port: int) -> str:
    """The origin of the page, which is all of its address but the token."""
    return f"http://{LOOPBACK}:{port}"


def kind_of(request: Request, port: int, token: str) -> Kind:
    """The kind of a request that may come in, `refuse` for one that may not: it gets no answer."""
    given = request.headers
    if given.get("host") != f"{LOOPBACK}:{port}" or "upgrade" in given:
        return "refuse"
    if request.target.startswith(CALLS):
        return "call" if _is_own_call(request, port, token) else "refuse"
    if request.method != "GET" or given.get("origin", address_of(port)) != address_of(port):
        return "refuse"
    if request.target.startswith(FRAMES):
        is_own_frame = (given.get("sec-fetch-site"), given.get("sec-fetch-dest")) == ("same-origin", "iframe")
        return "frame" if is_own_frame else "refuse"
    return "file" if _is_own_load(request) else "refuse"


def _is_own_call(request: Request, port: int, token: str) -> bool:
    given = request.headers
    return (
        request.method == "POST"
        and given.get("sec-fetch-site") == "same-origin"
        and given.get("origin") == address_of(port)
        and given.get("content-type") == JSON
        and token_matches(token, given.get(TOKEN_HEADER, ""))
    )


def _is_own_load(request: Request) -> bool:
    """True for a part of the page that the page itself loads, and for the page where somebody opens its address."""
    given = request.headers
    if given.get("sec-fetch-site") == "same-origin":
        return given.get("sec-fetch-dest") != "iframe"
    is_opened = (given.get("sec-fetch-mode"), given.get("sec-fetch-dest")) == ("navigate", "document")
    return given.get("sec-fetch-site") == "none" and is_opened and request.target == "/"
