"""The page: a view of all REPL activity for a person with a browser, opened by `codriver watch --web`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver.feature import Feature, Options
from codriver.features.page.settings import ENABLE_PAGE_SETTING

if TYPE_CHECKING:
    from codriver.server_hooks import ServerHooks

PAGE_REQUEST = "page"
"""Name of the request for an address that opens the page."""


def _server() -> ServerHooks:
    from codriver.features.page.page import Page, open_page  # noqa: PLC0415  # a command only reads the declaration
    from codriver.server_hooks import Part, Request, ServerHooks  # noqa: PLC0415  # as above

    return ServerHooks(
        parts=(Part(Page, Page, run=Page.watch_settings, stop_before_repls=Page.stop),),
        requests=(Request(PAGE_REQUEST, open_page),),
    )


FEATURE = Feature(
    "page",
    requires=("handoff",),  # the page displays the handoff
    options=(Options("watch", "codriver.features.page.watch_options"),),
    settings=(ENABLE_PAGE_SETTING,),
    durations=(("page_s", 600.0),),
    server=_server,
)
